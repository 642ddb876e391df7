package script

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// Snapshot reads the objects of the script into a cluster, and returns the pods to be placed: those
// that are pending, those that must leave deleting nodes, and those of nodes that `without` removed.
func (w *World) Snapshot() (view *cluster.Snapshot, pods []cluster.Pod) {
	read := cluster.NewReader(words(), cluster.ReaderOptions{Resources: w.table(), Evictable: evictable, DefaultSpread: w.spread, SelectorOf: selectorOfOwner})
	read.SetNamespaces(w.namespaces)
	parts := cluster.Snapshot{Version: 1, Now: epoch(), Namespaces: w.namespaces}
	for _, f := range w.nodes {
		f.Volumes, f.Pods = w.claims, nil
		for i := range w.pods {
			if p := &w.pods[i]; p.object.Spec.NodeName == nodeName(f) {
				f.Pods = append(f.Pods, p.object)
			}
		}
		n := read.Node(f)
		if i := slices.IndexFunc(w.types, func(m machine) bool { return m.name == n.InstanceType }); i >= 0 {
			n.VolumeLimits = cluster.WithDeclaredLimits(n.VolumeLimits, w.types[i].volumes, f.CSINode)
		}
		parts.Nodes = append(parts.Nodes, n)
	}
	for i := range w.pods {
		if p := &w.pods[i]; p.object.Spec.NodeName == "" {
			one := read.Pod(p.object, w.claims)
			one.Virtual = p.virtual
			parts.Pending = append(parts.Pending, one)
		}
	}
	for i := range w.daemons {
		o := w.daemons[i].object
		template := corev1.PodTemplateSpec{ObjectMeta: o.ObjectMeta, Spec: o.Spec}
		parts.Daemons = append(parts.Daemons, cluster.Daemon{Key: cluster.PodKey{Namespace: o.Namespace, Name: o.Name}, Shape: read.Shape(o.Namespace, &template, nil)})
	}
	w.price(parts.Nodes)
	w.readPools(read, &parts)
	view = read.Snapshot(parts)
	pods = slices.Clone(view.Pending)
	for i := range view.Nodes {
		if !view.Nodes[i].Deleting {
			continue
		}
		for _, p := range view.Nodes[i].Pods {
			if !p.Stays {
				pods = append(pods, p)
			}
		}
	}
	view, moved := view.Without(w.gone...)
	return view, append(pods, moved...)
}

// price puts on bound pods what evicting them was said to cost.
func (w *World) price(nodes []cluster.Node) {
	costs := map[cluster.PodKey]float64{}
	for i := range w.pods {
		if o := w.pods[i].object; w.pods[i].evictCost > 0 {
			costs[cluster.PodKey{Namespace: o.Namespace, Name: o.Name}] = w.pods[i].evictCost
		}
	}
	for i := range nodes {
		for j := range nodes[i].Pods {
			if cost, said := costs[nodes[i].Pods[j].Key]; said {
				nodes[i].Pods[j].EvictCost = cost
			}
		}
	}
}

// readPools reads the pools with what their nodes use of the limits.
func (w *World) readPools(read *cluster.Reader, parts *cluster.Snapshot) {
	table := read.Table()
	machines := make([]catalog.InstanceType, 0, len(w.types))
	for i := range w.types {
		machines = append(machines, w.types[i].instanceType(table))
	}
	for i := range w.pools {
		p := &w.pools[i]
		used, nodes := table.Zero(), int64(0)
		for j := range parts.Nodes {
			if n := &parts.Nodes[j]; n.Pool == p.object.Name && !n.Deleting {
				resources.AddTo(&used, &n.Capacity)
				nodes++
			}
		}
		types := machines
		if len(p.types) > 0 {
			types = slices.DeleteFunc(slices.Clone(machines), func(m catalog.InstanceType) bool { return !slices.Contains(p.types, m.Name) })
		}
		parts.Pools = append(parts.Pools, read.Pool(&p.object, types, table.List(used), nodes))
	}
}

// evictable says which pods may leave their node; `stays` writes the annotation.
func evictable(p *corev1.Pod) bool { return p.Annotations[karpv1.AnnotationDoNotDisrupt] != "true" }

// selectorOfOwner selects the pods that look like one, as the controller that made them would.
func selectorOfOwner(p *corev1.Pod) cluster.Selector {
	return cluster.SelectorFrom(labels.SelectorFromSet(p.Labels))
}

// table gives every resource that is mentioned anywhere a lane, so that lanes do not depend on the
// order of lines.
func (w *World) table() resources.Table {
	var names []corev1.ResourceName
	for i := range w.types {
		names = append(names, resources.Names(w.types[i].capacity, w.types[i].overhead)...)
	}
	for i := range w.pools {
		limits := resources.Names(w.pools[i].object.Spec.Limits)
		names = append(names, slices.DeleteFunc(limits, func(n corev1.ResourceName) bool { return n == "nodes" })...)
	}
	for i := range w.nodes {
		if o := w.nodes[i].Node; o != nil {
			names = append(names, resources.Names(o.Status.Capacity)...)
		}
	}
	for _, p := range slices.Concat(w.pods, w.daemons) {
		names = append(names, resources.PodNames(p.object)...)
	}
	return resources.NewTable(names...)
}
