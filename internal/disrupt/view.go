package disrupt

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/budget"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// View is the input of one decision.
type View struct {
	Now   time.Time
	Nodes []Node // managed, with a Node, by name
	Pools map[string]Pool

	Cluster      *cluster.Snapshot // of the same instant; nil: decisions that need a simulation are skipped
	PodsToPlace  []cluster.Pod     // pending pods and pods of terminating nodes; they use free capacity first
	PlannedBinds []solve.Bind      // where earlier plans placed some of PodsToPlace

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
	Answers      *Answers               // of earlier searches of consolidation; nil: none are remembered
}

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
	PodCost float64       // USD that moving a pod of ordinary cost is taken to cost
	MinAge  time.Duration // younger nodes are not consolidated

	MinSaving float64 // share of the price of nodes that replacing them must save; 0: what solve asks for
	AnySaving bool    // replacing them need not save more than anything
}

// Node is a managed node as disruption sees it.
type Node struct {
	Name, Claim, Pool string

	InstanceType string
	Zone         string
	CapacityType string
	Reservation  string // id, if it runs on reserved capacity
	Price        float64
	Frees        float64 // what it costs on demand if it is on reserved capacity, USD an hour: what others can use once it is gone

	Created     time.Time     // of the claim
	Joined      time.Time     // of the Node
	ExpireAfter time.Duration // 0: never
	Bounded     bool          // has a terminationGracePeriod,
	Bound       time.Duration // which is this

	Registered       bool
	Initialized      bool
	Ready            bool // as its kubelet says
	Terminating      bool // its instance is terminating
	Deleting         bool // being deleted, or marked for deletion by a running command
	Commanded        bool // part of a running command
	Rebooting        bool
	Nominated        bool   // a pending pod is expected
	ExpectsDisplaced bool   // a pod of a terminating node is expected; its eviction may never succeed, so repair does not wait
	Protected        bool   // carries do-not-disrupt,
	Mark             string // as this annotation says; empty: that one (LC-62)
	Leading          bool   // the leading replica runs on it, and no other replica could take over (FM C17)
	DoNotRepair      bool   // carries do-not-repair
	Consolidatable   bool
	BackingOff       bool // in back-off after a failed command: only repair considers it
	RepairBackingOff bool // in back-off after a failed repair: repair does not consider it either

	Drift     string // reason of the drift; empty if the node has not drifted
	DriftedAt time.Time
	Health    []corev1.NodeCondition // of the Node
	Rebooted  time.Time              // when the last reboot ended
	Reboots   int                    // in the last 24 hours

	Pods []Pod // that have not ended, by name
}

// Pod is a pod on a node as disruption sees it.
type Pod struct {
	Name       string // namespace/name
	Moves      bool   // needs another node when this one is removed
	Bare       bool   // no controller recreates it after eviction
	Protected  bool   // do-not-disrupt is in force,
	Mark       string // as this annotation says; empty: that one (LC-62)
	Budgets    []string
	Blocked    bool // its budgets allow no eviction now
	Impossible bool // and never will, as they are written
	EvictCost  float64
}

// Pool is a NodePool as disruption sees it.
type Pool struct {
	Name             string
	Policy           karpv1.ConsolidationPolicy
	Static           bool
	Replicas         int64  // of a static pool
	NodeLimit        int64  // of a static pool; below 0: none
	Claims           int64  // of a static pool: all existing claims, also those being deleted
	Running          int64  // of a static pool: claims that are neither being deleted nor part of a command
	NeverConsolidate bool   // consolidateAfter
	Protected        bool   // carries do-not-disrupt (L-15),
	Mark             string // as this annotation says; empty: that one (LC-62)
	Known            bool   // its instance types are known
	Ready            bool   // can launch nodes: ready, and not being deleted
	Budgets          []budget.Budget
}
