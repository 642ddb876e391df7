package devices

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/dovetail-sh/dovetail/internal/reason"
)

// open returns the claims that still need devices at a place, in order, or why the pod cannot be there.
func (l *Ledger) open(node *spot, place int32, claims []string) ([]string, *reason.Reason) {
	var open []string
	if why := l.Unusable(claims); why != nil {
		return nil, why
	}
	for _, key := range claims {
		c := l.claim(key)
		if a, planned := l.made[key]; planned {
			if a.place != anywhere && a.place != place || a.place == anywhere && !selects(a.selector, node) {
				return nil, &reason.Reason{Code: reason.DevicesElsewhere, Subject: subjectOf(key), Have: "the node that is planned for another pod with it", Want: "claim " + key}
			}
			continue
		}
		if a := c.Status.Allocation; a != nil && !l.inv.leaving[key] {
			if !selects(a.NodeSelector, node) {
				return nil, &reason.Reason{Code: reason.DevicesElsewhere, Subject: subjectOf(key), Have: where(a.NodeSelector), Want: "claim " + key}
			}
			if len(c.Status.ReservedFor) >= resourcev1.ResourceClaimReservedForMaxSize {
				return nil, &reason.Reason{Code: reason.DeviceClaimUnusable, Subject: subjectOf(key), Have: "it is in use by as many pods as Kubernetes allows", Want: "use a further claim"}
			}
			continue
		}
		if !slices.Contains(open, key) {
			open = append(open, key)
		}
	}
	return open, nil
}

func subjectOf(claim string) string { return "resourceclaim/" + claim }

// Unusable says which of some claims no node can serve, whatever its devices. kube-scheduler could not allocate it either.
func (l *Ledger) Unusable(claims []string) *reason.Reason {
	l.read()
	for _, key := range claims {
		switch c := l.claim(key); {
		case c == nil:
			return &reason.Reason{Code: reason.DeviceClaimUnusable, Subject: subjectOf(key), Have: "it does not exist", Want: "create it"}
		case c.DeletionTimestamp != nil:
			return &reason.Reason{Code: reason.DeviceClaimUnusable, Subject: subjectOf(key), Have: "it is being deleted", Want: "create it again"}
		case c.Status.Allocation == nil:
			if why := l.classMissing(c); why != nil {
				return why
			}
		}
	}
	return nil
}

// classMissing says which DeviceClass of a claim does not exist.
func (l *Ledger) classMissing(c *resourcev1.ResourceClaim) *reason.Reason {
	missing := func(name string) *reason.Reason {
		if _, found := l.inv.classes[name]; found {
			return nil
		}
		return &reason.Reason{Code: reason.DeviceClaimUnusable, Subject: subjectOf(c.Namespace + "/" + c.Name), Have: "its DeviceClass " + name + " does not exist", Want: "create the class, or install the driver that brings it"}
	}
	for i := range c.Spec.Devices.Requests {
		r := &c.Spec.Devices.Requests[i]
		if r.Exactly != nil {
			if why := missing(r.Exactly.DeviceClassName); why != nil {
				return why
			}
		}
		for j := range r.FirstAvailable {
			if why := missing(r.FirstAvailable[j].DeviceClassName); why != nil {
				return why
			}
		}
	}
	return nil
}

// spot is a node as far as selectors see it.
type spot struct {
	name   string
	labels map[string]string
}

func (s *spot) node() *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.name, Labels: s.labels}}
}

// selects reports whether a node certainly matches the node selector of an allocation.
func selects(s *corev1.NodeSelector, node *spot) bool {
	if s == nil {
		return true
	}
	ok, err := structured.NodeMatches(features, node.node(), "", false, s)
	return err == nil && ok
}

// where writes a node selector for a reason.
func where(s *corev1.NodeSelector) string {
	if node := onlyNode(s); node != "" {
		return "node " + node
	}
	var parts []string
	for _, term := range s.NodeSelectorTerms {
		for _, e := range slices.Concat(term.MatchFields, term.MatchExpressions) {
			parts = append(parts, e.Key+" "+string(e.Operator)+" "+strings.Join(e.Values, ", "))
		}
	}
	return "nodes with " + strings.Join(parts, " and ")
}
