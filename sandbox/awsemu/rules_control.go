package awsemu

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// namesProfile reports whether a body names a profile instead of spelling everything out.
func namesProfile(body []byte) bool {
	var members map[string]json.RawMessage
	return json.Unmarshal(body, &members) == nil && members["profile"] != nil
}

// faultsControl shows the faults. POST adds one, PUT replaces all. DELETE removes all, or those with the
// action and text of its body.
func (e *Emulator) faultsControl() control {
	return control{
		http.MethodGet: func(*controlRequest) (any, error) { return append([]*Fault{}, e.rules.Faults...), nil },
		http.MethodDelete: func(r *controlRequest) (any, error) {
			var f Fault
			if len(r.body) == 0 {
				e.rules.Faults = nil
				return nil, nil
			}
			if err := r.decode(&f); err != nil {
				return nil, err
			}
			e.rules.Faults = slices.DeleteFunc(e.rules.Faults, func(o *Fault) bool { return o.Action == f.Action && o.Text == f.Text })
			return nil, nil
		},
		http.MethodPost: func(r *controlRequest) (any, error) {
			f := &Fault{}
			if err := r.decode(f); err != nil {
				return nil, err
			}
			if err := f.check(); err != nil {
				return nil, err
			}
			e.rules.Faults = append(e.rules.Faults, f)
			return nil, nil
		},
		http.MethodPut: func(r *controlRequest) (any, error) {
			var list []*Fault
			if err := r.decode(&list); err != nil {
				return nil, err
			}
			list = slices.DeleteFunc(list, func(f *Fault) bool { return f == nil })
			for n, f := range list {
				if err := f.check(); err != nil {
					return nil, fmt.Errorf("element %d: %w", n, err)
				}
			}
			e.rules.Faults = list
			return nil, nil
		},
	}
}

// check finds what would make a fault do nothing.
func (f *Fault) check() error {
	if f.Action == "" {
		return fmt.Errorf("action: is required; a pattern such as ec2:CreateFleet")
	}
	if f.Drop != "" && f.Drop != DropBefore && f.Drop != DropAfter {
		return fmt.Errorf("drop: %q is not known; want %s or %s", f.Drop, DropBefore, DropAfter)
	}
	return nil
}

// Profiles of throttling.
const (
	throttleOff       = "off"
	throttleRealistic = "realistic"
)

// throttleControl shows the budgets by action. PUT replaces them, or takes those of a profile.
func (e *Emulator) throttleControl() control {
	c := replacingControl(func() *map[string]*Bucket { return &e.rules.Throttle })
	spelledOut := c[http.MethodPut]
	c[http.MethodPut] = func(r *controlRequest) (any, error) {
		if !namesProfile(r.body) {
			return spelledOut(r)
		}
		var body struct {
			Profile string `json:"profile"`
		}
		if err := r.decode(&body); err != nil {
			return nil, err
		}
		switch body.Profile {
		case throttleOff:
			e.rules.Throttle = map[string]*Bucket{}
		case throttleRealistic:
			e.rules.Throttle = e.realisticBudgets()
		default:
			return nil, fmt.Errorf("profile: %q is not known; want %s or %s", body.Profile, throttleOff, throttleRealistic)
		}
		return nil, nil
	}
	return c
}

// realisticBudgets gives every operation of EC2 a budget of its own, as a real account has it.
func (e *Emulator) realisticBudgets() map[string]*Bucket {
	budgets := map[string]*Bucket{}
	for action := range e.operations[wire.EC2] {
		b := &Bucket{Rate: 5, Burst: 50}
		switch {
		case strings.HasPrefix(action, "Describe"):
			b = &Bucket{Rate: 20, Burst: 100}
		case action == "RunInstances":
			b = &Bucket{Rate: 2, Burst: 5}
		case action == "TerminateInstances":
			b = &Bucket{Rate: 5, Burst: 100}
		case action == "CreateTags":
			b = &Bucket{Rate: 10, Burst: 100}
		}
		budgets[string(wire.EC2)+":"+action] = b
	}
	return budgets
}
