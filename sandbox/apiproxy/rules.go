package apiproxy

import (
	"fmt"
	"net/http"
	"path"
	"slices"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// Fault makes requests go wrong. Empty patterns match everything; patterns may hold *.
type Fault struct {
	Verb     string        `json:"verb,omitempty"`     // get, list, watch, create, update, patch, delete, deletecollection
	Resource string        `json:"resource,omitempty"` // plural, with a sub-resource behind a slash: pods/eviction
	Name     string        `json:"name,omitempty"`     // of the object
	Count    int           `json:"count,omitempty"`    // how many requests; 0 means all until it is removed
	Latency  time.Duration `json:"latency,omitempty"`  // wait before the request is passed on
	Status   int           `json:"status,omitempty"`   // respond with this HTTP status instead of passing on
	Drop     bool          `json:"drop,omitempty"`     // reset the connection instead of passing on
	// CutAfter ends a watch, or any other response, after this long in the middle of the stream.
	CutAfter time.Duration `json:"cutAfter,omitempty"`
}

// Check says what is wrong with a fault.
func (f Fault) Check() error {
	for _, pattern := range []string{f.Verb, f.Resource, f.Name} {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("pattern %q: %w", pattern, err)
		}
	}
	switch {
	case f.Count < 0:
		return fmt.Errorf("count: %d is negative", f.Count)
	case f.Latency < 0 || f.CutAfter < 0:
		return fmt.Errorf("latency and cutAfter may not be negative")
	case f.Status != 0 && http.StatusText(f.Status) == "":
		return fmt.Errorf("status: %d is no HTTP status", f.Status)
	case f.Latency == 0 && f.Status == 0 && !f.Drop && f.CutAfter == 0:
		return fmt.Errorf("nothing goes wrong: set latency, status, drop or cutAfter")
	}
	return nil
}

// rules hold the faults in force.
type rules struct {
	mu     sync.Mutex
	faults []*Fault
}

// takeMatchingFault returns the first fault that matches, and counts it.
func (r *rules) takeMatchingFault(info *request.RequestInfo) (Fault, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	resource := info.Resource
	if info.Subresource != "" {
		resource += "/" + info.Subresource
	}
	for i, f := range r.faults {
		if !matches(f.Verb, info.Verb) || !matches(f.Resource, resource) || !matches(f.Name, info.Name) {
			continue
		}
		if f.Count == 1 {
			r.faults = slices.Delete(slices.Clone(r.faults), i, i+1)
		} else if f.Count > 1 {
			r.faults[i].Count--
		}
		return *f, true
	}
	return Fault{}, false
}

func matches(pattern, name string) bool {
	if pattern == "" {
		return true
	}
	ok, err := path.Match(pattern, name)
	return err == nil && ok
}
