package disrupt

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// View is the input of one decision: what is observed of the cluster, and how to decide.
type View struct {
	cluster.DisruptionView

	Policy       solve.Policy
	Tuning       Tuning
	Methods      Methods
	Outcomes     map[uint64]MoveOutcome // outcomes of earlier moves, by workload
	DriftBackoff map[string]time.Time   // by pool: drift is not retried before this time
	Repairs      *RepairSet             // repair policies; nil: none
	Unpriced     bool                   // prices are not read yet: methods that depend on them are skipped (FM P05)
	Unchanged    bool                   // nothing changed since consolidation last found nothing: consolidation is skipped
	OnMethod     func(Method)           // called before each method; may be nil
	First        []string               // pools that an earlier search of consolidation had no time for
	Joint        func() bool            // whether time is up for consolidating all nodes together; nil: never
	Single       func() bool            // the same for what follows it, a few nodes at a time, and for saying why nodes stay
	SearchCache  *SearchCache           // cache of earlier consolidation searches; nil: no cache
	MaxRefused   int                    // refusals that a decision keeps, beside those that stand until a user acts; 0: 200
}

// Timeouts of a decision (disruption 13 and 14, decision 0025). What was found until then is used.
const (
	JointTimeout      = time.Minute      // consolidating all nodes together
	SingleTimeout     = 3 * time.Minute  // consolidating a few nodes at a time, and saying why nodes stay
	DecisionTimeout   = 15 * time.Minute // all methods; a decision that runs longer is stuck
	ValidationTimeout = time.Minute      // validating moves against the fresh view
)

// Methods are the enabled features.
type Methods struct {
	Repair               bool // gate NodeRepair, and the legacy repair controller is off
	Static               bool // gate StaticCapacity
	TerminateFirstDrift  bool
	TerminateFirstRepair bool
}

// Tuning is the minimum benefit of a move. The zero Tuning accepts every move.
type Tuning struct {
	Horizon time.Duration // for how long a saving is counted
	PodCost float64       // USD that moving a pod of ordinary cost is assumed to cost
	MinAge  time.Duration // younger nodes are not consolidated

	MinSaving float64 // share of the price of nodes that replacing them must save; 0: the default of solve
	AnySaving bool    // any saving is enough to replace them
}
