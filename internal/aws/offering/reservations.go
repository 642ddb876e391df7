package offering

import (
	"sync"
	"time"
)

// reservationFor is how long a count is believed without news.
const reservationFor = 24 * time.Hour

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
	free  int
	until time.Time
}

// NewReservations returns an empty count.
func NewReservations(now func() time.Time) *Reservations {
	return &Reservations{now: now, counts: map[string]count{}, version: 1}
}

// Set takes over what EC2 says.
func (r *Reservations) Set(id string, free int) {
	r.change(id, func(int) int { return free })
}

// Took counts an instance that was launched into the reservation.
func (r *Reservations) Took(id string) {
	r.change(id, func(free int) int { return free - 1 })
}

// Returned counts an instance of the reservation that is gone.
func (r *Reservations) Returned(id string) {
	r.change(id, func(free int) int { return free + 1 })
}

// Exhausted says that EC2 refused a launch: nothing is free, whatever was counted (F08).
func (r *Reservations) Exhausted(id string) {
	r.change(id, func(int) int { return 0 })
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

func (r *Reservations) change(id string, next func(free int) int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.free(id)
	after := max(0, next(before))
	until := r.now().Add(reservationFor)
	r.counts[id] = count{free: after, until: until}
	if r.next.IsZero() {
		r.next = until
	}
	if after != before {
		r.version++
	}
}

// sweep forgets the counts that are too old to be believed.
func (r *Reservations) sweep() {
	now := r.now()
	r.next = time.Time{}
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
