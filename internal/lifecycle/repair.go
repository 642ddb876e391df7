package lifecycle

import (
	"fmt"
	"regexp"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// RemovedUnhealthy is why repair removes a claim, as the disruption metrics count it.
const RemovedUnhealthy = "unhealthy"

// Ailments are the repair policies as they were before repair respected budgets (LC-41, V15-33): those
// that replace a node, with nothing but how long they are tolerated.
type Ailments struct {
	list []legacyPolicy
}

type legacyPolicy struct {
	cloud.Repair
	reasons *regexp.Regexp // nil: any
}

// NewAilments reads policies. One that reboots is left out.
func NewAilments(list []cloud.Repair) (*Ailments, error) {
	out := &Ailments{}
	for _, r := range list {
		if r.Action == cloud.RebootNode {
			continue
		}
		read := legacyPolicy{Repair: r}
		if r.ReasonRegex != "" {
			reasons, err := regexp.Compile(r.ReasonRegex)
			if err != nil {
				return nil, fmt.Errorf("repair policy for condition %s: reason regex: %w", r.Condition, err)
			}
			read.reasons = reasons
		}
		out.list = append(out.list, read)
	}
	return out, nil
}

// Due says which condition of a node is to be acted upon first, and when; false if none is.
func (a *Ailments) Due(n *corev1.Node) (condition string, at time.Time, unhealthy bool) {
	for i := range n.Status.Conditions {
		c := &n.Status.Conditions[i]
		for _, one := range a.list {
			if one.Condition != c.Type || one.Status != c.Status || one.reasons != nil && !one.reasons.MatchString(c.Reason) {
				continue
			}
			due := c.LastTransitionTime.Add(one.Toleration)
			if !unhealthy || due.Before(at) {
				condition, at, unhealthy = string(c.Type), due, true
			}
		}
	}
	return condition, at, unhealthy
}

// TooMany counts the unhealthy nodes, and says whether these are more than the fifth, rounded up, that
// may be (LC-42).
func (a *Ailments) TooMany(nodes []*corev1.Node) (unhealthy int, stop bool) {
	const share = 5
	for _, n := range nodes {
		if _, _, is := a.Due(n); is {
			unhealthy++
		}
	}
	return unhealthy, unhealthy > (len(nodes)+share-1)/share
}
