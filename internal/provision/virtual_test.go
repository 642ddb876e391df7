package provision_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/check"
	"github.com/dovetail-sh/dovetail/internal/check/random"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/provision"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/script"
	_ "github.com/dovetail-sh/dovetail/internal/seed"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// play makes the plans of a round.
func play(t interface{ Errorf(string, ...any) }, s *provision.State, r provision.Request) (real, virtual solve.Plan, planned bool) {
	round := s.Begin(r)
	for {
		problem := round.Problem()
		plan := solve.Solve(problem, nil)
		if found := check.Plan(problem, plan); len(found) > 0 {
			t.Errorf("the plan breaks rules: %v", found)
		}
		real, done := round.Take(check.Verified{Plan: plan, Sound: true}, time.Time{})
		if done {
			virtual, planned = round.Virtual()
			return real, virtual, planned
		}
	}
}

// CB-12: no plan launches nodes for both kinds of pods, and virtual pods that waited are planned soon.
func TestCB_12_OneKindLaunches(t *testing.T) {
	t.Parallel()
	const world = "type name=m cpu=4 price=1\npool name=p\n"
	for name, tc := range map[string]struct {
		pods       string
		forVirtual bool
		create     int
		replan     bool // once a claim was created
	}{
		"both: real pods first": {pods: "pod name=z cpu=3\npod name=a cpu=3 virtual", create: 1, replan: true},
		"real pods alone":       {pods: "pod name=z cpu=3", create: 1},
		"virtual pods alone":    {pods: "pod name=a cpu=3 virtual", forVirtual: true, create: 1},
		"none":                  {forVirtual: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := script.New()
			if _, err := w.Run(world + tc.pods); err != nil {
				t.Fatal(err)
			}
			view, pods := w.Snapshot()
			real, virtual := split(pods)
			round := (&provision.State{}).Begin(provision.Request{View: view, Pods: real, Virtual: virtual})
			plan, done := solve.Plan{}, false
			for !done {
				plan, done = round.Take(check.Verified{Plan: solve.Solve(round.Problem(), nil), Sound: true}, time.Time{})
			}
			if plan, forVirtual := round.Launches(plan); forVirtual != tc.forVirtual || len(plan.Create) != tc.create {
				t.Errorf("launches %d nodes, for virtual pods %v; want %+v", len(plan.Create), forVirtual, tc)
			}
			if round.ReplansAfter([]provision.OrderResult{{Outcome: provision.Denied}}) || round.ReplansAfter([]provision.OrderResult{{Outcome: provision.Denied}, {Outcome: provision.Created}}) != tc.replan {
				t.Errorf("planned again soon for the wrong orders, want %v", tc.replan)
			}
		})
	}
}

func split(pods []cluster.Pod) (real, virtual []cluster.Pod) {
	for _, p := range pods {
		if p.Virtual {
			virtual = append(virtual, p)
		} else {
			real = append(real, p)
		}
	}
	return real, virtual
}

