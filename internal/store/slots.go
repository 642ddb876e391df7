package store

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// landedFor is how long after its launch a claim is still looked for among the takers of its reservation:
// plans can be made with instance types that were asked for before the launch.
const landedFor = 2 * time.Minute

// holder is a claim that has, or may get, an instance of a capacity reservation and that the count of the
// cloud may not include yet.
type holder struct {
	claim string   // UID
	pool  string   // of a claim that is not launched,
	needs reqs.Set // and what it asks for,
	id    string   // or the reservation that it was launched into
}

// mayHold reports whether the instance of a claim that is not launched can be bought as an offering of a type.
func (h *holder) mayHold(t *catalog.InstanceType, o *catalog.Offering) bool {
	if !h.needs.Allows(corev1.LabelInstanceTypeStable, t.Name) || !h.needs.Allows(corev1.LabelTopologyZone, o.Zone) ||
		!h.needs.Allows(karpv1.LabelCapacityType, o.CapacityType) {
		return false
	}
	for key, value := range o.Labels {
		if !h.needs.Allows(key, value) {
			return false
		}
	}
	return true
}

// holderOf returns the claim of a place if the count of a reservation may lack it. needs is what a claim
// that is not launched asks for.
func (s *Store) holderOf(p *place, needs reqs.Set, now time.Time) (holder, bool) {
	switch {
	case p.claim == nil:
		return holder{}, false
	case p.claim.Status.ProviderID == "" && needs != nil:
		return holder{claim: string(p.claim.UID), pool: p.claim.Labels[karpv1.LabelNodePool], needs: needs}, true
	case now.Before(p.landed.Add(landedFor)):
		id := p.claim.Labels[s.opts.ReservationLabel]
		return holder{claim: string(p.claim.UID), id: id}, id != ""
	}
	return holder{}, false
}

// holders are the claims of a snapshot that take slots of reservations.
type holders []holder

func (h *holders) add(one holder, is bool) {
	if is {
		*h = append(*h, one)
	}
}

// subtract returns instance types whose reservations are short of the slots that claims take: the next plan
// must not promise them again (SC-45, FM F08). A claim that may come to be in any of several reservations
// takes a slot of each. Those that the cloud has counted already are left out. Lists that pools share stay
// shared, and the lists that were given stay as they are.
func (h holders) subtract(types map[string][]catalog.InstanceType) map[string][]catalog.InstanceType {
	if len(h) == 0 {
		return types
	}
	reserved, counted := reservedOffers(types)
	if len(reserved) == 0 {
		return types
	}
	taken := map[string]int{} // by reservation
	for i := range h {
		if counted[h[i].claim] {
			continue
		}
		for id := range h[i].reservations(reserved) {
			taken[id]++
		}
	}
	if len(taken) == 0 {
		return types
	}
	out, lists := make(map[string][]catalog.InstanceType, len(types)), map[*catalog.InstanceType][]catalog.InstanceType{}
	// any order: each pool is looked at by itself
	for pool, list := range types {
		if len(list) == 0 {
			out[pool] = list
			continue
		}
		if same, known := lists[&list[0]]; !known || len(same) != len(list) {
			lists[&list[0]] = without(list, taken)
		}
		out[pool] = lists[&list[0]]
	}
	return out
}

// reservedOffer is a reservation as a type has it.
type reservedOffer struct {
	of       *catalog.InstanceType
	offering *catalog.Offering
}

// reservedOffers lists the reservations that each pool could use, and the claims that are counted in them.
func reservedOffers(types map[string][]catalog.InstanceType) (reserved map[string][]reservedOffer, counted map[string]bool) {
	reserved, counted = map[string][]reservedOffer{}, map[string]bool{}
	shared := map[*catalog.InstanceType][]reservedOffer{} // by the first type of a list: most pools share theirs
	// any order: each pool is looked at by itself
	for pool, list := range types {
		if len(list) == 0 {
			continue
		}
		offers, known := shared[&list[0]]
		if !known {
			offers = reservedIn(list)
			shared[&list[0]] = offers
		}
		if len(offers) > 0 {
			reserved[pool] = offers
		}
		for _, o := range offers {
			for _, claim := range o.offering.Takers {
				counted[claim] = true
			}
		}
	}
	return reserved, counted
}

func reservedIn(list []catalog.InstanceType) []reservedOffer {
	var out []reservedOffer
	for i := range list {
		for j := range list[i].Offerings {
			if o := &list[i].Offerings[j]; o.Reservation != "" {
				out = append(out, reservedOffer{&list[i], o})
			}
		}
	}
	return out
}

// reservations are those that a holder has or may get a slot of.
func (h *holder) reservations(reserved map[string][]reservedOffer) map[string]bool {
	if h.id != "" {
		return map[string]bool{h.id: true}
	}
	ids := map[string]bool{}
	for _, o := range reserved[h.pool] {
		if !ids[o.offering.Reservation] && h.mayHold(o.of, o.offering) {
			ids[o.offering.Reservation] = true
		}
	}
	return ids
}

// without returns the types with fewer instances remaining in some reservations.
func without(list []catalog.InstanceType, taken map[string]int) []catalog.InstanceType {
	out := slices.Clone(list)
	for i := range out {
		short := func(o catalog.Offering) bool { return taken[o.Reservation] > 0 }
		if !slices.ContainsFunc(out[i].Offerings, short) {
			continue
		}
		out[i].Offerings = slices.Clone(out[i].Offerings)
		for j := range out[i].Offerings {
			if o := &out[i].Offerings[j]; short(*o) {
				o.Remaining = max(0, o.Remaining-taken[o.Reservation])
			}
		}
	}
	return out
}
