package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/inspect/api"
	"github.com/dovetail-sh/dovetail/internal/journal"
	"github.com/dovetail-sh/dovetail/internal/snapshot"
	"github.com/dovetail-sh/dovetail/internal/snapshot/snapshottest"
)

// controller is the source of a Server: a cluster of a fixture, and what was read of it.
type controller struct {
	file  *snapshot.File
	views atomic.Int32 // that were made
	files atomic.Int32
	hold  chan struct{} // a snapshot waits for it; nil: it does not
	begun chan struct{} // told when a snapshot begins to wait
	err   error         // of Ready
	past  inspect.Historian

	mu  sync.Mutex
	now time.Time
}

func newController(o snapshottest.Options) *controller {
	return &controller{file: snapshottest.New(o), now: snapshottest.Now()}
}

func (c *controller) clock() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *controller) later(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func (c *controller) server(tb testing.TB) *api.Server {
	tb.Helper()
	view, err := c.file.Cluster(awsv1.Vocabulary())
	if err != nil {
		tb.Fatal(err)
	}
	return api.NewServer(api.Source{
		Ready: func(context.Context) error { return c.err },
		Inspect: func(context.Context) *inspect.Cluster {
			c.views.Add(1)
			return view
		},
		Snapshot: func(ctx context.Context) (*snapshot.File, error) {
			c.files.Add(1)
			if c.hold != nil {
				c.begun <- struct{}{}
				select {
				case <-c.hold:
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
			return c.file, nil
		},
		Past: c.past,
	}, awsv1.Vocabulary(), c.clock)
}

func send(h http.Handler, method, target, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, target, strings.NewReader(body)))
	return w
}

// What cannot be answered is refused with what would be right.
func TestEX_32_ServerRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		method, path, body string
		code               int
		says               string
	}{
		"no path":                  {"GET", "", "", 404, "not found"},
		"an unknown path":          {"GET", "nodes", "", 404, "not found"},
		"a plan with GET":          {"GET", "plan", "", 405, ""},
		"a fleet with DELETE":      {"DELETE", "fleet", "", 405, ""},
		"no object":                {"GET", "explain", "", 400, "use pod, node, nodeclaim or nodepool"},
		"an unknown kind":          {"GET", "explain?kind=deployment&name=x", "", 400, "use pod, node, nodeclaim or nodepool"},
		"no name":                  {"GET", "explain?kind=node", "", 400, `name=""`},
		"a pod without namespace":  {"GET", "explain?kind=pod&name=x", "", 400, "a pod has one"},
		"a node with namespace":    {"GET", "explain?kind=node&name=x&namespace=default", "", 400, "a pod has one"},
		"an unknown parameter":     {"GET", "explain?kind=node&called=x", "", 400, `"called" is unknown`},
		"a parameter twice":        {"GET", "explain?kind=node&name=x&name=y", "", 400, "give it once"},
		"a name that is too long":  {"GET", "explain?kind=node&name=" + strings.Repeat("x", 300), "", 400, "is not the name"},
		"an object that is absent": {"GET", "explain?kind=node&name=absent", "", 404, `"name":"absent"`},
		"a limit that is none":     {"GET", "history?limit=many", "", 400, "1 to 1000"},
		"a limit that is too high": {"GET", "history?limit=1001", "", 400, "1 to 1000"},
		"a time that is none":      {"GET", "history?since=yesterday", "", 400, "2026-11-01T12:00:00Z"},
		"savings of an object":     {"GET", "savings?kind=node&name=x", "", 400, `"kind" is unknown; use since, until`},
		"savings since no time":    {"GET", "savings?since=7d", "", 400, "2026-11-01T12:00:00Z"},
		"savings that none keeps":  {"GET", "savings", "", 501, "ask a live cluster"},
		"half an object":           {"GET", "history?name=x", "", 400, "use pod"},
		"a body that is no JSON":   {"POST", "plan", "zone=a", 400, "not a what-if"},
		"a misspelt what-if":       {"POST", "plan", `{"withot":["zone=a"]}`, 400, "withot"},
		"a body that is too large": {"POST", "plan", `{"addPods":"` + strings.Repeat("x", 1<<20) + `"}`, 413, "bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := send(newController(snapshottest.Options{Nodes: 1}).server(t), tc.method, api.Prefix+tc.path, tc.body)
			if w.Code != tc.code || !strings.Contains(w.Body.String(), tc.says) {
				t.Errorf("got %d %s, want %d with %q", w.Code, w.Body, tc.code, tc.says)
			}
		})
	}
}

