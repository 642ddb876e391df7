package invariant_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/sandbox/invariant"
)

// poolWithBudget is the pool with one budget.
func poolWithBudget(nodes string, reasons ...karpv1.DisruptionReason) *karpv1.NodePool {
	p := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "pool", UID: "pool"}}
	p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: intstr.Parse(nodes), Reasons: reasons}}
	return p
}

// withDisruptionReason is the condition of a claim that is disrupted voluntarily.
func withDisruptionReason(reason karpv1.DisruptionReason) func(*karpv1.NodeClaim) {
	return func(c *karpv1.NodeClaim) {
		c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{Type: karpv1.ConditionDisruptionReason, Status: metav1.ConditionTrue, Reason: string(reason)})
	}
}

// createNodes makes nodes a, b, c and so on, with their claims.
func (l *checkerEnv) createNodes(n int) {
	for i := range n {
		name := string(rune('a' + i))
		l.set(newClaim(name, has("i-"+name), withCondition("Initialized")), upNode(name))
	}
}

func upNode(name string, taints ...corev1.Taint) *corev1.Node {
	n := newNode(name, "i-"+name, taints...)
	n.Labels[karpv1.LabelInitialized] = "true"
	return n
}

// taintNode taints a node, and changes its claim.
func (l *checkerEnv) taintNode(name string, change ...func(*karpv1.NodeClaim)) {
	l.set(newClaim(name, append(change, has("i-"+name), withCondition("Initialized"))...), upNode(name, karpv1.DisruptedTaint()))
}

// G5: nodes that are disrupted voluntarily are no more than the budgets of their pool allow.
func TestBudgets(t *testing.T) {
	t.Parallel()
	const why = karpv1.ReasonUnderutilized
	old := func(c *karpv1.NodeClaim) { c.DeletionTimestamp = new(metav1.NewTime(start.Add(-time.Minute))) }
	for name, tc := range map[string]struct {
		do   func(*checkerEnv)
		want string // part of what is said; empty: all holds
	}{
		"one of a budget of one": {func(l *checkerEnv) { l.set(poolWithBudget("1")); l.taintNode("a", withDisruptionReason(why)) }, ""},
		"two of a budget of one": {func(l *checkerEnv) {
			l.set(poolWithBudget("1"))
			l.taintNode("a", withDisruptionReason(why))
			l.taintNode("b", withDisruptionReason(why))
		}, "with it, 2 of 4 nodes were going; the budgets for reason Underutilized allow 1"},
		"a percentage is rounded up": {func(l *checkerEnv) { l.set(poolWithBudget("10%")); l.taintNode("a", withDisruptionReason(why)) }, ""},
		"a budget of none":           {func(l *checkerEnv) { l.set(poolWithBudget("0")); l.taintNode("a", withDisruptionReason(why)) }, "allow 0"},
		"a budget for another reason": {func(l *checkerEnv) {
			l.set(poolWithBudget("0", karpv1.ReasonDrifted))
			l.taintNode("a", withDisruptionReason(why))
		}, ""},
		"a node that must be removed needs no budget": {func(l *checkerEnv) { l.set(poolWithBudget("0")); l.taintNode("a", withDeletion) }, ""},
		"but uses up what there is": {func(l *checkerEnv) {
			l.set(poolWithBudget("1"))
			l.taintNode("a", old)
			l.taintNode("b", withDisruptionReason(why))
		}, "with it, 2 of 4"},
		"unless that was not known yet": {func(l *checkerEnv) {
			l.set(poolWithBudget("1"))
			l.taintNode("a", withDeletion)
			l.taintNode("b", withDisruptionReason(why))
		}, ""},
		"one whose instance ends does not count": {func(l *checkerEnv) {
			l.set(poolWithBudget("1"))
			l.taintNode("a", withDisruptionReason(why), old, withCondition(karpv1.ConditionInstanceTerminating))
			l.taintNode("b", withDisruptionReason(why))
		}, ""},
		"nor does one that was released": {func(l *checkerEnv) {
			l.set(poolWithBudget("1"))
			l.taintNode("a", withDisruptionReason(why))
			l.passTime(5 * time.Second)
			l.set(newClaim("a", has("i-a"), withCondition("Initialized")), upNode("a"))
			l.taintNode("b", withDisruptionReason(why))
		}, ""},
		"a budget that was raised at that moment": {func(l *checkerEnv) {
			l.set(poolWithBudget("0"))
			l.taintNode("a", withDisruptionReason(why))
			l.set(poolWithBudget("1"))
		}, ""},
		"a node that is not up yet needs no budget": {func(l *checkerEnv) {
			l.set(poolWithBudget("0"))
			l.set(newClaim("x", has("i-x"), withDisruptionReason(karpv1.ReasonUnhealthy)), newNode("x", "i-x", karpv1.DisruptedTaint()))
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newCheckerEnv(t)
			l.createNodes(4)
			tc.do(l)
			l.passTime(5 * time.Second)
			var said []string
			for _, v := range l.Violations() {
				if v.Rule == invariant.G5 {
					said = append(said, v.What)
				}
			}
			if text := fmt.Sprint(said); (len(said) > 0) != (tc.want != "") || !strings.Contains(text, tc.want) {
				t.Errorf("said %q, want %q", text, tc.want)
			}
		})
	}
}
