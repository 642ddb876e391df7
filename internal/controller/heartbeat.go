package controller

import (
	"context"
	"net/http"
)

// pulse is the heartbeat of a loop for the liveness probe. Beat records progress.
type pulse interface {
	Begin()
	Beat()
	Done()
}

type pulseKey struct{}

// withPulse returns a context whose work counts as progress of a loop.
func withPulse(ctx context.Context, p pulse) context.Context {
	if p == nil {
		return ctx
	}
	return context.WithValue(ctx, pulseKey{}, p)
}

// recordProgress records progress of the loop that a context belongs to. It is a no-op for other contexts.
func recordProgress(ctx context.Context) {
	if p, is := ctx.Value(pulseKey{}).(pulse); is {
		p.Beat()
	}
}

// BeatOnResponse wraps the transport to the API server: every response counts as progress of the loop that sent
// the request.
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
