package store

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// launchCountedFor is how long after its launch a claim is still looked up among the kindConsumers of its reservation: plans
// can be made with instance types that were requested before the launch.
const launchCountedFor = 2 * time.Minute

// holder is a claim that has, or may get, an instance of a capacity reservation and that the count of the
// cloud may not include yet.
type holder struct {
	claim string   // UID
	pool  string   // of a claim that is not launched,
	needs reqs.Set // its requirements,
	id    string   // or the reservation that it was launched into
}

// mayHold reports whether the instance of a claim that is not launched can become an offering of a type.
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

// holderOf returns the claim of a place if the count of a reservation may lack it. needs are the requirements of a
// claim that is not launched.
func (s *Store) holderOf(p *place, needs reqs.Set, now time.Time) (holder, bool) {
	switch {
	case p.claim == nil:
		return holder{}, false
	case p.claim.Status.ProviderID == "" && needs != nil:
		return holder{claim: string(p.claim.UID), pool: p.claim.Labels[karpv1.LabelNodePool], needs: needs}, true
	case now.Before(p.launchedAt.Add(launchCountedFor)):
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
// must not allocate them again (SC-45, FM F08). A claim that may come to be in any of several reservations
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
	taken := h.taken(reserved, counted)
	if len(taken) == 0 {
		return types
	}
	out, lists := make(map[string][]catalog.InstanceType, len(types)), map[*catalog.InstanceType][]catalog.InstanceType{}
	// any order: each pool is independent of the others
	for pool, list := range types {
		if len(list) == 0 {
			out[pool] = list
			continue
		}
		if same, known := lists[&list[0]]; !known || len(same) != len(list) {
			lists[&list[0]] = withFewerSlots(list, taken)
		}
		out[pool] = lists[&list[0]]
	}
	return out
}

// taken is how many slots of each reservation claims take that the cloud has not counted.
func (h holders) taken(reserved map[string][]reservedOffer, counted map[string]bool) map[string]int {
	taken := map[string]int{}
	for i := range h {
		if counted[h[i].claim] {
			continue
		}
		for id := range h[i].reservations(reserved) {
			taken[id]++
		}
	}
	return taken
}

// slots is what capacity reservations have left now, whatever was left when a node was planned.
type slots struct {
	reserved map[string][]reservedOffer
	left     map[string]int // by id
}

// slotsFor counts the slots if some node was planned to get one.
func (s *Store) slotsFor(nodes []cluster.NewNode) slots {
	if !slices.ContainsFunc(nodes, func(n cluster.NewNode) bool { return n.Offer.Reservation != "" }) {
		return slots{}
	}
	now := s.opts.Now()
	s.prepareReader(now)
	reserved, counted := reservedOffers(s.lastTypes)
	out := slots{reserved, map[string]int{}}
	// any order: the smallest count of each is kept (SC-45)
	for _, offers := range reserved {
		for _, o := range offers {
			if had, known := out.left[o.offering.Reservation]; o.offering.Available && (!known || o.offering.Remaining < had) {
				out.left[o.offering.Reservation] = o.offering.Remaining
			}
		}
	}
	var all holders
	sizes := newIndex(s.lastTypes)
	// any order: integers are added up
	for r := range s.reserved {
		all.add(r.slots, true)
	}
	// any order: integers are added up
	for _, p := range s.places {
		all.add(s.holderOf(p, s.readPlace(p, sizes).Needs, now))
	}
	// any order: each is independent of the others
	for id, n := range all.taken(reserved, counted) {
		out.left[id] -= n
	}
	return out
}

// checkSlots refuses a node that was planned to be in a reservation if none of those that it may come to be in has a slot left.
func (t *slots) checkSlots(n *cluster.NewNode, h *holder) error {
	if n.Offer.Reservation == "" {
		return nil
	}
	ids := slices.Sorted(maps.Keys(h.reservations(t.reserved)))
	if len(ids) == 0 || slices.ContainsFunc(ids, func(id string) bool { return t.left[id] > 0 }) {
		return nil
	}
	return fmt.Errorf("capacity reservation %s has no instance left", strings.Join(ids, ", "))
}

// takeSlot takes a slot of each reservation that a node may come to be in.
func (t *slots) takeSlot(h *holder) {
	// any order: each is independent of the others
	for id := range h.reservations(t.reserved) {
		t.left[id]--
	}
}

// mayHold reports whether a node may get a slot of any reservation.
func (s *Store) mayHold(h *holder) bool {
	list := s.lastTypes[h.pool]
	return len(h.reservations(map[string][]reservedOffer{h.pool: reservedIn(list)})) > 0
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
	// any order: each pool is independent of the others
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

// withFewerSlots returns the types with fewer instances remaining in some reservations.
func withFewerSlots(list []catalog.InstanceType, taken map[string]int) []catalog.InstanceType {
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
