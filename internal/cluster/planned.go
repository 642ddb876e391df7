package cluster

import (
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// Bind is a pod that fits a node that exists or is on its way.
type Bind struct {
	Pod  PodKey `json:"pod"`
	Node string `json:"node"`
}

// NewNode is a node to launch: a NodeClaim in the making.
type NewNode struct {
	Pool     string        `json:"pool"`
	Needs    reqs.Set      `json:"needs"`    // the pool's requirements narrowed by those of the pods
	Types    []string      `json:"types"`    // cheapest first, at most as many as a NodeClaim may list (SC-48)
	Requests resources.Vec `json:"requests"` // the pods and the least DaemonSets request (SC-49)
	Pods     []PodKey      `json:"pods"`
	Offer    Offer         `json:"offer"`              // the cheapest of what is left open
	Relaxed  bool          `json:"relaxed,omitempty"`  // minValues was lowered (SC-43)
	Overlaid bool          `json:"overlaid,omitempty"` // a NodeOverlay changed the price of one of the types (SC-50)
	Drivers  []string      `json:"drivers,omitempty"`  // of dynamic resource allocation, whose devices the pods use on each of the types (DR-08)

	Spread []reason.Reason `json:"spread,omitempty"` // how far it is spread over spot pools with the others of its workloads, and why not further

	CapacityOverlaid bool `json:"capacityOverlaid,omitempty"` // a NodeOverlay changed the capacity of one of the types (SC-50)
}

// Offer is one way to launch a node.
type Offer struct {
	Type         string  `json:"type"`
	Zone         string  `json:"zone"`
	CapacityType string  `json:"capacityType"`
	Reservation  string  `json:"reservation,omitempty"`
	Price        float64 `json:"price"`
}
