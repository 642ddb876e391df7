package cli

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/inspect/api"
	"github.com/dovetail-sh/dovetail/internal/snapshot"
	"github.com/dovetail-sh/dovetail/internal/snapshot/snapshottest"
)

// fakeLeader answers with its name, or fails.
type fakeLeader struct {
	inspect.Adviser

	name   string
	err    error
	closed bool
}

func (f *fakeLeader) Close() { f.closed = true }

func (f *fakeLeader) Fleet(ctx context.Context) (inspect.Fleet, error) {
	if ctx.Err() != nil {
		return inspect.Fleet{}, ctx.Err()
	}
	return inspect.Fleet{Source: "leader " + f.name}, f.err
}

// sourceOf is a source with leaders that are dialed one after the other, and objects that were read already.
func sourceOf(now *time.Time, leaders ...*fakeLeader) *liveSource {
	dialed := 0
	clock := func() time.Time { return *now }
	return &liveSource{
		timeout: time.Minute, now: clock,
		objects: &objectSource{now: clock, kube: &rest.Config{}, file: snapshottest.New(snapshottest.Options{Nodes: 2}), read: now.Add(time.Hour)},
		dial: func(context.Context) (leader, error) {
			if dialed == len(leaders) {
				return nil, api.UnavailableError{Who: "the controller", Why: "was not found", Fix: "name it"}
			}
			dialed++
			return leaders[dialed-1], nil
		},
	}
}

// Requests go to the leader as long as it responds. Otherwise the objects are read, and the notes say why and what to do.
func TestEX_37_LeaderFirstThenObjects(t *testing.T) {
	t.Parallel()
	gone := api.UnavailableError{Who: "the controller x", Why: "does not respond", Fix: "wait"}
	for name, tc := range map[string]struct {
		leaders []*fakeLeader
		source  string
		note    string
		err     string
	}{
		"the leader answers":                {[]*fakeLeader{{name: "a"}}, "leader a", "", ""},
		"there is none":                     {nil, "objects", "because the controller was not found; name it", ""},
		"it does not answer":                {[]*fakeLeader{{name: "a", err: gone}, {name: "b"}}, "objects", "because the controller x does not respond; wait", ""},
		"the question is wrong":             {[]*fakeLeader{{name: "a", err: errors.New("bad question")}}, "", "", "bad question"},
		"the object is not in the cluster":  {[]*fakeLeader{{name: "a", err: inspect.NotFoundError{Subject: inspect.Subject{Kind: "node", Name: "x"}}}}, "", "", "node/x was not found"},
		"it is busy for longer than we try": {[]*fakeLeader{{name: "a", err: errors.New("is busy")}}, "", "", "is busy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := snapshottest.Now()
			f, err := sourceOf(&now, tc.leaders...).Fleet(t.Context())
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("got %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil || f.Source != tc.source || !strings.Contains(strings.Join(f.Notes, " "), tc.note) {
				t.Errorf("got source %q, notes %q, %v; want %q with %q", f.Source, f.Notes, err, tc.source, tc.note)
			}
		})
	}
}

// An API server that cannot be used is named once, with what to do.
func TestEX_37_NoAPIServer(t *testing.T) {
	t.Parallel()
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Unauthorized","code":401,"message":"Unauthorized"}`))
	}))
	t.Cleanup(refusing.Close)
	gone := httptest.NewServer(nil)
	gone.Close()
	for address, says := range map[string]string{refusing.URL: "log in again", gone.URL: "check the address of the cluster in the kubeconfig"} {
		name := filepath.Join(t.TempDir(), "kubeconfig")
		text := "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: \"" + address + "\"}}]\ncontexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n"
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, command := range []string{"explain node x", "top", "plan --live", "snapshot", "advise", "history"} {
			code, _, stderr := call(append(strings.Fields(command), "--kubeconfig", name)...)
			if code != 1 || !strings.Contains(stderr, says) || strings.Count(stderr, "\n") != 1 {
				t.Errorf("%s: exit code %d, %s; want a line with %q", command, code, stderr, says)
			}
		}
	}
}

