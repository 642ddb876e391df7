package consolidate

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/solve/exact"
	"github.com/dovetail-sh/dovetail/internal/solve/model"
)

// isWorthwhile computes what a move saves and reports whether that is worth the pods it moves. It keeps only the
// types of new nodes with which the saving is certain.
func (v *mover) isWorthwhile(m *Move, removed float64) bool {
	if len(m.Create) == 0 {
		m.Saves = removed
		_, allowed := v.freedReserved(m)
		return allowed
	}
	if !v.updateSavings(m, removed) || !v.mayBeSpot(m) {
		return false
	}
	slack := m.Saves / float64(len(m.Create))
	for i := range m.Create {
		c := &m.Create[i]
		least, like := v.priceToUndercut(m)
		if !v.restrictToCheaper(c, min(c.Offer.Price+slack, least)) {
			if like != "" {
				v.reusable[like] = true
			}
			return false
		}
		if !v.hasSpotDiversity(m, c) {
			return false
		}
	}
	return v.updateSavings(m, removed) && v.undoesNoSpread(m, removed) // without the types that were dropped
}

// priceToUndercut returns the price that a single replacement for several nodes must stay below. If the replacement
// may be of the type of one of them, that is the price of this node: otherwise the node could as well be kept
// (disruption 13).
func (v *mover) priceToUndercut(m *Move) (least float64, like string) {
	least = math.Inf(1)
	if len(m.Remove) < 2 || len(m.Create) != 1 {
		return least, ""
	}
	for _, name := range m.Remove {
		at := v.byName[name]
		if slices.Contains(m.Create[0].Types, v.model.Nodes[at].Source.InstanceType) && v.price[at] < least {
			least, like = v.price[at], name
		}
	}
	return least, like
}

// leastSpotTypes is how many types must be possible for a spot node that replaces a spot node. The node is then one
// of the cheapest already, and no chain of replacements starts (disruption 15).
const leastSpotTypes = 15

// hasSpotDiversity reports whether there are enough types for a spot node that replaces a spot node, and cuts the
// list to the number required.
func (v *mover) hasSpotDiversity(m *Move, c *model.NewNode) bool {
	if len(m.Remove) > 1 || c.Offer.CapacityType != karpv1.CapacityTypeSpot || !v.allSpot(m) {
		return true
	}
	if len(c.Types) < leastSpotTypes {
		v.recordRefusal(m, reason.Reason{Code: reason.SpotTypesTooFew, Have: strconv.Itoa(len(c.Types)), Want: strconv.Itoa(leastSpotTypes)})
		return false
	}
	pl := &v.model.Pools[slices.IndexFunc(v.model.Pools, func(p model.Pool) bool { return p.Source.Name == c.Pool })]
	all := c.Types
	for n := leastSpotTypes; n <= len(all); n++ {
		c.Types = all[:n:n]
		if v.meetsMinValues(c, pl) {
			break
		}
	}
	cat := v.model.Catalogues[pl.Catalogue]
	markOverlaid(c, cat)
	v.updateRequests(c, pl)
	return true
}

// recordRefusal records why the nodes of a move stay.
func (v *mover) recordRefusal(m *Move, why reason.Reason) {
	for _, name := range m.Remove {
		v.refused[name] = why
	}
}

func (v *mover) updateSavings(m *Move, removed float64) bool {
	m.Saves = removed
	for i := range m.Create {
		m.Saves -= m.Create[i].Offer.Price
	}
	reserved, allowed := v.freedReserved(m)
	switch {
	case !allowed:
		return false
	case v.model.Problem.Policy.Eager:
		return m.Saves > 0
	case reserved > 0:
		return m.Saves > 0 && savesEnough(v.model, m.Frees, reserved, m.Moved)
	}
	return savesEnough(v.model, m.Saves, removed, m.Moved)
}

// savesEnough reports whether a replacement of nodes saves enough of their price, and for the pods it moves.
func savesEnough(m *model.Model, saves, removed float64, moved int) bool {
	least := leastPerPod * float64(moved)
	if m.Problem.Policy.AnySaving {
		least = 0
	}
	return saves >= max(least, leastShare(m)*removed)
}

// leastShare is the share of the price of nodes that replacing them must save.
func leastShare(m *model.Model) float64 {
	if m.Problem.Policy.AnySaving {
		return anySaving
	}
	return cmp.Or(m.Problem.Policy.MinSaving, leastSaving)
}

// mayBeSpot reports whether a move keeps to the rule that spot nodes are replaced by spot nodes only if the user
// enables it (disruption 15). Otherwise each price drop would start a chain of moves.
func (v *mover) mayBeSpot(m *Move) bool {
	if v.model.Problem.Policy.SpotToSpot {
		return true
	}
	if !v.allSpot(m) || !slices.ContainsFunc(m.Create, func(c model.NewNode) bool { return c.Offer.CapacityType == karpv1.CapacityTypeSpot }) {
		return true
	}
	v.recordRefusal(m, reason.Reason{Code: reason.SpotToSpotOff})
	return false
}