// CB-12, FM M06: virtual pods take what real ones leave, and nothing else.
func TestCB_12_RealPodsFirst(t *testing.T) {
	t.Parallel()
	const types = "type name=m cpu=4 price=1\n"
	for name, tc := range map[string]struct {
		script        string
		bound, bought int // virtual pods
		nodes         int // that are launched; 0: as many as pods
		waits         bool
	}{
		"room on a node":          {script: "pool name=p\nnode name=n1 pool=p type=m\npod name=a cpu=2\npod name=v cpu=1 virtual", bound: 1},
		"a real pod takes it":     {script: "pool name=p\nnode name=n1 pool=p type=m\npod name=z cpu=3\npod name=a cpu=3 virtual", bought: 1},
		"nodes for real pods":     {script: "pool name=p\npod name=z cpu=3\npod name=a cpu=3 virtual", waits: true},
		"only virtual ones":       {script: "pool name=p\npod name=a cpu=3 virtual\npod name=b cpu=3 virtual", bought: 2},
		"alike ones share a node": {script: "pool name=p\npod name=a count=2 cpu=1 virtual", bought: 2, nodes: 1},
		"anti-affinity spreads":   {script: "pool name=p\npod name=a count=2 cpu=1 labels=app:web anti=hostname/app=web virtual", bought: 2, nodes: 2},
		"the limit is for others": {script: "pool name=p limits=cpu:4\nnode name=n1 pool=p type=m\npod name=z cpu=3\npod name=a cpu=3 virtual"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := script.New()
			if _, err := w.Run(types + tc.script); err != nil {
				t.Fatal(err)
			}
			view, pods := w.Snapshot()
			real, virtual := split(pods)
			plan, of, planned := play(t, &provision.State{}, provision.Request{View: view, Pods: real, Virtual: virtual})
			if len(plan.Unplaced) > 0 {
				t.Errorf("real pods have no place: %v", plan.Unplaced)
			}
			bought := 0
			for i := range of.Create {
				bought += len(of.Create[i].Pods)
			}
			if want := cmp.Or(tc.nodes, tc.bought); len(of.Create) != want {
				t.Errorf("%d nodes, want %d", len(of.Create), want)
			}
			if planned == tc.waits || len(of.Bind) != tc.bound || bought != tc.bought {
				t.Errorf("planned %v, %d on nodes, %d on new ones; want %+v", planned, len(of.Bind), bought, tc)
			}
			if !tc.waits && tc.bound+tc.bought == 0 && (len(of.Unplaced) == 0 || len(of.Unplaced[0].Why) == 0) {
				t.Errorf("nothing says why: %+v", of)
			}
		})
	}
}

// CB-12: whatever the cluster and the pods are, the plan for real pods is the one without buffers, and both obey every
// rule.
func TestCB_12_PlanOfRealPodsIsTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := random.Problem(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 7)), random.Options{})
		every := rapid.IntRange(1, 4).Draw(t, "one of so many is virtual")
		var real, virtual []cluster.Pod
		for i := range p.Pods {
			if pod := p.Pods[i]; i%every == 0 {
				pod.Virtual = true
				virtual = append(virtual, pod)
			} else {
				real = append(real, pod)
			}
		}
		isVirtual := func(key cluster.PodKey) bool {
			return slices.ContainsFunc(virtual, func(v cluster.Pod) bool { return v.Key == key })
		}
		view := *p.View
		view.Pending = slices.DeleteFunc(slices.Clone(view.Pending), func(pod cluster.Pod) bool { return isVirtual(pod.Key) })
		request := provision.Request{View: &view, Pods: real, Policy: p.Policy}
		without, _, _ := play(t, &provision.State{}, request)
		request.Virtual = virtual
		with, of, planned := play(t, &provision.State{}, request)
		if diff := gocmp.Diff(without, with); diff != "" {
			t.Errorf("the plan for real pods changes:\n%s", diff)
		}
		for _, b := range of.Bind {
			if !isVirtual(b.Pod) {
				t.Errorf("real pod %s is in the plan for virtual ones", b.Pod)
			}
		}
		if planned && len(with.Create) > 0 && len(real) > 0 {
			t.Errorf("virtual pods are planned for in a round that launches nodes for real ones")
		}
	})
}

// CB-13: a virtual pod whose room is taken again and again gets it again at once; one whose nodes are too small does not
// have them launched without end.
func TestCB_13_RefillsAreNoBackOff(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		node string
		want int // nodes within ten plans
	}{
		"real pods take it":  {node: "type name=m cpu=4 price=1\npool name=p\nnode name=n1 pool=p type=m\nbound name=x cpu=4 node=n1\npod name=v cpu=3 virtual", want: 10},
		"it came up smaller": {node: "type name=m cpu=4 price=1\npool name=p\nnode name=n1 pool=p type=m cpu=1\npod name=v cpu=3 virtual", want: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := script.New()
			if _, err := w.Run(tc.node); err != nil {
				t.Fatal(err)
			}
			view, pods := w.Snapshot()
			view.Pending = nil
			for i := range pods {
				pods[i].UID = "uid"
			}
			var s provision.State
			launched := 0
			for range 10 {
				round := s.Begin(provision.Request{View: view, Virtual: pods})
				for {
					verified := check.Verified{Plan: solve.Plan{}, Sound: true}
					for _, p := range round.Problem().Pods {
						verified.Plan.Create = append(verified.Plan.Create, solve.NewNode{Pool: "p", Pods: []cluster.PodKey{p.Key}})
					}
					if _, done := round.Take(verified, time.Time{}); done {
						break
					}
				}
				plan, _ := round.Virtual()
				if len(plan.Create) == 0 {
					if len(plan.Unplaced) != 1 || plan.Unplaced[0].Why[0].Code != reason.NodeCameUpSmall {
						t.Fatalf("%+v", plan)
					}
					continue
				}
				launched++
				s.RecordOrders([]provision.OrderResult{{Node: plan.Create[0], Claim: view.Nodes[0].Claim}}, view, time.Time{})
			}
			if launched != tc.want {
				t.Errorf("%d nodes, want %d", launched, tc.want)
			}
		})
	}
}

