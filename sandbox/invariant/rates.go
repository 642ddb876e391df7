package invariant

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/sandbox/apiproxy"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// rateWindow is over how long calls are counted: bursts within it are no hot loop.
const rateWindow = 5 * time.Second

// countRequest is G12, and what shows of G9, for writes to one object of the API server. Creations that
// the server names have no object yet.
func (c *Checker) countRequest(r apiproxy.Request) {
	if !r.Writes() || r.Name == "" || r.Resource == "leases" {
		return
	}
	object := r.Resource + " " + r.Name
	if r.Namespace != "" {
		object = r.Resource + " " + r.Namespace + "/" + r.Name
	}
	c.count(r.Time, object, r.Namespace)
}

// countCall is the same for calls of AWS: those with the same parameters are about the same thing. Tokens
// do not make a difference. A receive that brought messages may come again at once.
func (c *Checker) countCall(at time.Time, call awsemu.Call) {
	if call.Service == wire.SQS && call.Code == "" {
		return
	}
	sum := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(call.Parameters)) {
		if key != "ClientToken" && key != "NextToken" {
			fmt.Fprintf(sum, "%s=%s\n", key, call.Parameters[key])
		}
	}
	if call.Parameters["NextToken"] != "" {
		return // the next page of a list
	}
	object := fmt.Sprintf("%s:%s %x", call.Service, call.Action, sum.Sum(nil)[:4])
	if ids := uidText(call); len(ids) > 0 && len(ids) <= 3 {
		object = fmt.Sprintf("%s:%s %s", call.Service, call.Action, strings.Join(ids, ","))
	}
	c.count(at, object, "")
}

// Restarted says that the controller is a new process. It reads everything anew, which is no hot loop of
// its own, however often others of its kind did so a moment ago.
func (c *Checker) Restarted() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.rates)
}

// count reports an object that is called for too often.
func (c *Checker) count(at time.Time, object, namespace string) {
	times := slices.DeleteFunc(c.rates[object], func(t time.Time) bool { return at.Sub(t) > rateWindow })
	times = append(times, at)
	c.rates[object] = times
	if most := c.options.Limits.Rate * rateWindow.Seconds(); float64(len(times)) > most {
		c.reportViolation(Violation{
			Rule: G12, At: at, Object: object, Namespace: namespace,
			What: fmt.Sprintf("%d calls in %s", len(times), rateWindow),
		})
	}
}
