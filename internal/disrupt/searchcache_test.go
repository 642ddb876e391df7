package disrupt_test

import (
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/script"
)

// Moves are searched for again only when something changed that a search sees, and a search that was stopped is made again.
// That decisions are the same either way is part of TestSameDecisionAnyWay.
func TestTheSameSearchRunsOnce(t *testing.T) {
	t.Parallel()
	w := script.New()
	out, err := w.Run("type name=m cpu=4 price=1\npool name=default\n" +
		"node name=n1 pool=default type=m\nnode name=n2 pool=default type=m\nbound name=a cpu=3 node=n1\nbound name=b cpu=3 node=n2\n")
	if err != nil || out != "" {
		t.Fatalf("%s %v", out, err)
	}
	var cache disrupt.SearchCache
	searches := func(change func(*disrupt.View), stop bool) bool {
		view, pods := w.Snapshot()
		v := viewOf(view, pods, w.Policy())
		v.SearchCache = &cache
		change(&v)
		polls := 0
		disrupt.Next(v, func() bool { polls++; return stop })
		return polls > 0
	}
	for _, step := range []struct {
		name   string
		change func(*disrupt.View)
		stop   bool
		want   bool
	}{
		{name: "the first pass, which has no time", stop: true, want: true},
		{name: "the second pass", want: true},
		{name: "nothing changed"},
		{name: "time passed", change: func(v *disrupt.View) {
			v.Now = v.Now.Add(time.Hour)
			v.Cluster.Now, v.Cluster.Version = v.Now, v.Cluster.Version+1
		}},
		{name: "a price changed", change: func(v *disrupt.View) { v.Cluster.Nodes[0].Price = 2 }, want: true},
		{name: "it is what it was before"},
		{name: "another node may go", change: func(v *disrupt.View) { v.Nodes[0].Settling = true }, want: true},
		{name: "another policy", change: func(v *disrupt.View) { v.Policy.NodeFee = 0.5 }, want: true},
	} {
		if step.change == nil {
			step.change = func(*disrupt.View) {}
		}
		if got := searches(step.change, step.stop); got != step.want {
			t.Errorf("%s: searched %t, want %t", step.name, got, step.want)
		}
	}
}
