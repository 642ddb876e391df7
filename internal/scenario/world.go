package scenario

import (
	"maps"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

const (
	namespace = "default"
	age       = time.Hour // of everything in a scenario
)

// World is a scenario as Kubernetes objects: what a controller has in its caches before it begins to
// plan, with the instance types that its cloud lists.
type World struct {
	Scenario *Scenario
	Now      time.Time
	Words    reqs.Vocabulary
	Types    []catalog.InstanceType // of every pool
	Lanes    resources.Table        // of the types' resources
	Pools    []*karpv1.NodePool
	Daemons  []*appsv1.DaemonSet
	Places   []cluster.NodeFacts
	Pending  []*corev1.Pod

	specs   map[string]*InstanceType
	created metav1.Time
}

// World expands the scenario. Copies of a template share what their specs point to.
func (s *Scenario) World(now time.Time) *World {
	w := &World{
		Scenario: s, Now: now, Words: s.vocabulary(), specs: make(map[string]*InstanceType, len(s.InstanceTypes)),
		created: metav1.NewTime(now.Add(-age).Truncate(time.Second)),
	}
	w.addTypes(s.InstanceTypes)
	for _, pool := range s.NodePools {
		w.Pools = append(w.Pools, ready(pool))
	}
	for i := range s.DaemonSets {
		set := &appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{Template: *s.DaemonSets[i].Template}}
		set.Name, set.Namespace, set.UID = s.DaemonSets[i].Name, namespace, types.UID(s.DaemonSets[i].Name)
		w.Daemons = append(w.Daemons, set)
	}
	w.Places = make([]cluster.NodeFacts, 0, len(s.Nodes))
	for i := range s.Nodes {
		n := &s.Nodes[i]
		place := w.place(n)
		for j := range n.Pods {
			prefix := n.Name + "-" + strconv.Itoa(j) + "-"
			place.Pods = w.appendCopies(place.Pods, &n.Pods[j], prefix, func(p *corev1.Pod) { run(p, n.Name) })
		}
		w.Places = append(w.Places, place)
	}
	w.Pending = make([]*corev1.Pod, 0, s.Waiting())
	for i := range s.Pods {
		w.Pending = w.appendCopies(w.Pending, &s.Pods[i], pendingName(i), wait)
	}
	return w
}

// ready returns the pool with the condition that the controller sets on one it can use.
func ready(pool *karpv1.NodePool) *karpv1.NodePool {
	pool = pool.DeepCopy()
	pool.Status.Conditions = []metav1.Condition{{Type: karpv1.ConditionReady, Status: metav1.ConditionTrue}}
	return pool
}

// appendCopies adds the pods of a group, named by prefix and number.
func (w *World) appendCopies(pods []*corev1.Pod, g *PodGroup, prefix string, finish func(*corev1.Pod)) []*corev1.Pod {
	owner := []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "rs", UID: "rs", Controller: new(true)}}
	copies := make([]corev1.Pod, g.copies())
	for k := range copies {
		p := &copies[k]
		p.ObjectMeta, p.Spec = g.Template.ObjectMeta, g.Template.Spec
		p.Name, p.Namespace, p.CreationTimestamp, p.OwnerReferences = prefix+strconv.Itoa(k), namespace, w.created, owner
		p.UID = types.UID(p.Name)
		finish(p)
		pods = append(pods, p)
	}
	return pods
}

func wait(p *corev1.Pod) {
	p.Status.Phase = corev1.PodPending
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
}

func run(p *corev1.Pod, node string) {
	p.Spec.NodeName = node
	p.Status.Phase = corev1.PodRunning
	p.Status.StartTime = &p.CreationTimestamp
	p.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: corev1.ConditionTrue},
	}
}

// addTypes describes each type the way a cloud does: a label that any type has is known, and a type
// without it says so.
func (w *World) addTypes(types []InstanceType) {
	known := map[string]bool{}
	var names []corev1.ResourceName
	for i := range types {
		for label := range types[i].Labels {
			known[label] = true
		}
		names = append(names, resources.Names(types[i].Capacity, types[i].Overhead)...)
	}
	w.Lanes = resources.NewTable(names...)
	w.Types = make([]catalog.InstanceType, 0, len(types))
	for i := range types {
		t := &types[i]
		w.specs[t.Name] = t
		labels := make(reqs.Set, len(known)+3)
		for label := range known {
			if value, has := t.Labels[label]; has {
				labels[label] = reqs.Req{Values: []string{value}}
			} else {
				labels[label] = reqs.Req{} // DoesNotExist
			}
		}
		labels[corev1.LabelInstanceTypeStable] = reqs.Req{Values: []string{t.Name}}
		labels[corev1.LabelArchStable] = reqs.Req{Values: []string{t.Arch}}
		labels[corev1.LabelOSStable] = reqs.Req{Values: slices.Sorted(slices.Values(t.OS))}
		offerings := make([]catalog.Offering, 0, len(t.Offerings))
		for _, o := range t.Offerings {
			offerings = append(offerings, catalog.Offering{Zone: o.Zone, CapacityType: o.CapacityType, Price: o.Price, Available: o.Available})
		}
		w.Types = append(w.Types, catalog.InstanceType{
			Name: t.Name, Labels: labels, Offerings: offerings,
			Capacity: w.Lanes.Capacity(t.Capacity), Overhead: w.Lanes.Requests(t.Overhead),
		})
	}
}