// The answers are those of a Local with the same cluster.
func TestEX_32_ServerResponds(t *testing.T) {
	t.Parallel()
	c := newController(snapshottest.Options{Nodes: 4, Pending: 2})
	s := c.server(t)
	view, err := c.file.Cluster(awsv1.Vocabulary())
	if err != nil {
		t.Fatal(err)
	}
	local := inspect.Local{Cluster: view}
	fleet, _ := local.Fleet(t.Context())
	history, _ := local.History(t.Context(), inspect.HistoryQuery{})
	explanation, err := local.Explain(t.Context(), inspect.Subject{Kind: inspect.KindNode, Name: "node-0001"})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]any{"fleet": fleet, "explain?kind=node&name=node-0001": explanation, "history": history} {
		w := send(s, http.MethodGet, api.Prefix+path, "")
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSpace(w.Body.String()); w.Code != http.StatusOK || got != string(text) {
			t.Errorf("%s: got %d %s, want %s", path, w.Code, got, text)
		}
		if h := w.Header(); h.Get("Content-Type") != "application/json" || h.Get("Cache-Control") != "no-store" || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: headers %v", path, h)
		}
	}
}

// One view serves the questions of a few seconds, and one plan as well.
func TestEX_33_ViewsAndPlansAreShared(t *testing.T) {
	t.Parallel()
	c := newController(snapshottest.Options{Nodes: 2})
	s := c.server(t)
	for range 10 {
		if w := send(s, http.MethodGet, api.Prefix+"fleet", ""); w.Code != http.StatusOK {
			t.Fatalf("fleet: %d %s", w.Code, w.Body)
		}
		if w := send(s, http.MethodGet, api.Prefix+"explain?kind=node&name=absent", ""); w.Code != http.StatusNotFound {
			t.Fatalf("explain: %d %s", w.Code, w.Body)
		}
		if w := send(s, http.MethodPost, api.Prefix+"plan", ""); w.Code != http.StatusOK {
			t.Fatalf("plan: %d %s", w.Code, w.Body)
		}
	}
	if n := c.views.Load(); n != 1 {
		t.Errorf("%d views were made for questions of one moment, want 1", n)
	}
	c.later(4 * time.Second)
	send(s, http.MethodGet, api.Prefix+"fleet", "")
	if n := c.views.Load(); n != 2 {
		t.Errorf("%d views were made, want another one after some seconds", n)
	}
	c.later(4 * time.Second)
	send(s, http.MethodPost, api.Prefix+"plan", "{}")
	if n := c.views.Load(); n != 2 {
		t.Errorf("%d views were made, want none for a plan that is still valid", n)
	}
	c.later(time.Minute)
	send(s, http.MethodPost, api.Prefix+"plan", "{}")
	if n := c.views.Load(); n != 3 {
		t.Errorf("%d views were made, want another one for another plan", n)
	}
}

// While a plan is made, requests for the same plan wait for it, and requests for another one are told when to retry.
// Other questions are answered meanwhile.
func TestEX_33_OnePlanAtATime(t *testing.T) {
	t.Parallel()
	c := newController(snapshottest.Options{Nodes: 2})
	c.hold, c.begun = make(chan struct{}), make(chan struct{}, 1)
	s := c.server(t)
	const change = `{"without":["zone=us-east-1a"]}`
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() { send(s, http.MethodPost, api.Prefix+"plan", change) })
	}
	<-c.begun // the first holds the turn
	for _, tc := range []struct{ method, path, body string }{{"POST", "plan", `{"without":["zone=us-east-1b"]}`}, {"POST", "plan", ""}, {"GET", "snapshot", ""}} {
		w := send(s, tc.method, api.Prefix+tc.path, tc.body)
		if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" {
			t.Errorf("%s %s: got %d with Retry-After %q, want 429", tc.path, tc.body, w.Code, w.Header().Get("Retry-After"))
		}
	}
	if w := send(s, http.MethodGet, api.Prefix+"fleet", ""); w.Code != http.StatusOK {
		t.Errorf("fleet while a plan is made: %d %s", w.Code, w.Body)
	}
	close(c.hold)
	both.Wait()
	if n := c.files.Load(); n != 1 {
		t.Errorf("%d snapshots were taken for one plan, want 1", n)
	}
	if w := send(s, http.MethodGet, api.Prefix+"snapshot", ""); w.Code != http.StatusOK {
		t.Errorf("snapshot afterwards: %d %s", w.Code, w.Body)
	}
}

