package devices

import (
	"errors"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/cluster"
)

// Hosts reports whether the template of an instance type has devices for claims like some, if nothing else uses any.
func (l *Ledger) Hosts(claims []string, pool, instanceType string) bool {
	const nowhere int32 = -3 // no place of any plan
	l.read()
	if slices.ContainsFunc(claims, func(key string) bool { return l.claim(key) == nil }) {
		return false
	}
	set, known := l.inv.setOf[typeOfPool{pool, instanceType}]
	return known && l.serves(&Offer{place: nowhere, wanted: claims}, nil, nil, set, nil).fits
}

// Serves reports whether the template of an instance type has the devices that an offer wants from it, besides those for
// claims of DaemonSets.
func (l *Ledger) Serves(o *Offer, daemons [][]string, pool, instanceType string, stop func() bool) bool {
	set, known := l.inv.setOf[typeOfPool{pool, instanceType}]
	if !known {
		return false
	}
	a := l.serves(o, nil, daemons, set, stop)
	return a.fits && !slices.ContainsFunc(a.drivers, func(driver string) bool { return l.inv.silent[driverOfPool{pool, driver}] != "" })
}

// Drivers returns the drivers whose devices the claims at a place use on an instance type, in order.
func (l *Ledger) Drivers(place int32, daemons [][]string, pool, instanceType string) []string {
	if l == nil || len(l.templates[place]) == 0 {
		return nil
	}
	set, known := l.inv.setOf[typeOfPool{pool, instanceType}]
	if !known {
		return nil
	}
	return l.serves(&Offer{place: place}, nil, daemons, set, nil).drivers
}

// before returns the claims that hold devices of a node that is not initialized since before the plan.
func (l *Ledger) before(n *cluster.Node) [][]string {
	var out [][]string
	for _, claim := range l.inv.at[n.Name] {
		if _, moved := l.made[claim]; !moved && !l.inv.leaving[claim] {
			out = append(out, []string{claim})
		}
	}
	return out
}

// serves allocates from a set of templates for the claims of a place. They are served in the order in which pods came, each with
// what the earlier ones left, as kube-scheduler does: all together, there would be too many ways. The drivers of those that
// come before all pods do not count: none of the pods needs them. Claims of DaemonSets take what there is.
func (l *Ledger) serves(o *Offer, held, daemons [][]string, set int, stop func() bool) serving {
	if len(l.inv.sets[set].slices) == 0 {
		return serving{}
	}
	a, key := serving{fits: true, state: emptyState()}, strconv.Itoa(set)
	serve := func(claims []string) serving {
		key += "\x01" + l.textOf(claims)
		next, known := l.served[key]
		if !known {
			var stopped bool
			if next, stopped = l.extend(a, claims, set, stop); !stopped {
				l.served[key] = next
			}
		}
		return next
	}
	for _, claims := range held {
		next := serve(claims)
		if !next.fits {
			return next
		}
		a.state = next.state
	}
	for _, claims := range daemons {
		if next := serve(claims); next.fits {
			a.state = next.state
		}
	}
	groups := l.templates[o.place]
	if len(o.wanted) > 0 {
		groups = append(slices.Clip(groups), o.wanted)
	}
	if len(held)+len(daemons) > 0 {
		key += "\x02" // their drivers are left out from here on
	}
	for _, claims := range groups {
		if a = serve(claims); !a.fits {
			break
		}
	}
	return a
}

// extend serves some claims more from a set of templates.
func (l *Ledger) extend(a serving, claims []string, set int, stop func() bool) (next serving, stopped bool) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: newNode}}
	results, err := l.search(node, claims, l.inv.sets[set].slices, a.state, stop)
	if err != nil || results == nil {
		return serving{}, errors.Is(err, errStopped)
	}
	next = serving{fits: true, state: cloneState(a.state), drivers: slices.Clone(a.drivers)}
	for _, r := range results {
		take(&next.state, r.Devices.Results)
		for i := range r.Devices.Results {
			next.drivers = append(next.drivers, r.Devices.Results[i].Driver)
		}
	}
	slices.Sort(next.drivers)
	next.drivers = slices.Compact(next.drivers)
	return next, false
}
