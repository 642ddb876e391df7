package controller_test

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

// heard keeps the events that were sent.
type heard struct {
	mu   sync.Mutex
	Said []string
}

func (h *heard) Emit(obj client.Object, events ...event.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range events {
		h.Said = append(h.Said, fmt.Sprintf("%s %s: %s", obj.GetName(), e.Reason, e.Text))
	}
}

func (h *heard) Saw(parts ...string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.ContainsFunc(h.Said, func(s string) bool {
		return !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(s, p) })
	})
}

// count is how many events hold all parts.
func (h *heard) Count(parts ...string) int {
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

// eventLog is what users would see as events.
type eventLog struct{ Lines []string }

func (l *eventLog) Eventf(regarding, _ runtime.Object, kind, reason, _, note string, args ...any) {
	l.Lines = append(l.Lines, fmt.Sprintf("%s %s %s: %s", regarding.(client.Object).GetName(), kind, reason, fmt.Sprintf(note, args...)))
}

func (l *eventLog) Count(part string) int {
	n := 0
	for _, line := range l.Lines {
		n += strings.Count(line, part)
	}
	return n
}

// told keeps the events, in order.
type told struct {
	mu     sync.Mutex
	Events []toldEvent
}

type toldEvent struct {
	On     string
	Reason event.Reason
	Text   string
}

func (r *told) Emit(obj client.Object, events ...event.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range events {
		r.Events = append(r.Events, toldEvent{On: obj.GetName(), Reason: e.Reason, Text: e.Text})
	}
}

func (r *told) Flips(client.Object, []condition.Flip) {}

// text is the last text told about an object for a reason.
func (r *told) Text(on string, reason event.Reason) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range slices.Backward(r.Events) {
		if e.On == on && e.Reason == reason {
			return e.Text
		}
	}
	return ""
}
