package script

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
)

// poolLine is a NodePool as written, and the instance types it may launch, all if none is named.
type poolLine struct {
	object karpv1.NodePool
	types  []string
}

// readPool performs `pool`.
func readPool(w *World, l *Line) string {
	p := poolLine{types: l.List("types")}
	o := &p.object
	o.Name = l.Name("name")
	o.Spec.Template.ObjectMeta.Labels = l.Pairs("labels")
	o.Spec.Template.Spec.Taints, o.Spec.Template.Spec.StartupTaints = l.taints("taints"), l.taints("startup")
	o.Spec.Limits = l.Resources("limits")
	if weight := int32(l.Int("weight", 0)); weight != 0 {
		o.Spec.Weight = &weight
	}
	if nodes := l.Int("nodes", -1); nodes >= 0 {
		o.Spec.Limits["nodes"] = *resourceOf(int64(nodes))
	}
	if !l.Flag("closed") {
		o.Status.Conditions = []metav1.Condition{{Type: karpv1.ConditionReady, Status: metav1.ConditionTrue}}
	}
	terms := l.terms(l.Text("requires"))
	if len(terms) > 1 {
		l.Failf(`a pool has no alternatives; join requirements with ";"`)
	}
	for _, term := range terms {
		o.Spec.Template.Spec.Requirements = requirements(term)
	}
	counts := l.counts("minvalues")
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		n := counts[key]
		o.Spec.Template.Spec.Requirements = append(o.Spec.Template.Spec.Requirements, karpv1.Requirement{Key: key, Operator: corev1.NodeSelectorOpExists, MinValues: &n})
	}
	w.pools = slices.DeleteFunc(w.pools, func(other poolLine) bool { return other.object.Name == o.Name })
	w.pools = append(w.pools, p)
	return ""
}

func requirements(term corev1.NodeSelectorTerm) []karpv1.Requirement {
	list := make([]karpv1.Requirement, 0, len(term.MatchExpressions))
	for _, e := range term.MatchExpressions {
		list = append(list, karpv1.Requirement{Key: e.Key, Operator: e.Operator, Values: e.Values})
	}
	return list
}

// readNode performs `node`.
func readNode(w *World, l *Line) string {
	o := &corev1.Node{}
	o.Name, o.Labels, o.Spec.Taints = l.Name("name"), map[string]string{}, l.taints("taints")
	f := cluster.NodeFacts{Node: o, Price: l.Price("price"), Free: l.Flag("free"), Settling: l.Flag("settling"), Deleting: l.Flag("deleting"), CSINode: l.csiNode()}
	amounts := l.Amounts()
	if pool := l.Text("pool"); pool != "" {
		w.managed(&f, l, pool, amounts)
	} else {
		if len(amounts) == 0 {
			l.Failf("an unmanaged node needs cpu=; or give it pool= and type=")
		}
		w.report(o, amounts, nil)
	}
	if zone := l.Text("zone"); zone != "" {
		o.Labels[corev1.LabelTopologyZone] = zone
	}
	maps.Copy(o.Labels, l.Pairs("labels"))
	if slices.ContainsFunc(w.nodes, func(n cluster.NodeFacts) bool { return nodeName(n) == o.Name }) {
		l.Failf("there is a node %s already; use another name", o.Name)
	}
	w.stage(&f, l)
	w.nodes = append(w.nodes, f)
	return ""
}

// report fills in what a node says of itself.
func (w *World) report(o *corev1.Node, capacity, overhead corev1.ResourceList) {
	o.Status.Capacity = maps.Clone(capacity)
	if _, given := capacity[corev1.ResourcePods]; !given {
		o.Status.Capacity[corev1.ResourcePods] = *resourceOf(110)
	}
	o.Status.Allocatable = maps.Clone(o.Status.Capacity)
	// any order: each is independent of the others
	for name, quantity := range overhead {
		rest := o.Status.Allocatable[name]
		rest.Sub(quantity)
		o.Status.Allocatable[name] = rest
	}
}

