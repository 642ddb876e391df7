package app

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// stream is a response that never ends by itself and says something at intervals; 0: nothing.
type stream struct {
	ended <-chan struct{}
	why   func() error
	every time.Duration
}

func (s *stream) Read(p []byte) (int, error) {
	var next <-chan time.Time
	if s.every > 0 {
		next = time.After(s.every)
	}
	select {
	case <-s.ended:
		return 0, s.why()
	case <-next:
		return copy(p, "x"), nil
	}
}

func (s *stream) Close() error { return nil }

// server responds at once, and its responses never end.
func server(every time.Duration) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: &stream{r.Context().Done(), r.Context().Err, every}}, nil
	})
}

// silence never responds.
func silence() http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	})
}

func call(t *testing.T, over http.RoundTripper, query string) error {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api/api/v1/pods"+query, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := over.RoundTrip(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

// FM D12: no call to the API server lasts forever. A watch may last as long as it was requested.
func TestFM_D12_EveryCallEnds(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		over  http.RoundTripper
		query string
		want  time.Duration
		news  time.Duration // when a watch last delivered something
	}{
		"a call that is not answered":          {silence(), "", defaultCallTimeout, 0},
		"a response that does not end":         {server(time.Second), "?limit=500", defaultCallTimeout, 0},
		"a watch that is not answered":         {silence(), "?watch=true&timeoutSeconds=420", 8 * time.Minute, 0},
		"a watch that outlives its time":       {server(0), "?watch=true&timeoutSeconds=420", 8 * time.Minute, 0},
		"one with news, too":                   {server(time.Minute), "?timeoutSeconds=420&watch=1", 8 * time.Minute, 7 * time.Minute},
		"a list that was given a time is none": {silence(), "?timeoutSeconds=420", defaultCallTimeout, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := &apiConnection{now: time.Now}
				begun := time.Now()
				if err := call(t, l.wrapTransport(tc.over), tc.query); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("ended with %v", err)
				}
				if took := time.Since(begun); took != tc.want {
					t.Errorf("ended after %s, want %s", took, tc.want)
				}
				if tc.news > 0 && l.lastWatchEvent.Sub(begun) < tc.news {
					t.Errorf("the last news is of %s", l.lastWatchEvent.Sub(begun))
				}
			})
		})
	}
}

// A watch that does not say how long it is requested is not cut, and what ends by itself is not held.
func TestCallsThatEndByThemselves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &apiConnection{now: time.Now}
		short := roundTrip(func(r *http.Request) (*http.Response, error) {
			if _, bounded := r.Context().Deadline(); bounded != (r.URL.RawQuery == "") {
				t.Errorf("%q is bounded: %v", r.URL.RawQuery, bounded)
			}
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("done"))}, nil
		})
		for _, query := range []string{"", "?watch=true"} {
			if err := call(t, l.wrapTransport(short), query); err != nil {
				t.Error(err)
			}
		}
	})
}

// operations 4: liveness fails when watches have delivered nothing for long while other calls are served. It does
// not fail in a quiet cluster, where watches only begin anew, nor while the API server is away.
func TestFM_D12_DeadWatchesAreSeen(t *testing.T) {
	t.Parallel()
	const (
		watch = "?watch=true&timeoutSeconds=300"
		lease = ""
	)
	ended := func(status int) http.RoundTripper {
		return roundTrip(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(""))}, nil
		})
	}
	lost := roundTrip(func(*http.Request) (*http.Response, error) { return nil, errors.New("no route to host") })
	for name, tc := range map[string]struct {
		watches, others http.RoundTripper // in the hour after a watch worked, at every five minutes
		dead            bool
	}{
		"all is well": {watches: ended(200), others: ended(200)},
		"watches are refused, other calls are not": {watches: ended(500), others: ended(200), dead: true},
		"watches do not connect, other calls do":   {watches: lost, others: ended(200), dead: true},
		"nothing connects":                         {watches: lost, others: lost},
		"the API server is overloaded":             {watches: ended(429), others: ended(429)},
		"no calls, as on a replica that is done":   {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
			l := &apiConnection{now: func() time.Time { return now }}
			if err := l.checkWatches(); err != nil {
				t.Errorf("before any call: %v", err)
			}
			for range 2 {
				if err := call(t, l.wrapTransport(ended(200)), watch); err != nil {
					t.Fatal(err)
				}
			}
			failed := 0
			for range 12 {
				now = now.Add(5 * time.Minute)
				for query, over := range map[string]http.RoundTripper{watch: tc.watches, lease: tc.others} {
					if over != nil {
						_ = call(t, l.wrapTransport(over), query)
					}
				}
				if l.checkWatches() != nil {
					failed++
				}
			}
			if want := map[bool]int{true: 9}[tc.dead]; failed != want {
				t.Errorf("liveness failed %d times, want %d", failed, want)
			}
		})
	}
}
