package cluster

import (
	"slices"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
)

// With returns a view in which pods run on the nodes named, and nowhere else: nodes that are removed lose them,
// and those that were pending wait no more. A pod that was ending has come back. Pods whose node is not
// there stay where they are.
//
// The view shares memory with s: only the list of nodes is copied, and the pods of nodes that change.
func (s *Snapshot) With(pods []Pod, at map[PodKey]string) *Snapshot {
	view := *s
	comes := make(map[int][]Pod, len(at))
	moved := make(map[PodKey]bool, len(at))
	for _, p := range pods {
		name, placed := at[p.Key]
		if i, found := s.find(name); placed && found {
			p.Terminating = false
			comes[i] = append(comes[i], p)
			moved[p.Key] = true
		}
	}
	if len(moved) == 0 {
		return &view
	}
	leaves := func(p Pod) bool { return moved[p.Key] }
	view.Nodes = slices.Clone(s.Nodes)
	for i := range view.Nodes {
		n := &view.Nodes[i]
		if slices.ContainsFunc(n.Pods, leaves) {
			n.Pods = slices.DeleteFunc(slices.Clone(n.Pods), leaves)
		}
		if len(comes[i]) > 0 {
			n.Pods = slices.Concat(n.Pods, comes[i])
			slices.SortFunc(n.Pods, comparePods)
		}
	}
	if slices.ContainsFunc(s.Pending, leaves) {
		view.Pending = slices.DeleteFunc(slices.Clone(s.Pending), leaves)
	}
	return &view
}

// WithSettling returns a view in which some nodes take no pods that would be moved to them.
func (s *Snapshot) WithSettling(names map[string]bool) *Snapshot {
	view := *s
	view.Nodes = slices.Clone(s.Nodes)
	for i := range view.Nodes {
		view.Nodes[i].Settling = view.Nodes[i].Settling || names[view.Nodes[i].Name]
	}
	return &view
}

// Node returns the node of a name, or nil.
func (s *Snapshot) Node(name string) *Node {
	if i, found := s.find(name); found {
		return &s.Nodes[i]
	}
	return nil
}

// Frees is what a node on reserved capacity would cost without its reservation, USD an hour: what others can use once
// it is gone. It is 0 for nodes of other capacity types, and if it is not known.
func (s *Snapshot) Frees(pool, instanceType, zone, capacityType string) float64 {
	if s == nil || capacityType != karpv1.CapacityTypeReserved {
		return 0
	}
	at := slices.IndexFunc(s.Pools, func(p Pool) bool { return p.Name == pool })
	if at < 0 {
		return 0
	}
	types := s.Pools[at].Types
	if i := slices.IndexFunc(types, func(t catalog.InstanceType) bool { return t.Name == instanceType }); i >= 0 {
		return types[i].PriceOf(karpv1.CapacityTypeOnDemand, zone)
	}
	return 0
}

// Priced reports whether the price of the node is known.
func (n *Node) Priced() bool { return n.Price > 0 || n.Free }

// RequestedPercent is how much of a resource of a node its pods request, in percent. A pod that ends is on its way out, and
// does not count.
func (n *Node) RequestedPercent(lane int) int64 {
	sum, whole := int64(0), n.Allocatable.At(lane)
	for i := range n.Pods {
		if p := &n.Pods[i]; p.Shape != nil && !p.Terminating {
			sum += p.Shape.Requests.At(lane)
		}
	}
	if whole <= 0 {
		return 0
	}
	return int64(float64(sum)/float64(whole)*100 + 0.5)
}

// WithFreedSlot returns a view in which one more instance fits a reservation. One that is not available for
// another reason stays so (V15-47).
func (s *Snapshot) WithFreedSlot(reservation string) *Snapshot { return s.slots(reservation, 1) }

// WithTakenSlot returns a view in which one instance less fits a reservation.
func (s *Snapshot) WithTakenSlot(reservation string) *Snapshot { return s.slots(reservation, -1) }

func (s *Snapshot) slots(reservation string, more int) *Snapshot {
	view := *s
	if reservation == "" {
		return &view
	}
	view.Pools = slices.Clone(s.Pools)
	copied := map[*catalog.InstanceType][]catalog.InstanceType{} // pools with the same types go on sharing them
	for i := range view.Pools {
		types := view.Pools[i].Types
		if len(types) == 0 {
			continue
		}
		same, known := copied[&types[0]]
		if !known || len(same) != len(types) {
			same = withSlots(types, reservation, more)
			copied[&types[0]] = same
		}
		view.Pools[i].Types = same
	}
	return &view
}

func withSlots(types []catalog.InstanceType, reservation string, more int) []catalog.InstanceType {
	out := slices.Clone(types)
	for i := range out {
		is := func(o catalog.Offering) bool { return o.Reservation == reservation && o.Available }
		if !slices.ContainsFunc(out[i].Offerings, is) {
			continue
		}
		out[i].Offerings = slices.Clone(out[i].Offerings)
		for j := range out[i].Offerings {
			if is(out[i].Offerings[j]) {
				out[i].Offerings[j].Remaining += more
			}
		}
	}
	return out
}