// A view that runs for long notices that the leader changed, goes on with objects while there is none, and returns to the
// leader later.
func TestEX_37_LeaderChanges(t *testing.T) {
	t.Parallel()
	now := snapshottest.Now()
	first, second := &fakeLeader{name: "a"}, &fakeLeader{name: "b"}
	third := &fakeLeader{name: "c"}
	l := sourceOf(&now, first, second)
	query := func(want string) {
		t.Helper()
		f, err := l.Fleet(t.Context())
		if err != nil || f.Source != want {
			t.Fatalf("got %q, %v; want %q", f.Source, err, want)
		}
	}
	lost := api.UnavailableError{Who: "the controller", Why: "does not respond"}
	query("leader a")
	first.err = lost
	query("leader b") // in the same question
	if !first.closed {
		t.Error("the connection to the old leader is open still")
	}
	second.err = lost
	query("objects")
	l.dial = func(context.Context) (leader, error) { return third, nil }
	query("objects") // it is not dialed for each question
	now = now.Add(time.Minute)
	l.objects.read = now
	query("leader c")
}

// Ctrl-C ends a question, and a deadline names the flag.
func TestEX_37_QuestionsEnd(t *testing.T) {
	t.Parallel()
	now := snapshottest.Now()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := sourceOf(&now, &fakeLeader{}).Fleet(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("after Ctrl-C: %v", err)
	}
	l := sourceOf(&now, &fakeLeader{})
	l.timeout = time.Nanosecond
	if _, err := l.Fleet(t.Context()); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "--timeout") {
		t.Errorf("after the deadline: %v", err)
	}
}

// Flags that contradict each other are refused with what to do.
func TestEX_37_SourceFlags(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		flags sourceFlags
		says  string
	}{
		"a file and a cluster":   {sourceFlags{scenario: "x", context: "y", timeout: 1}, "--scenario selects a file and --context a live cluster"},
		"an account without /":   {sourceFlags{account: "viewer", timeout: 1}, "NAMESPACE/NAME"},
		"an account with many /": {sourceFlags{account: "a/b/c", timeout: 1}, "NAMESPACE/NAME"},
		"two places":             {sourceFlags{address: "http://localhost:1", namespace: "x", timeout: 1}, "give one of them"},
		"no time":                {sourceFlags{}, "--timeout"},
	} {
		_, err := tc.flags.open(t.Context(), Streams{LookupEnv: func(string) (string, bool) { return "", false }})
		if _, usage := errors.AsType[usageError](err); !usage || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: got %v, want a usage error with %q", name, err, tc.says)
		}
	}
}