// allSpot reports whether only spot nodes are removed.
func (v *mover) allSpot(m *Move) bool {
	return !slices.ContainsFunc(m.Remove, func(name string) bool {
		return v.model.Nodes[v.byName[name]].Source.CapacityType != karpv1.CapacityTypeSpot
	})
}

// restrictToCheaper pins a new node to the capacity type it was priced as, and drops the types that could launch at
// or above a limit, because the move would then save nothing. It reports whether a type is left and minValues holds.
func (v *mover) restrictToCheaper(c *model.NewNode, limit float64) bool {
	at := slices.IndexFunc(v.model.Pools, func(p model.Pool) bool { return p.Source.Name == c.Pool })
	if at < 0 {
		return false
	}
	pl := &v.model.Pools[at]
	cat := v.model.Catalogues[pl.Catalogue]
	if r, err := reqs.New(corev1.NodeSelectorOpIn, []string{c.Offer.CapacityType}, 0); err == nil {
		c.Needs = c.Needs.Clone()
		c.Needs[karpv1.LabelCapacityType] = r.WithMinValues(c.Needs[karpv1.LabelCapacityType].MinValues)
	}
	v.cutTypes(c, cat, limit)
	if len(c.Types) == 0 {
		return false
	}
	v.updateRequests(c, pl)
	return v.meetsMinValues(c, pl)
}

// meetsMinValues reports whether the types of a new node have as many values as minValues requires.
func (v *mover) meetsMinValues(c *model.NewNode, pl *model.Pool) bool {
	return v.state.MeetsMinValues(c, pl)
}

// cutTypes keeps the types whose most expensive launch is below a limit, cheapest first, and the cheapest of
// them as offer.
func (v *mover) cutTypes(c *model.NewNode, cat *model.Catalogue, limit float64) {
	cols, _ := exact.OfferingsOf(c, cat)
	worst, offers := make(map[string]float64, len(c.Types)), make(map[string]model.Offer, len(c.Types))
	for _, t := range cat.Named(c.Types) {
		low, at := cat.Cheapest(t, cols)
		if at < 0 {
			continue
		}
		name, col := cat.Types[t].InstanceType.Name, &cat.Columns[at]
		left := cat.Launchable[t].And(cols)
		for i := left.Next(0); i >= 0; i = left.Next(i + 1) {
			worst[name] = max(worst[name], cat.Price[t*len(cat.Columns)+i])
		}
		if old, known := offers[name]; !known || low < old.Price {
			offers[name] = model.Offer{Type: name, Zone: col.Zone, CapacityType: col.Capacity, Reservation: col.Reservation, Price: low}
		}
	}
	c.Types = slices.DeleteFunc(slices.Clone(c.Types), func(name string) bool {
		_, known := offers[name]
		return !known || worst[name] >= limit
	})
	slices.SortFunc(c.Types, func(a, b string) int { return cmp.Or(cmp.Compare(offers[a].Price, offers[b].Price), cmp.Compare(a, b)) })
	if len(c.Types) > 0 {
		c.Offer = offers[c.Types[0]]
	}
	markOverlaid(c, cat)
}

// markOverlaid records what NodeOverlays changed of the types that are left (SC-50).
func markOverlaid(c *model.NewNode, cat *model.Catalogue) {
	some := func(changed func(*catalog.InstanceType) bool) bool {
		return slices.ContainsFunc(cat.Types, func(t model.TypeEntry) bool {
			return changed(t.InstanceType) && slices.Contains(c.Types, t.InstanceType.Name)
		})
	}
	c.Overlaid = some(func(t *catalog.InstanceType) bool { return t.Overlaid })
	c.CapacityOverlaid = some(func(t *catalog.InstanceType) bool { return t.CapacityOverlaid })
}

// updateRequests recomputes the requests of a new node: with fewer types, the minimum that DaemonSets take may be
// higher (SC-49).
func (v *mover) updateRequests(c *model.NewNode, pl *model.Pool) {
	m := v.model
	cat := m.Catalogues[pl.Catalogue]
	lanes, over := make([]int64, m.View.Resources.Len()), []int64(nil)
	for _, key := range c.Pods {
		for l := range lanes {
			lanes[l] += m.Classes[v.class[v.index[key]]].Requests[l]
		}
	}
	for _, t := range cat.Named(c.Types) {
		takes := pl.Capacity.Overhead[t*m.Lanes : t*m.Lanes+len(lanes)]
		if over == nil {
			over = slices.Clone(takes)
		}
		for l := range over {
			over[l] = min(over[l], takes[l])
		}
	}
	for l := range over {
		lanes[l] += over[l]
	}
	c.Requests = resources.Of(lanes...)
}
