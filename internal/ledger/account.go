package ledger

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/inspect"
)

// Limits of accounts.
const (
	MaxGap     = 10 * time.Minute // between two observations; what is longer was not observed
	mostDays   = 400
	mostRows   = 100 // of NodePools or namespaces with a row of their own
	mostName   = 253 // bytes of a name
	fineSlot   = 5 * time.Minute
	fineFor    = 24 * time.Hour
	coarseSlot = time.Hour
	coarseFor  = 30 * 24 * time.Hour
	day        = 24 * time.Hour
	dayFormat  = "2006-01-02"
)

// accounts are what the cluster cost.
type accounts struct {
	accountHead

	days map[string]*bucket

	fine, coarse map[int64]inspect.Cost // by the start of the slot, in seconds

	limits  Limits
	prices  map[string]float64 // by claim, at the last observation
	shares  map[string]float64 // by command: what of the price of its nodes it saves
	changes uint64
	stamp   uint64 // changes with what earlier days have
	dropped int    // days that had to make room
}

// accountHead is what of accounts is no list of times.
type accountHead struct {
	Since time.Time `json:"since,omitzero"` // the first observation
	Until time.Time `json:"until,omitzero"` // the last one
	Total bucket    `json:"total"`          // of all days, also those that are forgotten
	Rate  rate      `json:"rate"`           // at the last observation

	Saved    map[string][]lot   `json:"saved,omitempty"`    // by NodePool: what consolidation saves
	Leaving  map[string]leaving `json:"leaving,omitempty"`  // by claim: nodes that commands have deleted
	Starting map[string]start   `json:"starting,omitempty"` // by claim: nodes that are launched for pods
}

// bucket is what a time cost.
type bucket struct {
	Seconds      float64        `json:"seconds"` // observed
	BoundSeconds float64        `json:"boundSeconds,omitempty"`
	Bound        float64        `json:"bound,omitempty"`
	BoundSpent   float64        `json:"boundSpent,omitempty"`
	Unpriced     int            `json:"unpriced,omitempty"` // nodes without a known price, at most
	Pools        map[string]row `json:"pools,omitempty"`
	Namespaces   map[string]row `json:"namespaces,omitempty"`
}

// row is what a part of the cluster cost, USD.
type row struct {
	Spent     float64 `json:"spent,omitempty"`
	Saved     float64 `json:"saved,omitempty"`
	Evictions int     `json:"evictions,omitempty"`
}

// rate is what the cluster costs at a time, USD an hour.
type rate struct {
	Pools      map[string]row     `json:"pools,omitempty"`
	Namespaces map[string]float64 `json:"namespaces,omitempty"` // RowIdle included
	Bound      float64            `json:"bound,omitempty"`
	Unpriced   int                `json:"unpriced,omitempty"`
}

func newAccounts(limits Limits) accounts {
	return accounts{
		accountHead: accountHead{Saved: map[string][]lot{}, Leaving: map[string]leaving{}, Starting: map[string]start{}},
		days:        map[string]*bucket{}, fine: map[int64]inspect.Cost{}, coarse: map[int64]inspect.Cost{}, limits: limits, prices: map[string]float64{}, shares: map[string]float64{},
	}
}

// Observe records what the cluster costs at a time. From the observation before until this one it has cost what it did then.
func (b *Book) Observe(o Observation) {
	a := &b.accounts
	at := o.At.UTC().Round(0)
	from, first := a.Until, a.Until.IsZero()
	if back := from.Sub(at); !first && back > 0 && back <= MaxGap {
		at = from // the clock is a little behind now: no time counts twice
	}
	if gap := at.Sub(from); !first && gap > 0 && gap <= MaxGap {
		a.spend(from, at)
	}
	if first {
		a.Since = at
	}
	a.Until = at
	a.recordNodes(&o)
	if o.Bound <= 0 && o.Unchanged && !first && at.Sub(from) <= MaxGap {
		o.Bound = a.Rate.Bound
	}
	a.Rate = a.rateOf(&o)
	a.point(&o)
	a.dropOldCosts()
	if !first && from.Format(dayFormat) != at.Format(dayFormat) {
		a.sealDays()
	}
}

// spend adds what was spent between two times, at the rate of the first.
func (a *accounts) spend(from, to time.Time) {
	for from.Before(to) {
		end := from.Truncate(day).Add(day)
		if to.Before(end) {
			end = to
		}
		a.bucketOf(from).spend(&a.Rate, end.Sub(from))
		a.Total.spend(&a.Rate, end.Sub(from))
		from = end
	}
}

func (a *accounts) bucketOf(at time.Time) *bucket {
	key := at.Format(dayFormat)
	if a.days[key] == nil {
		a.days[key] = &bucket{}
	}
	return a.days[key]
}

func (k *bucket) spend(r *rate, d time.Duration) {
	hours, sum, saved := d.Hours(), 0.0, 0.0
	k.Seconds += d.Seconds()
	k.Unpriced = max(k.Unpriced, r.Unpriced)
	for _, name := range slices.Sorted(maps.Keys(r.Pools)) { // the same sum on every run
		p := r.Pools[name]
		k.pool(name, row{Spent: p.Spent * hours, Saved: p.Saved * hours})
		sum += p.Spent
		saved += p.Saved
	}
	for _, name := range largestFirst(r.Namespaces) {
		add := row{Spent: r.Namespaces[name] * hours}
		if name == inspect.RowIdle {
			add.Saved = saved * hours
		}
		k.namespace(name, add)
	}
	if r.Bound > 0 {
		k.BoundSeconds += d.Seconds()
		k.Bound += r.Bound * hours
		k.BoundSpent += sum * hours
	}
}

