package bars

import (
	"slices"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/sandbox/apiproxy"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu"
)

// exchange is one request and its response.
type exchange struct {
	what       string // such as "create nodeclaims" or "ec2:CreateFleet"
	came, done time.Time
	failed     bool
	detail     string // capacity type of a fleet
}

// traffic keeps what the controller requested, without bodies.
type traffic struct {
	mu       sync.Mutex
	api, aws []exchange
}

const (
	createClaim = "create nodeclaims"
	createFleet = "ec2:CreateFleet"
)

func (t *traffic) seeAPI(r apiproxy.Request) {
	resource := r.Resource
	if resource == "" {
		resource = "other paths" // discovery, versions
	}
	e := exchange{what: r.Verb + " " + resource, came: r.Time, done: time.Now(), failed: r.Status >= 300}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.api = append(t.api, e)
}

// seeAWS notes a call. When it came is in emulated time, which is real time at speed 1 only.
func (t *traffic) seeAWS(c awsemu.Call) {
	if c.Parameters["DryRun"] == "true" {
		return // requests a permission, not for a machine
	}
	e := exchange{
		what: string(c.Service) + ":" + c.Action, came: c.Time, done: time.Now(), failed: c.Code != "",
		detail: c.Parameters["TargetCapacitySpecification.DefaultTargetCapacityType"],
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.aws = append(t.aws, e)
}

// mark is a moment to count from.
type mark struct{ api, aws int }

func (t *traffic) markNow() mark {
	t.mu.Lock()
	defer t.mu.Unlock()
	return mark{api: len(t.api), aws: len(t.aws)}
}

// exchangesSince returns what came after a moment.
func (t *traffic) exchangesSince(m mark) (api, aws []exchange) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.api[m.api:]), slices.Clone(t.aws[m.aws:])
}

// exchangesOfKind returns the exchanges of one kind that succeeded.
func exchangesOfKind(list []exchange, what string) []exchange {
	return slices.DeleteFunc(slices.Clone(list), func(e exchange) bool { return e.what != what || e.failed })
}

// countExchanges counts exchanges by kind.
func countExchanges(list []exchange) map[string]int {
	out := map[string]int{}
	for _, e := range list {
		out[e.what]++
	}
	return out
}
