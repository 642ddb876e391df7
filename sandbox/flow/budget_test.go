package flow_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// budgetDuring is a budget that is in force from a minute on, once a day.
func budgetDuring(nodes string, start time.Time, d karpv1.Duration) func(*karpv1.NodePool) {
	return func(p *karpv1.NodePool) {
		p.Spec.Disruption.Budgets = append(p.Spec.Disruption.Budgets, karpv1.Budget{
			Nodes: intstr.Parse(nodes), Schedule: new(fmt.Sprintf("%d %d * * *", start.Minute(), start.Hour())), Duration: &d,
		})
	}
}

// Disruption 8, NP-10: a budget with a schedule counts in its window and at no other time. An empty node of a pool whose
// window is closed goes at once; one of a pool whose window is open stays, says so, and goes when it closes.
func TestDisruption_8_ABudgetCountsInItsWindow(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	closed := f.pool("-closed", onlyTypes("m5.large"))
	open := f.pool("-open", onlyTypes("m5.large"))
	first := f.deploy("first", 1, withNodeSelector(karpv1.LabelNodePool, closed.Name))
	second := f.deploy("second", 1, withNodeSelector(karpv1.LabelNodePool, open.Name))
	f.waitForRunningPods("first", 1)
	f.waitForRunningPods("second", 1)
	f.ready(2)
	of := func(pool *karpv1.NodePool) karpv1.NodeClaim { return f.claims(pool.Name)[0] }
	soonest, stays := of(closed), of(open)
	f.scale(first, 0)
	f.scale(second, 0)
	f.waitForRunningPods("first", 0)
	f.waitForRunningPods("second", 0)

	end := time.Now().UTC().Add(90 * time.Second).Truncate(time.Minute).Add(time.Minute) // time enough to see that the node stays
	f.patchPool(closed, emptyAfter("1s"), budgetDuring("0", end.Add(6*time.Hour), "1h"))
	f.patchPool(open, emptyAfter("1s"), budgetDuring("0", end.Add(-time.Hour), "1h"))
	f.waitUntilGone(&soonest)
	f.event("NodePool", open.Name, "DisruptionBlocked", "Empty")
	f.waitUntil(later, "the node of the open window is deleted", func() (bool, string) {
		list := f.claims(open.Name)
		return !slices.ContainsFunc(list, func(c karpv1.NodeClaim) bool { return c.UID == stays.UID && !isDeleting(&c) }), sayConditions(list)
	})
	if early := time.Until(end); early > 0 {
		t.Errorf("the node was deleted %s before its window closed", early)
	}
	f.waitUntilGone(&stays)
}
