package cluster

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// Snapshot is one frozen view; it is never written to.
type Snapshot struct {
	Version    uint64                       `json:"version"` // store revision it was cut from
	Now        time.Time                    `json:"now"`     // the only clock a decision may read
	Words      reqs.Vocabulary              `json:"words"`
	Resources  resources.Table              `json:"resources"`            // lanes of every Vec in the snapshot
	Pools      []Pool                       `json:"pools"`                // by weight descending, then name descending (SC-07)
	Nodes      []Node                       `json:"nodes"`                // by name: real, in flight, unmanaged
	Pending    []Pod                        `json:"pending"`              // by namespace, then name
	Daemons    []Daemon                     `json:"daemons"`              // by namespace, then name
	Namespaces map[string]map[string]string `json:"namespaces,omitempty"` // labels of namespaces; looked up, never ranged over
	Devices    *Devices                     `json:"devices,omitempty"`    // nil: dynamic resource allocation is off
}

// Pool is a NodePool that may be launched from, or that nodes belong to.
type Pool struct {
	Name          string                 `json:"name"`
	Weight        int32                  `json:"weight,omitempty"`
	Requirements  reqs.Set               `json:"requirements"` // template labels and karpenter.sh/nodepool included
	Taints        []corev1.Taint         `json:"taints,omitempty"`
	StartupTaints []corev1.Taint         `json:"startupTaints,omitempty"`
	Limits        []Limit                `json:"limits,omitempty"`
	NodeLimit     *int64                 `json:"nodeLimit,omitempty"` // nodes that may still be added; may be negative
	Types         []catalog.InstanceType `json:"types"`               // pools with the same types share the slice
	Closed        bool                   `json:"closed,omitempty"`    // static, not ready or being deleted: nothing is launched from it (SC-06)
	ClosedBy      string                 `json:"closedBy,omitempty"`  // which of them, in words
	Unhealthy     bool                   `json:"unhealthy,omitempty"` // its last nodes did not register: healthy pools of its weight come first (RH-01)
}

// Limit is what remains of one limited resource of a pool: the limit less the capacity of its nodes.
// It may be negative.
type Limit struct {
	Resource  corev1.ResourceName `json:"resource"`
	Remaining int64               `json:"remaining"` // in the unit of the resource's lane
}

// Node is a place pods run on: a real node, one in flight that is still only a NodeClaim, or one that
// Dovetail does not manage. Labels and taints are those that scheduling must assume (scheduling 6.1):
// for a node that is not registered the claim's, and startup and ephemeral taints are already left
// out where they do not count.
type Node struct {
	Name         string            `json:"name"` // of the Node, or of the NodeClaim while there is no Node
	Claim        string            `json:"claim,omitempty"`
	Pool         string            `json:"pool,omitempty"` // empty: not managed
	Labels       map[string]string `json:"labels,omitempty"`
	Taints       []corev1.Taint    `json:"taints,omitempty"`
	Capacity     resources.Vec     `json:"capacity"`
	Allocatable  resources.Vec     `json:"allocatable"`
	Pods         []Pod             `json:"pods,omitempty"`         // bound and not terminal, DaemonSet pods included
	VolumeLimits map[string]int    `json:"volumeLimits,omitempty"` // by CSI driver, published or declared; absent: unlimited
	InstanceType string            `json:"instanceType,omitempty"`
	Zone         string            `json:"zone,omitempty"`
	CapacityType string            `json:"capacityType,omitempty"`
	Since        time.Time         `json:"since,omitzero"`  // when its NodeClaim was created, or the Node if it is not managed; decisions do not look at it
	Price        float64           `json:"price,omitempty"` // USD an hour; 0: unknown, unless Free
	Free         bool              `json:"free,omitempty"`  // a NodeOverlay made the price 0
	Initialized  bool              `json:"initialized,omitempty"`
	Deleting     bool              `json:"deleting,omitempty"`    // its capacity is not offered and its pods are planned elsewhere
	Settling     bool              `json:"settling,omitempty"`    // inside consolidateAfter: takes only pending pods and pods of deleting nodes, and is not consolidated itself
	LateDrivers  []string          `json:"lateDrivers,omitempty"` // drivers of dynamic resource allocation that it was launched for, if it waits for them too long

	// Needs is what the labels of a claim that is not launched yet will satisfy; Labels has only those
	// that are certain. It lets planning go on while a launch runs.
	Needs reqs.Set `json:"needs,omitempty"`
}

// Daemon is a DaemonSet: what its pod requests of a node it runs on (SC-22). One whose shape is Invalid
// runs on no planned node.
type Daemon struct {
	Key   PodKey `json:"key"`
	Shape *Shape `json:"shape"`
}
