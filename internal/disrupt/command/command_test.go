package command_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/disrupt/command"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

var noon = time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)

// made is a command to remove nodes.
func made(why karpv1.DisruptionReason, replacements int, nodes ...string) disrupt.Command {
	c := disrupt.Command{ID: "id", Reason: why, Decision: disrupt.Delete, Decided: noon, Create: make([]solve.NewNode, replacements)}
	for _, n := range nodes {
		c.Remove = append(c.Remove, disrupt.Candidate{Node: n, Claim: "claim-" + n, Pool: "default"})
	}
	return c
}

func never(string) bool { return false }

// kinds names effects.
func kinds(effects []command.Effect) []string {
	var out []string
	for _, e := range effects {
		out = append(out, fmt.Sprintf("%T", e)[len("command."):])
	}
	return out
}

func expect(t *testing.T, effects []command.Effect, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, kinds(effects)); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
}

// A command waits for its replacement, deletes its nodes, tries again what could not be deleted, and ends.
func TestCommandRunsToItsEnd(t *testing.T) {
	t.Parallel()
	q, c, now := command.NewQueue(1), made(karpv1.ReasonDrifted, 1, "a", "b"), noon
	expect(t, q.Begin(c, never, now), "Hold")
	c, effects := q.Held(c, nil, now)
	expect(t, effects)
	expect(t, q.Ordered(c, command.Orders{Created: []command.Replacement{{Name: "new"}}}, now), "Commit")
	expect(t, q.Begin(c, never, now), "Refused")

	step := func(seen disrupt.ClaimStatus, want ...string) {
		t.Helper()
		now = now.Add(5 * time.Second)
		if due := q.Due(now); len(due) != 1 {
			t.Fatalf("%d commands are due", len(due))
		}
		r, runs := q.BeginObserve(c.Token(), now)
		if in, _ := q.NextDue(now); !runs || len(r.Remove) == 0 || in < time.Second || in > 5*time.Second {
			t.Fatalf("runs: %v, removes %d nodes, due in %s", runs, len(r.Remove), in)
		}
		expect(t, q.Observe(c.Token(), map[string]disrupt.ClaimStatus{"new": seen}, now), want...)
	}
	step(disrupt.ClaimStatus{}, "Nominate", "Awaited")
	step(disrupt.ClaimStatus{}, "Nominate")
	step(disrupt.ClaimStatus{Launched: true}, "Nominate", "Awaited")
	step(disrupt.ClaimStatus{Launched: true, Initialized: true}, "Nominate", "Delete")
	expect(t, q.Deleted(c.Token(), map[string]bool{"claim-b": true}, now))
	step(disrupt.ClaimStatus{Launched: true, Initialized: true}, "Nominate", "Delete")
	expect(t, q.Deleted(c.Token(), nil, now), "Finished", "Outcome", "WakePass")
	if _, runs := q.BeginObserve(c.Token(), now); runs || q.IsRunning(c.Token()) {
		t.Error("it runs on")
	}
	expect(t, q.Observe(c.Token(), nil, now))
	expect(t, q.Deleted(c.Token(), nil, now))
}

