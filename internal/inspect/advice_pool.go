package inspect

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// maxValues is how many values of a label are tried by themselves: those with the cheapest CPU.
const maxValues = 4

// requirements finds the requirements of a pool that cost money.
func (a *adviser) requirements(f *fresh) {
	at := slices.IndexFunc(a.view.Pools, func(p cluster.Pool) bool { return p.Name == f.pool })
	pool := &a.view.Pools[at]
	for _, key := range pool.Requirements.Keys() {
		if key == karpv1.LabelNodePool || key == corev1.LabelOSStable || key == corev1.LabelHostname {
			continue
		}
		values := excludedValues(pool, key)
		if len(values) == 0 {
			continue
		}
		open, made := a.solve(withPool(f.view, f.pool, func(p *cluster.Pool) {
			p.Requirements = maps.Clone(p.Requirements)
			delete(p.Requirements, key)
		}), f.pods)
		all := f.saving(&open)
		if !made || all == 0 {
			continue
		}
		if !a.tryValues(f, pool, key, values, all) {
			a.out.Advised = append(a.out.Advised, Advised{
				Code: RequirementCosts, Object: "nodepool/" + f.pool, Saves: all, Bound: max(0, f.plan.Bound-open.Bound), Pods: len(f.pods),
				Text: fmt.Sprintf("requirement %s %s costs %s an hour: the pods of the NodePool need nodes for %s with it, and would need nodes for %s without it",
					key, pool.Requirements[key], money(all), money(f.cost()), money(open.Cost)),
				Change: "drop requirement " + key + ", or allow more values",
			})
		}
	}
}

// tryValues finds the one value that saves most, and reports whether one saves enough.
func (a *adviser) tryValues(f *fresh, pool *cluster.Pool, key string, values []string, all float64) bool {
	best := Advised{}
	for _, value := range values[:min(maxValues, len(values))] {
		wider, can := widened(pool.Requirements[key], value)
		if !can {
			continue
		}
		plan, made := a.solve(withPool(f.view, f.pool, func(p *cluster.Pool) {
			p.Requirements = maps.Clone(p.Requirements)
			p.Requirements[key] = wider
		}), f.pods)
		saves := f.saving(&plan)
		if !made || saves <= best.Saves {
			continue
		}
		best = Advised{
			Code: RequirementCosts, Object: "nodepool/" + f.pool, Saves: saves, Bound: max(0, f.plan.Bound-plan.Bound), Pods: len(f.pods),
			Text:   fmt.Sprintf("with %s %s as well, the pods of the NodePool would need nodes for %s an hour instead of %s", key, value, money(plan.Cost), money(f.cost())),
			Change: "add " + value + " to requirement " + key + caveatOf(key, value),
		}
		if more := all - saves; more >= max(leastShown, leastShare*f.cost()) {
			best.Text += fmt.Sprintf("; without the requirement, for %s less", money(all))
		}
	}
	if best.Saves > 0 {
		a.out.Advised = append(a.out.Advised, best)
	}
	return best.Saves > 0
}

// caveatOf is what has to hold for a value to be added.
func caveatOf(key, value string) string {
	switch {
	case key == corev1.LabelArchStable:
		return ", if all images of its pods run on " + value
	case key == karpv1.LabelCapacityType && value == karpv1.CapacityTypeSpot:
		return ", if its pods can be interrupted"
	case key == corev1.LabelTopologyZone:
		return ", if its node class has a subnet there"
	}
	return ""
}

// excludedValues are the values of a label that the pool could have nodes with if the requirement for it were another,
// those with the cheapest CPU first.
func excludedValues(pool *cluster.Pool, key string) []string {
	rest := maps.Clone(pool.Requirements)
	delete(rest, key)
	least := map[string]float64{} // price of a core
	for i := range pool.Types {
		t := &pool.Types[i]
		if _, conflict := t.Labels.Conflict(rest); conflict || t.Unsuited != "" {
			continue
		}
		for j := range t.Offerings {
			o := &t.Offerings[j]
			if !o.Launchable() || !(o.Price > 0) || !allowsOffering(rest, o) {
				continue
			}
			for _, value := range labelValues(t, o, key) {
				each := o.Price / max(1, float64(t.Capacity.At(resources.CPU)))
				if was, known := least[value]; !pool.Requirements[key].Has(value) && (!known || each < was) {
					least[value] = each
				}
			}
		}
	}
	return slices.SortedFunc(maps.Keys(least), func(x, y string) int { return cmp.Or(cmp.Compare(least[x], least[y]), cmp.Compare(x, y)) })
}

// allowsOffering reports whether requirements allow an offering.
func allowsOffering(set reqs.Set, o *catalog.Offering) bool {
	for key, value := range o.Labels {
		if !set.Allows(key, value) {
			return false
		}
	}
	return set.Allows(corev1.LabelTopologyZone, o.Zone) && set.Allows(karpv1.LabelCapacityType, o.CapacityType)
}

// labelValues are the values of a label that a node of an offering can have.
func labelValues(t *catalog.InstanceType, o *catalog.Offering, key string) []string {
	switch key {
	case corev1.LabelTopologyZone:
		return []string{o.Zone}
	case karpv1.LabelCapacityType:
		return []string{o.CapacityType}
	}
	if value, has := o.Labels[key]; has {
		return []string{value}
	}
	if r := t.Labels[key]; !r.Not {
		return r.Values
	}
	return nil
}