// EX-40: a defect that a question meets is a 500, with its stack in the log alone, and the next question is answered.
func TestEX_40_DefectsEndOneQuestion(t *testing.T) {
	t.Parallel()
	view, err := snapshottest.New(snapshottest.Options{Nodes: 2}).Cluster(awsv1.Vocabulary())
	if err != nil {
		t.Fatal(err)
	}
	for _, question := range []string{"GET fleet", "GET explain?kind=node&name=node-0000", "POST plan", "GET snapshot"} {
		var logged []string
		broken := true
		defect := func() {
			if broken {
				panic("secret of the cluster")
			}
		}
		s := api.NewServer(api.Source{
			Ready: func(context.Context) error { return nil },
			Inspect: func(context.Context) *inspect.Cluster {
				defect()
				return view
			},
			Snapshot: func(context.Context) (*snapshot.File, error) {
				defect()
				return snapshottest.New(snapshottest.Options{Nodes: 2}), nil
			},
			Panicked: func(problem string) { logged = append(logged, problem) },
		}, awsv1.Vocabulary(), snapshottest.Now)
		method, path, _ := strings.Cut(question, " ")
		w := send(s, method, api.Prefix+path, "")
		if said := w.Body.String(); w.Code != http.StatusInternalServerError || !strings.Contains(said, "a defect of Dovetail") || strings.Contains(said, "secret") {
			t.Errorf("%s: got %d %s, want 500 without details", question, w.Code, said)
		}
		if len(logged) != 1 || !strings.HasPrefix(logged[0], "secret of the cluster\n") || !strings.Contains(logged[0], "TestEX_40_DefectsEndOneQuestion") {
			t.Errorf("%s: the log has %q, want the panic with its stack", question, logged)
		}
		broken = false
		if w := send(s, method, api.Prefix+path, ""); w.Code != http.StatusOK {
			t.Errorf("%s: the next one: %d %s", question, w.Code, w.Body)
		}
	}
}

// A snapshot can be read back.
func TestWI_30_ServerSendsSnapshots(t *testing.T) {
	t.Parallel()
	w := send(newController(snapshottest.Options{Nodes: 3}).server(t), http.MethodGet, api.Prefix+"snapshot", "")
	file, err := snapshot.Decode(w.Body)
	if err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d, %v", w.Code, err)
	}
	if n := len(file.Objects.Nodes); n != 3 {
		t.Errorf("got %d nodes, want 3", n)
	}
}

// A replica that does not lead names the one that does. One that is not ready says so.
func TestEX_34_StandbysNameTheLeader(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err    error
		says   string
		leader string
	}{
		"a standby":                  {api.StandbyError{Leader: "pod kube-system/karpenter-abc"}, "leader, pod kube-system/karpenter-abc", "pod kube-system/karpenter-abc"},
		"a standby without a leader": {api.StandbyError{}, "no leader is known", ""},
		"a leader that starts":       {errors.New("the caches are not filled yet"), "not filled yet", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newController(snapshottest.Options{Nodes: 1})
			c.err = tc.err
			s := c.server(t)
			for _, question := range []string{"GET fleet", "GET explain?kind=node&name=x", "GET history", "GET savings", "POST plan", "GET snapshot"} {
				method, path, _ := strings.Cut(question, " ")
				w := send(s, method, api.Prefix+path, "")
				if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), tc.says) || w.Header().Get("Dovetail-Leader") != tc.leader || w.Header().Get("Retry-After") == "" {
					t.Errorf("%s: got %d %s, headers %v; want 503 with %q", question, w.Code, w.Body, w.Header(), tc.says)
				}
			}
			if c.views.Load() != 0 {
				t.Error("a view was made all the same")
			}
		})
	}
}

// reviews lets the owners of tokens read what they have the right for.
type reviews map[string]journal.Verdict

func (r reviews) Review(_ context.Context, token, path string) (journal.Verdict, error) {
	if path != journal.Path {
		return journal.Unknown, errors.New("the right for " + path + " was reviewed")
	}
	return r[token], nil
}

// Only callers that may read decisions get a response: for every path, with the permission for one path.
func TestEX_39_Permissions(t *testing.T) {
	t.Parallel()
	c := newController(snapshottest.Options{Nodes: 1})
	c.past = books{}
	guard := journal.NewGuard(c.server(t), reviews{"reader": journal.Allowed, "other": journal.Forbidden}, c.clock)
	for _, question := range []string{"GET fleet", "GET explain?kind=node&name=node-0000", "GET history", "GET savings", "POST plan", "GET snapshot"} {
		for token, want := range map[string]int{"reader": http.StatusOK, "other": http.StatusForbidden, "forged": http.StatusUnauthorized, "": http.StatusUnauthorized} {
			method, path, _ := strings.Cut(question, " ")
			req := httptest.NewRequest(method, api.Prefix+path, http.NoBody)
			if token != "" {
				req.Header.Set("Authorization", "Bearer "+token)
			}
			w := httptest.NewRecorder()
			guard.ServeHTTP(w, req)
			if w.Code != want {
				t.Errorf("%s with token %q: got %d %s, want %d", question, token, w.Code, w.Body, want)
			}
			if want == http.StatusForbidden && !strings.Contains(w.Body.String(), "needs a ClusterRole with verb get on nonResourceURLs /debug/decisions") {
				t.Errorf("%s: %q does not name the right", question, w.Body)
			}
		}
	}
}
