package app

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// lease records when this replica renewed its lease, and refuses its writes once the lease is over. Leader election
// ends a process that cannot renew, but a process that was paused goes on for a moment first, while another one leads
// already (FM C03).
type lease struct {
	duration time.Duration
	now      func() time.Time
	renewed  atomic.Pointer[time.Time] // when the last request that renewed it was sent; nil: this replica never led
}

// recordRenewals wraps the transport that leader election uses.
func (l *lease) recordRenewals(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		sent := l.now()
		response, err := next.RoundTrip(r)
		if err == nil && isWrite(r) && strings.Contains(r.URL.Path, "/leases") && response.StatusCode < http.StatusMultipleChoices {
			l.renewed.Store(&sent)
		}
		return response, err
	})
}

// refuseLateWrites wraps the transport of everything else.
func (l *lease) refuseLateWrites(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		if renewed := l.renewed.Load(); renewed != nil && isWrite(r) {
			if age := l.now().Sub(*renewed); age > l.duration {
				if r.Body != nil {
					r.Body.Close() // as every transport does
				}
				return nil, fmt.Errorf("%s %s: this replica renewed its lease of %s last %s ago and no longer leads", r.Method, r.URL.Path, l.duration, age.Round(time.Millisecond))
			}
		}
		return next.RoundTrip(r)
	})
}

func isWrite(r *http.Request) bool {
	return r.Method != http.MethodGet && r.Method != http.MethodHead
}