// managed fills in what a node has from its pool and its machine.
func (w *World) managed(f *cluster.NodeFacts, l *Line, pool string, amounts corev1.ResourceList) {
	machineName := l.Text("type")
	atPool := slices.IndexFunc(w.pools, func(p poolLine) bool { return p.object.Name == pool })
	atType := slices.IndexFunc(w.types, func(m machine) bool { return m.name == machineName })
	if atPool < 0 || atType < 0 {
		l.Failf("pool %q or type %q is not there; write pool and type lines above the node", pool, machineName)
		return
	}
	template, m, o := &w.pools[atPool].object.Spec.Template, &w.types[atType], f.Node
	captype, zone := orElse(l.Text("captype"), onDemand), orElse(l.Text("zone"), m.offerings[0].Zone)
	maps.Copy(o.Labels, m.labels)
	maps.Copy(o.Labels, template.ObjectMeta.Labels)
	o.Labels[karpv1.LabelNodePool], o.Labels[karpv1.LabelCapacityType], o.Labels[corev1.LabelTopologyZone] = pool, captype, zone
	if id := l.Text("reservation"); id != "" {
		o.Labels[labelReservation] = id
	}
	if o.Spec.Taints == nil {
		o.Spec.Taints = slices.Clone(template.Spec.Taints)
	}
	o.Spec.ProviderID = "script:///" + o.Name
	capacity := maps.Clone(m.capacity)
	maps.Copy(capacity, amounts)
	w.report(o, capacity, m.overhead)
	if f.Price == 0 && !f.Free {
		f.Price = m.price(zone, captype)
	}
	f.Claim = &karpv1.NodeClaim{}
	f.Claim.Name = o.Name
	f.Claim.Spec.Taints, f.Claim.Spec.StartupTaints = o.Spec.Taints, template.Spec.StartupTaints
}

// stage says how far a managed node has come: initialized unless uninitialized (registered, its startup
// taints still there), claimed (launched, no Node yet) or unlaunched (only planned) is written.
func (w *World) stage(f *cluster.NodeFacts, l *Line) {
	uninitialized, claimed, unlaunched := l.Flag("uninitialized"), l.Flag("claimed"), l.Flag("unlaunched")
	if f.Claim == nil {
		if uninitialized || claimed || unlaunched {
			l.Failf("only a node of a pool can be on its way; add pool= and type=")
		}
		return
	}
	o, claim := f.Node, f.Claim
	claim.Labels = maps.Clone(o.Labels)
	claim.Status.ProviderID, claim.Status.Capacity, claim.Status.Allocatable = o.Spec.ProviderID, o.Status.Capacity, o.Status.Allocatable
	switch {
	case unlaunched:
		f.Node = nil
		claim.Labels = map[string]string{karpv1.LabelNodePool: claim.Labels[karpv1.LabelNodePool]}
		claim.Spec.Resources.Requests = o.Status.Allocatable
		claim.Status = karpv1.NodeClaimStatus{}
		for _, term := range l.terms(l.Text("requires")) {
			claim.Spec.Requirements = requirements(term)
		}
	case claimed:
		f.Node = nil
	case uninitialized:
		o.Labels[karpv1.LabelRegistered] = "true"
		o.Spec.Taints = append(slices.Clone(o.Spec.Taints), claim.Spec.StartupTaints...)
	default:
		o.Labels[karpv1.LabelRegistered], o.Labels[karpv1.LabelInitialized] = "true", "true"
	}
}

// csiNode reads volumelimits=: what the drivers on the node have published.
func (l *Line) csiNode() *storagev1.CSINode {
	counts := l.counts("volumelimits")
	if counts == nil {
		return nil
	}
	published := &storagev1.CSINode{}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		driver := storagev1.CSINodeDriver{Name: name}
		if n := int32(counts[name]); n >= 0 {
			driver.Allocatable = &storagev1.VolumeNodeResources{Count: &n}
		}
		published.Spec.Drivers = append(published.Spec.Drivers, driver)
	}
	return published
}

func nodeName(f cluster.NodeFacts) string {
	if f.Node == nil {
		return f.Claim.Name
	}
	return f.Node.Name
}

func orElse(text, absent string) string {
	if text == "" {
		return absent
	}
	return text
}
