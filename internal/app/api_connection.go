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
	// longestCall is for calls that are no watches. The API server itself gives up on them after a minute
	// unless it is told otherwise.
	longestCall = 5 * time.Minute
	// pastEnd is how long after the time it was asked for a watch may last: the API server ends it by then,
	// so one that goes on is dead, and is asked for again.
	pastEnd = time.Minute
	// answersWithin is how old the last answer to a call may be for the API server to count as well.
	answersWithin = time.Minute
)

// line is the connection to the API server. It gives every call an end, since a connection may be dead without
// anybody noticing, and it notices whether watches tell anything at all (operations 4, FM D12). Informers
// ask for watches of five to ten minutes, so that even in a cluster where nothing happens some watch begins
// anew every few minutes, and most tell about once a minute how far they are.
type line struct {
	now func() time.Time

	mu       sync.Mutex
	news     time.Time // when a watch began or told something; zero: there was none
	answered time.Time // when another call was answered
}

// wrap gives calls an end and listens.
func (l *line) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		watch := r.URL.Query().Get("watch")
		watches := watch == "true" || watch == "1"
		end, ends := longest(r, watches)
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
			l.hear(watches)
		}
		answer.Body = &heardBody{ReadCloser: answer.Body, close: cancel, read: func() { l.hear(watches) }}
		return answer, nil
	})
}

// longest is how long a call may take. A watch that does not say how long it is asked for is not bounded.
func longest(r *http.Request, watches bool) (end time.Duration, bounded bool) {
	if !watches {
		return longestCall, true
	}
	seconds, err := strconv.Atoi(r.URL.Query().Get("timeoutSeconds"))
	return time.Duration(seconds)*time.Second + pastEnd, err == nil && seconds > 0
}

func (l *line) hear(watches bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if watches {
		l.news = l.now()
	} else {
		l.answered = l.now()
	}
}

// dead fails when no watch of any kind has told or begun anything for so long that none will, although the API
// server answers other calls: a new process asks anew.
func (l *line) dead() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if silent := now.Sub(l.news); !l.news.IsZero() && silent > stuckAfter && now.Sub(l.answered) <= answersWithin {
		return fmt.Errorf("no watch has told anything for %s, although the API server answers", silent.Truncate(time.Second))
	}
	return nil
}

// heardBody is an answer that is listened to.
type heardBody struct {
	io.ReadCloser

	close context.CancelFunc
	read  func()
}

// Read reads and takes note of it.
func (b *heardBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.read()
	}
	return n, err
}

// Close ends the call.
func (b *heardBody) Close() error {
	defer b.close()
	return b.ReadCloser.Close()
}
