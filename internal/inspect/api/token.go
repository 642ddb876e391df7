package api

import (
	"net/http"
	"strings"
	"sync"
)

// tokenRecorder records the token that requests to the API server carry. However the user logs in (a token, a file of one, a
// plugin such as aws eks get-token), that is the one that the API server accepts.
type tokenRecorder struct {
	mu   sync.Mutex
	last string
}

// token is the latest; empty: requests carry none.
func (r *tokenRecorder) token() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// wrap wraps a transport. It is the innermost, so that all others have added what they add.
func (r *tokenRecorder) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(req *http.Request) (*http.Response, error) {
		if scheme, token, found := strings.Cut(req.Header.Get("Authorization"), " "); found && strings.EqualFold(scheme, "Bearer") {
			r.mu.Lock()
			r.last = token
			r.mu.Unlock()
		}
		return next.RoundTrip(req)
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
