package loop

import (
	"context"
	"net/http"
)

// Pulse is the heartbeat of a loop for the liveness probe. Beat records progress.
type Pulse interface {
	Begin()
	Beat()
	Done()
}

type pulseKey struct{}

// WithPulse returns a context whose work counts as progress of a loop.
func WithPulse(ctx context.Context, p Pulse) context.Context {
	if p == nil {
		return ctx
	}
	return context.WithValue(ctx, pulseKey{}, p)
}

// RecordProgress records progress of the loop that a context belongs to. It is a no-op for other contexts.
func RecordProgress(ctx context.Context) {
	if p, is := ctx.Value(pulseKey{}).(Pulse); is {
		p.Beat()
	}
}

// BeatOnResponse wraps the transport to the API server: every response counts as progress of the loop that sent
// the request.
func BeatOnResponse(next http.RoundTripper) http.RoundTripper { return beatingTransport{next} }

type beatingTransport struct{ next http.RoundTripper }

// RoundTrip sends a request.
func (a beatingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := a.next.RoundTrip(r)
	if err == nil {
		RecordProgress(r.Context())
	}
	return response, err
}
