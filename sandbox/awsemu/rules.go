package awsemu

import (
	"net/http"
	"path"
	"time"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// rules decide over a call before its operation runs: who may, how often, and what goes wrong.
type rules struct {
	Keys     []string            `json:"keys"`               // access key ids that are known besides those of STS; none lets all in
	Denials  []Denial            `json:"denials,omitempty"`  // over what policies say
	Throttle map[string]*Bucket  `json:"throttle"`           // by action pattern such as ec2:Describe*; the longest pattern counts
	Faults   []*Fault            `json:"faults"`             // in order; the first that matches and is not used up counts
	Sessions Duration            `json:"sessions,omitempty"` // how long credentials of roles last; 0: as long as AWS makes them
	Lag      map[string]Duration `json:"lag"`                // eventual consistency by what lags: instances, tags, profiles, templates
}

func newRules() rules {
	return rules{Throttle: map[string]*Bucket{}, Lag: map[string]Duration{}}
}

// Duration is a length of time as text in JSON, such as 1.5s.
type Duration time.Duration

// MarshalText renders the duration.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads the duration.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}

// Bucket is a token bucket.
type Bucket struct {
	Rate  float64 `json:"rate"` // tokens per emulated second
	Burst float64 `json:"burst"`

	tokens float64
	filled time.Time
}

// takeToken uses one token if there is one.
func (b *Bucket) takeToken(now time.Time) bool {
	if b.filled.IsZero() {
		b.tokens = b.Burst
	} else {
		b.tokens = min(b.Burst, b.tokens+b.Rate*now.Sub(b.filled).Seconds())
	}
	b.filled = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// Fault makes calls of an action go wrong.
type Fault struct {
	Action  string   `json:"action"`            // pattern such as ec2:CreateFleet
	Text    string   `json:"text,omitempty"`    // that the call holds, such as the id of an instance; empty: any call
	Count   int      `json:"count,omitempty"`   // how many calls; 0 means all until it is removed
	Code    string   `json:"code,omitempty"`    // error to return instead of running the operation
	Message string   `json:"message,omitempty"` // of the error
	Status  int      `json:"status,omitempty"`  // of the error; 0 means the usual one
	Latency Duration `json:"latency,omitempty"` // wall time to wait before anything happens
	// Drop resets the connection: before the operation runs, or after it ran and before its response.
	Drop     string `json:"drop,omitempty"`
	Truncate bool   `json:"truncate,omitempty"` // send half of the response
}

// Ways to drop a connection.
const (
	DropBefore = "before"
	DropAfter  = "after"
)

// fault is what was decided for one call; the zero value lets it pass.
type fault struct {
	latency  time.Duration
	drop     string
	truncate bool
}

// judgeCall decides over a call. The emulator is locked.
func (e *Emulator) judgeCall(c *call) (fault, error) {
	r, name := &e.rules, string(c.Service)+":"+c.Action
	if err := e.authenticateCaller(c); err != nil {
		return fault{}, err
	}
	if bucket := r.bucketOf(name); bucket != nil && !bucket.takeToken(c.now) {
		return fault{}, throttlingError(c.Service)
	}
	if err := e.authorizeCall(c); err != nil {
		return fault{}, err
	}
	for _, f := range r.Faults {
		if !matchAction(f.Action, name) || f.Count < 0 || f.Text != "" && !(&Call{Body: string(c.Body), Parameters: c.Form.Map()}).containsText(f.Text) {
			continue
		}
		if f.Count > 0 {
			if f.Count--; f.Count == 0 {
				f.Count = -1 // used up
			}
		}
		decided := fault{latency: time.Duration(f.Latency), drop: f.Drop, truncate: f.Truncate}
		if f.Code != "" {
			return decided, &wire.Error{Code: f.Code, Message: f.Message, Status: f.Status}
		}
		return decided, nil
	}
	return fault{}, nil
}

// authorizeCall checks the policies of the caller. A pod that requests credentials has no identity yet.
func (e *Emulator) authorizeCall(c *call) error {
	if c.Service == wire.EKSAuth || e.authorityOfKey(c.Key).isUnrestricted() {
		return nil
	}
	e.advanceModel(c.now) // tags that arrive by now count
	return e.checkPermissions(c, e.requiredAccess(c)...)
}

func (r *rules) bucketOf(name string) *Bucket {
	var best string
	for pattern := range r.Throttle {
		if matchAction(pattern, name) && len(pattern) > len(best) {
			best = pattern
		}
	}
	return r.Throttle[best]
}

func throttlingError(s wire.Service) error {
	switch s {
	case wire.EC2:
		return wire.Errorf("RequestLimitExceeded", "Request limit exceeded.")
	case wire.SQS:
		return wire.Errorf("RequestThrottled", "Rate exceeded")
	case wire.IAM, wire.STS:
		return wire.Errorf("Throttling", "Rate exceeded")
	default:
		return wire.Errorf("ThrottlingException", "Rate exceeded")
	}
}

func matchAction(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return err == nil && ok
}

// applyBeforeCall waits, or resets the connection.
func (f fault) applyBeforeCall(gone <-chan struct{}) error {
	if f.latency > 0 {
		timer := time.NewTimer(f.latency)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-gone:
			return wire.Errorf("RequestTimeout", "the client is gone")
		}
	}
	if f.drop == DropBefore {
		panic(http.ErrAbortHandler) // the way of net/http to reset a connection
	}
	return nil
}

// send writes the response, or a part of it, or nothing.
func (f fault) send(w http.ResponseWriter, r wire.Response) {
	if f.drop == DropAfter {
		panic(http.ErrAbortHandler)
	}
	if f.truncate {
		r.Header["Content-Length"] = []string{itoa(len(r.Body))}
		r.Body = r.Body[:len(r.Body)/2]
	}
	r.Send(w)
}
