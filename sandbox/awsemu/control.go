package awsemu

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// controlPrefix is where the emulator itself is steered; no service of AWS has such paths.
const controlPrefix = "/_dovetail/"

// control serves one path of the control API, by method. It runs with the emulator locked and the
// lifecycles up to date. The rest is what follows the path after a slash.
type control map[string]func(r *controlRequest) (any, error)

// controlRequest is one request to the control API.
type controlRequest struct {
	rest  string
	query func(string) string
	body  []byte
	now   time.Time
}

// decode reads the body strictly: a typo in a fault must not pass for no fault.
func (r *controlRequest) decode(into any) error {
	decoder := json.NewDecoder(strings.NewReader(string(r.body)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("body: %w", err)
	}
	return nil
}

func (e *Emulator) serveControl(w http.ResponseWriter, r *http.Request, path string) {
	name, rest, _ := strings.Cut(path, "/")
	handlers, known := e.controls[name]
	if !known {
		names := make([]string, 0, len(e.controls))
		for name := range e.controls {
			names = append(names, name)
		}
		slices.Sort(names)
		http.Error(w, fmt.Sprintf("no control %q; there are %s", name, strings.Join(names, ", ")), http.StatusNotFound)
		return
	}
	run, allowed := handlers[r.Method]
	if !allowed {
		http.Error(w, name+" does not take "+r.Method, http.StatusMethodNotAllowed)
		return
	}
	body, err := readAll(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	text, err := e.runControl(run, &controlRequest{rest: rest, query: r.URL.Query().Get, body: body}, r.Method != http.MethodGet)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(text, '\n')) // the client is gone; nothing to do about it
}

// runControl runs a control and renders its response before anybody can change what it shows.
func (e *Emulator) runControl(run func(*controlRequest) (any, error), r *controlRequest, changes bool) ([]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r.now = e.clock.Now()
	e.advanceModel(r.now)
	value, err := run(r)
	if changes {
		e.notifyChange()
	}
	if err != nil {
		return nil, err
	}
	if value == nil {
		value = map[string]bool{"ok": true}
	}
	return json.MarshalIndent(value, "", "  ")
}

// replacingControl is a control that shows a setting and replaces it as a whole: what a body leaves out is
// gone, and a member of an old value never shines through. DELETE leaves nothing.
func replacingControl[T any](setting func() *T) control {
	return control{
		http.MethodGet: func(*controlRequest) (any, error) { return *setting(), nil },
		http.MethodPut: func(r *controlRequest) (any, error) {
			var fresh T
			if err := r.decode(&fresh); err != nil {
				return nil, err
			}
			*setting() = fresh
			return nil, nil
		},
		http.MethodDelete: func(*controlRequest) (any, error) {
			var none T
			*setting() = none
			return nil, nil
		},
	}
}

// registerRules adds the controls of the pipeline.
func (e *Emulator) registerRules() {
	e.controls["keys"] = replacingControl(func() *[]string { return &e.rules.Keys })
	e.controls["sessions"] = e.sessionsControl()
	e.controls["permissions"] = e.permissionsControl()
	e.controls["lag"] = replacingControl(func() *map[string]Duration { return &e.rules.Lag })
	e.controls["throttle"] = e.throttleControl()
	e.controls["faults"] = e.faultsControl()
	e.controls["reset"] = control{http.MethodPost: func(*controlRequest) (any, error) { e.reset(); return nil, nil }}
	e.controls["calls"] = control{
		http.MethodGet: func(r *controlRequest) (any, error) {
			list := []*Call{}
			for _, c := range e.calls.list {
				if service, action := r.query("service"), r.query("action"); (service == "" || c.Service == wire.Service(service)) && (action == "" || c.Action == action) {
					list = append(list, c)
				}
			}
			return list, nil
		},
		http.MethodDelete: func(*controlRequest) (any, error) { e.calls.list = nil; return nil, nil },
	}
	e.controls["time"] = control{
		http.MethodGet: func(r *controlRequest) (any, error) { return timeSetting{Now: r.now, Speed: new(e.clock.Speed())}, nil },
		http.MethodPut: e.setTime,
	}
}

// timeSetting is the body of the control "time". Absent members stay as they are.
type timeSetting struct {
	Now     time.Time `json:"now,omitzero"`
	Speed   *float64  `json:"speed,omitempty"`   // 0 freezes the clock
	Advance Duration  `json:"advance,omitempty"` // such as 2m
}

func (e *Emulator) setTime(r *controlRequest) (any, error) {
	var s timeSetting
	if err := r.decode(&s); err != nil {
		return nil, err
	}
	now, speed := r.now, e.clock.Speed()
	if !s.Now.IsZero() {
		now = s.Now
	}
	if s.Speed != nil {
		speed = *s.Speed
	}
	now = now.Add(time.Duration(s.Advance))
	if now.Before(r.now) {
		return nil, fmt.Errorf("now: time does not run backwards; it is %s", r.now.Format(time.RFC3339))
	}
	e.clock.Set(now, speed)
	e.advanceModel(now)
	return timeSetting{Now: now, Speed: &speed}, nil
}

func itoa(n int) string { return strconv.Itoa(n) }

// Control adds a path to the control API for a part of the sandbox that is not AWS. The functions are
// called one at a time and get the body of the request.
func (e *Emulator) Control(name string, methods map[string]func(body []byte) (any, error)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := control{}
	for method, run := range methods {
		c[method] = func(r *controlRequest) (any, error) { return run(r.body) }
	}
	e.controls[name] = c
}

// Strictly decodes the body of a control: a typo in a fault must not pass for no fault.
func Strictly(body []byte, into any) error { return (&controlRequest{body: body}).decode(into) }
