package disrupt

import (
	"encoding/binary"
	"hash/fnv"
	"time"
)

// Backoff delays retries: each failure doubles the delay, from Base up to Cap. The delay is drawn from
// [w/2, w), so that operations that failed together are not retried together (disruption 18).
type Backoff struct {
	Base, Cap time.Duration
	Seed      uint64

	entries map[string]backoffEntry
}

type backoffEntry struct {
	until    time.Time
	failures int
}

// RecordFailure records a failure and reports whether it counts. A failure during a back-off does not: the
// operation was started before the back-off.
func (b *Backoff) RecordFailure(name string, now time.Time) bool {
	r := b.entries[name]
	if now.Before(r.until) {
		return false
	}
	window := b.Cap
	if r.failures < 32 && b.Base<<r.failures < b.Cap {
		window = b.Base << r.failures
	}
	r.failures++
	half := window / 2
	r.until = now.Add(half + time.Duration(b.jitter(name, r.failures)%uint64(max(half, 1))))
	if b.entries == nil {
		b.entries = map[string]backoffEntry{}
	}
	b.entries[name] = r
	return true
}

// jitter returns a pseudo-random number that is the same for the same seed.
func (b *Backoff) jitter(name string, n int) uint64 {
	var numbers [16]byte
	binary.BigEndian.PutUint64(numbers[:8], b.Seed)
	binary.BigEndian.PutUint64(numbers[8:], uint64(n))
	h := fnv.New64a()
	h.Write(numbers[:])
	h.Write([]byte(name))
	return h.Sum64()
}

// RecordSuccess resets the back-off of a name.
func (b *Backoff) RecordSuccess(name string) { delete(b.entries, name) }

// Deadlines returns the names in back-off, and until when. Entries that expired long ago are dropped.
func (b *Backoff) Deadlines(now time.Time) map[string]time.Time {
	out := map[string]time.Time{}
	for name, r := range b.entries {
		switch {
		case now.Before(r.until):
			out[name] = r.until
		case now.Sub(r.until) > 4*b.Cap:
			delete(b.entries, name)
		}
	}
	return out
}
