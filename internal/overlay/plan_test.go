package overlay_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/api/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/overlay"
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
	var objects []v1alpha1.NodeOverlay
	list := view.Pools[0].Types
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