// place makes the objects of a node, its labels and sizes filled in from its type and its pool.
func (w *World) place(n *Node) cluster.NodeFacts {
	labels := map[string]string{corev1.LabelHostname: n.Name, corev1.LabelOSStable: "linux"}
	capacity, allocatable, price := n.Capacity, n.Allocatable, 0.0
	if t := w.specs[n.InstanceType]; t != nil {
		maps.Copy(labels, t.Labels)
		labels[corev1.LabelInstanceTypeStable], labels[corev1.LabelArchStable], labels[corev1.LabelOSStable] = t.Name, t.Arch, t.OS[0]
		if capacity == nil {
			capacity = t.Capacity
		}
		if allocatable == nil {
			allocatable = less(t.Capacity, t.Overhead)
		}
		price = t.price(n.Zone, n.CapacityType)
	}
	if capacity == nil {
		capacity = allocatable
	}
	if n.Zone != "" {
		labels[corev1.LabelTopologyZone] = n.Zone
	}
	if n.CapacityType != "" {
		labels[karpv1.LabelCapacityType] = n.CapacityType
	}
	annotations := map[string]string{}
	if pool := w.pool(n.NodePool); pool != nil {
		maps.Copy(annotations, pool.Spec.Template.ObjectMeta.Annotations)
		maps.Copy(labels, pool.Spec.Template.ObjectMeta.Labels)
		labels[karpv1.LabelNodePool], labels[karpv1.LabelRegistered], labels[karpv1.LabelInitialized] = pool.Name, "true", "true"
	}
	maps.Copy(labels, n.Labels)
	maps.Copy(annotations, n.Annotations)
	facts := cluster.NodeFacts{Price: price, Node: &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: types.UID(n.Name), Labels: labels, Annotations: annotations, CreationTimestamp: w.created},
		Spec:       corev1.NodeSpec{ProviderID: "scenario:///" + n.Name, Taints: n.Taints},
		Status: corev1.NodeStatus{
			Capacity: capacity, Allocatable: allocatable,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}}
	if n.NodePool != "" {
		facts.Claim = w.claim(facts.Node)
	}
	return facts
}

// claim is the NodeClaim of a node that has long been up.
func (w *World) claim(node *corev1.Node) *karpv1.NodeClaim {
	c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: node.Name, UID: node.UID, Labels: node.Labels, CreationTimestamp: w.created}}
	c.Status.NodeName, c.Status.ProviderID = node.Name, node.Spec.ProviderID
	c.Status.Capacity, c.Status.Allocatable = node.Status.Capacity, node.Status.Allocatable
	for _, done := range []string{karpv1.ConditionLaunched, karpv1.ConditionRegistered, karpv1.ConditionInitialized, karpv1.ConditionConsolidatable} {
		c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{Type: done, Status: metav1.ConditionTrue})
	}
	return c
}

func (w *World) pool(name string) *karpv1.NodePool {
	if i := slices.IndexFunc(w.Pools, func(p *karpv1.NodePool) bool { return p.Name == name }); i >= 0 {
		return w.Pools[i]
	}
	return nil
}

// price of an offering, available or not: a node that is there is paid for.
func (t *InstanceType) price(zone, capacityType string) float64 {
	for i := range t.Offerings {
		if o := &t.Offerings[i]; o.Zone == zone && o.CapacityType == capacityType {
			return o.Price
		}
	}
	return 0
}

// less is what remains of a capacity.
func less(capacity, overhead corev1.ResourceList) corev1.ResourceList {
	left := make(corev1.ResourceList, len(capacity))
	// any order: each is independent of the others
	for name, have := range capacity {
		q := have.DeepCopy()
		if taken, found := overhead[name]; found {
			q.Sub(taken)
		}
		if q.Sign() < 0 {
			q.Set(0)
		}
		left[name] = q
	}
	return left
}
