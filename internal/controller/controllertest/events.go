package controllertest

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/event"
)

// Transcript keeps the events that were sent, each as a line.
type Transcript struct {
	mu   sync.Mutex
	Said []string
}

// Emit keeps events.
func (h *Transcript) Emit(obj client.Object, events ...event.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range events {
		h.Said = append(h.Said, fmt.Sprintf("%s %s: %s", obj.GetName(), e.Reason, e.Text))
	}
}

// Saw reports whether an event holds all parts.
func (h *Transcript) Saw(parts ...string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.ContainsFunc(h.Said, func(s string) bool {
		return !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(s, p) })
	})
}

// Count is how many events hold all parts.
func (h *Transcript) Count(parts ...string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, said := range h.Said {
		holds := true
		for _, part := range parts {
			holds = holds && strings.Contains(said, part)
		}
		if holds {
			n++
		}
	}
	return n
}

// EventLog is what users would see as events.
type EventLog struct{ Lines []string }

// Eventf keeps an event.
func (l *EventLog) Eventf(regarding, _ runtime.Object, kind, reason, _, note string, args ...any) {
	l.Lines = append(l.Lines, fmt.Sprintf("%s %s %s: %s", regarding.(client.Object).GetName(), kind, reason, fmt.Sprintf(note, args...)))
}

// Count is how often a part occurs.
func (l *EventLog) Count(part string) int {
	n := 0
	for _, line := range l.Lines {
		n += strings.Count(line, part)
	}
	return n
}

// Recorder keeps the events, in order.
type Recorder struct {
	mu     sync.Mutex
	Events []Event
}

// Event is an event on an object.
type Event struct {
	On     string
	Reason event.Reason
	Text   string
}

// Emit keeps events.
func (r *Recorder) Emit(obj client.Object, events ...event.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range events {
		r.Events = append(r.Events, Event{On: obj.GetName(), Reason: e.Reason, Text: e.Text})
	}
}

// Flips drops changes of conditions.
func (r *Recorder) Flips(client.Object, []condition.Flip) {}

// Text is the text of the last event on an object with a reason.
func (r *Recorder) Text(on string, reason event.Reason) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range slices.Backward(r.Events) {
		if e.On == on && e.Reason == reason {
			return e.Text
		}
	}
	return ""
}
