package controller

import (
	"context"
	"net/http"
)

// pulse tells liveness that a loop works. Beat says that it has come a step further.
type pulse interface {
	Begin()
	Beat()
	Done()
}

type pulseKey struct{}

// withPulse makes the work of a context count for a loop.
func withPulse(ctx context.Context, p pulse) context.Context {
	if p == nil {
		return ctx
	}
	return context.WithValue(ctx, pulseKey{}, p)
}

// beat says that the loop whose work a context is has come a step further. In the context of anything else it does
// nothing.
func beat(ctx context.Context) {
	if p, is := ctx.Value(pulseKey{}).(pulse); is {
		p.Beat()
	}
}

// Answered wraps the transport to the API server: every answer is progress of the loop that asked.
func Answered(next http.RoundTripper) http.RoundTripper { return answered{next} }

type answered struct{ next http.RoundTripper }

// RoundTrip sends a request.
func (a answered) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := a.next.RoundTrip(r)
	if err == nil {
		beat(r.Context())
	}
	return answer, err
}
