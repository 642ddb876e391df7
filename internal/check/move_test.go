package check_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/check"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// consolidated is a cluster of four nodes at 0.2 each: n1 goes empty onto n2, n3 is replaced by a
// small spot node, n4 stays.
func consolidated() (*world, solve.Question, solve.Consolidation) {
	w := newWorld()
	web := shape("web", nil)
	daemon := pod("d-1", shape("d", nil))
	daemon.Daemon, daemon.Stays = true, true
	w.node("n1", "a", pod("p1", web), daemon)
	w.node("n2", "a", pod("p2", web))
	w.node("n3", "b", pod("p3", web), pod("p4", web))
	w.node("n4", "c", pod("p5", web))
	fresh := w.newNode(reqs.Set{zone: in("b")}, pod("p3", web), pod("p4", web))
	return w,
		solve.Question{View: w.View, Candidates: []string{"n1", "n3", "n4"}},
		solve.Consolidation{
			Moves: []solve.Move{
				{Remove: []string{"n1"}, Bind: []solve.Bind{{Pod: key("p1"), Node: "n2"}}, Saves: 0.2, Moved: 1},
				{Remove: []string{"n3"}, Create: []solve.NewNode{fresh}, Saves: 0.2 - fresh.Offer.Price, Moved: 2},
			},
			Kept:   []solve.Verdict{{Node: "n4", Why: reason.Reason{Code: "Dearer"}}},
			Before: 0.8,
			After:  0.6 - 0.2 + fresh.Offer.Price,
		}
}

func TestConsolidation(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		broken func(w *world, q *solve.Question, c *solve.Consolidation)
		want   check.Code
	}{
		"nothing is wrong":               {func(*world, *solve.Question, *solve.Consolidation) {}, ""},
		"a removed node that is unknown": {func(_ *world, _ *solve.Question, c *solve.Consolidation) { c.Moves[0].Remove = []string{"ghost"} }, check.NodeUnknown},
		"a removed node is no candidate": {func(_ *world, q *solve.Question, _ *solve.Consolidation) { q.Candidates = q.Candidates[1:] }, check.NotCandidate},
		"a node is removed twice":        {func(_ *world, _ *solve.Question, c *solve.Consolidation) { c.Moves = append(c.Moves, c.Moves[0]) }, check.RemovedTwice},
		"a move removes nothing":         {func(_ *world, _ *solve.Question, c *solve.Consolidation) { c.Moves[0].Remove = nil }, check.RemovedTwice},
		"3.2 a pod is left behind":       {func(_ *world, _ *solve.Question, c *solve.Consolidation) { c.Moves[0].Bind = nil }, check.PodLost},
		"3.2 a pod that stays is moved": {func(_ *world, _ *solve.Question, c *solve.Consolidation) {
			c.Moves[0].Bind = append(c.Moves[0].Bind, solve.Bind{Pod: key("d-1"), Node: "n2"})
		}, check.PodUnknown},
		"a pod is put on a node removed before": {func(_ *world, _ *solve.Question, c *solve.Consolidation) {
			c.Moves[1].Bind = []solve.Bind{{Pod: key("p3"), Node: "n1"}}
		}, check.NodeLeaving},
		"3.2 a terminating pod that moved came back as a new one": {func(w *world, _ *solve.Question, c *solve.Consolidation) {
			w.View.Nodes[0].Pods[0].Terminating = true
			near := shape("near", func(s *cluster.Shape) { s.Affinity = term(host, "web") })
			w.View.Nodes[1].Pods = nil
			w.View.Nodes[2].Pods = []cluster.Pod{pod("p3", near)}
			c.Moves[1] = solve.Move{Remove: []string{"n3"}, Bind: []solve.Bind{{Pod: key("p3"), Node: "n2"}}, Saves: 0.2, Moved: 1}
			c.After = 0.4
		}, ""},
		"6.1 a settling node takes no moved pod": {func(w *world, _ *solve.Question, _ *solve.Consolidation) { w.View.Nodes[1].Settling = true }, check.NodeSettling},
		"SC-11 a node is overcommitted": {func(w *world, _ *solve.Question, _ *solve.Consolidation) {
			w.View.Nodes[0].Pods[0].Shape.Requests = vec(2001, 1)
		}, check.TooSmall},
		"SC-11 a node fills up over two moves": {func(w *world, _ *solve.Question, c *solve.Consolidation) {
			w.View.Nodes[1].Allocatable = vec(3000, 20)
			c.Moves[1] = solve.Move{Remove: []string{"n3"}, Bind: []solve.Bind{{Pod: key("p3"), Node: "n2"}, {Pod: key("p4"), Node: "n2"}}, Saves: 0.2, Moved: 2}
		}, check.TooSmall},
		"6.1 taints count": {func(w *world, _ *solve.Question, _ *solve.Consolidation) {
			w.View.Nodes[1].Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectNoSchedule}}
		}, check.TaintNotTolerated},
		"SC-48 a replacement's offer is wrong": {func(_ *world, _ *solve.Question, c *solve.Consolidation) { c.Moves[1].Create[0].Offer.Zone = "z" }, check.OfferWrong},
		"savings are another number":           {func(_ *world, _ *solve.Question, c *solve.Consolidation) { c.Moves[0].Saves = 0.3 }, check.SavesWrong},
		"a move saves nothing": {func(w *world, _ *solve.Question, c *solve.Consolidation) {
			w.View.Nodes[0].Price, c.Moves[0].Saves = 0, 0
		}, check.SavesWrong},
		"moved pods are miscounted":          {func(_ *world, _ *solve.Question, c *solve.Consolidation) { c.Moves[0].Moved = 2 }, check.MovedWrong},
		"before is another sum":              {func(_ *world, _ *solve.Question, c *solve.Consolidation) { c.Before = 1 }, check.TotalsWrong},
		"after is another sum":               {func(_ *world, _ *solve.Question, c *solve.Consolidation) { c.After = 0.1 }, check.TotalsWrong},
		"the bound is above what is reached": {func(_ *world, _ *solve.Question, c *solve.Consolidation) { c.Bound = c.After + 0.1 }, check.BoundWrong},
		"a candidate without a verdict":      {func(_ *world, _ *solve.Question, c *solve.Consolidation) { c.Kept = nil }, check.VerdictMissing},
		"a partial result may lack verdicts": {func(_ *world, _ *solve.Question, c *solve.Consolidation) { c.Kept, c.Partial = nil, true }, ""},
		"a candidate goes and stays": {func(_ *world, _ *solve.Question, c *solve.Consolidation) {
			c.Kept = slices.Insert(c.Kept, 0, solve.Verdict{Node: "n1", Why: c.Kept[0].Why})
		}, check.VerdictMissing},
		"a verdict on no candidate":  {func(_ *world, q *solve.Question, _ *solve.Consolidation) { q.Candidates = q.Candidates[:2] }, check.VerdictMissing},
		"a verdict without a reason": {func(_ *world, _ *solve.Question, c *solve.Consolidation) { c.Kept[0].Why = reason.Reason{} }, check.ReasonMissing},
		"SC-34 pods of earlier moves repel": {func(w *world, _ *solve.Question, c *solve.Consolidation) {
			apart := shape("apart", func(s *cluster.Shape) { s.AntiAffinity = term(zone, "apart") })
			w.View.Nodes[0].Pods[0].Shape, w.View.Nodes[2].Pods[0].Shape = apart, apart
			c.Moves[1].Create[0].Needs[zone] = in("a")
			c.Moves[1].Create[0].Offer.Zone = "a"
		}, check.AntiAffinityUnmet},
		"V15-46 a reservation may be passed over": {func(w *world, _ *solve.Question, _ *solve.Consolidation) {
			o := w.pool().Types[0].Offerings[0]
			o.Zone, o.CapacityType, o.Reservation, o.Remaining = "b", "reserved", "r", 1
			w.pool().Types[0].Offerings = append(w.pool().Types[0].Offerings, o)
		}, check.ReservedMixed},
		"api 4.2 limits get back what was removed": {func(w *world, _ *solve.Question, _ *solve.Consolidation) {
			w.pool().Limits = []cluster.Limit{{Resource: corev1.ResourceCPU, Remaining: 0}}
		}, ""},
		"api 4.2 limits hold": {func(w *world, _ *solve.Question, _ *solve.Consolidation) {
			w.pool().Limits = []cluster.Limit{{Resource: corev1.ResourceCPU, Remaining: -1}}
		}, check.LimitExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, q, c := consolidated()
			tc.broken(w, &q, &c)
			found := check.Consolidation(q, c)
			switch {
			case tc.want == "" && len(found) > 0:
				t.Errorf("a valid result is flagged: %v", found)
			case tc.want != "" && !slices.ContainsFunc(found, func(v check.Violation) bool { return v.Code == tc.want }):
				t.Errorf("want %s, found %v", tc.want, found)
			}
		})
	}
}

