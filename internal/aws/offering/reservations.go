package offering

import (
	"slices"
	"sync"
	"time"
)

const (
	// reservationFor is how long a count is believed without news.
	reservationFor = 24 * time.Hour
	// takersFor is how long it is told which claims a count includes. Long before that they say themselves
	// that they are launched.
	takersFor = 10 * time.Minute
)

// Reservations counts the free instances of capacity reservations between two looks at EC2. It is safe
// for concurrent use. A reservation that nobody has told of has none free.
type Reservations struct {
	now     func() time.Time
	mu      sync.Mutex
	counts  map[string]count
	next    time.Time // no count is older before this time; zero: there is none
	version uint64
}

type count struct {
	free   int
	until  time.Time
	asked  time.Time          // when the answer of EC2 was asked for that it began with
	takers []reservationClaim // by age
}

// reservationClaim is a claim that got an instance of a reservation.
type reservationClaim struct {
	claim string // UID
	at    time.Time
	found bool // the instance had been there before; EC2 has counted it
}

// NewReservations returns an empty count.
func NewReservations(now func() time.Time) *Reservations {
	return &Reservations{now: now, counts: map[string]count{}, version: 1}
}

// Set takes over what EC2 says to a question that was asked at some time. What was launched since then is
// not in the answer, or may not be: rather a free slot is overlooked until the next answer than promised.
func (r *Reservations) Set(id string, free int, asked time.Time) {
	r.change(id, func(c *count) {
		c.free, c.asked = free, asked
		for _, t := range c.takers {
			if !t.found && !t.at.Before(asked) {
				c.free--
			}
		}
	})
}

// Took counts an instance that was launched into the reservation for a claim, once.
func (r *Reservations) Took(id, claim string) {
	r.change(id, func(c *count) {
		if !c.took(claim) {
			c.free--
			c.takers = append(c.takers, reservationClaim{claim: claim, at: r.now()})
		}
	})
}

// Found notes that a claim turned out to have an instance in the reservation, which EC2 counts already.
func (r *Reservations) Found(id, claim string) {
	r.change(id, func(c *count) {
		if !c.took(claim) {
			c.takers = append(c.takers, reservationClaim{claim: claim, at: r.now(), found: true})
		}
	})
}

// Returned counts an instance of the reservation that is gone and was last seen at some time. If EC2 was asked
// since then, its answer may count the slot already.
func (r *Reservations) Returned(id string, seen time.Time) {
	r.change(id, func(c *count) {
		if seen.After(c.asked) {
			c.free++
		}
	})
}

// Exhausted says that EC2 refused a launch: nothing is free, whatever was counted (F08).
func (r *Reservations) Exhausted(id string) {
	r.change(id, func(c *count) { c.free = 0 })
}

// Count is Free together with the UIDs of the claims that lately got an instance, which it leaves out.
func (r *Reservations) Count(id string) (free int, takers []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.counts[id].takers {
		takers = append(takers, t.claim)
	}
	return r.free(id), takers
}

func (c *count) took(claim string) bool {
	return slices.ContainsFunc(c.takers, func(t reservationClaim) bool { return t.claim == claim })
}

// Free is the number of instances that can be launched into the reservation.
func (r *Reservations) Free(id string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.free(id)
}

// Version rises with every count that changes or becomes too old.
func (r *Reservations) Version() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.next.IsZero() && !r.now().Before(r.next) {
		r.sweep()
	}
	return r.version
}

func (r *Reservations) free(id string) int {
	c, known := r.counts[id]
	if !known || !r.now().Before(c.until) {
		return 0
	}
	return c.free
}

func (r *Reservations) change(id string, change func(c *count)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	before := r.free(id)
	c := count{free: before, until: now.Add(reservationFor), asked: r.counts[id].asked, takers: slices.Clone(r.counts[id].takers)}
	c.takers = slices.DeleteFunc(c.takers, func(t reservationClaim) bool { return now.Sub(t.at) > takersFor })
	known := len(c.takers)
	change(&c)
	c.free = max(0, c.free)
	r.counts[id] = c
	if r.next.IsZero() {
		r.next = c.until
	}
	if c.free != before || len(c.takers) != known {
		r.version++
	}
}

// sweep forgets the counts that are too old to be believed.
func (r *Reservations) sweep() {
	now := r.now()
	r.next = time.Time{}
	// any order: each expires by itself, and the earliest of the rest is kept
	for id, c := range r.counts {
		switch {
		case !now.Before(c.until):
			delete(r.counts, id)
			r.version++
		case r.next.IsZero() || c.until.Before(r.next):
			r.next = c.until
		}
	}
}
