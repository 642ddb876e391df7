package apiproxy

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
)

// Proxy is an http.Handler that passes requests on to an API server.
type Proxy struct {
	rules    rules
	watchers watchers
	info     *request.RequestInfoFactory
	next     http.Handler
}

// New returns a proxy for the API server and identity of a client configuration.
func New(config *rest.Config) (*Proxy, error) {
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, fmt.Errorf("API server %q: %w", config.Host, err)
	}
	ours, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	anonymous, err := rest.TransportFor(rest.AnonymousClientConfig(config))
	if err != nil {
		return nil, err
	}
	return &Proxy{
		info: &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")},
		next: &httputil.ReverseProxy{
			Transport:     identities{ours, anonymous},
			FlushInterval: -1, // a watch event must not wait for the next
			Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
			ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
				writeAPIError(w, http.StatusBadGateway, "the API server does not respond: "+err.Error())
			},
		},
	}, nil
}

// identities sends a request as us, unless it brings a token: then it is sent as whose token that is.
type identities struct{ ours, anonymous http.RoundTripper }

// RoundTrip is that of http.RoundTripper.
func (i identities) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("Authorization") != "" {
		return i.anonymous.RoundTrip(r)
	}
	return i.ours.RoundTrip(r)
}

// Set replaces the faults in force; none makes everything pass.
func (p *Proxy) Set(faults ...Fault) error {
	list, err := checkFaults(faults)
	if err != nil {
		return err
	}
	p.rules.mu.Lock()
	defer p.rules.mu.Unlock()
	p.rules.faults = list
	return nil
}

// Add puts faults in force beside those that are, until remove is called.
func (p *Proxy) Add(faults ...Fault) (remove func(), err error) {
	list, err := checkFaults(faults)
	if err != nil {
		return nil, err
	}
	p.rules.mu.Lock()
	defer p.rules.mu.Unlock()
	p.rules.faults = append(p.rules.faults, list...)
	return func() {
		p.rules.mu.Lock()
		defer p.rules.mu.Unlock()
		p.rules.faults = slices.DeleteFunc(p.rules.faults, func(f *Fault) bool { return slices.Contains(list, f) })
	}, nil
}

func checkFaults(faults []Fault) ([]*Fault, error) {
	list := make([]*Fault, 0, len(faults))
	for _, f := range faults {
		if err := f.Check(); err != nil {
			return nil, err
		}
		list = append(list, &f)
	}
	return list, nil
}

// Faults returns what is in force.
func (p *Proxy) Faults() []Fault {
	p.rules.mu.Lock()
	defer p.rules.mu.Unlock()
	list := make([]Fault, 0, len(p.rules.faults))
	for _, f := range p.rules.faults {
		list = append(list, *f)
	}
	return list
}

// ServeHTTP passes one request on, or lets it go wrong.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	info, err := p.info.NewRequestInfo(r)
	if err != nil {
		writeAPIError(w, http.StatusBadRequest, err.Error())
		return
	}
	req, err := describe(r, info, time.Now())
	if err != nil {
		writeAPIError(w, http.StatusBadRequest, err.Error())
		return
	}
	t := p.watchers.fireTrigger(req)
	if t != nil && t.Moment != AfterResponse {
		p.dropTriggeredResponse(w, r, req, t)
		return
	}
	response := &statusRecorder{ResponseWriter: w}
	defer func() {
		req.Status = response.status
		p.watchers.notifyWatchers(req)
		switch {
		case t == nil:
		case isSuccess(response.status):
			t.run(req)
		default:
			p.watchers.rearmTrigger(t)
		}
	}()
	p.forwardRequest(response, r, info)
}

// dropTriggeredResponse takes a request that sets off a trigger and resets the connection, after the API server did it or
// before. What the API server refused is returned: the step that the trigger waits for was not done.
func (p *Proxy) dropTriggeredResponse(w http.ResponseWriter, r *http.Request, req Request, t *trigger) {
	if t.Moment == BeforeResponse {
		kept := &lost{header: http.Header{}}
		// A client that dies meanwhile changes nothing: the step is done or refused.
		p.next.ServeHTTP(kept, r.WithContext(context.WithoutCancel(r.Context())))
		req.Status = kept.status
		if !isSuccess(kept.status) {
			p.watchers.rearmTrigger(t)
			p.watchers.notifyWatchers(req)
			kept.send(w)
			return
		}
	}
	p.watchers.notifyWatchers(req)
	t.run(req)
	panic(http.ErrAbortHandler) // the way of net/http to reset a connection
}

func isSuccess(status int) bool {
	return status >= http.StatusOK && status < http.StatusMultipleChoices
}

// forwardRequest hands a request on, unless a fault is in force.
func (p *Proxy) forwardRequest(w http.ResponseWriter, r *http.Request, info *request.RequestInfo) {
	f, found := p.rules.takeMatchingFault(info)
	if !found {
		p.next.ServeHTTP(w, r)
		return
	}
	if f.Latency > 0 && !wait(r.Context(), f.Latency) {
		return
	}
	switch {
	case f.Drop:
		panic(http.ErrAbortHandler) // the way of net/http to reset a connection
	case f.Status != 0:
		writeAPIError(w, f.Status, "injected by the sandbox")
	case f.CutAfter > 0:
		ctx, cancel := context.WithTimeout(r.Context(), f.CutAfter)
		defer cancel()
		p.next.ServeHTTP(w, r.WithContext(ctx))
		panic(http.ErrAbortHandler)
	default:
		p.next.ServeHTTP(w, r)
	}
}

func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// writeAPIError responds like the API server, so that clients see a status they understand.
func writeAPIError(w http.ResponseWriter, code int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{ // the client is gone; nothing to do about it
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(code), Message: message, Reason: reasonOf(code),
	})
}

func reasonOf(code int) metav1.StatusReason {
	switch code {
	case http.StatusConflict:
		return metav1.StatusReasonConflict
	case http.StatusTooManyRequests:
		return metav1.StatusReasonTooManyRequests
	case http.StatusNotFound:
		return metav1.StatusReasonNotFound
	case http.StatusForbidden:
		return metav1.StatusReasonForbidden
	case http.StatusInternalServerError:
		return metav1.StatusReasonInternalError
	case http.StatusServiceUnavailable:
		return metav1.StatusReasonServiceUnavailable
	default:
		return metav1.StatusReasonUnknown
	}
}