// A command that loses its replacement is due at once and is rolled back: first the annotations, then the nodes.
func TestLostReplacementRollsBack(t *testing.T) {
	t.Parallel()
	q, c := command.NewQueue(1), made(karpv1.ReasonDrifted, 1, "a")
	q.Ordered(c, command.Orders{Created: []command.Replacement{{Name: "new"}}}, noon)
	q.BeginObserve(c.Token(), noon)
	if q.RecordLostReplacement("other") || len(q.Due(noon)) != 0 || !q.RecordLostReplacement("new") || len(q.Due(noon)) != 1 {
		t.Error("want the command to be due at once, for its own replacement only")
	}
	q.BeginObserve(c.Token(), noon)
	expect(t, q.Observe(c.Token(), map[string]disrupt.ClaimStatus{"new": {NotFound: true}}, noon),
		"Nominate", "Failed", "DriftBackedOff", "UnmarkReplacements", "Release", "Outcome", "WakePass")
	view := disrupt.View{DisruptionView: cluster.DisruptionView{Nodes: []cluster.ManagedNode{{Node: cluster.Node{Claim: "claim-a"}}, {Node: cluster.Node{Claim: "claim-b"}}}}}
	if hidden := q.MarkBackoffs(&view, noon); !hidden || !view.Nodes[0].BackingOff || view.Nodes[1].BackingOff || view.DriftBackoff["default"].IsZero() {
		t.Errorf("hidden: %v, nodes %v, pools %v", hidden, view.Nodes, view.DriftBackoff)
	}
	if later := noon.Add(time.Hour); q.MarkBackoffs(&view, later) || len(view.DriftBackoff) > 0 {
		t.Error("the back-off does not end")
	}
}

// Without all of its replacements a command is given up. Drift is backed off unless others were only faster, and so are the
// launches of pools whose claims are denied (FM A14).
func TestFM_A14_IncompleteOrderIsUndone(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		orders command.Orders
		want   []string
		denied []string
	}{
		"others were faster":    {orders: command.Orders{Outdated: true}, want: []string{"DeleteReplacements", "UnmarkReplacements", "Release", "Outcome"}},
		"the API server failed": {want: []string{"DeleteReplacements", "UnmarkReplacements", "Release", "DriftBackedOff", "Outcome"}},
		"claims of two pools are denied": {
			orders: command.Orders{Denied: []string{"b", "a", "b"}}, denied: []string{"a", "b"},
			want: []string{"DeleteReplacements", "UnmarkReplacements", "Release", "DriftBackedOff", "LaunchDenied", "LaunchDenied", "Outcome"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q, c := command.NewQueue(1), made(karpv1.ReasonDrifted, 2, "a")
			tc.orders.Created, tc.orders.Err = []command.Replacement{{Name: "new"}}, errors.New("no")
			effects := q.Ordered(c, tc.orders, noon)
			expect(t, effects, tc.want...)
			var denied []string
			for _, effect := range effects {
				if e, is := effect.(command.LaunchDenied); is {
					denied = append(denied, e.Pool)
				}
			}
			if !slices.Equal(denied, tc.denied) {
				t.Errorf("launches of %v are backed off, want %v", denied, tc.denied)
			}
			if len(q.Running()) > 0 {
				t.Error("it runs")
			}
		})
	}
}

// A node that cannot be held stays. Replacements were planned for all nodes, so that nothing is left of a command
// that has some.
func TestNodeThatCannotBeHeldStays(t *testing.T) {
	t.Parallel()
	for replacements, want := range map[int]int{0: 1, 1: 0} {
		rest, effects := command.NewQueue(1).Held(made(karpv1.ReasonEmpty, replacements, "a", "b"), map[string]bool{"claim-b": true}, noon)
		expect(t, effects, "Release")
		if len(rest.Remove) != want {
			t.Errorf("%d nodes are left with %d replacements, want %d", len(rest.Remove), replacements, want)
		}
	}
}

// A command is refused while a static pool that has to replace its nodes is backed off, and a reboot is handed over.
func TestBeginRefusesAndHandsOver(t *testing.T) {
	t.Parallel()
	q, static, reboot := command.NewQueue(1), made(karpv1.ReasonDrifted, 0, "a"), made(karpv1.ReasonUnhealthy, 0, "b")
	static.Template, reboot.Decision = []string{"fixed"}, disrupt.Reboot
	expect(t, q.Begin(static, func(pool string) bool { return pool == "fixed" }, noon), "Refused")
	expect(t, q.Begin(reboot, never, noon), "RequestReboot")
	expect(t, q.Begin(made(karpv1.ReasonEmpty, 0), never, noon))
	view := disrupt.View{DisruptionView: cluster.DisruptionView{Nodes: []cluster.ManagedNode{{Node: cluster.Node{Claim: "claim-a"}}, {Node: cluster.Node{Claim: "claim-b"}}}}}
	if q.MarkBackoffs(&view, noon); !view.Nodes[0].BackingOff || view.Nodes[0].RepairBackingOff || !view.Nodes[1].RepairBackingOff {
		t.Errorf("back-offs: %v", view.Nodes)
	}
}

