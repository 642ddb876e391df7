package snapshot

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/config"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// MarketSource knows what NodePools could launch: a cloud, or another File.
type MarketSource func(ctx context.Context, request MarketRequest) Market

// MarketRequest is what a MarketSource is asked.
type MarketRequest struct {
	Pools  []karpv1.NodePool // by name
	Config config.Config     // of the controller that manages the nodes, as far as it is known
	Region string            // of the nodes; empty: not known
}

// Market is what can be launched, and what it costs.
type Market struct {
	Catalogues []Catalogue
	Price      func(instanceType, zone, capacityType string) (usd float64, known bool) // an hour; nil: none is known
	Missing    []Missing
}

// Catalogues collects the instance types of NodePools. NodePools with equal ones share a catalogue: a list of hundreds of types
// is megabytes, and a cluster can have a hundred NodePools.
type Catalogues struct {
	Lanes resources.Table // that the types are written with

	lists [][]catalog.InstanceType // of the catalogues
	all   []Catalogue
}

// Add reads what a NodePool could launch, or why that is not known.
func (c *Catalogues) Add(pool string, types []catalog.InstanceType, problem string) {
	for i := range c.all {
		if c.all[i].Problem == problem && sameTypes(c.lists[i], types) {
			c.all[i].NodePools = append(c.all[i].NodePools, pool)
			return
		}
	}
	made := Catalogue{NodePools: []string{pool}, InstanceTypes: make([]InstanceType, 0, len(types)), Problem: problem}
	for i := range types {
		made.InstanceTypes = append(made.InstanceTypes, InstanceTypeOf(&types[i], c.Lanes))
	}
	c.lists, c.all = append(c.lists, types), append(c.all, made)
}

// List returns the catalogues, in the order in which their first NodePools were added.
func (c *Catalogues) List() []Catalogue { return c.all }

// sameTypes reports whether two lists are equal. Those of one node class are usually the same one.
func sameTypes(a, b []catalog.InstanceType) bool {
	if len(a) != len(b) {
		return false
	}
	if len(a) == 0 || &a[0] == &b[0] {
		return true
	}
	for i := range a {
		if !reflect.DeepEqual(&a[i], &b[i]) {
			return false
		}
	}
	return true
}

// MarketOf is the market of another File, for clusters whose cloud cannot be reached.
func MarketOf(other *File) MarketSource {
	return func(context.Context, MarketRequest) Market { return Market{Catalogues: other.Catalogues} }
}

// fillCatalogues gives every NodePool a catalogue: that of the market, else the instance types of the nodes that exist.
func (f *File) fillCatalogues(m Market) {
	f.Missing = append(f.Missing, m.Missing...)
	f.Catalogues = []Catalogue{}
	known := map[string]bool{}
	for _, c := range m.Catalogues {
		if c.Problem != "" {
			f.Missing = append(f.Missing, Missing{
				What: "instance types of NodePool " + strings.Join(c.NodePools, ", "), Why: c.Problem, Then: "a plan knows only those of nodes that exist",
			})
			continue
		}
		for _, name := range c.NodePools {
			known[name] = true
		}
		f.Catalogues = append(f.Catalogues, c)
	}
	var rest []string
	for i := range f.Objects.NodePools {
		if name := f.Objects.NodePools[i].Name; !known[name] {
			rest = append(rest, name)
		}
	}
	if len(rest) > 0 {
		f.Catalogues = append(f.Catalogues, Catalogue{NodePools: rest, InstanceTypes: f.seenTypes(m.Price)})
	}
}

// seenTypes are the instance types of the nodes that exist, in all zones and with all capacity types of nodes that exist.
// What has no price cannot be launched.
func (f *File) seenTypes(price func(instanceType, zone, capacityType string) (float64, bool)) []InstanceType {
	types, zones, markets := map[string]*InstanceType{}, map[string]bool{}, map[string]bool{}
	for i := range f.Objects.Nodes {
		n := &f.Objects.Nodes[i]
		name, zone := n.Labels[corev1.LabelInstanceTypeStable], n.Labels[corev1.LabelTopologyZone]
		if name == "" {
			continue
		}
		zones[zone], markets[capacityTypeOf(n)] = true, true
		if types[name] == nil {
			types[name] = &InstanceType{Name: name, Labels: typeLabels(n), Capacity: n.Status.Capacity, Overhead: overhead(n)}
			continue
		}
		types[name].shrink(n)
	}
	out := make([]InstanceType, 0, len(types))
	for _, name := range slices.Sorted(maps.Keys(types)) {
		t := types[name]
		t.Offerings = []Offering{}
		for _, zone := range slices.Sorted(maps.Keys(zones)) {
			for _, market := range slices.Sorted(maps.Keys(markets)) {
				o := Offering{Zone: zone, CapacityType: market}
				if price != nil {
					o.Price, o.Available = price(name, zone, market)
				}
				t.Offerings = append(t.Offerings, o)
			}
		}
		out = append(out, *t)
	}
	return out
}

// shrink makes a type as small as another node of it.
func (t *InstanceType) shrink(n *corev1.Node) {
	capacity, reserved := corev1.ResourceList{}, corev1.ResourceList{}
	more := overhead(n)
	// any order: each resource is computed by itself
	for name, q := range t.Capacity {
		other, has := n.Status.Capacity[name]
		if !has {
			continue
		}
		if other.Cmp(q) < 0 {
			q = other
		}
		capacity[name] = q
		kept := t.Overhead[name]
		if own := more[name]; own.Cmp(kept) > 0 {
			kept = own
		}
		if !kept.IsZero() {
			reserved[name] = kept
		}
	}
	t.Capacity, t.Overhead = capacity, reserved
	// any order: each label is looked at by itself
	for key := range t.Labels {
		if !slices.Equal(t.Labels[key], []string{n.Labels[key]}) {
			delete(t.Labels, key)
		}
	}
}

// overhead is what of a node pods cannot use.
func overhead(n *corev1.Node) corev1.ResourceList {
	out := corev1.ResourceList{}
	// any order: each resource is computed by itself
	for name, q := range n.Status.Capacity {
		left := q.DeepCopy()
		left.Sub(n.Status.Allocatable[name])
		if left.Sign() > 0 {
			out[name] = left
		}
	}
	return out
}

// typeLabels are the labels of a node that its instance type determines.
func typeLabels(n *corev1.Node) map[string][]string {
	out := map[string][]string{}
	// any order: each label is looked at by itself
	for key, value := range n.Labels {
		domain, name, _ := strings.Cut(key, "/")
		switch {
		case key == corev1.LabelInstanceTypeStable, key == corev1.LabelArchStable, key == corev1.LabelOSStable, key == corev1.LabelWindowsBuild,
			strings.HasPrefix(domain, "karpenter.k8s.") && strings.HasPrefix(name, "instance-"):
			out[key] = []string{value}
		}
	}
	return out
}

// capacityTypeOf is how a node is paid, in the words of Karpenter.
func capacityTypeOf(n *corev1.Node) string {
	if own := n.Labels[karpv1.LabelCapacityType]; own != "" {
		return own
	}
	for _, key := range []string{"eks.amazonaws.com/capacityType", "node.kubernetes.io/lifecycle", "node-lifecycle"} {
		if strings.EqualFold(n.Labels[key], karpv1.CapacityTypeSpot) {
			return karpv1.CapacityTypeSpot
		}
	}
	return karpv1.CapacityTypeOnDemand
}
