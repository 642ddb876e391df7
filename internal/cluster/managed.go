package cluster

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// RebootRequested is the reason of condition Rebooting (V15-10) while pods leave the node.
const RebootRequested = "RebootRequested"

// DisruptionView is what disruption depends on: the managed nodes and their pools, and the snapshot of the same
// instant to try moves on.
type DisruptionView struct {
	Now   time.Time
	Nodes []ManagedNode // with a Node, by name
	Pools map[string]ManagedPool

	Cluster      *Snapshot // of the same instant; nil: decisions that need a simulation are skipped
	PodsToPlace  []Pod     // pending pods and pods of terminating nodes; they use free capacity first
	PlannedBinds []Bind    // where earlier plans placed some of PodsToPlace
}

// ManagedNode is a NodeClaim with its Node, as disruption sees them: the Node of the snapshot, and what only disruption
// looks at. What both plan with stands once, in Node.
type ManagedNode struct {
	// Node is that of the snapshot of the same instant. Only Name may differ: here it is always that of the Node
	// object, which events and taints are written to. In the snapshot it is that of the NodeClaim as long as the Node
	// says too little of itself to be planned with.
	Node

	Reservation string  // id, if it runs on reserved capacity
	Frees       float64 // what it costs on demand if it is on reserved capacity, USD an hour: what others can use once it is gone

	Created     time.Time     // of the claim
	Joined      time.Time     // of the Node
	ExpireAfter time.Duration // 0: never
	SettledAt   time.Time     // if it is Settling: when consolidateAfter ends; zero: not known
	Bounded     bool          // has a terminationGracePeriod,
	Bound       time.Duration // which is this

	// BeingRemoved says that its NodeClaim or its Node is being deleted, or that a running command has marked it for
	// deletion. Deleting, which planning uses, holds for more nodes: also for those whose instance terminates
	// (Terminating), and for those whose replacements are ordered although the command is not sure to remove them.
	BeingRemoved bool

	Registered       bool // its Node has been recognized as that of the claim
	Ready            bool // as its kubelet says
	Terminating      bool // its instance is terminating
	Commanded        bool // part of a running command
	Rebooting        bool
	Nominated        bool   // a pending pod is expected
	ExpectsDisplaced bool   // a pod of a terminating node is expected; its eviction may never succeed, so repair does not wait
	ProtectedBy      string // annotation of the Node that protects it (L-15, LC-62); empty: none
	Leading          bool   // the leading replica runs on it, and no other replica could take over (FM C17)
	DoNotRepair      bool   // carries do-not-repair
	BackingOff       bool   // in back-off after a failed command: only repair considers it
	RepairBackingOff bool   // in back-off after a failed repair: repair does not consider it either

	Drift     string // reason of the drift; empty if the node has not drifted
	DriftedAt time.Time
	Health    []corev1.NodeCondition // of the Node
	Rebooted  time.Time              // when the last reboot ended
	Reboots   int                    // in the last 24 hours

	// Pods are those of Node, with what their eviction depends on.
	Pods []ManagedPod
}

// ManagedPod is a pod of a ManagedNode: the Pod of the snapshot, and what only its eviction depends on.
type ManagedPod struct {
	Pod

	// Moves says that the pod needs another node once this one is removed, also if it cannot be evicted now. Stays,
	// which planning uses, says that no place is planned for it: a pod that do-not-disrupt or a budget holds moves
	// and stays.
	Moves       bool
	Bare        bool     // no controller recreates it after eviction
	ProtectedBy string   // annotation that protects it now (LC-62); empty: none
	Budgets     []string // PodDisruptionBudgets that select it, namespace/name, sorted; none of a pod that would not be evicted
	Blocked     bool     // its budgets allow no eviction now
	Impossible  bool     // and never will, as they are written
}

// NewManagedPod adds to a pod what its object says about an eviction. Budgets are for the caller to look up.
func NewManagedPod(pod Pod, object *corev1.Pod, now time.Time) ManagedPod {
	out := ManagedPod{Pod: pod, Moves: Reschedulable(object), Bare: Bare(object)}
	if object.DeletionTimestamp == nil && !PodEnded(object) {
		out.ProtectedBy = PodProtectedBy(object, now)
	}
	return out
}

// ManagedPool is a NodePool as disruption sees it: the Pool of the snapshot, and what only disruption depends on.
type ManagedPool struct {
	Pool

	Policy           karpv1.ConsolidationPolicy
	NeverConsolidate bool   // consolidateAfter
	ProtectedBy      string // annotation that protects its nodes (L-15, LC-62); empty: none
	Budgets          []Budget

	// Ready says that nodes can be launched for it: it is ready and not being deleted. Closed, which planning uses,
	// also holds for a static pool, whose nodes disruption replaces all the same.
	Ready bool

	Static   bool
	Replicas int64 // of a static pool
	MaxNodes int64 // of a static pool: limits.nodes as written, which Claims count against; below 0: none. NodeLimit is what remains of it
	Claims   int64 // of a static pool: all existing claims, also those being deleted
	Running  int64 // of a static pool: claims that are neither being deleted nor part of a command
}

// ClaimLoad is what memory knows of the node of a claim.
type ClaimLoad struct {
	Held      bool    // part of a running command
	Pods      bool    // it has pods that would have to move
	Protected bool    // one of its pods carries do-not-disrupt
	Cost      float64 // of evicting the pods that would have to move
}
