package offering

import (
	"slices"
	"sync"
	"time"
)

const (
	// reservationFor is how long a count is used without an update.
	reservationFor = 24 * time.Hour
	// takersFor is how long the claims that a count includes are reported. Long before that, the claims themselves
	// show that they are launched.
	takersFor = 10 * time.Minute
)

// Reservations counts the free instances of capacity reservations between two responses of EC2. It is safe for
// concurrent use. A reservation that was never reported has none free.
type Reservations struct {
	now     func() time.Time
	mu      sync.Mutex
	counts  map[string]count
	next    time.Time // no count is older before this time; zero: there is none
	version uint64
}

type count struct {
	free        int
	until       time.Time
	requestedAt time.Time          // when the request was sent whose response it began with
	takers      []reservationClaim // by age
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

// Set records the response of EC2 to a request that was sent at some time. It may not include what was launched since
// then: it is better to overlook a free slot until the next response than to plan with one that is taken.
func (r *Reservations) Set(id string, free int, requestedAt time.Time) {
	r.change(id, func(c *count) {
		c.free, c.requestedAt = free, requestedAt
		for _, t := range c.takers {
			if !t.found && !t.at.Before(requestedAt) {
				c.free--
			}
		}
	})
}

// Took counts an instance that was launched into the reservation for a claim, once.
func (r *Reservations) Took(id, claim string) {
	r.change(id, func(c *count) {
		if !c.countLaunch(claim) {
			c.free--
			c.takers = append(c.takers, reservationClaim{claim: claim, at: r.now()})
		}
	})
}

// Found notes that a claim turned out to have an instance in the reservation, which EC2 counts already.
func (r *Reservations) Found(id, claim string) {
	r.change(id, func(c *count) {
		if !c.countLaunch(claim) {
			c.takers = append(c.takers, reservationClaim{claim: claim, at: r.now(), found: true})
		}
	})
}

// Returned counts a terminated instance of the reservation that was last seen at some time. If EC2 was called since
// then, its response may count the slot already.
func (r *Reservations) Returned(id string, seen time.Time) {
	r.change(id, func(c *count) {
		if seen.After(c.requestedAt) {
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

func (c *count) countLaunch(claim string) bool {
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
	c := count{free: before, until: now.Add(reservationFor), requestedAt: r.counts[id].requestedAt, takers: slices.Clone(r.counts[id].takers)}
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

// sweep drops the counts that are too old to be used.
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
