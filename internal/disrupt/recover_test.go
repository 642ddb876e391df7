package disrupt

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Failure modes 16, rows 8 to 13, README decision 8: a command goes on if all of its replacements are
// there and its nodes are still its own. Everything else is over.
func TestRecover(t *testing.T) {
	t.Parallel()
	c := Command{
		ID: "id", Reason: karpv1.ReasonDrifted, Decided: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Bound: new(45 * time.Second),
		Remove: []Candidate{{Claim: "a"}, {Claim: "b"}}, Create: make([]solve.NewNode, 2),
	}
	order, read := cluster.ReadOrder(c.Marks())
	if !read {
		t.Fatal("what was written cannot be read")
	}
	token := c.Token()
	both := map[string]cluster.Order{"x": order, "y": order}
	nodes := []cluster.ManagedNode{{Node: cluster.Node{Name: "node-a", Claim: "a"}}, {Node: cluster.Node{Name: "node-b", Claim: "b"}}, {Node: cluster.Node{Name: "node-c", Claim: "c"}}}
	tests := map[string]struct {
		left RecoveryInput
		want []string // claims that go
	}{
		"all is there": {
			RecoveryInput{Nodes: nodes, Held: map[string]string{"a": token, "b": token}, Orders: both}, []string{"a", "b"},
		},
		"row 11: a replacement was not ordered yet": {
			RecoveryInput{Nodes: nodes, Held: map[string]string{"a": token, "b": token}, Orders: map[string]cluster.Order{"x": order}}, nil,
		},
		"row 9: held, and nothing ordered": {
			RecoveryInput{Nodes: nodes, Held: map[string]string{"a": token}}, nil,
		},
		"row 13: one of the nodes goes already": {
			RecoveryInput{Nodes: []cluster.ManagedNode{{Node: cluster.Node{Name: "node-a", Claim: "a"}, BeingRemoved: true}, nodes[1]}, Held: map[string]string{"a": token, "b": token}, Orders: both}, []string{"b"},
		},
		"the replaced nodes are gone: nothing is left of the command": {
			RecoveryInput{Nodes: nodes[2:], Orders: both}, nil,
		},
		"the nodes were released": {
			RecoveryInput{Nodes: nodes, Orders: both}, nil,
		},
		"the nodes are held by another command": {
			RecoveryInput{Nodes: nodes, Held: map[string]string{"a": "other", "b": "other"}, Orders: both}, nil,
		},
		"a node that the command does not name claims to be its own": {
			RecoveryInput{Nodes: nodes, Held: map[string]string{"c": token}, Orders: both}, nil,
		},
		"it runs already, or has ended here": {
			RecoveryInput{Nodes: nodes, Held: map[string]string{"a": token, "b": token}, Orders: both, Known: func(t string) bool { return t == token }}, nil,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.left.Known == nil {
				tc.left.Known = func(string) bool { return false }
			}
			var got []string
			for _, r := range Recover(tc.left) {
				if r.Token() != token || r.Reason != c.Reason || *r.Bound != *c.Bound || !cmp.Equal(r.ReplacementClaims, []string{"x", "y"}) {
					t.Errorf("recovered %+v", r)
				}
				for _, n := range r.Remove {
					got = append(got, n.Claim)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("claims that go (-want +got):\n%s", diff)
			}
		})
	}
}

// Annotations that another client wrote, or broke, start nothing.
func TestReadOrder(t *testing.T) {
	t.Parallel()
	for name, annotations := range map[string]map[string]string{
		"none":            nil,
		"no claims":       {karpv1.AnnotationCommand: `{"id":"x","reason":"Drifted","of":1}`},
		"no command":      {karpv1.AnnotationReplaces: "a"},
		"no JSON":         {karpv1.AnnotationReplaces: "a", karpv1.AnnotationCommand: "yes"},
		"no id":           {karpv1.AnnotationReplaces: "a", karpv1.AnnotationCommand: `{"of":1}`},
		"no replacements": {karpv1.AnnotationReplaces: "a", karpv1.AnnotationCommand: `{"id":"x","of":0}`},
		"a broken bound":  {karpv1.AnnotationReplaces: "a", karpv1.AnnotationCommand: `{"id":"x","of":1,"bound":"soon"}`},
	} {
		if o, read := cluster.ReadOrder(annotations); read {
			t.Errorf("%s: read %+v", name, o)
		}
	}
}
