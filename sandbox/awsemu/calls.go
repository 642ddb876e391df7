package awsemu

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// Call is one recorded request: the basis for assertions such as the size of a batch or the tags that
// were sent.
type Call struct {
	Time       time.Time         `json:"time"`
	Service    wire.Service      `json:"service"`
	Action     string            `json:"action"`
	Key        string            `json:"key,omitempty"`
	Role       string            `json:"role,omitempty"` // whose session the key is
	Invocation string            `json:"invocation,omitempty"`
	Attempt    string            `json:"attempt,omitempty"`
	Parameters map[string]string `json:"parameters,omitempty"` // of JSON services the top level: texts as they are, the rest as JSON
	Body       string            `json:"body,omitempty"`       // JSON services
	Path       string            `json:"path,omitempty"`       // REST services
	Done       bool              `json:"done"`
	Code       string            `json:"code,omitempty"` // of the error; empty for success
}

// maxCalls bounds the memory of the recorder; the oldest go first.
const maxCalls = 20000

type recorder struct{ list []*Call }

func (r *recorder) add(c *call, role string) *Call {
	record := &Call{
		Time: c.now, Service: c.Service, Action: c.Action, Key: c.Key, Role: role, Invocation: c.Invocation, Attempt: c.Attempt,
		Parameters: c.Form.Map(), Path: c.Path,
	}
	if len(record.Parameters) == 0 {
		record.Body, record.Parameters = string(c.Body), topLevel(c.Body)
	}
	if len(r.list) >= maxCalls {
		r.list = append([]*Call(nil), r.list[maxCalls/10:]...)
	}
	r.list = append(r.list, record)
	return record
}

// topLevel reads the members of a JSON object; none when it is no object.
func topLevel(body []byte) map[string]string {
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil {
		return nil
	}
	out := map[string]string{}
	for name, raw := range members {
		var text string
		if json.Unmarshal(raw, &text) != nil {
			text = string(raw)
		}
		out[name] = text
	}
	return out
}

func (c *Call) finishCall(err error) {
	c.Done = true
	if err != nil {
		c.Code = codeOf(err)
	}
}

func codeOf(err error) string {
	if e, ok := errors.AsType[*wire.Error](err); ok {
		return e.Code
	}
	return "InternalError"
}

// Calls returns the recorded calls of a service and an action; empty means any.
func (e *Emulator) Calls(service wire.Service, action string) []Call {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []Call
	for _, c := range e.calls.list {
		if (service == "" || c.Service == service) && (action == "" || c.Action == action) {
			out = append(out, *c)
		}
	}
	return out
}
