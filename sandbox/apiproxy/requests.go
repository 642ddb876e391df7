package apiproxy

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// Request is one request that came through the proxy.
type Request struct {
	Time      time.Time // when it arrived
	Verb      string
	Resource  string // plural, with a sub-resource behind a slash: pods/eviction
	Group     string
	Namespace string
	Name      string // empty for lists, and for creations that the server names
	Client    string // the user agent
	Body      []byte // of writes
	Status    int    // of the response; 0 while there is none
}

// Writes says whether the request changes something.
func (r Request) Writes() bool {
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, r.Verb)
}

// maxBody bounds what is kept of a body. The API server takes no larger objects.
const maxBody = 3 << 20

// describe reads what a request is, and leaves it as it was.
func describe(r *http.Request, info *request.RequestInfo, now time.Time) (Request, error) {
	described := Request{
		Time: now, Verb: info.Verb, Resource: info.Resource, Group: info.APIGroup, Namespace: info.Namespace, Name: info.Name, Client: r.UserAgent(),
	}
	if info.Subresource != "" {
		described.Resource += "/" + info.Subresource
	}
	if !described.Writes() || r.Body == nil {
		return described, nil
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return described, err
	}
	described.Body = body
	r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), r.Body))
	return described, nil
}

// Match says which requests are meant. Empty members match everything; patterns may hold *.
type Match struct {
	Verb, Resource, Namespace, Name string
	Body                            string // text that the body holds, such as "providerID"
}

func (m Match) matches(r Request) bool {
	return matches(m.Verb, r.Verb) && matches(m.Resource, r.Resource) && matches(m.Namespace, r.Namespace) && matches(m.Name, r.Name) &&
		bytes.Contains(r.Body, []byte(m.Body))
}

// Moment is when a trigger fires.
type Moment int

// The moments of a request. The last two count only requests that the API server accepted.
const (
	// BeforeRequest is before the API server sees it, and it never does: the connection is reset.
	BeforeRequest Moment = iota
	// BeforeResponse is when the API server has done it and the client does not know, and never will.
	BeforeResponse
	// AfterResponse is when the client has its response.
	AfterResponse
)

// Trigger has a function called at a request.
type Trigger struct {
	Match  Match
	After  int // how many requests that match pass before
	Moment Moment
	Run    func(Request)
}

// trigger is one that is armed.
type trigger struct {
	Trigger

	left  int
	fired chan struct{}
}

// watchers are the subscribers to requests.
type watchers struct {
	mu       sync.Mutex
	armed    []*trigger
	watching map[int]func(Request)
	next     int
}

// Once arms a trigger, which fires at most once. The channel is closed after its function has returned;
// cancel disarms it.
func (p *Proxy) Once(t Trigger) (fired <-chan struct{}, cancel func()) {
	w := &p.watchers
	armed := &trigger{Trigger: t, left: t.After, fired: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = append(w.armed, armed)
	return armed.fired, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.armed = slices.DeleteFunc(w.armed, func(a *trigger) bool { return a == armed })
	}
}

// Watch has a function called with every request after its response; for a watch, when it ends. Stop
// ends that. The function may not block.
func (p *Proxy) Watch(see func(Request)) (stop func()) {
	w := &p.watchers
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watching == nil {
		w.watching = map[int]func(Request){}
	}
	id := w.next
	w.next++
	w.watching[id] = see
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.watching, id)
	}
}

// fireTrigger returns the trigger that a request sets off, if there is one, and disarms it.
func (w *watchers) fireTrigger(r Request) *trigger {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, t := range w.armed {
		if !t.Match.matches(r) {
			continue
		}
		if t.left > 0 {
			t.left--
			continue
		}
		w.armed = slices.Delete(w.armed, i, i+1)
		return t
	}
	return nil
}

// rearmTrigger puts back a trigger whose request was not done.
func (w *watchers) rearmTrigger(t *trigger) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = append(w.armed, t)
}

func (w *watchers) notifyWatchers(r Request) {
	w.mu.Lock()
	see := make([]func(Request), 0, len(w.watching))
	for id := range w.next {
		if f := w.watching[id]; f != nil {
			see = append(see, f)
		}
	}
	w.mu.Unlock()
	for _, f := range see {
		f(r)
	}
}

func (t *trigger) run(r Request) {
	defer close(t.fired)
	t.Run(r)
}

// statusRecorder records the status code of a response on its way to the client.
type statusRecorder struct {
	http.ResponseWriter

	status int
}

func (a *statusRecorder) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

func (a *statusRecorder) Write(b []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	return a.ResponseWriter.Write(b)
}

// Unwrap lets the reverse proxy find Flush.
func (a *statusRecorder) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// lost is a response that is kept back.
type lost struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (l *lost) Header() http.Header { return l.header }

func (l *lost) WriteHeader(status int) { l.status = status }

func (l *lost) Write(b []byte) (int, error) {
	if l.status == 0 {
		l.status = http.StatusOK
	}
	return l.body.Write(b)
}

func (l *lost) send(w http.ResponseWriter) {
	maps.Copy(w.Header(), l.header)
	w.WriteHeader(l.status)
	_, _ = w.Write(l.body.Bytes()) // the client is gone; nothing to do about it
}
