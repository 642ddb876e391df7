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
	mostSkew     = time.Minute      // that our clock may differ from the API server's (FM N06)
	slowAnswer   = 10 * time.Second // an answer that took longer tells little about the time
	skewReminder = time.Minute
)

// clock compares the clock of this machine with that of the API server, which dates objects and each of its
// answers. While they differ, ages mean nothing: nodes would expire, or count as empty for hours (FM N06).
type clock struct {
	now  func() time.Time
	skew atomic.Int64 // ours less theirs; nanoseconds
}

// off reports by how much the clock is off, if that is too much.
func (c *clock) off() (skew time.Duration, is bool) {
	skew = time.Duration(c.skew.Load())
	return skew, skew.Abs() > mostSkew
}

func (c *clock) wrong() bool {
	_, off := c.off()
	return off
}

// wrap reads the date of every answer.
func (c *clock) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		asked := c.now()
		answer, err := next.RoundTrip(r)
		if err != nil {
			return answer, err
		}
		c.read(asked, c.now(), answer.Header.Get("Date"))
		return answer, nil
	})
}

// read takes in the date of an answer, which has whole seconds.
func (c *clock) read(asked, answered time.Time, date string) {
	theirs, err := http.ParseTime(date)
	took := answered.Sub(asked)
	if err != nil || took < 0 || took > slowAnswer {
		return
	}
	c.skew.Store(int64(asked.Add(took / 2).Sub(theirs).Truncate(time.Second)))
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
			if skew, off := c.off(); off {
				log.FromContext(ctx).Error(fmt.Errorf("the clock of this machine is %s ahead of the API server's", skew),
					"expiration and voluntary disruption are paused until the clocks agree; look at the time service of the node", "skew", skew.String())
			}
		}
	}
}

// timely is a memory that voluntary disruption may act on only while the clock is right.
type timely struct {
	*store.Store

	clock *clock
}

// Synced reports whether all is known, including the time.
func (t timely) Synced() bool {
	return !t.clock.wrong() && t.Store.Synced()
}
