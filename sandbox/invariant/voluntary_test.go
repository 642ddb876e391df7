package invariant_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/sandbox/invariant"
)

// withDisruption is a claim that is disrupted voluntarily.
func withDisruption(why string) func(*karpv1.NodeClaim) {
	return func(c *karpv1.NodeClaim) {
		c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{Type: karpv1.ConditionDisruptionReason, Status: metav1.ConditionTrue, Reason: why})
	}
}

// setBudgets gives the pool budgets, each as nodes and reasons.
func (l *checkerEnv) setBudgets(list ...karpv1.Budget) {
	l.set(&karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "pool", UID: "pool"}, Spec: karpv1.NodePoolSpec{Disruption: karpv1.Disruption{Budgets: list}}})
}

func nodes(n string, reasons ...karpv1.DisruptionReason) karpv1.Budget {
	return karpv1.Budget{Nodes: intstr.Parse(n), Reasons: reasons}
}

func withSchedule(b karpv1.Budget, schedule, duration string) karpv1.Budget {
	b.Schedule, b.Duration = &schedule, new(karpv1.Duration(duration))
	return b
}

// createReadyNodes makes ready nodes with claims n0, n1 and so on, and lets the watches settle.
func (l *checkerEnv) createReadyNodes(n int) {
	for i := range n {
		name, id := fmt.Sprintf("n%d", i), fmt.Sprintf("i-%d", i)
		l.setInstance(id, "running", append(ourTags, "karpenter.sh/nodeclaim="+name)...)
		node := newNode("node-"+name, id)
		node.Labels[karpv1.LabelInitialized] = "true"
		l.set(l.claim(name), node)
	}
	l.passTime(10 * time.Second)
}

// claim is one of the crew.
func (l *checkerEnv) claim(name string, change ...func(*karpv1.NodeClaim)) *karpv1.NodeClaim {
	id := "i-" + strings.TrimPrefix(name, "n")
	named := func(c *karpv1.NodeClaim) { c.Status.NodeName = "node-" + name }
	return newClaim(name, append([]func(*karpv1.NodeClaim){has(id), withCondition("Initialized"), named}, change...)...)
}

// start is a voluntary disruption of a node of the crew.
func (l *checkerEnv) start(name, why string) {
	node := newNode("node-"+name, "i-"+strings.TrimPrefix(name, "n"), karpv1.DisruptedTaint())
	node.Labels[karpv1.LabelInitialized] = "true"
	l.set(node, l.claim(name, withDisruption(why)))
	l.passTime(3 * time.Second)
}

func withUnready(n *corev1.Node, since time.Time) *corev1.Node {
	n.Status.Conditions[0].Status, n.Status.Conditions[0].LastTransitionTime = corev1.ConditionFalse, metav1.NewTime(since)
	return n
}

