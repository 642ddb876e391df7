package app

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	littleSkew   = 5 * time.Second  // smaller skews are not certain, because the API server dates responses in whole seconds
	mostSkew     = time.Minute      // largest tolerated skew between this clock and that of the API server (FM N06)
	slowResponse = 10 * time.Second // a response that took longer says little about the time
	skewReminder = time.Minute
)

// clock compares the clock of this machine with that of the API server, which dates objects and each of its
// responses. Ages of objects and instances are computed with the API server's time. Otherwise nodes would expire, new
// claims would time out, and drains would be cut short (FM N06).
type clock struct {
	now  func() time.Time
	last atomic.Pointer[comparison]
}

// comparison is the result of one response.
type comparison struct {
	at   time.Time     // ours
	skew time.Duration // ours less theirs
}

// apiServerTime is the time of the API server, as far as it is known. Between two responses it advances with the monotonic
// clock of this machine. The value has no monotonic reading: durations are measured on the API server's clock, even
// if the clock of this machine was set meanwhile.
func (c *clock) apiServerTime() time.Time {
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

// wrapTransport reads the date of every response.
func (c *clock) wrapTransport(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		sent := c.now()
		response, err := next.RoundTrip(r)
		if err != nil {
			return response, err
		}
		c.recordDate(sent, c.now(), response.Header.Get("Date"))
		return response, nil
	})
}

// recordDate records the date of a response, which has whole seconds.
func (c *clock) recordDate(sent, received time.Time, date string) {
	theirs, err := http.ParseTime(date)
	took := received.Sub(sent)
	if err != nil || took < 0 || took > slowResponse {
		return
	}
	ours := sent.Add(took / 2)
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
