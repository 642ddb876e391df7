package ledger

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/inspect"
)

// merge takes the accounts of which more was observed, day by day and hour by hour. Only one process observes at a time: two
// copies differ because one was stored a little earlier than the other, or went on from that.
func (a *accounts) merge(other *accounts) {
	for key, k := range other.days { // any order: each by itself
		if known := a.days[key]; known == nil || betterBucket(k, known) {
			copied := *k
			a.days[key] = &copied
		}
	}
	for key, c := range other.fine { // any order: each by itself
		if known, found := a.fine[key]; !found || betterPoint(&c, &known) {
			a.fine[key] = c
		}
	}
	for key, c := range other.coarse { // any order: each by itself
		if known, found := a.coarse[key]; !found || betterPoint(&c, &known) {
			a.coarse[key] = c
		}
	}
	a.mergeHead(&other.accountHead)
	if len(a.prices) == 0 { // that of the process, not of what it has read
		a.prices, a.shares = other.prices, other.shares
	}
	a.dropped = max(a.dropped, other.dropped)
	a.stamp++
	a.changes++
	a.dropOldCosts()
	a.sealDays()
}

// mergeHead takes the later state. Of two of the same time, nodes that one does not have were recorded since.
func (a *accounts) mergeHead(other *accountHead) {
	since := a.Since
	if since.IsZero() || !other.Since.IsZero() && other.Since.Before(since) {
		since = other.Since
	}
	mine, theirs := a.accountHead, *other
	if c := compareHeads(&mine, &theirs); c < 0 {
		mine, theirs = theirs, mine
	}
	later := mine.clone()
	if mine.Until.Equal(theirs.Until) {
		unite(later.Leaving, theirs.Leaving)
		unite(later.Starting, theirs.Starting)
	}
	if betterBucket(&theirs.Total, &later.Total) {
		later.Total = theirs.Total.clone()
	}
	later.Since = since
	a.accountHead = later
}

func compareHeads(a, b *accountHead) int {
	return cmp.Or(a.Until.Compare(b.Until), compareBuckets(&a.Total, &b.Total), compareText(a, b))
}

// unite adds what is missing. Of two values for a name the same one is taken whichever comes first.
func unite[T any](into, from map[string]T) {
	for name, value := range from { // any order: each by itself
		if have, found := into[name]; !found && hasRoom(into, name) || found && compareText(have, value) < 0 {
			into[name] = value
		}
	}
}

// clone copies everything that changes in place.
func (h *accountHead) clone() accountHead {
	out := *h
	out.Total = h.Total.clone()
	out.Saved, out.Leaving, out.Starting = map[string][]lot{}, map[string]leaving{}, map[string]start{}
	for pool, lots := range h.Saved { // any order: each by itself
		out.Saved[pool] = slices.Clone(lots)
	}
	unite(out.Leaving, h.Leaving)
	unite(out.Starting, h.Starting)
	return out
}

func (k *bucket) clone() bucket { return k.bounded() }

func betterBucket(k, than *bucket) bool { return compareBuckets(k, than) > 0 }
func betterPoint(c, than *inspect.Cost) bool {
	return cmp.Or(c.At.Compare(than.At), cmp.Compare(c.Evictions, than.Evictions), compareText(c, than)) > 0
}

func compareBuckets(a, b *bucket) int {
	return cmp.Or(cmp.Compare(a.Seconds, b.Seconds), cmp.Compare(a.evictions(), b.evictions()), compareText(a, b))
}

func (k *bucket) evictions() int {
	sum := 0
	for _, r := range k.Pools { // any order: integers are added up
		sum += r.Evictions
	}
	return sum
}

// compareText orders values of which nothing else says which is to be taken.
func compareText(a, b any) int {
	x, _ := marshal(a) // everything in a Book can be written
	y, _ := marshal(b)
	return bytes.Compare(x, y)
}

// precede puts the accounts of an earlier process before these.
func (a *accounts) precede(earlier *accounts) {
	for key, k := range earlier.days { // any order: each by itself
		sum := k.clone()
		if mine := a.days[key]; mine != nil {
			sum.add(mine)
		}
		sum.Seconds = min(sum.Seconds, day.Seconds())
		sum.BoundSeconds = min(sum.BoundSeconds, sum.Seconds)
		a.days[key] = &sum
	}
	addPoints(a.fine, earlier.fine)
	addPoints(a.coarse, earlier.coarse)
	h, mine := earlier.accountHead.clone(), &a.accountHead
	h.Total.add(&mine.Total)
	if !mine.Until.IsZero() {
		h.Until, h.Rate = mine.Until, mine.Rate
	}
	if h.Since.IsZero() {
		h.Since = mine.Since
	}
	unite(h.Leaving, mine.Leaving)
	unite(h.Starting, mine.Starting)
	for pool, lots := range mine.Saved { // any order: each by itself
		for _, l := range lots {
			h.Saved[pool] = addLot(h.Saved[pool], l)
		}
	}
	a.accountHead = h
	a.dropped += earlier.dropped
	a.stamp++
	a.changes++
	a.dropOldCosts()
	a.sealDays()
}

func (k *bucket) add(other *bucket) {
	k.Seconds += other.Seconds
	k.BoundSeconds += other.BoundSeconds
	k.Bound += other.Bound
	k.BoundSpent += other.BoundSpent
	k.Unpriced = max(k.Unpriced, other.Unpriced)
	more := other.bounded()
	for name, r := range more.Pools { // any order: each has a row of its own
		k.pool(name, r)
	}
	for name, r := range more.Namespaces { // any order: each has a row of its own
		k.namespace(name, r)
	}
}

func addPoints(points, earlier map[int64]inspect.Cost) {
	for key, c := range earlier { // any order: each by itself
		if mine, found := points[key]; found {
			mine.Evictions += c.Evictions
			c = mine
		}
		points[key] = c
	}
}