// CB-12, FM M06: virtual pods are planned for again until nodes that are up have room for all of them.
func TestCB_12_WhichBuffersAreShort(t *testing.T) {
	t.Parallel()
	real, virtual := cluster.Pod{Key: cluster.PodKey{Name: "z"}, Shape: &cluster.Shape{}}, cluster.Pod{Key: cluster.PodKey{Name: "v"}, Shape: &cluster.Shape{}, Virtual: true}
	view := &cluster.Snapshot{Nodes: []cluster.Node{{Name: "coming"}, {Name: "up", Initialized: true}}}
	bind := func(node string) solve.Plan { return solve.Plan{Bind: []solve.Bind{{Pod: virtual.Key, Node: node}}} }
	launch := func(p cluster.Pod) solve.Plan {
		return solve.Plan{Create: []solve.NewNode{{Pods: []cluster.PodKey{p.Key}}}}
	}
	for name, tc := range map[string]struct {
		real, virtual []cluster.Pod
		plans         []solve.Plan // for real pods, then for virtual ones
		before, want  bool
	}{
		"room on a node that is up":               {virtual: []cluster.Pod{virtual}, plans: []solve.Plan{bind("up")}, before: true},
		"room on a node that is on its way":       {virtual: []cluster.Pod{virtual}, plans: []solve.Plan{bind("coming")}, want: true},
		"a node is launched":                      {virtual: []cluster.Pod{virtual}, plans: []solve.Plan{launch(virtual)}, want: true},
		"no pool may launch one":                  {virtual: []cluster.Pod{virtual}, plans: []solve.Plan{{Unplaced: []solve.Unplaced{{Pod: virtual.Key}}}}, want: true},
		"they wait for real pods, were short":     {real: []cluster.Pod{real}, virtual: []cluster.Pod{virtual}, plans: []solve.Plan{launch(real)}, before: true, want: true},
		"they wait for real pods, had their room": {real: []cluster.Pod{real}, virtual: []cluster.Pod{virtual}, plans: []solve.Plan{launch(real)}},
		"there are none any more":                 {real: []cluster.Pod{real}, plans: []solve.Plan{launch(real)}, before: true},
		"there are no pods at all":                {before: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s provision.State
			take := func(real, virtual []cluster.Pod, plans ...solve.Plan) {
				round := s.Begin(provision.Request{View: view, Pods: real, Virtual: virtual})
				for i, plan := range plans {
					if _, done := round.Take(check.Verified{Plan: plan, Sound: true}, time.Time{}); done != (i == len(plans)-1) {
						t.Fatalf("done after %d of %d plans: %v", i+1, len(plans), done)
					}
				}
			}
			if tc.before {
				take(nil, []cluster.Pod{virtual}, launch(virtual))
			}
			if len(tc.plans) == 0 {
				s.RecordNoPods()
			} else {
				take(tc.real, tc.virtual, tc.plans...)
			}
			if got := s.BuffersShort(); got != tc.want || provision.ReplanDue(0, got) != tc.want || !provision.ReplanDue(1, got) {
				t.Errorf("short: %v, want %v", got, tc.want)
			}
		})
	}
}
