package solve_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/script"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

func problem(tb testing.TB, text string) solve.Problem {
	tb.Helper()
	w := script.New()
	if _, err := w.Run(text); err != nil {
		tb.Fatal(err)
	}
	view, pods := w.Snapshot()
	return solve.Problem{View: view, Pods: pods, Policy: w.Policy()}
}

func stopIf(stop bool) func() bool { return func() bool { return stop } }

// codes returns the reason codes of the first unschedulable pod.
func codes(p solve.Plan) []reason.Code {
	var list []reason.Code
	if len(p.Unplaced) > 0 {
		for i := range p.Unplaced[0].Why {
			list = append(list, p.Unplaced[0].Why[i].Code)
		}
	}
	return list
}

// crowd is 200 pools that miss in several ways, 100 nodes, and 1,000 pods of one class.
func crowd() string {
	var b strings.Builder
	b.WriteString("type name=m cpu=4 price=1\ntype name=l cpu=8 price=2 arch=arm64\n")
	for i := range 200 {
		switch i % 8 {
		case 0, 1:
			fmt.Fprintf(&b, "pool name=p%d taints=team=t%d:NoSchedule\n", i, i)
		case 2:
			fmt.Fprintf(&b, "pool name=p%d limits=cpu:%d\n", i, i%4)
		case 3:
			fmt.Fprintf(&b, "pool name=p%d labels=rack:r%d\n", i, i)
		case 4:
			fmt.Fprintf(&b, "pool name=p%d requires=\"arch in arm64; zone in a\"\n", i)
		case 5:
			fmt.Fprintf(&b, "pool name=p%d closed\n", i)
		case 6:
			fmt.Fprintf(&b, "pool name=p%d requires=\"cpus > %d\"\n", i, 100+i)
		default:
			fmt.Fprintf(&b, "pool name=p%d nodes=0\n", i)
		}
	}
	for i := range 100 {
		fmt.Fprintf(&b, "node name=n%d cpu=%d", i, i%3+1)
		if i%2 == 0 {
			fmt.Fprintf(&b, " taints=team=t%d:NoSchedule", i)
		}
		b.WriteByte('\n')
	}
	b.WriteString("pod name=web count=1000 cpu=7 selector=arch:amd64\n")
	return b.String()
}

// However many pools, nodes and pods there are, a pod gets a handful of reasons, and equal pods share them.
func TestReasonsAreBounded(t *testing.T) {
	t.Parallel()
	plan := solve.Solve(problem(t, crowd()), stopIf(false))
	if len(plan.Unplaced) != 1000 {
		t.Fatalf("%d pods without a place, want 1000", len(plan.Unplaced))
	}
	first := plan.Unplaced[0].Why
	bounded(t, first)
	for _, u := range plan.Unplaced {
		if &u.Why[0] != &first[0] {
			t.Fatalf("pod %s has reasons of its own", u.Pod)
		}
	}
	pools := 0
	for _, r := range first {
		if strings.HasPrefix(r.Subject, "nodepool/") {
			pools++
			if !strings.HasSuffix(r.Subject, " more") {
				t.Errorf("%s is not folded: %s", r.Subject, r.Text())
			}
		}
	}
	if pools != 3 || first[3].Code != reason.MorePools || !strings.HasPrefix(first[4].Subject, "node/") {
		t.Errorf("want three lines about pools, one that counts the others, and one about nodes, got %s", reason.Join(first, 0))
	}
	if len(reason.Join(first, 0)) > 2000 {
		t.Errorf("%d characters are too long to read", len(reason.Join(first, 0)))
	}
}

func bounded(t *testing.T, why []reason.Reason) {
	t.Helper()
	if len(why) == 0 || len(why) > 5 {
		t.Errorf("%d reasons, want 1 to 5", len(why))
	}
	for _, r := range why {
		if _, known := reason.Lookup(r.Code); !known {
			t.Errorf("code %s is not documented", r.Code)
		}
		if len(r.Because) > 3 {
			t.Errorf("%s has %d causes, want at most 3", r.Code, len(r.Because))
		}
	}
}

// In every script each unschedulable pod has reasons. They are bounded, the same each time, and none of them is that
// time was up.
func TestEveryUnschedulablePodHasReasons(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		t.Helper()
		world := script.New()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			t.Helper()
			if _, err := world.Run(text(d)); err != nil {
				t.Fatal(err)
			}
			view, pods := world.Snapshot()
			p := solve.Problem{View: view, Pods: pods, Policy: world.Policy()}
			plan := solve.Solve(p, stopIf(false))
			for _, u := range plan.Unplaced {
				bounded(t, u.Why)
				if slices.ContainsFunc(u.Why, func(r reason.Reason) bool { return r.Code == reason.OutOfTime }) {
					t.Errorf("%s: %s has a place after all: %s", d.Pos, u.Pod, reason.Join(u.Why, 0))
				}
			}
			p.Pods = slices.Clone(p.Pods)
			slices.Reverse(p.Pods)
			if diff := cmp.Diff(plan.Unplaced, solve.Solve(p, stopIf(false)).Unplaced); diff != "" {
				t.Errorf("%s: the order of pods shows (-first +second):\n%s", d.Pos, diff)
			}
			return d.Expected
		})
	})
}

