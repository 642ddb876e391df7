package model

import (
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

// Problem is everything a plan depends on.
type Problem struct {
	View   *cluster.Snapshot `json:"view"`
	Pods   []cluster.Pod     `json:"pods"`            // to be placed; the order does not matter
	Moved  []cluster.Pod     `json:"moved,omitempty"` // also to be placed: from nodes that would be removed, so not onto settling or unready nodes
	Policy Policy            `json:"policy"`

	PlannedBinds []Bind `json:"plannedBinds,omitempty"` // where an earlier plan put some of the pods; they stay there if the rules allow it
}

// Policy decides where the rules leave a choice. The zero Policy is the default one, except for the node fee.
type Policy struct {
	IgnorePreferences  bool    `json:"ignorePreferences,omitempty"`  // --preference-policy=Ignore
	BestEffortMinimums bool    `json:"bestEffortMinimums,omitempty"` // --min-values-policy=BestEffort
	ReservedFallback   bool    `json:"reservedFallback,omitempty"`   // disruption: losing reserved capacity is allowed (SC-46, V15-46)
	SpotToSpot         bool    `json:"spotToSpot,omitempty"`         // gate SpotToSpotConsolidation: spot nodes may be replaced by spot nodes
	NoReserved         bool    `json:"noReserved,omitempty"`         // gate ReservedCapacity off: reserved offerings are ordinary
	NodeFee            float64 `json:"nodeFee,omitempty"`            // USD an hour that a node costs beyond its price
	MinSaving          float64 `json:"minSaving,omitempty"`          // share of the removed price that replacements must save; 0: a tenth
	AnySaving          bool    `json:"anySaving,omitempty"`          // replacements need not save a share, nor an amount for each pod
	SpotShare          float64 `json:"spotShare,omitempty"`          // share of a workload that one spot pool should have at most; 0: any
	SpotCost           float64 `json:"spotCost,omitempty"`           // what that may add to the prices of spot nodes, as a share
	Workers            int     `json:"workers,omitempty"`            // goroutines; never changes the plan
	Greedy             bool    `json:"greedy,omitempty"`             // only the baseline: pod by pod, in order
	Eager              bool    `json:"eager,omitempty"`              // for comparison: any saving is worth any move
}

// Plan is a decision. It holds no pointers into the snapshot: it can be stored, compared and printed.
type Plan struct {
	Version  uint64     `json:"version"`
	Bind     []Bind     `json:"bind,omitempty"`     // pods that fit nodes that exist or are being launched, by pod
	Create   []NewNode  `json:"create,omitempty"`   // nodes to launch
	Unplaced []Unplaced `json:"unplaced,omitempty"` // by pod
	Partial  bool       `json:"partial,omitempty"`  // stop returned true before every pod was tried
	Cost     float64    `json:"cost"`               // of the new nodes, USD an hour, each at the cheapest offering it leaves open
	Bound    float64    `json:"bound"`              // no valid plan for these pods costs less than this; 0: not known
}

// Bind is a pod that fits a node that exists or is being launched.
type Bind = cluster.Bind

// NewNode is a node to launch: a NodeClaim in the making.
type NewNode = cluster.NewNode

// Offer is one offering that a node can be launched as.
type Offer = cluster.Offer

// Unplaced is an unschedulable pod.
type Unplaced struct {
	Pod      cluster.PodKey  `json:"pod"`
	Why      []reason.Reason `json:"why"`                // most useful first, bounded
	Deferred bool            `json:"deferred,omitempty"` // waits for reserved capacity; no event (SC-46)
}

// spreadNodeCost is what spreading may add to the price of one node at least, as a share of its cheapest offering.
const spreadNodeCost = 0.10

// SpreadNodeCost is what spreading may add to the price of one node, as a share.
func (p *Policy) SpreadNodeCost() float64 { return max(spreadNodeCost, p.SpotCost) }

// MaxTypes is how many instance types a NodeClaim lists (SC-48).
const MaxTypes = 600
