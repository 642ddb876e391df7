package store

import (
	"maps"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Disruption 17, 25.8: once the replacement of a node is ordered, it has its room for the pods of the node, also
// before the node is marked: while other replacements are being written, and before a process that just began has
// found the command again. Nothing is launched for these pods, and the node takes no others.
func TestReplacementsAreForThePodsOfTheirNodes(t *testing.T) {
	t.Parallel()
	w1 := cluster.PodKey{Namespace: "default", Name: "w1"}
	for name, tc := range map[string]struct {
		of    int  // replacements of the command, one of which is there
		held  bool // by this process,
		let   bool // which has let go of it
		by    bool // the node says which command holds it
		going bool // the replacement is
		want  bool
	}{
		"this process writes the others":                    {of: 2, held: true, want: true},
		"this process writes the mark":                      {of: 1, held: true, want: true},
		"an earlier process ordered it":                     {of: 1, by: true, want: true},
		"an earlier process ordered some":                   {of: 2, by: true},
		"an earlier process ordered it, and released nodes": {of: 1},
		"this process has given up":                         {of: 1, held: true, let: true, by: true},
		"the replacement goes":                              {of: 1, held: true, by: true, going: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := New(testOptions())
			s.feedObject(poolObject("general"), false)
			c := disrupt.Command{ID: "id", Reason: karpv1.ReasonDrifted, Decided: now(), Remove: []disrupt.Candidate{{Claim: "general-x"}}, Create: make([]solve.NewNode, tc.of)}
			old, node := claimObject("general-x", "aws:///a/i-1", true), nodeObject("ip-1", "aws:///a/i-1", true)
			if tc.by {
				metav1.SetMetaDataAnnotation(&node.ObjectMeta, karpv1.AnnotationHeldBy, c.Token())
				old.Status.Conditions = append(old.Status.Conditions, metav1.Condition{Type: karpv1.ConditionDisruptionReason, Status: metav1.ConditionTrue})
			}
			s.feedObject(old, false)
			s.feedObject(node, false)
			s.feedObject(podObject("w1", "ip-1"), false)
			if tc.held {
				s.SetCommanded("ip-1", true)
			}
			replacement := ordered("general-y", map[string]string{karpv1.AnnotationPods: cluster.HashPods([]cluster.PodKey{w1})}, "small")
			maps.Copy(replacement.Annotations, c.Marks())
			if tc.going {
				replacement.DeletionTimestamp = new(metav1.NewTime(now()))
			}
			s.feedObject(replacement, false)
			if tc.let {
				s.SetCommanded("ip-1", false)
			}
			v := s.Snapshot(testTypes())
			if room := v.PlannedNodes[w1] == "general-y"; room != tc.want || v.AwaitingReplacement[w1] != tc.want || (len(v.Pods) == 1) != tc.want {
				t.Errorf("planned %v, awaiting replacement %v, pods %d; want %v", v.PlannedNodes, v.AwaitingReplacement, len(v.Pods), tc.want)
			}
			for i := range v.Nodes {
				if n := &v.Nodes[i]; n.Name == "ip-1" && n.Deleting != tc.want {
					t.Errorf("the node takes pods: %v", !n.Deleting)
				}
			}
			if n := s.Disruption(testTypes()).Nodes[0]; n.BeingRemoved {
				t.Error("the node is going for who would take the command over")
			}
		})
	}
}