func TestStoppedPlansSayWhatIsCertain(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		script string
		want   []reason.Code
	}{
		"not examined": {
			script: "type name=m cpu=4 price=1\npool name=default\npod name=web cpu=1",
			want:   []reason.Code{reason.OutOfTime},
		},
		"too large, but that is not examined either": {
			script: "type name=m cpu=4 price=1\npool name=default\npod name=web cpu=9",
			want:   []reason.Code{reason.OutOfTime},
		},
		"no pool would ever take it": {
			script: "type name=m cpu=4 price=1\npool name=default taints=x:NoSchedule\npod name=web cpu=1",
			want:   []reason.Code{reason.TaintNotTolerated, reason.OutOfTime},
		},
		"no pool": {
			script: "pool name=default closed\npod name=web cpu=1",
			want:   []reason.Code{reason.NoPool, reason.OutOfTime},
		},
		"invalid whatever the time": {
			script: "type name=m cpu=4 price=1\npool name=default\npod name=web cpu=1 selector=hostname:n1",
			want:   []reason.Code{reason.LabelRestricted},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := problem(t, tc.script)
			p.Policy.Greedy = true // the fast way does not look up while it packs
			plan := solve.Solve(p, stopIf(true))
			if diff := cmp.Diff(tc.want, codes(plan)); diff != "" || !plan.Partial {
				t.Errorf("partial %t, codes (-want +got):\n%s", plan.Partial, diff)
			}
		})
	}
}

func TestAPodThatWasNotReadSaysSo(t *testing.T) {
	t.Parallel()
	key := cluster.PodKey{Namespace: "shop", Name: "web"}
	plan := solve.Solve(solve.Problem{Pods: []cluster.Pod{{Key: key}}}, stopIf(false))
	want := []solve.Unplaced{{Pod: key, Why: []reason.Reason{{Code: reason.PodUnreadable, Subject: "pod/shop/web"}}}}
	if diff := cmp.Diff(want, plan.Unplaced); diff != "" {
		t.Errorf("unplaced (-want +got):\n%s", diff)
	}
}

// Moved pods are not placed on settling or unready nodes; other pods are.
func TestMovedPodsAreKeptFromUnsettledNodes(t *testing.T) {
	t.Parallel()
	p := problem(t, `type name=m cpu=4 price=1
pool name=default nodes=0
node name=calm pool=default type=m settling
node name=new pool=default type=m uninitialized
node name=newer pool=default type=m uninitialized
pod name=web cpu=1`)
	p.Pods, p.Moved = nil, p.Pods
	plan := solve.Solve(p, stopIf(false))
	want := []reason.Reason{
		{Code: reason.NodeLimitReached, Subject: "nodepool/default", Have: "0"},
		{Code: reason.NodeUnready, Subject: "node/new and 1 more", Because: []reason.Reason{{Code: reason.NodeSettling, Subject: "node/calm"}}},
	}
	if len(plan.Unplaced) != 1 {
		t.Fatalf("%d pods without a place, want 1", len(plan.Unplaced))
	}
	if diff := cmp.Diff(want, plan.Unplaced[0].Why); diff != "" {
		t.Errorf("why (-want +got):\n%s", diff)
	}
}

// A long list of values is cut.
func TestLongRequirementsAreCut(t *testing.T) {
	t.Parallel()
	values := make([]string, 300)
	for i := range values {
		values[i] = fmt.Sprintf("v%03d", i)
	}
	p := problem(t, "type name=m cpu=4 price=1\npool name=default requires=\"rack in "+strings.Join(values, ",")+"\"\npod name=web cpu=1 selector=rack:none")
	why := solve.Solve(p, stopIf(false)).Unplaced[0].Why
	if got := why[0].Have; !strings.HasSuffix(got, " and 290 more]") || !strings.HasPrefix(got, "In [v000 v001 ") {
		t.Errorf("have = %q", got)
	}
}

func BenchmarkWhy(b *testing.B) {
	p := problem(b, crowd())
	b.ReportAllocs()
	for b.Loop() {
		if plan := solve.Solve(p, stopIf(false)); len(plan.Unplaced) != 1000 {
			b.Fatalf("%d pods without a place, want 1000", len(plan.Unplaced))
		}
	}
}
