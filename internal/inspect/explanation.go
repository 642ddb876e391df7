package inspect

import "time"

// Explanation is why an object is as it is. Exactly one of Pod, Node and Pool is set: a NodeClaim is explained as a node.
type Explanation struct {
	Subject Subject          `json:"subject"`
	At      time.Time        `json:"at"`
	Answer  string           `json:"answer"`
	Pod     *PodExplanation  `json:"pod,omitempty"`
	Node    *NodeExplanation `json:"node,omitempty"`
	Pool    *PoolExplanation `json:"nodePool,omitempty"`
	History []Event          `json:"history,omitempty"` // oldest first
	Notes   []string         `json:"notes,omitempty"`   // what could not be read, and what the response lacks because of it
}

// PodState is how far a pod has come.
type PodState string

// States of pods.
const (
	PodPending PodState = "Pending" // no node yet
	PodIgnored PodState = "Ignored" // no node yet, and none is planned
	PodRunning PodState = "Running" // bound to a node
	PodLeaving PodState = "Leaving" // bound to a node that is removed
)

// PodExplanation is why a pod is where it is.
type PodExplanation struct {
	State    PodState         `json:"state"`
	Created  time.Time        `json:"created"`
	Requests map[string]int64 `json:"requests"`         // by resource, in the unit of Use
	Daemon   bool             `json:"daemon,omitempty"` // of a DaemonSet
	Node     *Node            `json:"node,omitempty"`   // that it runs on

	// Of a pod that waits for a node, or has to leave one.
	Expected *Node          `json:"expected,omitempty"`  // existing node, or NodeClaim, that it is expected on
	Launch   *Launch        `json:"launch,omitempty"`    // node that would be launched for it
	Why      []Finding      `json:"why,omitempty"`       // why there is neither, the nearest miss first
	Pools    []PoolFindings `json:"nodePools,omitempty"` // of each NodePool, by weight and name
	Nodes    []NodeFindings `json:"nodes,omitempty"`     // why existing nodes do not have it, most nodes first

	// Of a pod on a node.
	Moves    bool      `json:"moves,omitempty"`    // it needs another node once this one is removed
	Blockers []Finding `json:"blockers,omitempty"` // what prevents its eviction
	Proposal *Proposal `json:"proposal,omitempty"` // that would remove its node
}

// PoolFindings are what rules out a NodePool.
type PoolFindings struct {
	Pool string    `json:"nodePool"`
	Why  []Finding `json:"why,omitempty"` // none: it can launch a node
}

// NodeFindings are some nodes of which the same is true.
type NodeFindings struct {
	Why   Finding `json:"why"`
	Nodes int     `json:"nodes"`
	Node  string  `json:"node"` // one of them, which Why is about
}

// PodFindings are some pods of which the same is true.
type PodFindings struct {
	Why  []Finding `json:"why"`
	Pods int       `json:"pods"`
	Pod  string    `json:"pod"` // one of them, namespace/name
}

// NodeExplanation is why a node, or a NodeClaim, is there.
type NodeExplanation struct {
	Node         Node          `json:"node"`
	Pods         []PodOnNode   `json:"pods,omitempty"`         // by namespace and name
	Alternatives []Alternative `json:"alternatives,omitempty"` // what would hold its pods if it were launched now, cheapest first
	Blockers     []Finding     `json:"blockers,omitempty"`     // all that keeps it from being removed now
	Proposal     *Proposal     `json:"proposal,omitempty"`     // that would remove it
	Stays        []Finding     `json:"stays,omitempty"`        // why there is none
	DriftedAt    *time.Time    `json:"driftedAt,omitempty"`
	Expires      *time.Time    `json:"expires,omitempty"`          // expireAfter
	Settled      *time.Time    `json:"consolidatableAt,omitempty"` // end of consolidateAfter; absent: it has ended, or it is not known when it will
}

// PodOnNode is a pod with what its eviction looks at.
type PodOnNode struct {
	Pod      string           `json:"pod"` // namespace/name
	Requests map[string]int64 `json:"requests"`
	Daemon   bool             `json:"daemon,omitempty"`   // of a DaemonSet
	Moves    bool             `json:"moves,omitempty"`    // it needs another node once this one is removed
	Bare     bool             `json:"bare,omitempty"`     // no controller makes it again once it is evicted
	Leaving  bool             `json:"leaving,omitempty"`  // it is being deleted
	Expected bool             `json:"expected,omitempty"` // it is not here yet
	Blockers []Finding        `json:"blockers,omitempty"` // what prevents its eviction
}

// Alternative is nodes that would hold the pods of another one.
type Alternative struct {
	Price  float64  `json:"price"` // USD an hour, of all of them
	Launch []Launch `json:"launch"`
}

// Proposal is a command that would be started now.
type Proposal struct {
	ID     string    `json:"id"`
	Reason string    `json:"reason"` // Empty, Drifted, Underutilized, Unhealthy
	Action string    `json:"action"` // delete, replace, terminate-first, reboot
	Nodes  []string  `json:"nodes"`  // that it removes
	Saves  float64   `json:"saves"`  // USD an hour; negative: what it costs
	Launch []Launch  `json:"launch,omitempty"`
	Moves  []PodMove `json:"moves,omitempty"` // of pods of the node that is explained
}

// PoolExplanation is what a NodePool does, and why it does no more.
type PoolExplanation struct {
	Pool     Pool           `json:"pool"`
	Policy   string         `json:"consolidationPolicy,omitempty"`
	Static   bool           `json:"static,omitempty"`
	Replicas int64          `json:"replicas,omitempty"` // of a static NodePool
	Budgets  []Budget       `json:"budgets,omitempty"`
	Allowed  []Allowance    `json:"allowed,omitempty"` // what the budgets come to
	Launch   []Launch       `json:"launch,omitempty"`  // what it would launch for pending pods
	Refused  []PodFindings  `json:"refused,omitempty"` // pending pods that no node can be planned for, and why it launches none for them
	Nodes    []NodeFindings `json:"nodes,omitempty"`   // why its nodes stay, or go; most nodes first
}

// Budget is one budget of a NodePool.
type Budget struct {
	Nodes    string   `json:"nodes"`
	Reasons  []string `json:"reasons,omitempty"` // none: all
	Schedule string   `json:"schedule,omitempty"`
	Duration string   `json:"duration,omitempty"`
	Active   bool     `json:"active"`            // it restrains something now
	Invalid  string   `json:"invalid,omitempty"` // why it cannot be read; then no node of the NodePool may be removed
}

// Allowance is how many nodes of a NodePool may be removed for one reason.
type Allowance struct {
	Reason  string `json:"reason"`
	Allowed int    `json:"allowed"` // by the budgets; -1: any number
	Busy    int    `json:"busy"`    // nodes that use it up: being removed, or not ready
}