// The second look releases nodes that changed, or whose pods could not be read. An Empty command goes on with the
// others.
func TestSecondLookReleasesWhatStays(t *testing.T) {
	t.Parallel()
	view := disrupt.View{DisruptionView: cluster.DisruptionView{Pools: map[string]cluster.ManagedPool{}}}
	for _, n := range []string{"a", "b"} {
		view.Nodes = append(view.Nodes, cluster.ManagedNode{Node: cluster.Node{Name: n, Claim: "claim-" + n, Pool: "default"}})
	}
	fresh := view
	fresh.Nodes = []cluster.ManagedNode{view.Nodes[0], view.Nodes[1]}
	fresh.Nodes[1].Rebooting = true
	all := map[string][]cluster.ManagedPod{"a": nil, "b": nil}
	for name, tc := range map[string]struct {
		why  karpv1.DisruptionReason
		now  disrupt.View
		live map[string][]cluster.ManagedPod
		left int
		want []string
	}{
		"nothing changed":                          {karpv1.ReasonEmpty, view, all, 2, nil},
		"an empty node changed":                    {karpv1.ReasonEmpty, fresh, all, 1, []string{"Objected", "BackOff", "Release"}},
		"a drifted node changed":                   {karpv1.ReasonDrifted, fresh, all, 0, []string{"Objected", "BackOff", "Release", "Outcome"}},
		"the pods of an empty node cannot be read": {karpv1.ReasonEmpty, view, map[string][]cluster.ManagedPod{"a": nil}, 1, []string{"BackOff", "Release"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list, effects := command.Validate([]disrupt.Command{made(tc.why, 0, "a", "b")}, command.SecondLook{Decided: view, Fresh: tc.now, Live: tc.live})
			expect(t, effects, tc.want...)
			if len(list[0].Remove) != tc.left {
				t.Errorf("%d nodes are left, want %d", len(list[0].Remove), tc.left)
			}
		})
	}
}

// Nothing is ordered unless everything can be.
func TestReplacementsAreOrderedTogether(t *testing.T) {
	t.Parallel()
	c := made(karpv1.ReasonDrifted, 1, "a")
	c.Template = []string{"fixed", "gone"}
	_, err := command.Replacements(&c, func(pool string) (solve.NewNode, error) {
		if pool == "gone" {
			return solve.NewNode{}, errors.New("gone")
		}
		return solve.NewNode{Pool: pool}, nil
	})
	if err == nil {
		t.Error("want an error")
	}
	c.Template = c.Template[:1]
	if list, err := command.Replacements(&c, func(pool string) (solve.NewNode, error) { return solve.NewNode{Pool: pool}, nil }); err != nil || len(list) != 2 {
		t.Errorf("%d nodes, %v", len(list), err)
	}
}

func TestCommitPlaces(t *testing.T) {
	t.Parallel()
	a, b := cluster.PodKey{Namespace: "default", Name: "a"}, cluster.PodKey{Namespace: "default", Name: "b"}
	commit := command.Commit{Claims: map[cluster.PodKey]string{a: "claim"}}
	commit.Command.Bind = []solve.Bind{{Pod: b, Node: "node"}}
	if diff := cmp.Diff(map[cluster.PodKey]string{a: "claim", b: "node"}, commit.Places()); diff != "" {
		t.Error(diff)
	}
	if len(commit.Claims) != 1 {
		t.Error("the claims of the effect were changed")
	}
}
