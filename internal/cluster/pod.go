package cluster

import (
	"cmp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// PodKey names a pod.
type PodKey struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// String is namespace/name.
func (k PodKey) String() string { return k.Namespace + "/" + k.Name }

// Compare orders keys by namespace, then by name.
func (k PodKey) Compare(other PodKey) int {
	return cmp.Or(strings.Compare(k.Namespace, other.Namespace), strings.Compare(k.Name, other.Name))
}

// PodID is one pod; a later one with the same name is another.
type PodID struct {
	Namespace, Name string
	UID             types.UID
}

// PodIDOf identifies a pod.
func PodIDOf(p *corev1.Pod) PodID { return PodID{Namespace: p.Namespace, Name: p.Name, UID: p.UID} }

// String is the name as people write it.
func (id PodID) String() string { return id.Namespace + "/" + id.Name }

// Key is the name as the API server knows it.
func (id PodID) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: id.Namespace, Name: id.Name}
}

// Pod is one pod. What scheduling depends on is in its Shape, which equal pods share.
type Pod struct {
	Key         PodKey    `json:"key"`
	UID         string    `json:"uid,omitempty"`
	Created     time.Time `json:"created"`
	Shape       *Shape    `json:"shape"`
	Daemon      bool      `json:"daemon,omitempty"`      // owned by a DaemonSet
	Terminating bool      `json:"terminating,omitempty"` // still takes room, is counted by no topology
	Stays       bool      `json:"stays,omitempty"`       // is not planned elsewhere when its node is removed: mirror, DaemonSet, blocked (scheduling 3.2)
	Virtual     bool      `json:"virtual,omitempty"`     // placeholder of a CapacityBuffer
	Late        bool      `json:"late,omitempty"`        // the pod that follows it comes once it is gone, not when it begins to end: of a StatefulSet
	Priority    int32     `json:"priority,omitempty"`    // of those that wait the scheduler places the highest first
	EvictCost   float64   `json:"evictCost,omitempty"`   // V15-52
}

// Shape is everything about a pod that scheduling depends on. Shapes are interned by a Reader: two pods
// of one Snapshot are interchangeable exactly if they have the same *Shape.
type Shape struct {
	Key          string              `json:"key"` // canonical text; orders shapes, and equal text means equal shape
	Namespace    string              `json:"namespace"`
	Labels       map[string]string   `json:"labels,omitempty"`
	Requests     resources.Vec       `json:"requests"`
	Required     []reqs.Set          `json:"required"`            // alternatives in order, each with the nodeSelector in it; never empty (SC-12)
	Preferred    []Preference        `json:"preferred,omitempty"` // heaviest first, ties in the order of the pod
	Tolerations  []corev1.Toleration `json:"tolerations,omitempty"`
	Spread       []Spread            `json:"spread,omitempty"`
	Affinity     []PodTerm           `json:"affinity,omitempty"`     // required first, then preferred, heaviest first
	AntiAffinity []PodTerm           `json:"antiAffinity,omitempty"` // the same
	HostPorts    []HostPort          `json:"hostPorts,omitempty"`
	Volumes      []Volume            `json:"volumes,omitempty"`
	Devices      []string            `json:"devices,omitempty"` // ResourceClaims, namespace/name, in the order of the pod
	Zones        []reqs.Set          `json:"zones,omitempty"`   // alternatives of where all volumes can be, in order; none: anywhere (SC-38)
	Invalid      []reason.Reason     `json:"invalid,omitempty"` // why it is not planned for at all (scheduling 3.4)
	Ignored      []reason.Reason     `json:"ignored,omitempty"` // what of its preferences does not count
	Refuses      bool                `json:"refuses,omitempty"` // wants no managed node: left alone silently (3.4 a)
}

// Preference is one preferred node affinity term.
type Preference struct {
	Weight int32    `json:"weight"`
	Needs  reqs.Set `json:"needs"`
}

// Spread is one topology spread constraint, matchLabelKeys already merged into the selector (SC-29).
type Spread struct {
	Key        string   `json:"key"`
	MaxSkew    int32    `json:"maxSkew"`
	MinDomains int32    `json:"minDomains,omitempty"` // 0: not set
	Soft       bool     `json:"soft,omitempty"`       // ScheduleAnyway
	Selector   Selector `json:"selector"`
	AnyNode    bool     `json:"anyNode,omitempty"`    // nodeAffinityPolicy Ignore: every node counts
	HonorTaint bool     `json:"honorTaint,omitempty"` // nodeTaintsPolicy Honor
}

// PodTerm is one pod affinity or anti-affinity term.
type PodTerm struct {
	Key        string   `json:"key"`
	Weight     int32    `json:"weight,omitempty"` // 0: required
	Selector   Selector `json:"selector"`
	Namespaces []string `json:"namespaces,omitempty"` // sorted; resolved, the pod's own if it named none (SC-36)
	Everywhere bool     `json:"everywhere,omitempty"` // an empty namespaceSelector: all namespaces
}

// Selector is a label selector with a canonical text. The zero Selector matches nothing (SC-30).
type Selector struct {
	Text string          `json:"text,omitempty"` // canonical; "" matches nothing
	Is   labels.Selector `json:"-"`
}

// Matches reports whether the labels satisfy the selector.
func (s Selector) Matches(l map[string]string) bool {
	return s.Is != nil && s.Is.Matches(labels.Set(l))
}

// HostPort is a port of the node that a pod takes for itself.
type HostPort struct {
	IP       string `json:"ip"` // "" and "::" read 0.0.0.0
	Port     int32  `json:"port"`
	Protocol string `json:"protocol"`
}

const anyIP = "0.0.0.0"

// Conflicts reports whether two uses cannot be on one node (SC-25).
func (p HostPort) Conflicts(o HostPort) bool {
	return p.Port == o.Port && p.Protocol == o.Protocol && (p.IP == o.IP || p.IP == anyIP || o.IP == anyIP)
}

// Volume is a claim that takes an attachment slot of its CSI driver (SC-41).
type Volume struct {
	Driver string `json:"driver"`
	Claim  string `json:"claim"` // namespace/name; a claim that several pods share counts once
}
