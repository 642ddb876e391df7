package app

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"

	"github.com/dovetail-sh/dovetail/internal/rights"
)

// S-116: what the API server forbids is reported once with the rule to add, and the controller is not ready while nothing can
// be planned for want of it.
func TestS_116_ForbiddenRequestsAreReported(t *testing.T) {
	t.Parallel()
	const (
		pods    = `pods is forbidden: User "u" cannot list resource "pods" in API group "" at the cluster scope`
		nodes   = `{"message":"nodes \"n\" is forbidden: User \"u\" cannot patch resource \"nodes\" in API group \"\" at the cluster scope"}`
		ranges  = `limitranges is forbidden: User "u" cannot list resource "limitranges" in API group "" at the cluster scope`
		quota   = `pods "p" is forbidden: exceeded quota`
		listing = "/api/v1/pods"
	)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, tc := range map[string]struct {
		responses []string // empty: allowed
		path      string
		then      string        // path of the requests that follow; empty: the same
		age       time.Duration // of the last response, when readiness is requested
		lines     []string      // a part of each
		unready   string        // a part of what readiness says; empty: it is fine
	}{
		"a list that nothing works without": {responses: []string{pods, pods, pods}, path: listing, lines: []string{"may not list pods"}, unready: `add the rule {apiGroups: [""], resources: [pods], verbs: [get, list, watch]} to ClusterRole karpenter-core`},
		"allowed later":                     {responses: []string{pods, ""}, path: listing, lines: []string{"may not list pods", "may now list pods"}},
		"a watch begins instead":            {responses: []string{pods, ""}, path: listing, then: listing + "?watch=true", lines: []string{"may not list pods", "may now list pods"}},
		"not requested since":               {responses: []string{pods}, path: listing, age: deniedLately + time.Second, lines: []string{"may not list pods"}},
		"a write":                           {responses: []string{nodes, nodes}, path: "/api/v1/nodes/n", lines: []string{"may not patch nodes: no node is registered"}},
		"a right that may be missing":       {responses: []string{ranges}, path: "/api/v1/limitranges"},
		"admission":                         {responses: []string{quota}, path: listing},
		"nothing is forbidden":              {responses: []string{""}, path: listing},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := now
			var lines []string
			d := &denials{
				log: funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{}), now: func() time.Time { return at },
				seen: map[rights.Denial]*denied{},
			}
			left := tc.responses
			transport := d.wrapTransport(roundTrip(func(*http.Request) (*http.Response, error) {
				code, text := http.StatusOK, left[0]
				if text != "" {
					code = http.StatusForbidden
				}
				left = left[1:]
				return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader(text))}, nil
			}))
			for i, want := range tc.responses {
				path := tc.path
				if i > 0 && tc.then != "" {
					path = tc.then
				}
				response, err := transport.RoundTrip(httptest.NewRequest(http.MethodGet, path, http.NoBody))
				if err != nil {
					t.Fatal(err)
				}
				if got, err := io.ReadAll(response.Body); string(got) != want || err != nil || response.Body.Close() != nil {
					t.Errorf("the caller reads %q, %v, want %q", got, err, want)
				}
			}
			if len(lines) != len(tc.lines) {
				t.Fatalf("log: %q, want %q", lines, tc.lines)
			}
			for i := range lines {
				if !strings.Contains(lines[i], tc.lines[i]) {
					t.Errorf("log: %q, want %q", lines[i], tc.lines[i])
				}
			}
			at = now.Add(tc.age)
			if err := d.check(nil); (err == nil) != (tc.unready == "") || err != nil && !strings.Contains(err.Error(), tc.unready) {
				t.Errorf("check() = %v, want %q", err, tc.unready)
			}
		})
	}
}

// A right that stays missing is named again from time to time, and a response that cannot be read says nothing.
func TestForbiddenRequestsAreReportedAgain(t *testing.T) {
	t.Parallel()
	now, logged := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), 0
	d := &denials{log: funcr.New(func(string, string) { logged++ }, funcr.Options{}), now: func() time.Time { return now }, seen: map[rights.Denial]*denied{}}
	for want, passed := range []time.Duration{0, reportInterval - time.Second, time.Second} {
		now = now.Add(passed)
		d.recordDenial(rights.Denial{Verb: "patch", Resource: "nodes"}, "PATCH /n")
		if want = max(1, want); logged != want {
			t.Errorf("reported %d times after %s, want %d", logged, passed, want)
		}
	}
	broken := errors.New("reset by peer")
	response := &http.Response{StatusCode: http.StatusForbidden, Body: io.NopCloser(io.MultiReader(strings.NewReader("x"), failingReader{broken}))}
	d.readDenial(httptest.NewRequest(http.MethodGet, "/", http.NoBody), response)
	if _, err := io.ReadAll(response.Body); !errors.Is(err, broken) {
		t.Errorf("the caller gets %v, want %v", err, broken)
	}
}

type failingReader struct{ err error }

func (f failingReader) Read([]byte) (int, error) { return 0, f.err }
