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
	// defaultCallTimeout is for calls that are no watches. The API server itself gives up on them after a minute
	// unless it is told otherwise.
	defaultCallTimeout = 5 * time.Minute
	// watchGracePeriod is how long after the time it was asked for a watch may last: the API server ends it by then,
	// so one that goes on is dead, and is asked for again.
	watchGracePeriod = time.Minute
	// maxResponseAge is how old the last answer to a call may be for the API server to count as well.
	maxResponseAge = time.Minute
)

// apiConnection is the connection to the API server. It gives every call an end, since a connection may be dead without
// anybody noticing, and it notices whether watches tell anything at all (operations 4, FM D12). Informers
// ask for watches of five to ten minutes, so that even in a cluster where nothing happens some watch begins
// anew every few minutes, and most tell about once a minute how far they are.
type apiConnection struct {
	now func() time.Time

	mu             sync.Mutex
	lastWatchEvent time.Time // when a watch began or told something; zero: there was none
	lastResponse   time.Time // when another call was answered
}

// wrapTransport gives calls an end and listens.
func (l *apiConnection) wrapTransport(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		watch := r.URL.Query().Get("watch")
		watches := watch == "true" || watch == "1"
		end, ends := callTimeout(r, watches)
		ctx, cancel := r.Context(), context.CancelFunc(func() {})
		if ends {
			ctx, cancel = context.WithTimeout(ctx, end)
		}
		answer, err := next.RoundTrip(r.WithContext(ctx))
		if err != nil {
			cancel()
			return answer, err
		}
		if answer.StatusCode < http.StatusBadRequest {
			l.recordResponse(watches)
		}
		answer.Body = &observedBody{ReadCloser: answer.Body, close: cancel, read: func() { l.recordResponse(watches) }}
		return answer, nil
	})
}

// callTimeout is how long a call may take. A watch that does not say how long it is asked for is not bounded.
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

// checkWatches fails when no watch of any kind has told or begun anything for so long that none will, although the API
// server answers other calls: a new process asks anew.
func (l *apiConnection) checkWatches() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if silent := now.Sub(l.lastWatchEvent); !l.lastWatchEvent.IsZero() && silent > stuckAfter && now.Sub(l.lastResponse) <= maxResponseAge {
		return fmt.Errorf("no watch has told anything for %s, although the API server answers", silent.Truncate(time.Second))
	}
	return nil
}

// observedBody is an answer that is listened to.
type observedBody struct {
	io.ReadCloser

	close context.CancelFunc
	read  func()
}

// Read reads and takes note of it.
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
