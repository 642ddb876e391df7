package app

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/dovetail-sh/dovetail/internal/store"
)

const (
	littleSkew   = 5 * time.Second  // that answers of the API server, which are dated in whole seconds, do not tell for sure
	mostSkew     = time.Minute      // that our clock may differ from the API server's (FM N06)
	slowAnswer   = 10 * time.Second // an answer that took longer tells little about the time
	skewReminder = time.Minute
)

// clock compares the clock of this machine with that of the API server, which dates objects and each of its
// answers. Ages of objects and instances are counted with its time, not with ours: else nodes would expire, new
// claims would time out, and drains would be cut short (FM N06).
type clock struct {
	now  func() time.Time
	last atomic.Pointer[comparison]
}

// comparison is what one answer told.
type comparison struct {
	at   time.Time     // ours
	skew time.Duration // ours less theirs
}

// time is the time of the API server, as far as it is known. Between two answers it runs with the clock of this
// machine that nobody can set. It has no reading of that clock: what is measured with it is measured on the
// API server's clock, also if ours was set meanwhile.
func (c *clock) time() time.Time {
	now, last := c.now(), c.last.Load()
	if last == nil {
		return now.Round(0)
	}
	at := last.at.Add(now.Sub(last.at))
	if last.skew.Abs() > littleSkew {
		at = at.Add(-last.skew)
	}
	return at.Round(0)
}

// skewBeyondLimit reports by how much the clock is off, if that is too much.
func (c *clock) skewBeyondLimit() (skew time.Duration, is bool) {
	if last := c.last.Load(); last != nil {
		skew = last.skew
	}
	return skew, skew.Abs() > mostSkew
}

func (c *clock) isSkewed() bool {
	_, off := c.skewBeyondLimit()
	return off
}

// wrapTransport reads the date of every answer.
func (c *clock) wrapTransport(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		asked := c.now()
		answer, err := next.RoundTrip(r)
		if err != nil {
			return answer, err
		}
		c.recordDate(asked, c.now(), answer.Header.Get("Date"))
		return answer, nil
	})
}

// recordDate takes in the date of an answer, which has whole seconds.
func (c *clock) recordDate(asked, answered time.Time, date string) {
	theirs, err := http.ParseTime(date)
	took := answered.Sub(asked)
	if err != nil || took < 0 || took > slowAnswer {
		return
	}
	ours := asked.Add(took / 2)
	c.last.Store(&comparison{at: ours, skew: ours.Sub(theirs).Truncate(time.Second)})
}

type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip calls the function.
func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// NeedLeaderElection says that a standby reports its clock too.
func (c *clock) NeedLeaderElection() bool { return false }

// Start warns for as long as the clock is off.
func (c *clock) Start(ctx context.Context) error {
	tick := time.NewTicker(skewReminder)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if skew, off := c.skewBeyondLimit(); off {
				log.FromContext(ctx).Error(fmt.Errorf("the clock of this machine is %s ahead of the API server's", skew),
					"ages are counted with the time of the API server; expiration and voluntary disruption are paused until the clocks agree; look at the time service of the node", "skew", skew.String())
			}
		}
	}
}

// clockChecked is a memory that voluntary disruption may act on only while the clock is right.
type clockChecked struct {
	*store.Store

	clock *clock
}

// Synced reports whether all is known, including the time.
func (t clockChecked) Synced() bool {
	return !t.clock.isSkewed() && t.Store.Synced()
}
