package journal_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/dovetail-sh/dovetail/internal/journal"
)

// judges is a fake API server: it knows tokens, and counts its calls.
type judges struct {
	verdicts  map[string]journal.Verdict
	err       error
	requested int
}

func (j *judges) Review(_ context.Context, token, path string) (journal.Verdict, error) {
	j.requested++
	if path != journal.Path {
		return journal.Unknown, errors.New("requested for " + path)
	}
	return j.verdicts[token], j.err
}

func get(h http.Handler, target, authorization string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(http.MethodGet, target, http.NoBody)
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w
}

// Who may read is what the API server says; no response is no.
func TestGuard(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		header string
		err    error
		code   int
		say    string
	}{
		"no token":                      {"", nil, http.StatusUnauthorized, "bearer token"},
		"a password":                    {"Basic YTpi", nil, http.StatusUnauthorized, "bearer token"},
		"an empty token":                {"Bearer ", nil, http.StatusUnauthorized, "bearer token"},
		"an unknown token":              {"Bearer forged", nil, http.StatusUnauthorized, "does not know the token"},
		"a stranger":                    {"Bearer stranger", nil, http.StatusForbidden, "nonResourceURLs /debug/decisions"},
		"a reader":                      {"Bearer reader", nil, http.StatusOK, `"entries"`},
		"in lower case":                 {"bearer reader", nil, http.StatusOK, `"entries"`},
		"the API server is unreachable": {"Bearer reader", errors.New("connection refused"), http.StatusServiceUnavailable, "connection refused"},
		"and the token is odd":          {"Bearer rea der", nil, http.StatusUnauthorized, "does not know the token"},
		"a token with a prefix":         {"BearerX reader", nil, http.StatusUnauthorized, "bearer token"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			review := &judges{verdicts: map[string]journal.Verdict{"reader": journal.Allowed, "stranger": journal.Forbidden}, err: tc.err}
			w := get(journal.NewGuard(roomy().Handler(), review, func() time.Time { return noon }), journal.Path, tc.header)
			if w.Code != tc.code || !strings.Contains(w.Body.String(), tc.say) {
				t.Errorf("%d %s, want %d with %q", w.Code, w.Body, tc.code, tc.say)
			}
		})
	}
}

// A response is believed for a short time, a bad one for a shorter one, and strangers cannot make us call
// forever.
func TestGuardCachesReviews(t *testing.T) {
	t.Parallel()
	now := noon
	review := &judges{verdicts: map[string]journal.Verdict{"reader": journal.Allowed, "stranger": journal.Forbidden}}
	guard := journal.NewGuard(roomy().Handler(), review, func() time.Time { return now })
	for range 3 {
		get(guard, journal.Path, "Bearer reader")
		get(guard, journal.Path, "Bearer stranger")
	}
	if review.requested != 2 {
		t.Errorf("called %d times about two tokens", review.requested)
	}
	now = now.Add(11 * time.Second)
	get(guard, journal.Path, "Bearer reader")
	get(guard, journal.Path, "Bearer stranger")
	if review.requested != 3 {
		t.Errorf("called %d times, want once more about the stranger", review.requested)
	}
	review.verdicts["reader"] = journal.Forbidden
	now = now.Add(time.Minute)
	if w := get(guard, journal.Path, "Bearer reader"); w.Code != http.StatusForbidden {
		t.Errorf("a reader who may no longer read gets %d", w.Code)
	}
	busy := 0
	for i := range 200 {
		if get(guard, journal.Path, "Bearer "+strings.Repeat("x", i+1)).Code == http.StatusServiceUnavailable {
			busy++
		}
	}
	if busy == 0 || review.requested > 100 {
		t.Errorf("200 unknown tokens were reviewed %d times, %d were turned away", review.requested, busy)
	}
}

// A caller that tries many tokens locks out no other caller: not a reader who was let in before, not even one from the same
// address, and not one who comes from elsewhere. All together cannot make us request ever either.
func TestGuardIsFair(t *testing.T) {
	t.Parallel()
	now := noon
	review := &judges{verdicts: map[string]journal.Verdict{"reader": journal.Allowed, "late": journal.Allowed, "later": journal.Allowed}}
	guard := journal.NewGuard(roomy().Handler(), review, func() time.Time { return now })
	from := func(address, token string) int {
		req := httptest.NewRequest(http.MethodGet, journal.Path, http.NoBody)
		req.RemoteAddr = address
		req.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		guard.ServeHTTP(w, req)
		return w.Code
	}
	if code := from("10.0.0.1:1000", "reader"); code != http.StatusOK {
		t.Fatalf("the reader gets %d", code)
	}
	now = now.Add(2 * time.Minute) // what is known of the reader is too old
	for i := range 2000 {
		from(fmt.Sprintf("10.0.0.1:%d", 2000+i), fmt.Sprint("noise", i))
	}
	if review.requested > 100 {
		t.Errorf("one caller caused %d reviews", review.requested)
	}
	for name, tc := range map[string]struct {
		address, token string
		want           int
	}{
		"who was let in before, from the same address": {"10.0.0.1:9999", "reader", http.StatusOK},
		"who comes from elsewhere":                     {"10.0.0.2:1000", "late", http.StatusOK},
		"who comes from the noisy address":             {"10.0.0.1:9999", "later", http.StatusServiceUnavailable},
	} {
		if code := from(tc.address, tc.token); code != tc.want {
			t.Errorf("%s: %d, want %d", name, code, tc.want)
		}
	}
	requested := review.requested
	for i := range 20_000 {
		from(fmt.Sprintf("10.1.%d.%d:1", i%5000/100, i%100), fmt.Sprint("crowd", i))
	}
	if more := review.requested - requested; more > 100 {
		t.Errorf("a crowd caused %d reviews", more)
	}
	now = now.Add(time.Minute)
	if code := from("[::1]:1", "late"); code != http.StatusOK {
		t.Errorf("after the crowd a reader gets %d", code)
	}
}

