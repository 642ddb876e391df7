package awsemu

import (
	"slices"
	"strings"
)

// Moment is when a trigger fires.
type Moment int

// The moments of a call. The last two count only calls that succeeded.
const (
	// BeforeCall is before anything is done, and nothing will be: the connection is reset.
	BeforeCall Moment = iota
	// BeforeResponse is when all is done and the client does not know, and never will.
	BeforeResponse
	// AfterResponse is when the client has its response.
	AfterResponse
)

// Trigger has a function called at a call, so that a test can kill a client between two steps.
type Trigger struct {
	Action string // pattern such as ec2:CreateFleet
	Text   string // that the value of a parameter holds, such as the id of an instance; empty: any call
	After  int    // how many calls that match pass before
	Moment Moment
	Run    func(Call)
}

func (t *Trigger) matches(c *Call) bool {
	if !matchAction(t.Action, string(c.Service)+":"+c.Action) {
		return false
	}
	return t.Text == "" || c.containsText(t.Text)
}

// containsText reports whether the call, or a parameter of it, holds a text.
func (c *Call) containsText(text string) bool {
	if strings.Contains(c.Body, text) {
		return true
	}
	for _, value := range c.Parameters {
		if strings.Contains(value, text) {
			return true
		}
	}
	return false
}

// alarm is a trigger that is armed.
type alarm struct {
	Trigger

	left  int
	fired chan struct{}
}

func (a *alarm) run(c Call) {
	defer close(a.fired)
	a.Run(c)
}

// alarms are the armed alarms, and the subscribers to all calls.
type alarms struct {
	armed    []*alarm
	watching map[int]func(Call)
	next     int
}

// Once arms a trigger, which fires at most once. The channel is closed after its function has returned;
// cancel disarms it. The function runs without the lock of the emulator.
func (e *Emulator) Once(t Trigger) (fired <-chan struct{}, cancel func()) {
	armed := &alarm{Trigger: t, left: t.After, fired: make(chan struct{})}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.alarms.armed = append(e.alarms.armed, armed)
	return armed.fired, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.alarms.armed = slices.DeleteFunc(e.alarms.armed, func(a *alarm) bool { return a == armed })
	}
}

// Watch has a function called with every call after it was done, before its response. Stop ends that.
// The function may not block.
func (e *Emulator) Watch(see func(Call)) (stop func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.alarms.watching == nil {
		e.alarms.watching = map[int]func(Call){}
	}
	id := e.alarms.next
	e.alarms.next++
	e.alarms.watching[id] = see
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.alarms.watching, id)
	}
}

// stopBefore returns the alarm that keeps a call from being done, if there is one.
func (e *Emulator) stopBefore(c *Call) *alarm {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.alarms.takeMatchingAlarm(c, func(m Moment) bool { return m == BeforeCall })
}

// fireAlarm reports a call that was done, and returns the alarm that it sets off, if there is one.
func (e *Emulator) fireAlarm(c Call) *alarm {
	e.mu.Lock()
	see := make([]func(Call), 0, len(e.alarms.watching))
	for id := range e.alarms.next {
		if f := e.alarms.watching[id]; f != nil {
			see = append(see, f)
		}
	}
	var found *alarm
	if c.Code == "" {
		found = e.alarms.takeMatchingAlarm(&c, func(m Moment) bool { return m != BeforeCall })
	}
	e.mu.Unlock()
	for _, f := range see {
		f(c)
	}
	return found
}

// takeMatchingAlarm disarms the first alarm that a call sets off. The emulator must be locked.
func (a *alarms) takeMatchingAlarm(c *Call, at func(Moment) bool) *alarm {
	for i, armed := range a.armed {
		if !at(armed.Moment) || !armed.matches(c) {
			continue
		}
		if armed.left > 0 {
			armed.left--
			continue
		}
		a.armed = slices.Delete(a.armed, i, i+1)
		return armed
	}
	return nil
}