func TestMoveIsJudgedAlone(t *testing.T) {
	t.Parallel()
	_, q, c := consolidated()
	if found := check.Move(q, c.Moves[1]); len(found) > 0 {
		t.Error(found)
	}
	c.Moves[1].Saves = -1
	if found := check.Move(q, c.Moves[1]); len(found) != 1 || found[0].Code != check.SavesWrong {
		t.Errorf("found %v, want %s alone", found, check.SavesWrong)
	}
}

// A checker that gets nonsense returns violations; it does not panic.
func TestNonsenseIsNoPanic(t *testing.T) {
	t.Parallel()
	lost := solve.Problem{Pods: []cluster.Pod{{Key: key("p")}}}
	if found := check.Plan(lost, solve.Plan{}); len(found) != 1 || found[0].Code != check.PodLost {
		t.Errorf("found %v, want %s alone", found, check.PodLost)
	}
	plan := solve.Plan{Create: []solve.NewNode{{Pods: []cluster.PodKey{key("p")}}}, Bind: []solve.Bind{{Pod: key("p"), Node: "x"}}}
	if found := check.Plan(lost, plan); len(found) == 0 {
		t.Error("a plan from nothing passes")
	}
	if found := check.Consolidation(solve.Question{}, solve.Consolidation{Moves: []solve.Move{{Remove: []string{"x"}}}}); len(found) == 0 {
		t.Error("a move from nothing passes")
	}
	if text := check.Plan(lost, solve.Plan{})[0].String(); text != "pod/default/p: PodLost: want a place or a reason, have neither" {
		t.Errorf("String() = %q", text)
	}
}
