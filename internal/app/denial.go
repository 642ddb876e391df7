package app

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/dovetail-sh/dovetail/internal/rights"
)

const (
	// reportInterval is how often a permission that is still missing is reported.
	reportInterval = 10 * time.Minute
	// deniedLately is longer than the back-off of an informer, so that a right that is missing is seen as missing between
	// two attempts.
	deniedLately = 2 * time.Minute
	// refusalSize is more than the size of a response to a forbidden request.
	refusalSize = 64 << 10
)

// denials detects which requests the API server forbids because a permission is missing. Each is reported once with
// the rule to add: callers know what they failed to do, not which role of the chart has the rule, and an informer
// would only retry forever.
type denials struct {
	log logr.Logger
	now func() time.Time

	mu   sync.Mutex
	seen map[rights.Denial]*denied
}

// denied is a right that is missing.
type denied struct {
	request        string // the last one that was forbidden
	reported, last time.Time
}

func newDenials(log logr.Logger) *denials {
	return &denials{log: log, now: time.Now, seen: map[rights.Denial]*denied{}}
}

// wrapTransport reads responses.
func (d *denials) wrapTransport(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		switch {
		case err != nil:
		case response.StatusCode == http.StatusForbidden:
			d.readDenial(r, response)
		case response.StatusCode < http.StatusBadRequest, response.StatusCode == http.StatusNotFound, response.StatusCode == http.StatusConflict:
			d.dropDenial(r)
		}
		return response, err
	})
}

// readDenial finds out which permission is missing. The caller still reads the response after it.
func (d *denials) readDenial(r *http.Request, response *http.Response) {
	text, err := io.ReadAll(io.LimitReader(response.Body, refusalSize))
	rest := response.Body
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(text), rest), rest}
	if err != nil {
		return // the caller gets the same error
	}
	if denial, is := rights.Read(string(text)); is {
		d.recordDenial(denial, requestKey(r))
	}
}

// recordDenial records and reports a denial, unless the component that needs the permission can do without it:
// that component reports what it does instead.
func (d *denials) recordDenial(denial rights.Denial, request string) {
	now, right := d.now(), rightOf(denial)
	if right.Value != "" && denial.Verb != "watch" {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	was := d.seen[denial]
	if was == nil {
		was = &denied{}
		d.seen[denial] = was
	}
	was.request, was.last = request, now
	if !was.reported.IsZero() && now.Sub(was.reported) < reportInterval {
		return
	}
	was.reported = now
	if right.Vital {
		d.log.Error(errors.New("forbidden"), denial.Warning())
		return
	}
	d.log.Error(nil, denial.Warning())
}

func rightOf(denial rights.Denial) rights.Right {
	right, _ := rights.Find(denial) // none: a right that the chart does not know is not vital
	return right
}

// dropDenial drops what is allowed now. An informer whose watch begins needs no list any more.
func (d *denials) dropDenial(r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.seen) == 0 {
		return // the usual case, which costs nothing
	}
	request := requestKey(r)
	list := strings.TrimSuffix(request, watchSuffix)
	for denial, was := range d.seen { // any order: all that match
		if was.request == request || was.request == list {
			delete(d.seen, denial)
			d.log.Info("the service account may now "+denial.Verb+" "+denial.Resource, "group", denial.Group)
		}
	}
}

const watchSuffix = " watch"

// requestKey is the same for a request that is sent again.
func requestKey(r *http.Request) string {
	key := r.Method + " " + r.URL.Path
	if watch := r.URL.Query().Get("watch"); watch == "true" || watch == "1" {
		key += watchSuffix
	}
	return key
}

// check fails while a right is missing without which nothing is planned, and says which.
func (d *denials) check(*http.Request) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var missing []string
	for denial, was := range d.seen { // sorted below
		if rightOf(denial).Vital && d.now().Sub(was.last) <= deniedLately {
			missing = append(missing, denial.Warning())
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return errors.New(strings.Join(missing, "; "))
}