func (k *bucket) pool(name string, add row)      { k.Pools = addRow(k.Pools, name, add) }
func (k *bucket) namespace(name string, add row) { k.Namespaces = addRow(k.Namespaces, name, add) }

// addRow adds to a row. Those beyond the limit of rows are one.
func addRow(rows map[string]row, name string, add row) map[string]row {
	if rows == nil {
		rows = map[string]row{}
	}
	r, found := rows[name]
	if !found && (len(rows) >= mostRows || len(name) > mostName) && name != inspect.RowIdle {
		name = inspect.RowOther
		r = rows[name]
	}
	rows[name] = row{r.Spent + add.Spent, r.Saved + add.Saved, r.Evictions + add.Evictions}
	return rows
}

// largestFirst orders names by their price, so that of too many the largest have rows of their own.
func largestFirst(prices map[string]float64) []string {
	return slices.SortedFunc(maps.Keys(prices), func(a, b string) int {
		return cmp.Or(cmp.Compare(prices[b], prices[a]), cmp.Compare(a, b))
	})
}

// rateOf is what the cluster costs as observed.
func (a *accounts) rateOf(o *Observation) rate {
	r := rate{Pools: map[string]row{}, Namespaces: map[string]float64{}, Bound: positive(o.Bound)}
	sum := 0.0
	for i := range o.Nodes {
		n := &o.Nodes[i]
		price := a.prices[validText(n.Claim)]
		if n.Unpriced && price == 0 {
			r.Unpriced++
		}
		r.Pools = addRow(r.Pools, clip(n.Pool, mostName), row{Spent: price})
		sum += price
	}
	for _, pool := range slices.Sorted(maps.Keys(a.Saved)) {
		r.Pools = addRow(r.Pools, pool, row{Saved: savedBy(a.Saved[pool])})
	}
	left := sum
	for _, name := range largestFirst(o.Namespaces) {
		cost := min(positive(o.Namespaces[name]), left)
		left -= cost
		if cost == 0 {
			continue
		}
		if name = clip(name, mostName); len(r.Namespaces) >= mostRows-2 {
			name = inspect.RowOther
		}
		r.Namespaces[name] += cost
	}
	if left > 0 || len(r.Pools) > 0 {
		r.Namespaces[inspect.RowIdle] += max(0, left)
	}
	r.Bound = min(r.Bound, sum) // to the last digit: both are sums of the same prices
	return r
}

// point keeps what the chart of costs shows: the latest of each slot, with a bound if one of them has one.
func (a *accounts) point(o *Observation) {
	c := inspect.Cost{At: a.Until, Bound: a.Rate.Bound, Nodes: len(o.Nodes), Pods: o.Pods}
	for _, pool := range slices.Sorted(maps.Keys(a.Rate.Pools)) {
		c.Hourly += a.Rate.Pools[pool].Spent
		c.Saved += a.Rate.Pools[pool].Saved
	}
	a.addPoint(a.fine, fineSlot, c)
	a.addPoint(a.coarse, coarseSlot, c)
}

func (a *accounts) addPoint(points map[int64]inspect.Cost, slot time.Duration, c inspect.Cost) {
	key := c.At.Truncate(slot).Unix()
	known, found := points[key]
	c.Evictions = known.Evictions
	if found && c.Bound == 0 && known.Bound > 0 {
		return // what it was a moment before says more
	}
	points[key] = c
}

// Evicted counts a pod that was evicted, or deleted at a deadline.
func (b *Book) Evicted(at time.Time, pool, namespace string) {
	a := &b.accounts
	at = at.UTC().Round(0)
	one := row{Evictions: 1}
	for _, k := range []*bucket{a.bucketOf(at), &a.Total} {
		k.pool(clip(cmp.Or(pool, inspect.RowOther), mostName), one)
		k.namespace(clip(cmp.Or(namespace, inspect.RowOther), mostName), one)
	}
	for slot, points := range map[time.Duration]map[int64]inspect.Cost{fineSlot: a.fine, coarseSlot: a.coarse} { // any order: each is counted by itself
		key := at.Truncate(slot).Unix()
		c, found := points[key]
		if !found {
			if c, found = points[a.Until.Truncate(slot).Unix()]; !found || at.Sub(a.Until) > MaxGap {
				continue // what the nodes cost is not known
			}
			c.At, c.Evictions = at, 0
		}
		c.Evictions++
		points[key] = c
	}
	a.changes++
}

// dropOldCosts drops what is too old to be shown.
func (a *accounts) dropOldCosts() {
	old := func(points map[int64]inspect.Cost, keep time.Duration) {
		maps.DeleteFunc(points, func(at int64, _ inspect.Cost) bool { return a.Until.Sub(time.Unix(at, 0)) > keep })
	}
	old(a.fine, fineFor)
	old(a.coarse, coarseFor)
}

// sealDays bounds the days, when one has passed.
func (a *accounts) sealDays() {
	a.stamp++
	for len(a.days) > mostDays || len(a.days) > 1 && len(a.encodePast()) > a.limits.Segment {
		oldest := slices.Sorted(maps.Keys(a.days))
		for _, key := range oldest[:max(1, len(oldest)/20)] {
			delete(a.days, key)
			a.dropped++
		}
	}
}

// finite replaces what is no number that JSON can say.
func finite(x float64) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return 0
	}
	return x
}

func positive(x float64) float64 { return max(0, finite(x)) }
