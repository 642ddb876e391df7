package journal

import (
	"maps"
	"sync"
	"time"
)

// Questions to the API server about tokens: so many for each caller, so that one who tries many of them
// locks out no other client, and so many for all strangers, so that many callers do not load the API server.
const (
	perSecond, burst       = 5, 20
	allPerSecond, allBurst = 20, 100
	mostCallers            = 1000
)

// limits are the buckets of the callers.
type limits struct {
	mu      sync.Mutex
	all     bucket
	callers map[string]*bucket
}

// allowCaller reports whether a caller may send a request now. One that was let in before is no stranger.
func (l *limits) allowCaller(caller string, stranger bool, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.callers[caller]
	if own == nil {
		if len(l.callers) >= mostCallers {
			maps.DeleteFunc(l.callers, func(_ string, b *bucket) bool { return b.refilled(perSecond, burst, now) == burst })
		}
		if len(l.callers) >= mostCallers {
			return false
		}
		if l.callers == nil {
			l.callers = map[string]*bucket{}
		}
		own = &bucket{}
		l.callers[caller] = own
	}
	return own.takeToken(perSecond, burst, now) && (!stranger || l.all.takeToken(allPerSecond, allBurst, now))
}

// bucket fills with time. A new one is full.
type bucket struct {
	used float64
	at   time.Time
}

// refilled returns what is in the bucket now.
func (b *bucket) refilled(rate, most float64, now time.Time) float64 {
	if now.After(b.at) {
		b.used, b.at = max(0, b.used-rate*now.Sub(b.at).Seconds()), now
	}
	return most - b.used
}

func (b *bucket) takeToken(rate, most float64, now time.Time) bool {
	if b.refilled(rate, most, now) < 1 {
		return false
	}
	b.used++
	return true
}
