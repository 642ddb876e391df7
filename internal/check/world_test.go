package check_test

import (
	"math"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

const (
	zone     = corev1.LabelTopologyZone
	host     = corev1.LabelHostname
	capacity = "karpenter.sh/capacity-type"
	size     = "example.com/size" // a label of types
	rack     = "example.com/rack" // a label of pools
)

// world is a problem and a plan for it, small enough to be read.
type world struct {
	solve.Problem
	plan solve.Plan
}

// newWorld has one pool of three types in three zones, and nothing in it.
func newWorld() *world {
	types := []catalog.InstanceType{machine("small", 2, 0.1), machine("medium", 4, 0.2), machine("large", 8, 0.4)}
	pool := cluster.Pool{Name: "default", Types: types, Requirements: reqs.Set{"karpenter.sh/nodepool": in("default")}}
	return &world{Problem: solve.Problem{View: &cluster.Snapshot{Version: 7, Words: reqs.CoreVocabulary(), Pools: []cluster.Pool{pool}}}, plan: solve.Plan{Version: 7}}
}

func machine(name string, cores int64, price float64) catalog.InstanceType {
	t := catalog.InstanceType{
		Name:     name,
		Labels:   reqs.Set{corev1.LabelInstanceTypeStable: in(name), size: in(name), corev1.LabelArchStable: in("amd64")},
		Capacity: vec(cores*1000, 20),
	}
	for _, z := range []string{"a", "b", "c"} {
		t.Offerings = append(t.Offerings,
			catalog.Offering{Zone: z, CapacityType: "on-demand", Price: price, Available: true},
			catalog.Offering{Zone: z, CapacityType: "spot", Price: price / 2, Available: true})
	}
	return t
}

func vec(milli, pods int64) resources.Vec {
	return resources.NewTable().Requests(corev1.ResourceList{
		corev1.ResourceCPU:  *resource.NewMilliQuantity(milli, resource.DecimalSI),
		corev1.ResourcePods: *resource.NewQuantity(pods, resource.DecimalSI),
	})
}

func in(values ...string) reqs.Req {
	return reqs.Req{Values: slices.Sorted(slices.Values(values))}
}

func app(name string) cluster.Selector {
	return cluster.Selector{Text: "app=" + name, Is: labels.SelectorFromSet(labels.Set{"app": name})}
}

func spreadOver(key, name string, skew int32) cluster.Spread {
	return cluster.Spread{Key: key, MaxSkew: skew, Selector: app(name)}
}

func term(key, name string) []cluster.PodTerm {
	return []cluster.PodTerm{{Key: key, Selector: app(name), Namespaces: []string{"default"}}}
}

// shape is a pod of one core; its labels say app.
func shape(name string, change func(*cluster.Shape)) *cluster.Shape {
	s := &cluster.Shape{Key: name, Namespace: "default", Labels: map[string]string{"app": name}, Requests: vec(1000, 1), Required: []reqs.Set{{}}}
	if change != nil {
		change(s)
	}
	return s
}

func pod(name string, s *cluster.Shape) cluster.Pod {
	return cluster.Pod{Key: cluster.PodKey{Namespace: "default", Name: name}, Shape: s}
}

func key(name string) cluster.PodKey { return cluster.PodKey{Namespace: "default", Name: name} }

// node adds a node of four cores that exists.
func (w *world) node(name, zoneName string, pods ...cluster.Pod) *cluster.Node {
	w.View.Nodes = append(w.View.Nodes, cluster.Node{
		Name: name, Pool: "default", Initialized: true, Price: 0.2, Capacity: vec(4000, 20), Allocatable: vec(4000, 20), Pods: pods,
		Labels: map[string]string{zone: zoneName, capacity: "on-demand", host: name, corev1.LabelArchStable: "amd64", corev1.LabelInstanceTypeStable: "medium", "karpenter.sh/nodepool": "default"},
	})
	return &w.View.Nodes[len(w.View.Nodes)-1]
}

// bind plans a pod onto a node.
func (w *world) bind(p cluster.Pod, node string) {
	w.Pods = append(w.Pods, p)
	w.plan.Bind = append(w.plan.Bind, solve.Bind{Pod: p.Key, Node: node})
}

// launch plans a node of the first pool for pods, as narrow as needs say.
func (w *world) buy(needs reqs.Set, pods ...cluster.Pod) *solve.NewNode {
	w.Pods = append(w.Pods, pods...)
	w.plan.Create = append(w.plan.Create, w.newNode(needs, pods...))
	n := &w.plan.Create[len(w.plan.Create)-1]
	w.plan.Cost += n.Offer.Price
	return n
}

// newNode lists the types that fit, cheapest first, as plainly as can be.
func (w *world) newNode(needs reqs.Set, pods ...cluster.Pod) solve.NewNode {
	pool := &w.View.Pools[0]
	n := solve.NewNode{Pool: pool.Name, Needs: pool.Requirements.Intersect(needs)}
	var sum resources.Vec
	for _, p := range pods {
		n.Pods = append(n.Pods, p.Key)
		sum = resources.Add(sum, p.Shape.Requests)
	}
	for i := range w.View.Daemons {
		sum = resources.Add(sum, w.View.Daemons[i].Shape.Requests)
	}
	n.Requests = sum
	best := map[string]solve.Offer{}
	for i := range pool.Types {
		t := &pool.Types[i]
		have := t.Allocatable()
		if _, conflict := t.Labels.Conflict(n.Needs); conflict || !resources.Fits(&sum, &have) {
			continue
		}
		cheapest := solve.Offer{Price: math.Inf(1)}
		for _, o := range t.Offerings {
			if n.Needs.Allows(zone, o.Zone) && n.Needs.Allows(capacity, o.CapacityType) && o.Launchable() && o.Price < cheapest.Price {
				cheapest = solve.Offer{Type: t.Name, Zone: o.Zone, CapacityType: o.CapacityType, Reservation: o.Reservation, Price: o.Price}
			}
		}
		if cheapest.Type != "" {
			best[t.Name] = cheapest
			n.Types = append(n.Types, t.Name)
			n.Overlaid = n.Overlaid || t.Overlaid
			n.CapacityOverlaid = n.CapacityOverlaid || t.CapacityOverlaid
		}
	}
	slices.SortStableFunc(n.Types, func(a, b string) int { return int(1000 * (best[a].Price - best[b].Price)) })
	if len(n.Types) > 0 {
		n.Offer = best[n.Types[0]]
	}
	return n
}

// skip leaves a pod unplaced.
func (w *world) skip(p cluster.Pod) {
	w.Pods = append(w.Pods, p)
	w.plan.Unplaced = append(w.plan.Unplaced, solve.Unplaced{Pod: p.Key, Why: []reason.Reason{{Code: "Skipped"}}})
}

func (w *world) pool() *cluster.Pool { return &w.View.Pools[0] }

// changeTypes gives the pool types of its own before they are changed.
func (w *world) changeTypes(change func(t *catalog.InstanceType)) {
	for i := range w.pool().Types {
		change(&w.pool().Types[i])
	}
}

// several are pods of one shape with numbered names.
func several(n int, name string, s *cluster.Shape) []cluster.Pod {
	pods := make([]cluster.Pod, n)
	for i := range pods {
		pods[i] = pod(name+"-"+strconv.Itoa(i), s)
	}
	return pods
}
