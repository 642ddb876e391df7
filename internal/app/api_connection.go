package app

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

const (
	// defaultCallTimeout is for calls other than watches. The API server itself times out after a minute by default.
	defaultCallTimeout = 5 * time.Minute
	// watchGracePeriod is how long a watch may last beyond its requested timeout. The API server ends it by then, so
	// a watch that lasts longer is broken and is opened again.
	watchGracePeriod = time.Minute
	// maxResponseAge is how old the last response to a call may be for the API server to count as reachable.
	maxResponseAge = time.Minute
)

// apiConnection is the connection to the API server. It gives every call a timeout, since a connection may be
// dead without an error. It also detects whether watches deliver anything at all (operations 4, FM D12).
// Informers open watches of five to ten minutes. So even in an idle cluster some watch begins every few
// minutes, and most deliver a bookmark about once a minute.
type apiConnection struct {
	now func() time.Time

	mu             sync.Mutex
	lastWatchEvent time.Time // when a watch began or delivered something; zero: never
	lastResponse   time.Time // when another call got a response
}

// wrapTransport adds timeouts to calls and records responses.
func (l *apiConnection) wrapTransport(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		watch := r.URL.Query().Get("watch")
		watches := watch == "true" || watch == "1"
		end, ends := callTimeout(r, watches)
		ctx, cancel := r.Context(), context.CancelFunc(func() {})
		if ends {
			ctx, cancel = context.WithTimeout(ctx, end)
		}
		response, err := next.RoundTrip(r.WithContext(ctx))
		if err != nil {
			cancel()
			return response, err
		}
		if response.StatusCode < http.StatusBadRequest {
			l.recordResponse(watches)
		}
		response.Body = &observedBody{ReadCloser: response.Body, close: cancel, read: func() { l.recordResponse(watches) }}
		return response, nil
	})
}

// callTimeout is how long a call may take. A watch without a requested timeout is not bounded.
func callTimeout(r *http.Request, watches bool) (end time.Duration, bounded bool) {
	if !watches {
		return defaultCallTimeout, true
	}
	seconds, err := strconv.Atoi(r.URL.Query().Get("timeoutSeconds"))
	return time.Duration(seconds)*time.Second + watchGracePeriod, err == nil && seconds > 0
}

func (l *apiConnection) recordResponse(watches bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if watches {
		l.lastWatchEvent = l.now()
	} else {
		l.lastResponse = l.now()
	}
}

// checkWatches fails when no watch has begun or delivered anything for too long although the API server
// responds to other calls. A restarted process opens new watches.
func (l *apiConnection) checkWatches() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if silent := now.Sub(l.lastWatchEvent); !l.lastWatchEvent.IsZero() && silent > stuckAfter && now.Sub(l.lastResponse) <= maxResponseAge {
		return fmt.Errorf("no watch has delivered an event for %s, although the API server responds", silent.Truncate(time.Second))
	}
	return nil
}

// observedBody is a response body whose reads are recorded.
type observedBody struct {
	io.ReadCloser

	close context.CancelFunc
	read  func()
}

// Read reads and records it.
func (b *observedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.read()
	}
	return n, err
}

// Close ends the call.
func (b *observedBody) Close() error {
	defer b.close()
	return b.ReadCloser.Close()
}
