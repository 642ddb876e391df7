package ledger

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/inspect"
)

const (
	savedFor    = 30 * day // nodes expire after this time by default
	startWithin = time.Hour
	mostClaims  = 2000
	mostTracked = 64 << 10 // bytes of the names of claims
)

// What consolidation saved is an estimate. Without it, nodes that it removed would still run, and pods that came later would
// have used them before others were launched. So the savings of a NodePool grow by the price of each node that a command
// for empty or underutilized nodes really removed, less its share of what the replacements of the command cost, and shrink by
// the price of each node that is launched for pods. They never fall below zero. What was removed counts for 30 days, the
// time after which nodes expire by default, and only while its NodePool exists. The estimate does not know that prices
// change, nor that some of the later pods would not have fitted on the removed nodes.

// lot is what consolidation has saved since a day, and has not been used by later pods.
type lot struct {
	Day    string  `json:"day"`
	Hourly float64 `json:"hourly"` // USD
}

// leaving is a node that a command has deleted, and that still runs.
type leaving struct {
	Pool  string  `json:"pool"`
	Saves float64 `json:"saves"` // USD an hour
}

// start is a node that is launched for pods.
type start struct {
	At time.Time `json:"at"`
}

// Removal is a node that a command has deleted.
type Removal struct {
	Command      string // token
	Claim        string
	Pool         string
	Price        float64  // USD an hour
	All          float64  // of all nodes of the command
	Replacements []string // claims
	Planned      float64  // what these were expected to cost
}

// Removed records a node that consolidation has deleted. What it saves counts once the node is gone.
func (b *Book) Removed(r Removal) {
	a := &b.accounts
	r.Claim = validText(r.Claim)
	share, known := a.shares[r.Command]
	if !known {
		cost := 0.0
		for _, claim := range r.Replacements {
			price, seen := a.prices[claim]
			if !seen {
				cost = r.Planned
				break
			}
			cost += price
		}
		share = 1
		if all := positive(r.All); all > 0 {
			share = max(0, 1-positive(cost)/all)
		}
		if len(a.shares) >= mostClaims {
			clear(a.shares) // they are needed for as long as a command runs
		}
		a.shares[r.Command] = share
	}
	if hasRoom(a.Leaving, r.Claim) {
		a.Leaving[r.Claim] = leaving{Pool: clip(r.Pool, mostName), Saves: share * positive(r.Price)}
	}
	a.changes++
}

// Launched records a node that is launched for pods. Without consolidation its pods would have used what runs then.
func (b *Book) Launched(claim string, at time.Time) {
	claim = validText(claim)
	if a := &b.accounts; hasRoom(a.Starting, claim) {
		a.Starting[claim] = start{At: at.UTC().Round(0)}
		a.changes++
	}
}

// hasRoom reports whether one more claim can be tracked.
func hasRoom[T any](tracked map[string]T, claim string) bool {
	bytes := len(claim)
	for name := range tracked { // any order: they are added up
		bytes += len(name)
	}
	return len(claim) <= mostName && len(tracked) < mostClaims && bytes <= mostTracked
}

// recordNodes records which nodes are new, and which are deleted.
func (a *accounts) recordNodes(o *Observation) {
	last, pools := a.prices, map[string]string{}
	a.prices = make(map[string]float64, len(o.Nodes))
	for i := range o.Nodes {
		n := &o.Nodes[i]
		claim, price := validText(n.Claim), positive(n.Price)
		if n.Unpriced {
			price = last[claim]
		}
		a.prices[claim], pools[claim] = price, clip(n.Pool, mostName)
	}
	for _, claim := range slices.Sorted(maps.Keys(a.Leaving)) {
		if _, runs := a.prices[claim]; !runs {
			gone := a.Leaving[claim]
			if a.Saved[gone.Pool] == nil && len(a.Saved) >= mostRows {
				gone.Pool = inspect.RowOther
			}
			a.Saved[gone.Pool] = addLot(a.Saved[gone.Pool], lot{a.Until.Format(dayFormat), gone.Saves})
			delete(a.Leaving, claim)
		}
	}
	for _, claim := range slices.Sorted(maps.Keys(a.Starting)) {
		price, runs := a.prices[claim]
		switch {
		case runs && price > 0:
			a.Saved[pools[claim]] = use(a.Saved[pools[claim]], price)
			delete(a.Starting, claim)
		case a.Until.Sub(a.Starting[claim].At) > startWithin:
			delete(a.Starting, claim)
		}
	}
	a.endLots(o.Pools)
}

// endLots drops savings that are too old, or whose NodePool is gone.
func (a *accounts) endLots(pools []string) {
	oldest := a.Until.Add(-savedFor).Format(dayFormat)
	for _, pool := range slices.Sorted(maps.Keys(a.Saved)) {
		left := slices.DeleteFunc(a.Saved[pool], func(l lot) bool { return l.Day < oldest || l.Hourly <= 0 })
		if a.Saved[pool] = left; len(left) == 0 || !slices.Contains(pools, pool) && pool != inspect.RowOther {
			delete(a.Saved, pool)
		}
	}
}

// addLot adds to the savings of a day, in order of days.
func addLot(lots []lot, add lot) []lot {
	at, found := slices.BinarySearchFunc(lots, add.Day, func(l lot, day string) int { return strings.Compare(l.Day, day) })
	if found {
		lots[at].Hourly += add.Hourly
		return lots
	}
	return slices.Insert(lots, at, add)
}

// use takes what pods use of what would still run, the oldest first.
func use(lots []lot, price float64) []lot {
	for i := range lots {
		taken := min(price, lots[i].Hourly)
		lots[i].Hourly -= taken
		price -= taken
	}
	return lots
}

func savedBy(lots []lot) float64 {
	sum := 0.0
	for _, l := range lots {
		sum += l.Hourly
	}
	return sum
}
