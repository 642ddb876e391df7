package disrupt

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/budget"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// View is what one decision rests on.
type View struct {
	Now   time.Time
	Nodes []Node // managed, with a Node, by name
	Pools map[string]Pool

	Cluster      *cluster.Snapshot // of the same instant; nil: nothing is decided that needs a simulation
	PodsToPlace  []cluster.Pod     // pending, and of nodes that go: free room is theirs first
	PlannedBinds []solve.Bind      // where earlier plans put some of them

	Policy       solve.Policy
	Tuning       Tuning
	Methods      Methods
	Outcomes     map[uint64]MoveOutcome // what earlier moves brought, by workload
	DriftBackoff map[string]time.Time   // pools whose drift failed lately: not before then
	Repairs      *RepairSet             // what helps sick nodes; nil: nothing
	Unpriced     bool                   // prices were not read yet: what compares or chooses by them waits (FM P05)
	Unchanged    bool                   // nothing changed since consolidation last found nothing: it is left out
	OnMethod     func(Method)           // is told which method has its turn; nil: nobody is
	First        []string               // pools that an earlier search of consolidation had no time for
	Joint        func() bool            // whether time is up for consolidating all nodes together; nil: never
	Single       func() bool            // the same for what follows it, a few nodes at a time, and for saying why nodes stay
}

// Methods says what may be done at all.
type Methods struct {
	Repair               bool // gate NodeRepair without the controller of old
	Static               bool // gate StaticCapacity
	TerminateFirstDrift  bool
	TerminateFirstRepair bool
}

// Tuning is what a move must be worth. The zero Tuning asks for nothing.
type Tuning struct {
	Horizon time.Duration // for how long a saving is counted
	PodCost float64       // USD that moving a pod of ordinary cost is taken to cost
	MinAge  time.Duration // younger nodes are not consolidated

	MinSaving float64 // share of the price of nodes that replacing them must save; 0: what solve asks for
	AnySaving bool    // replacing them need not save more than anything
}

// Node is what disruption knows of a node that is managed.
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
	Terminating      bool // its instance is on its way out
	Deleting         bool // being deleted, or marked for it by a running command
	Commanded        bool // part of a running command
	Rebooting        bool
	Nominated        bool   // a pending pod is expected
	ExpectsDisplaced bool   // a pod is expected that still runs on a node which goes: maybe for ever, so repair does not wait
	Protected        bool   // carries do-not-disrupt,
	Mark             string // as this annotation says; empty: that one (LC-62)
	Leading          bool   // this very controller runs on it, and no other replica could take over (FM C17)
	DoNotRepair      bool   // carries do-not-repair
	Consolidatable   bool
	BackingOff       bool // a command for it came to nothing a moment ago: only repair looks at it
	RepairBackingOff bool // so did its repair: not even that

	Drift     string // why it is not what is wanted now; empty if it is
	DriftedAt time.Time
	Health    []corev1.NodeCondition // of the Node
	Rebooted  time.Time              // when the last reboot ended
	Reboots   int                    // in the last 24 hours

	Pods []Pod // that have not ended, by name
}

// Pod is what disruption knows of a pod on a node.
type Pod struct {
	Name       string // namespace/name
	Moves      bool   // needs another place when the node goes
	Bare       bool   // no controller makes it again: it ends with the node
	Protected  bool   // do-not-disrupt is in force,
	Mark       string // as this annotation says; empty: that one (LC-62)
	Budgets    []string
	Blocked    bool // its budgets allow no eviction now
	Impossible bool // and never will, as they are written
	EvictCost  float64
}

// Pool is what disruption knows of a pool.
type Pool struct {
	Name             string
	Policy           karpv1.ConsolidationPolicy
	Static           bool
	Replicas         int64  // of a static pool
	NodeLimit        int64  // of a static pool; below 0: none
	Claims           int64  // of a static pool: all that exist, whatever becomes of them
	Running          int64  // of a static pool: those that neither go nor are part of a command
	NeverConsolidate bool   // consolidateAfter
	Protected        bool   // carries do-not-disrupt (L-15),
	Mark             string // as this annotation says; empty: that one (LC-62)
	Known            bool   // it is clear what it could buy
	Ready            bool   // may be bought from: ready, and not being deleted
	Budgets          []budget.Budget
}
