package disrupt_test

import (
	"fmt"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/script"
)

// halfEmpty is a cluster of so many nodes, each half empty, and one whose pod fits nowhere else.
func halfEmpty(t *testing.T, nodes int) disrupt.View {
	t.Helper()
	w := script.New()
	text := "type name=m cpu=4 price=1\npool name=default\nnode name=stuck pool=default type=m labels=disk:ssd\nbound name=large cpu=3900m node=stuck selector=disk:ssd\n"
	for i := range nodes {
		text += fmt.Sprintf("node name=n%02d pool=default type=m\nbound name=p%02d cpu=1 node=n%02d\n", i, i, i)
	}
	if _, err := w.Run(text); err != nil {
		t.Fatal(err)
	}
	view, _ := w.Snapshot()
	return viewOf(view, nil, w.Policy())
}

// polls is a limit that is over once it was polled so often, and how often it was.
func polls(n int) (limit func() bool, requested *int) {
	requested = new(int)
	return func() bool { *requested++; return *requested > n }, requested
}

// Trust C04: whichever limit of consolidation runs out, and whenever, the commands are legal, none is lost that a search of
// its own would find, and nothing is said of nodes that was not found out.
func TestTrust_C04_DecisionsThatRanOutOfTime(t *testing.T) {
	t.Parallel()
	for name, share := range map[string]string{"all may go": "100%", "one at a time": "1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := halfEmpty(t, 20)
			everyPool(&v, func(p *cluster.ManagedPool) { p.Budgets = []cluster.Budget{{Nodes: share}} })
			var joint, single *int
			v.Joint, joint = polls(1 << 30)
			v.Single, single = polls(1 << 30)
			whole := disrupt.Next(v, never)
			if whole.Partial || len(whole.Commands) == 0 || len(whole.Unreached) > 0 {
				t.Fatalf("with all the time there is: %+v", whole)
			}
			most := *joint
			for n := range most {
				v.Joint, _ = polls(n)
				v.Single = nil
				d := disrupt.Next(v, never)
				if found := judge(v, d); len(found) > 0 || !d.Partial || len(d.Commands) == 0 {
					t.Fatalf("cut after %d polls: partial %v, %d commands, %v", n, d.Partial, len(d.Commands), found)
				}
				honest(t, d)
			}
			for n := range *single + 200 {
				v.Joint, _ = polls(0)
				v.Single, single = polls(n)
				d := disrupt.Next(v, never)
				if found := judge(v, d); len(found) > 0 || !d.Partial {
					t.Fatalf("cut after %d polls: partial %v, %v", n, d.Partial, found)
				}
				if over := *single - n; over > 60 {
					t.Errorf("cut after %d polls, it went on for %d", n, over)
				}
				honest(t, d)
			}
		})
	}
}

// honest fails if an event says that there was no time for them, or if what was not looked at is said to be dear.
func honest(t *testing.T, d disrupt.Decision) {
	t.Helper()
	for _, s := range d.Events {
		if s.Event.Key == string(reason.OutOfTime) || s.Event.Key == string(reason.NothingCheaper) {
			t.Errorf("%s is told: %s", s.Node, s.Event.Text)
		}
	}
}