// Events are the history of clusters whose controller does not respond to queries: one for each thing that happened, in order.
func TestEX_38_EventsAreHistory(t *testing.T) {
	t.Parallel()
	noon := snapshottest.Now()
	event := func(minute int, kind, name, reason, text string, count int32) corev1.Event {
		return corev1.Event{InvolvedObject: corev1.ObjectReference{Kind: kind, Name: name, Namespace: "default"}, Reason: reason, Message: text, Count: count, LastTimestamp: metav1.NewTime(noon.Add(time.Duration(minute) * time.Minute))}
	}
	all := []corev1.Event{
		event(5, "Node", "a", "Unconsolidatable", "too dear", 3),
		event(1, "Pod", "web", "Nominated", "on a", 1),
		event(9, "Node", "a", "Unconsolidatable", "too dear", 2),
		event(7, "Node", "b", "Unconsolidatable", "too dear", 1),
		{InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: "a"}, Reason: "Drained", EventTime: metav1.NewMicroTime(noon)},
	}
	show := func(list []inspect.Event) (out []string) {
		for _, e := range list {
			out = append(out, e.At.Format("15:04 ")+strings.Join(e.Objects, ",")+" "+e.Kind+" "+e.Text)
		}
		return out
	}
	for name, tc := range map[string]struct {
		query inspect.HistoryQuery
		want  []string
	}{
		"all":      {inspect.HistoryQuery{}, []string{"12:00 node/a Drained ", "12:01 pod/default/web Nominated on a", "12:07 node/b Unconsolidatable too dear", "12:09 node/a Unconsolidatable too dear (5 times)"}},
		"a kind":   {inspect.HistoryQuery{Kinds: []string{"Drained"}}, []string{"12:00 node/a Drained "}},
		"a time":   {inspect.HistoryQuery{Since: noon.Add(time.Minute), Until: noon.Add(8 * time.Minute)}, []string{"12:01 pod/default/web Nominated on a", "12:05 node/a Unconsolidatable too dear (3 times)", "12:07 node/b Unconsolidatable too dear"}},
		"no limit": {inspect.HistoryQuery{Kinds: []string{"Drained"}, Limit: inspect.AllEvents}, []string{"12:00 node/a Drained "}},
		"some":     {inspect.HistoryQuery{Limit: 1}, []string{"12:09 node/a Unconsolidatable too dear (5 times)"}},
	} {
		events, over := eventsOf(slices.Clone(all), &tc.query)
		if left := len(all) - 1 - len(events); tc.query.Limit == 1 && over != left { // two of them are one
			t.Errorf("%s: %d events are said to be left out, want %d", name, over, left)
		}
		if diff := cmp.Diff(tc.want, show(events)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// Events of one object are requested, not all of the cluster.
func TestEX_38_EventsAreRequestedByObject(t *testing.T) {
	t.Parallel()
	var queried []string
	code := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		queried = append(queried, req.URL.Path+" "+req.URL.Query().Get("fieldSelector"))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		if code == http.StatusOK {
			_ = json.NewEncoder(w).Encode(corev1.EventList{})
			return
		}
		_ = json.NewEncoder(w).Encode(metav1.Status{Status: metav1.StatusFailure, Code: int32(code), Reason: metav1.StatusReasonForbidden, Message: "you may not"})
	}))
	t.Cleanup(server.Close)
	h := &eventHistory{kube: &rest.Config{Host: server.URL}}
	for _, q := range []inspect.Subject{{Kind: inspect.KindPod, Namespace: "shop", Name: "web"}, {Kind: inspect.KindNode, Name: "a"}, {}} {
		if _, err := h.History(t.Context(), inspect.HistoryQuery{Object: q}); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		"/api/v1/namespaces/shop/events involvedObject.kind=Pod,involvedObject.name=web",
		"/api/v1/events involvedObject.kind=Node,involvedObject.name=a",
		"/api/v1/events source=karpenter",
	}
	if diff := cmp.Diff(want, queried); diff != "" {
		t.Error(diff)
	}
	code = http.StatusForbidden
	if _, err := h.History(t.Context(), inspect.HistoryQuery{}); err == nil || !strings.Contains(err.Error(), "request the right to list events") {
		t.Errorf("without the right: %v", err)
	}
}

// Who may not read nodes still hears what a pod says of itself, and what is missing for more.
func TestEX_37_WithoutTheRightToReadNodes(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(corev1.EventList{Items: []corev1.Event{{Reason: "FailedScheduling", Message: "no room"}}})
	}))
	t.Cleanup(server.Close)
	now := snapshottest.Now()
	l := sourceOf(&now)
	l.objects.kube = &rest.Config{Host: server.URL}
	file := snapshottest.New(snapshottest.Options{Nodes: 1, Pending: 1})
	file.Objects.Nodes = nil
	file.Missing = []snapshot.Missing{{What: "nodes", Why: "forbidden", Then: "nothing can be planned; request the right to list nodes"}}
	l.objects.file = file
	for name, tc := range map[string]struct {
		about inspect.Subject
		says  []string
		err   string
	}{
		"a pod on a node":      {inspect.Subject{Kind: inspect.KindPod, Namespace: "default", Name: "web-0000-0"}, []string{"is Running on node node-0000", "without the right to read nodes"}, ""},
		"a node":               {inspect.Subject{Kind: inspect.KindNode, Name: "node-0000"}, nil, "request the right to list nodes"},
		"a pod that is absent": {inspect.Subject{Kind: inspect.KindPod, Namespace: "default", Name: "absent"}, nil, "request the right to list nodes"},
	} {
		e, err := l.Explain(t.Context(), tc.about)
		if tc.err != "" {
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%s: got %v, want %q", name, err, tc.err)
			}
			continue
		}
		for _, part := range tc.says {
			if !strings.Contains(e.Answer, part) {
				t.Errorf("%s: got %q, %v, want %q in it", name, e.Answer, err, part)
			}
		}
		if notes := strings.Join(e.Notes, "\n"); !strings.Contains(notes, "request the right to list nodes") || !strings.Contains(notes, "because the controller was not found") || len(e.History) != 1 {
			t.Errorf("%s: notes %s, history %v", name, notes, e.History)
		}
	}
}
