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

// recordProgress says that the loop whose work a context is has come a step further. In the context of anything else it does
// nothing.
func recordProgress(ctx context.Context) {
	if p, is := ctx.Value(pulseKey{}).(pulse); is {
		p.Beat()
	}
}

// BeatOnResponse wraps the transport to the API server: every answer is progress of the loop that asked.
func BeatOnResponse(next http.RoundTripper) http.RoundTripper { return beatingTransport{next} }

type beatingTransport struct{ next http.RoundTripper }

// RoundTrip sends a request.
func (a beatingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := a.next.RoundTrip(r)
	if err == nil {
		recordProgress(r.Context())
	}
	return answer, err
}