// G4, G5, G11: each case breaks one rule, or comes near to it and does not.
func TestVoluntaryRules(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		do   func(*checkerEnv)
		want invariant.Rule // empty: all holds
		text string
	}{
		"G4 a start of who cannot see": {func(l *checkerEnv) {
			l.createReadyNodes(1)
			l.Blind(l.now)
			l.passTime(10 * time.Second)
			l.start("n0", "Empty")
		}, invariant.G4, "could not know"},
		"G4 a start that was under way": {func(l *checkerEnv) {
			l.createReadyNodes(1)
			l.Blind(l.now)
			l.passTime(time.Second)
			l.start("n0", "Empty")
		}, "", ""},
		"G4 a start after all was seen": {func(l *checkerEnv) {
			l.createReadyNodes(1)
			sighted := l.Blind(l.now)
			l.passTime(10 * time.Second)
			sighted(l.now)
			l.start("n0", "Empty")
		}, "", ""},
		"G4 a deletion by another client meanwhile": {func(l *checkerEnv) {
			l.createReadyNodes(1)
			l.Blind(l.now)
			l.passTime(10 * time.Second)
			l.set(l.claim("n0", withDeletion))
		}, "", ""},
		"G5 a tenth, rounded up": {func(l *checkerEnv) {
			l.setBudgets(nodes("10%"))
			l.createReadyNodes(11)
			l.start("n0", "Empty")
			l.start("n1", "Empty")
		}, "", ""},
		"G5 one more than a tenth": {func(l *checkerEnv) {
			l.setBudgets(nodes("10%"))
			l.createReadyNodes(10)
			l.start("n0", "Empty")
			l.start("n1", "Empty")
		}, invariant.G5, "with it, 2 of 10 nodes were going; the budgets for reason Empty allow 1"},
		"G5 the default": {func(l *checkerEnv) {
			l.createReadyNodes(10)
			l.start("n0", "Empty")
			l.start("n1", "Empty")
		}, invariant.G5, "allow 1"},
		"G5 none at all": {func(l *checkerEnv) {
			l.setBudgets(nodes("0"))
			l.createReadyNodes(10)
			l.start("n0", "Drifted")
		}, invariant.G5, "allow 0"},
		"G5 no budgets": {func(l *checkerEnv) {
			l.set(&karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "pool", UID: "pool"}, Spec: karpv1.NodePoolSpec{Disruption: karpv1.Disruption{Budgets: []karpv1.Budget{}}}})
			l.createReadyNodes(3)
			l.start("n0", "Empty")
			l.start("n1", "Empty")
			l.start("n2", "Empty")
		}, "", ""},
		"G5 a budget of another reason": {func(l *checkerEnv) {
			l.setBudgets(nodes("0", karpv1.ReasonDrifted), nodes("5"))
			l.createReadyNodes(3)
			l.start("n0", "Empty")
		}, "", ""},
		"G5 the strictest counts": {func(l *checkerEnv) {
			l.setBudgets(nodes("100%"), nodes("1", karpv1.ReasonEmpty))
			l.createReadyNodes(3)
			l.start("n0", "Drifted")
			l.start("n1", "Empty")
		}, invariant.G5, "for reason Empty allow 1"},
		"G5 a budget that cannot be read": {func(l *checkerEnv) {
			l.setBudgets(nodes("100%"), withSchedule(nodes("5"), "99 * * * *", "1h"))
			l.createReadyNodes(3)
			l.start("n0", "Empty")
		}, invariant.G5, "allow 0"},
		"G5 at an hour that is closed": {func(l *checkerEnv) { // it is noon, a Tuesday
			l.setBudgets(withSchedule(nodes("0"), "30 11 * * mon-fri", "31m"))
			l.createReadyNodes(3)
			l.start("n0", "Empty")
		}, invariant.G5, "allow 0"},
		"G5 after an hour that is closed": {func(l *checkerEnv) {
			l.setBudgets(withSchedule(nodes("0"), "30 11 * * mon-fri", "30m"))
			l.createReadyNodes(3)
			l.start("n0", "Empty")
		}, "", ""},
		"G5 on another day": {func(l *checkerEnv) {
			l.setBudgets(withSchedule(nodes("0"), "0 0 * * sat,0", "24h"))
			l.createReadyNodes(3)
			l.start("n0", "Empty")
		}, "", ""},
		"G11 a claim that changes its instance": {func(l *checkerEnv) {
			l.createReadyNodes(1)
			l.set(newClaim("n0", has("i-7"), withCondition("Initialized")))
		}, invariant.G11, "i-7"},
		"G11 two instances with the name of a claim": {func(l *checkerEnv) {
			l.createReadyNodes(1)
			l.setInstance("i-1", "running", append(ourTags, "karpenter.sh/nodeclaim=n0")...)
			l.passTime(time.Second)
		}, invariant.G11, "launched twice: i-0, i-1"},
		"G11 an orphan of a launch that was repeated": {func(l *checkerEnv) {
			l.createReadyNodes(1)
			l.setInstance("i-1", "running", ourTags...)
			l.passTime(time.Second)
		}, "", ""},
		"G11 another claim of the same name": {func(l *checkerEnv) {
			l.createReadyNodes(1)
			l.setInstance("i-0", "terminated", append(ourTags, "karpenter.sh/nodeclaim=n0")...)
			l.remove(l.claim("n0"))
			l.setInstance("i-1", "running", append(ourTags, "karpenter.sh/nodeclaim=n0")...)
			l.set(newClaim("n0", has("i-1"), func(c *karpv1.NodeClaim) { c.UID = "another" }))
			l.passTime(time.Second)
		}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newCheckerEnv(t)
			tc.do(l)
			found := l.Violations()
			switch {
			case tc.want == "" && len(found) > 0:
				t.Errorf("unexpected: %v", found[0])
			case tc.want != "" && (len(found) != 1 || found[0].Rule != tc.want || !strings.Contains(found[0].Error(), tc.text)):
				t.Errorf("found %v, want one of %s with %q", found, tc.want, tc.text)
			}
		})
	}
}

// G14: what is left to be done is named, and nothing of others.
func TestG14_Unsettled(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		do   func(*checkerEnv)
		want []string
	}{
		"all is well":              {func(*checkerEnv) {}, nil},
		"a pod that waits":         {func(l *checkerEnv) { l.set(newPod("web", "")) }, []string{"Pod shop/web is Pending"}},
		"a pod that is gone":       {func(l *checkerEnv) { l.set(newPod("web", "")); l.remove(newPod("web", "")) }, nil},
		"a claim that goes":        {func(l *checkerEnv) { l.set(l.claim("n0", withDeletion)) }, []string{"NodeClaim n0 is going"}},
		"a command that hangs":     {func(l *checkerEnv) { l.set(l.claim("n0", withDisruption("Drifted"))) }, []string{"NodeClaim n0 is being disrupted: Drifted"}},
		"a claim that is new":      {func(l *checkerEnv) { l.set(newClaim("n9")) }, []string{"NodeClaim n9 is not initialized"}},
		"an instance that ended":   {func(l *checkerEnv) { l.setInstance("i-0", "terminated", ourTags...) }, []string{"NodeClaim n0 has no instance that runs"}},
		"a Node that is gone":      {func(l *checkerEnv) { l.remove(newNode("node-n0", "i-0")) }, []string{"NodeClaim n0 has no Node"}},
		"a Node that is unhealthy": {func(l *checkerEnv) { l.set(withUnready(newNode("node-n0", "i-0"), l.now)) }, []string{"Node node-n0 is not ready"}},
		"a dropped taint": {func(l *checkerEnv) {
			l.set(newNode("node-n0", "i-0", karpv1.DisruptedTaint()))
		}, []string{"Node node-n0 is tainted karpenter.sh/disrupted"}},
		"an orphan": {func(l *checkerEnv) { l.setInstance("i-5", "running", ourTags...) }, []string{"instance i-5 is running and has no NodeClaim"}},
		"a Node without a claim": {func(l *checkerEnv) {
			l.set(newNode("stray", "i-6"))
		}, []string{"Node stray has no NodeClaim"}},
		"what is not of the test": {func(l *checkerEnv) {
			l.setInstance("i-5", "running", "eks:eks-cluster-name=sandbox", "karpenter.sh/nodepool=another")
			l.set(newPod("web", "", func(p *corev1.Pod) { p.Namespace = "elsewhere" }))
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newCheckerEnv(t)
			l.createReadyNodes(1)
			tc.do(l)
			if diff := cmp.Diff(tc.want, l.Unsettled("pool", "shop")); diff != "" {
				t.Error(diff)
			}
		})
	}
}
