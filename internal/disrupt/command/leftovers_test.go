package command_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/disrupt/command"
)

// What one process writes on objects, the next one finds: it resumes a command once, and cleans up what it cannot.
func TestLeftoversAreResumedOnceOrCleanedUp(t *testing.T) {
	t.Parallel()
	c := made(karpv1.ReasonDrifted, 1, "a")
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	claim, replacement := &karpv1.NodeClaim{}, &karpv1.NodeClaim{}
	claim.Name, replacement.Name, replacement.Annotations = "claim-a", "new", c.Marks()
	if write, tainted := command.HoldNode(node, c.Token()); !write || !tainted {
		t.Errorf("hold: write %v, tainted %v", write, tainted)
	}
	if write, tainted := command.HoldNode(node, c.Token()); write || tainted {
		t.Errorf("hold again: write %v, tainted %v", write, tainted)
	}
	command.SetReason(claim, c.Reason, noon)
	leftovers := func() command.Leftovers {
		l := command.NewLeftovers()
		l.AddNode(node)
		l.AddClaim(claim)
		l.AddClaim(replacement)
		return l
	}
	view := []cluster.ManagedNode{{Node: cluster.Node{Name: "a", Claim: "claim-a", Pool: "default"}}}
	q := command.NewQueue(1)
	expect(t, q.Resume(view, leftovers()), "Resumed")
	expect(t, q.Resume(view, leftovers()))
	view[0].Commanded = true
	expect(t, q.CleanUp(view, leftovers()))

	view[0].Commanded = false
	q.Observe(c.Token(), map[string]disrupt.ClaimStatus{"new": {Deleting: true}}, noon)
	expect(t, q.Resume(view, leftovers())) // the cache does not have the end yet
	expect(t, q.CleanUp(view, leftovers()), "CleanNode", "UnmarkReplacements")
	if write, untainted := command.ReleaseNode(node); !write || !untainted || !command.RemoveReason(claim) || !command.RemoveMarks(replacement) {
		t.Error("want everything to be written")
	}
	if write, _ := command.ReleaseNode(node); write || command.RemoveReason(claim) || command.RemoveMarks(replacement) {
		t.Error("want nothing to be written again")
	}
	expect(t, q.CleanUp(view, leftovers()))
}

// A node that is being deleted keeps its taint, and a rebooting claim its reason.
func TestSomeObjectsKeepWhatIsWritten(t *testing.T) {
	t.Parallel()
	at := metav1.NewTime(noon)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	command.HoldNode(node, "token")
	node.DeletionTimestamp = &at
	claim := &karpv1.NodeClaim{}
	command.SetReason(claim, karpv1.ReasonUnhealthy, noon)
	claim.Status.Conditions = append(claim.Status.Conditions, metav1.Condition{Type: karpv1.ConditionRebooting, Status: metav1.ConditionTrue})
	if write, _ := command.ReleaseNode(node); write || command.RemoveReason(claim) {
		t.Error("want nothing to be written")
	}
	if !command.CanRelease(nil) || !command.CanRelease(claim) {
		t.Error("want both to be released")
	}
	if claim.DeletionTimestamp = &at; command.CanRelease(claim) {
		t.Error("want the node of a claim that is being deleted to keep its taint")
	}
}

// Consolidation is skipped while nothing changes, until time alone may change what it finds.
func TestCooldown(t *testing.T) {
	t.Parallel()
	young := []cluster.ManagedNode{{Created: noon}}
	for name, tc := range map[string]struct {
		decision disrupt.Decision
		view     disrupt.View
		hidden   bool
		want     time.Duration
	}{
		"nothing to do":       {want: 5 * time.Minute},
		"a node grows older":  {view: disrupt.View{DisruptionView: cluster.DisruptionView{Nodes: young}, Tuning: disrupt.Tuning{MinAge: time.Minute}}, want: time.Minute},
		"a pod is expected":   {view: disrupt.View{DisruptionView: cluster.DisruptionView{Nodes: []cluster.ManagedNode{{Nominated: true}}}}},
		"there are commands":  {decision: disrupt.Decision{Commands: make([]disrupt.Command, 1)}},
		"budgets are spent":   {decision: disrupt.Decision{Limited: true}},
		"time was up":         {decision: disrupt.Decision{Partial: true}},
		"nodes are hidden":    {hidden: true},
		"there are no prices": {view: disrupt.View{Unpriced: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := command.Cooldown{}.After(&tc.decision, &tc.view, 7, tc.hidden, noon)
			if c.Covers(8, noon) || tc.want > 0 && !c.Covers(7, noon.Add(tc.want-1)) || c.Covers(7, noon.Add(tc.want)) {
				t.Errorf("want a cool-down of %s", tc.want)
			}
			if tc.view.Unchanged = true; tc.want > 0 && c.After(&tc.decision, &tc.view, 7, false, noon.Add(time.Second)) != c {
				t.Error("want it to end when it was to")
			}
		})
	}
}
