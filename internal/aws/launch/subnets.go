package launch

import (
	"slices"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/aws/discover"
)

// estimateFor is how long a count of free addresses is used.
const estimateFor = 5 * time.Minute

// chosenSubnet is the subnet that launches in a zone go to.
type chosenSubnet struct{ id, zoneID string }

// addresses estimates how many addresses subnets have left while launches are in flight: EC2's own
// count lags behind them (AWS provider 5.2). It is safe for concurrent use.
type addresses struct {
	now func() time.Time

	mu sync.Mutex
	by map[string]*estimate
}

type estimate struct {
	described int // what EC2 said last
	debited   int // addresses that nodes on their way may take
	launches  int // instances on their way: each takes one address for certain
	at        time.Time
}

func newAddresses(now func() time.Time) *addresses {
	return &addresses{now: now, by: map[string]*estimate{}}
}

// reserveAddresses chooses for each zone the subnet with most addresses left, and sets addresses aside in it: so
// many for the pods of a node. Full subnets, and those where launches in flight already take the last
// address, are left out (F06, F07).
func (a *addresses) reserveAddresses(subnets []discover.Subnet, pods int, gone func(id string) bool) map[string]chosenSubnet {
	a.mu.Lock()
	defer a.mu.Unlock()
	best, left := map[string]chosenSubnet{}, map[string]int{}
	sorted := slices.Clone(subnets)
	slices.SortFunc(sorted, func(x, y discover.Subnet) int {
		if x.ID < y.ID {
			return -1
		}
		return 1
	})
	for _, s := range sorted {
		e := a.estimateOf(s)
		if gone(s.ID) || e.described-e.launches <= 0 {
			continue
		}
		if _, has := best[s.Zone]; !has || e.described-e.debited > left[s.Zone] {
			best[s.Zone], left[s.Zone] = chosenSubnet{id: s.ID, zoneID: s.ZoneID}, e.described-e.debited
		}
	}
	for _, s := range best {
		a.by[s.id].debited += pods
		a.by[s.id].launches++
	}
	return best
}

// estimateOf is the estimate of a subnet. If the count differs from the one before, EC2 was called again, and the
// count includes what was in flight.
func (a *addresses) estimateOf(s discover.Subnet) *estimate {
	e, known := a.by[s.ID]
	now := a.now()
	if !known || e.described != s.Free || now.Sub(e.at) > estimateFor {
		e = &estimate{described: s.Free, at: now}
		a.by[s.ID] = e
	}
	return e
}

// returnAddresses gives addresses back in subnets that a launch did not use.
func (a *addresses) returnAddresses(ids []string, pods int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, id := range ids {
		if e, known := a.by[id]; known { // it may have been counted anew meanwhile
			e.debited, e.launches = max(0, e.debited-pods), max(0, e.launches-1)
		}
	}
}
