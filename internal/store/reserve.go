package store

import (
	"fmt"
	"slices"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// reservation is a claim that is being created: for pods, and with capacity reserved in the limits of a pool.
type reservation struct {
	pool    string // empty: one without limits
	size    total
	command string // token of the command that orders it, if one does
	pods    []podKey
	slots   holder // what it may take of capacity reservations
}

// Reserve reserves capacity in the limits of their pools for nodes that are about to be created. Each caller has
// planned on a snapshot of its own, and together they could exceed a limit that each of them respects (G10). It also
// prevents that a pod gets two nodes: nodes created for it after the snapshot of this version are not known to a
// caller that planned on it (G8). And it prevents that two nodes get one slot of a capacity reservation (SC-45).
// marks are the annotations of a command's replacements: these may use the capacity of the nodes that they replace.
// refused has the nodes that are refused, by number; of a command it is all or none. give releases the capacity of a
// node once its claim is in the store, or its creation failed.
//
// Limits of static pools are left out: callers that create their claims count the slots.
func (s *Store) Reserve(nodes []cluster.NewNode, marks map[string]string, version uint64) (refused map[int]error, give func(i int)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	refused = map[int]error{}
	order, command := cluster.ReadOrder(marks)
	sizes, ledgers, served, slots := newIndex(s.lastTypes), s.ledgers(nodes, order), s.podsServedSince(version), s.slotsFor(nodes)
	taken := map[int]*reservation{}
	for i := range nodes {
		n := &nodes[i]
		r, err := &reservation{command: order.Token, pods: n.Pods, slots: holder{pool: n.Pool, needs: n.Needs}}, refuseServedPods(n.Pods, served)
		if err == nil {
			err = slots.checkSlots(n, &r.slots)
		}
		if l := ledgers[n.Pool]; l != nil && err == nil {
			r.pool, r.size = n.Pool, total{sizes.largestCapacity(n.Pool, n.Types), 1}
			err = l.addReservation(r, s.pools[n.Pool].effective, s.reader.Table())
		}
		if err != nil {
			refused[i] = err
			if command {
				for i := range nodes {
					refused[i] = err
				}
				return refused, func(int) {}
			}
			continue
		}
		slots.takeSlot(&r.slots)
		taken[i] = r
	}
	for _, r := range taken {
		if r.pool != "" || len(r.pods) > 0 || s.mayHold(&r.slots) {
			s.reserved[r] = true
		}
	}
	return refused, func(i int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.reserved, taken[i])
	}
}

// podsServedSince returns the pods that have had a claim ordered since a version, or have one being written: what
// there is of it.
func (s *Store) podsServedSince(version uint64) map[podKey]string {
	out := map[podKey]string{}
	var names []string
	for name, at := range s.ordered {
		if claim := s.claims[name]; at > version && claim != nil && claim.DeletionTimestamp == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Backward(names) { // of several for one pod the first is named
		for _, key := range s.planned[name] {
			out[key] = "nodeclaim " + name + " was ordered"
		}
	}
	for r := range s.reserved {
		for _, key := range r.pods {
			out[key] = "a nodeclaim of others is being written"
		}
	}
	return out
}

// refuseServedPods refuses a node if one of its pods has another one.
func refuseServedPods(pods []podKey, served map[podKey]string) error {
	for _, key := range pods {
		if what, is := served[key]; is {
			return fmt.Errorf("%s for pod %s", what, key)
		}
	}
	return nil
}

// ledger is the most that a pool can grow to: its nodes, and the reserved capacity.
type ledger struct {
	sum      total
	commands map[string]commandPart // by token
}

// commandPart is the part of a command in a pool. Before it ends there are its nodes, after it the replacements;
// a pool may have both for the time between.
type commandPart struct{ before, after total }

func (s commandPart) largestTotal() total {
	return total{resources.Max(s.before.capacity, s.after.capacity), max(s.before.nodes, s.after.nodes)}
}

// ledgers adds up the dynamic pools with limits that nodes are ordered from. mine is the command that
// orders them, if one does.
func (s *Store) ledgers(nodes []cluster.NewNode, mine cluster.Order) map[string]*ledger {
	out := map[string]*ledger{}
	for i := range nodes {
		if p := s.pools[nodes[i].Pool]; p != nil && p.effective.Spec.Replicas == nil && len(p.effective.Spec.Limits) > 0 {
			out[nodes[i].Pool] = &ledger{commands: map[string]commandPart{}}
		}
	}
	if len(out) == 0 {
		return out
	}
	s.prepareReader(s.opts.Now())
	sizes, orders, replaced := newIndex(s.lastTypes), map[string]string{}, map[string]string{}
	// A node that several commands say they replace counts with the command of the caller, else with the first.
	// any order: the first token is kept
	for name, claim := range s.claims {
		if o, is := cluster.ReadOrder(claim.Annotations); is && claim.DeletionTimestamp == nil {
			orders[name] = o.Token
			for _, name := range o.Replaces {
				if had := replaced[name]; had == "" || o.Token < had {
					replaced[name] = o.Token
				}
			}
		}
	}
	for _, name := range mine.Replaces {
		replaced[name] = mine.Token
	}
	// any order: integers are added up
	for _, p := range s.places {
		n := s.readPlace(p, sizes)
		l := out[n.Pool]
		switch size := s.sizeOf(&n, sizes); {
		case l == nil || !countsTowardLimits(&n, p):
		case (p.commanded || p.removing) && replaced[n.Claim] != "":
			l.add(replaced[n.Claim], commandPart{before: size})
		default:
			l.add(orders[n.Claim], commandPart{after: size})
		}
	}
	// any order: integers are added up
	for r := range s.reserved {
		if l := out[r.pool]; l != nil {
			l.add(r.command, commandPart{after: r.size})
		}
	}
	return out
}

// add adds to the part of a command; without one it is for good.
func (l *ledger) add(command string, more commandPart) {
	l.sum, l.commands[command] = l.sumWith(command, more)
}

func (l *ledger) sumWith(command string, more commandPart) (total, commandPart) {
	if command == "" {
		return l.sum.plus(more.after), commandPart{}
	}
	before := l.commands[command]
	after := commandPart{before.before.plus(more.before), before.after.plus(more.after)}
	return l.sum.minus(before.largestTotal()).plus(after.largestTotal()), after
}

// addReservation adds a reservation unless that makes the pool larger than it may be.
func (l *ledger) addReservation(r *reservation, pool *karpv1.NodePool, table resources.Table) error {
	sum, _ := l.sumWith(r.command, commandPart{after: r.size})
	limits := table.Capacity(pool.Spec.Limits)
	for _, name := range resources.Names(pool.Spec.Limits) {
		lane, known := table.Lane(name)
		had, have, limit := l.sum.capacity.At(lane), sum.capacity.At(lane), limits.At(lane)
		if name == karpv1.LimitNodes {
			had, have, limit, known = l.sum.nodes, sum.nodes, resources.Whole(pool.Spec.Limits[name]), true
		}
		if known && have > limit && have > had {
			quantity := pool.Spec.Limits[name]
			return fmt.Errorf("nodepool %s: its limit %s of %s leaves no room for another node", pool.Name, quantity.String(), name)
		}
	}
	l.add(r.command, commandPart{after: r.size})
	return nil
}
