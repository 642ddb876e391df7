package disrupt

import "time"

// PriceWaitTimeout is how long a new leader waits for prices. A price list that cannot be reached may take many
// minutes to fail, and the last known prices are then all there is.
const PriceWaitTimeout = 2 * time.Minute

// PriceWait is the wait of a new leader for prices. The built-in prices are not those of the region, and nodes must not
// be replaced because of them (FM P05). Pending pods do not wait for prices. The zero value is that of a new leader.
type PriceWait struct {
	since time.Time // when it began; zero: it did not
	over  bool
}

// PriceWaitChange is what became of the wait, for the log.
type PriceWaitChange string

// Changes of the wait. None of them: it continues, or there is none.
const (
	PriceWaitBegan    PriceWaitChange = "began"
	PriceWaitEnded    PriceWaitChange = "ended"
	PriceWaitTimedOut PriceWaitChange = "timed out"
)

// Advance reports whether decisions that depend on prices have to wait, what changed, and for how long they waited.
func (w *PriceWait) Advance(priced bool, now time.Time) (wait bool, change PriceWaitChange, waited time.Duration) {
	switch {
	case w.over:
		return false, "", 0
	case w.since.IsZero() && priced:
		w.over = true
		return false, "", 0
	case w.since.IsZero():
		w.since = now
		return true, PriceWaitBegan, 0
	}
	waited = now.Sub(w.since)
	switch {
	case priced:
		w.over, change = true, PriceWaitEnded
	case waited >= PriceWaitTimeout:
		w.over, change = true, PriceWaitTimedOut
	}
	return !w.over, change, waited
}
