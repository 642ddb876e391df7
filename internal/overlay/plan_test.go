package overlay_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	"github.com/dovetail-sh/dovetail/api/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/buffer"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/check"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/overlay"
	"github.com/dovetail-sh/dovetail/internal/provision"
	"github.com/dovetail-sh/dovetail/internal/scenario/families"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// BenchmarkPlan is a plan of s2-5000 without overlays and with a thousand of them: what they change of the work of the
// solver, and the evaluation beside it, which happens once for each change.
func BenchmarkPlan(b *testing.B) {
	s, err := families.Make("s2-5000", 1)
	if err != nil {
		b.Fatal(err)
	}
	view := s.World(time.Unix(0, 0)).Compile().View
	plan := func(b *testing.B) {
		b.Helper()
		b.ReportAllocs()
		for b.Loop() {
			solve.Solve(solve.Problem{View: view, Pods: view.Pending, Policy: solve.Policy{Workers: 1}}, func() bool { return false })
		}
	}
	b.Run("without", plan)
	objects := thousand(view.Pools[0].Types)
	var pools []overlay.Pool
	for i := range view.Pools {
		pools = append(pools, overlay.Pool{Name: view.Pools[i].Name, Types: view.Pools[i].Types})
	}
	view.Resources = view.Resources.Extend(overlay.ResourceNames(objects)...)
	set, _ := overlay.Evaluate(objects, pools, view.Resources, view.Words)
	for i := range view.Pools {
		view.Pools[i].Types = set.Apply(pools[i])
	}
	b.Run("with", plan)
	b.Run("evaluation", func(b *testing.B) {
		for b.Loop() {
			set, _ := overlay.Evaluate(objects, pools, view.Resources, view.Words)
			for i := range pools {
				set.Apply(pools[i])
			}
		}
	})
}

// thousand are overlays of all kinds, each about one instance type.
func thousand(list []catalog.InstanceType) []v1alpha1.NodeOverlay {
	var objects []v1alpha1.NodeOverlay
	for i := range 1000 {
		name := list[i%len(list)].Name
		text := fmt.Sprintf("o%d weight=%d ", i, i+1)
		switch i % 4 {
		case 0:
			text += "price=0.07 | " + keyType + " In " + name
		case 1:
			text += fmt.Sprintf("adjust=-%d%% | %s In %s; karpenter.sh/capacity-type In on-demand", i%40, keyType, name)
		case 2:
			text += fmt.Sprintf("adjust=+0.0%d | %s NotIn %s", i%9+1, keyType, name)
		case 3:
			text += "cap=" + device + ":2 | " + keyType + " In " + name
		}
		objects = append(objects, object(text))
	}
	return objects
}

// evaluateAll returns the instance types of each pool as overlays make them.
func evaluateAll(objects []v1alpha1.NodeOverlay, view *cluster.Snapshot) (types [][]catalog.InstanceType) {
	pools := make([]overlay.Pool, 0, len(view.Pools))
	for i := range view.Pools {
		pools = append(pools, overlay.Pool{Name: view.Pools[i].Name, Types: view.Pools[i].Types})
	}
	set, _ := overlay.Evaluate(objects, pools, view.Resources, view.Words)
	for _, p := range pools {
		types = append(types, set.Apply(p))
	}
	return types
}

// BenchmarkBesidePlan is all that a plan for the pods of s2-5000 takes: the snapshot with the instance types of overlays, buffers
// resolved, the round of planning with the default settings, and the check of the plan. Plans with a thousand overlays and a
// hundred buffers take turns with plans without, so that both find the same machine; metric ratio is the time of the first
// divided by that of the second, in the median. The bar is 1.5. ms-buffers is the plan for the pods of the buffers alone, which
// comes in the next round; ratio-with-buffers has it added to the first.
func BenchmarkBesidePlan(b *testing.B) {
	s, err := families.Make("s2-5000", 1)
	if err != nil {
		b.Fatal(err)
	}
	world := s.World(time.Unix(0, 0))
	objects := thousand(world.Compile().View.Pools[0].Types)
	planned := func(view *cluster.Snapshot, pods, virtual []cluster.Pod) {
		round := new(provision.State).Begin(provision.Request{View: view, Pods: pods, Virtual: virtual, Policy: solve.Policy{NodeFee: 0.02, SpotShare: 0.25, SpotCost: 0.03, Workers: 1}})
		for done := false; !done; {
			problem := round.Problem()
			plan := solve.Solve(problem, func() bool { return false })
			if found := check.Plan(problem, plan); len(found) > 0 {
				b.Fatal(found[0])
			}
			_, done = round.Take(check.Verified{Plan: plan, Sound: true}, time.Unix(0, 0))
		}
	}
	alone := func() {
		view := world.Store().Compile().View
		planned(view, view.Pending, nil)
	}
	var evaluation time.Duration
	var evaluated [][]catalog.InstanceType // by pool; as the controller, once per change of overlays or instance types
	beside := func() (view *cluster.Snapshot, virtual []cluster.Pod) {
		view = world.Store().Compile().View
		view.Resources = view.Resources.Extend(overlay.ResourceNames(objects)...)
		if evaluated == nil {
			start := time.Now()
			evaluated = evaluateAll(objects, view)
			evaluation = time.Since(start)
		}
		for i := range view.Pools {
			view.Pools[i].Types = evaluated[i]
		}
		for n := range 100 { // each keeps room for two pods like some that wait
			like := world.Pending[n*len(world.Pending)/100]
			r := buffer.Resolve(&autoscalingv1beta1.CapacityBuffer{
				ObjectMeta: metav1.ObjectMeta{Namespace: like.Namespace, Name: fmt.Sprint("spare-", n)},
				Spec:       autoscalingv1beta1.CapacityBufferSpec{PodTemplateRef: &autoscalingv1beta1.LocalObjectRef{Name: "web"}, Replicas: new(int32(2))},
			}, &buffer.Target{Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: like.Labels}, Spec: like.Spec}}, nil, nil, buffer.MaxTotal)
			for _, p := range r.Pods {
				read := view.Pending[n*len(view.Pending)/100]
				read.Key, read.UID, read.Virtual = cluster.PodKey{Namespace: p.Namespace, Name: p.Name}, string(p.UID), true
				virtual = append(virtual, read)
			}
		}
		planned(view, view.Pending, virtual)
		return view, virtual
	}
	var without, with, buffers []time.Duration
	beside() // evaluates
	for b.Loop() {
		start := time.Now()
		alone()
		middle := time.Now()
		view, virtual := beside()
		last := time.Now()
		planned(view, nil, virtual)
		without, with, buffers = append(without, middle.Sub(start)), append(with, last.Sub(middle)), append(buffers, time.Since(last))
		if len(virtual) != 200 {
			b.Fatalf("%d pods of buffers, want 200", len(virtual))
		}
	}
	median := func(list []time.Duration) float64 {
		slices.Sort(list)
		return float64(list[len(list)/2].Microseconds()) / 1000
	}
	b.ReportMetric(median(with)/median(without), "ratio")
	b.ReportMetric((median(with)+median(buffers))/median(without), "ratio-with-buffers")
	b.ReportMetric(median(without), "ms-without")
	b.ReportMetric(median(with), "ms-with")
	b.ReportMetric(median(buffers), "ms-buffers")
	b.ReportMetric(float64(evaluation.Milliseconds()), "ms-evaluate")
}