// widened is a requirement that also allows a value. It is false if none can say so.
func widened(r reqs.Req, value string) (reqs.Req, bool) {
	values := slices.Clone(r.Values)
	at, listed := slices.BinarySearch(values, value)
	switch {
	case !r.Not && !listed:
		r.Values = slices.Insert(values, at, value)
	case r.Not && listed:
		r.Values = slices.Delete(values, at, at+1)
	}
	return r, r.Has(value)
}

const (
	maxTrimmed   = 3    // kinds of pods of a pool whose requests are looked at
	mostTrimmed  = 0.15 // share by which a request is made smaller at most
	cpuStep      = 10   // thousandths of a core
	memoryStep   = 16 << 20
	leastPerKind = 3 // pods; requests of fewer are not worth a change
)

// requests finds requests that are a little too large for the nodes of a pool.
func (a *adviser) requests(f *fresh) {
	byShape := map[*cluster.Shape][]int{}
	var shapes []*cluster.Shape
	for i := range f.pods {
		shape := f.pods[i].Shape
		if byShape[shape] == nil {
			shapes = append(shapes, shape)
		}
		byShape[shape] = append(byShape[shape], i)
	}
	weight := func(s *cluster.Shape) float64 {
		return float64(len(byShape[s])) * (float64(s.Requests.At(resources.CPU)) + float64(s.Requests.At(resources.Memory))/(4<<30)*1000)
	}
	slices.SortStableFunc(shapes, func(x, y *cluster.Shape) int {
		return cmp.Or(cmp.Compare(weight(y), weight(x)), cmp.Compare(x.Key, y.Key))
	})
	for _, shape := range shapes[:min(maxTrimmed, len(shapes))] {
		if len(byShape[shape]) < leastPerKind {
			continue
		}
		node := f.usualNode(byShape[shape])
		if node == nil {
			continue
		}
		for _, lane := range []int{resources.CPU, resources.Memory} {
			a.trim(f, shape, byShape[shape], node, lane)
		}
	}
}

// usualNode is the planned node that most of some pods are on.
func (f *fresh) usualNode(pods []int) *solve.NewNode {
	is := make(map[cluster.PodKey]bool, len(pods))
	for _, i := range pods {
		is[f.pods[i].Key] = true
	}
	var best *solve.NewNode
	most := 0
	for i := range f.plan.Create {
		n := 0
		for _, key := range f.plan.Create[i].Pods {
			if is[key] {
				n++
			}
		}
		if n > most {
			best, most = &f.plan.Create[i], n
		}
	}
	return best
}

// trim finds out what it saves if one more pod of a shape fits on a node.
func (a *adviser) trim(f *fresh, shape *cluster.Shape, pods []int, node *solve.NewNode, lane int) {
	request := shape.Requests.At(lane)
	if request <= 0 {
		return
	}
	byKey := make(map[cluster.PodKey]*cluster.Pod, len(f.pods))
	for i := range f.pods {
		byKey[f.pods[i].Key] = &f.pods[i]
	}
	machine, daemons := plannedNode(f.view, node, node.Offer.Type), daemonRequests(node, byKey)
	room := machine.Allocatable.At(lane) - daemons.At(lane)
	step := int64(cpuStep)
	if lane == resources.Memory {
		step = memoryStep
	}
	target := room / (room/request + 1) / step * step
	if room < request || target <= 0 || float64(target) < float64(request)*(1-mostTrimmed) {
		return
	}
	smaller := *shape
	smaller.Key += " trimmed"
	smaller.Requests = resources.With(shape.Requests, lane, target)
	changed := slices.Clone(f.pods)
	for _, i := range pods {
		changed[i].Shape = &smaller
	}
	plan, made := a.solve(f.view, changed)
	saves := f.saving(&plan)
	if !made || saves == 0 {
		return
	}
	name := string(a.view.Resources.Name(lane))
	a.out.Advised = append(a.out.Advised, Advised{
		Code: RequestStrands, Object: "pod/" + f.pods[pods[0]].Key.String(), Saves: saves, Bound: max(0, f.plan.Bound-plan.Bound), Pods: len(pods),
		Text: fmt.Sprintf("%s request %s %s each, of which %d fit in the %s that %s leaves them. With %s, %.0f %% less, one more fits, and the pods of NodePool %s would need nodes for %s an hour instead of %s",
			likePods(len(pods), f.pods[pods[0]].Key), Amount(name, request), resourceWord(name), room/request, Amount(name, room), node.Offer.Type,
			Amount(name, target), math.Max(1, math.Round(100*(1-float64(target)/float64(request)))), f.pool, money(plan.Cost), money(f.cost())),
		Change: fmt.Sprintf("request %s %s, if the pods get by with it", Amount(name, target), resourceWord(name)),
	})
}

// likePods names pods of one kind.
func likePods(n int, first cluster.PodKey) string {
	if n == 1 {
		return "pod " + first.String()
	}
	return fmt.Sprintf("%d pods like %s", n, first)
}