// The review is made in the name of the token, and with nothing of ours.
func TestSelfReview(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		response int
		body     string
		want     journal.Verdict
		fails    bool
	}{
		"allowed":         {http.StatusCreated, `{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":true}}`, journal.Allowed, false},
		"denied":          {http.StatusCreated, `{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":false}}`, journal.Forbidden, false},
		"unknown token":   {http.StatusUnauthorized, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Unauthorized","code":401}`, journal.Unknown, false},
		"may not ask":     {http.StatusForbidden, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`, journal.Forbidden, false},
		"server in flame": {http.StatusInternalServerError, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"InternalError","code":500}`, journal.Unknown, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				question := struct {
					Spec struct{ NonResourceAttributes struct{ Path, Verb string } }
				}{}
				if err := json.NewDecoder(req.Body).Decode(&question); err != nil {
					t.Errorf("the question is no JSON: %v", err)
				}
				requested := question.Spec.NonResourceAttributes
				if req.URL.Path != "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews" || req.Header.Get("Authorization") != "Bearer theirs" ||
					requested.Path != journal.Path || requested.Verb != "get" {
					t.Errorf("%s %s as %q for %+v", req.Method, req.URL, req.Header.Get("Authorization"), requested)
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(tc.response)
				_, _ = w.Write([]byte(tc.body))
			}))
			defer server.Close()
			review, err := journal.NewSelfReview(&rest.Config{Host: server.URL, BearerToken: "ours", ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
			if err != nil {
				t.Fatal(err)
			}
			got, err := review.Review(t.Context(), "theirs", journal.Path)
			if got != tc.want || (err != nil) != tc.fails {
				t.Errorf("verdict %d, %v; want %d", got, err, tc.want)
			}
		})
	}
}

func TestHandler(t *testing.T) {
	t.Parallel()
	j := roomy()
	j.Decided(removal(noon, "1", "a"))
	w := get(j.Handler(), journal.Path+"?kind=command&node=a", "")
	page := journal.Page{}
	if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || len(page.Entries) != 1 || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("%v %v: %s", err, w.Header(), w.Body)
	}
	if w := get(j.Handler(), journal.Path+"?limit=0", ""); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "1 to 1000") {
		t.Errorf("limit=0: %d %s", w.Code, w.Body)
	}
	post := httptest.NewRecorder()
	j.Handler().ServeHTTP(post, httptest.NewRequest(http.MethodPost, journal.Path, http.NoBody))
	if post.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", post.Code)
	}
}

func TestParseQuery(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]any{
		"":                           journal.Query{Limit: 100},
		"since=7&limit=1000":         journal.Query{Since: 7, Limit: 1000},
		"kind=blocked&node=n1":       journal.Query{Limit: 100, Kind: journal.Blocked, Node: "n1"},
		"since=-1":                   "since",
		"since=99999999999999999999": "since",
		"limit=1001":                 "limit",
		"limit=":                     "limit",
		"kind=commands":              "one of command, outcome",
		"node=":                      "node",
		"node=a&node=b":              "2 times",
		"nodes=a":                    "unknown",
		"%zz":                        "cannot be read",
		"a;b":                        "cannot be read",
	} {
		got, err := journal.ParseQuery(raw)
		if q, valid := want.(journal.Query); valid {
			if err != nil || got != q {
				t.Errorf("%q: %+v, %v; want %+v", raw, got, err, q)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want.(string)) {
			t.Errorf("%q: %+v, %v; want an error with %q", raw, got, err, want)
		}
	}
}

// Whatever the query is, what comes out is within bounds.
func FuzzParseQuery(f *testing.F) {
	for _, raw := range []string{"", "since=1&limit=2&kind=plan&node=a", "limit=-1", "%", "since=1&since=2", "node=" + strings.Repeat("n", 300)} {
		f.Add(raw)
	}
	j := roomy()
	j.Decided(removal(noon, "1", "a"))
	f.Fuzz(func(t *testing.T, raw string) {
		q, err := journal.ParseQuery(raw)
		if err != nil {
			if q != (journal.Query{}) {
				t.Errorf("%q: an error and %+v", raw, q)
			}
			return
		}
		if q.Limit < 1 || q.Limit > 1000 || len(q.Node) > 253 {
			t.Errorf("%q: %+v", raw, q)
		}
		if page := j.Read(q); len(page.Entries) > q.Limit {
			t.Errorf("%q: %d entries", raw, len(page.Entries))
		}
	})
}
