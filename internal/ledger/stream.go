package ledger

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/inspect"
)

// stream keeps events. What is recent is in the head, and is rewritten often; what is sealed is in segments of its own,
// which change rarely. The oldest segment makes room.
type stream struct {
	limits  Limits
	first   int // segment of slots[0]
	recent  []stored
	slots   []slot
	current int // slot that takes what is sealed next
	changes uint64
	dropped int // events that had to make room
}

// slot is a sealed segment.
type slot struct {
	generation uint64 // counts up over the slots of a stream; 0: nothing is in it
	events     []stored
	stamp      uint64 // changes with the content
}

// stored is an event and how many bytes it takes as JSON.
type stored struct {
	inspect.Event

	size int
}

// each calls for all events, in no order.
func (s *stream) each(use func(*inspect.Event)) {
	for i := range s.slots {
		for j := range s.slots[i].events {
			use(&s.slots[i].events[j].Event)
		}
	}
	for i := range s.recent {
		use(&s.recent[i].Event)
	}
}

func (s *stream) has(e *inspect.Event) bool {
	same := func(have stored) bool { return order(&have.Event, e) == 0 }
	if slices.ContainsFunc(s.recent, same) {
		return true
	}
	for i := range s.slots {
		if slices.ContainsFunc(s.slots[i].events, same) {
			return true
		}
	}
	return false
}

// add adds an event to the recent ones, unless it is there already.
func (s *stream) add(e inspect.Event, size int) {
	if s.has(&e) {
		return
	}
	s.recent = append(s.recent, stored{e, size})
	s.changes++
}

// seal moves recent events to a slot once there are too many of them.
func (s *stream) seal() {
	if sizeOf(s.recent) <= s.limits.Recent {
		return
	}
	slices.SortFunc(s.recent, func(a, b stored) int { return order(&a.Event, &b.Event) })
	for len(s.recent) > 0 { // more than once only after a merge
		n, size := 0, 0
		for n < len(s.recent) && (n == 0 || size+s.recent[n].size <= s.limits.Recent) {
			size += s.recent[n].size
			n++
		}
		s.put(s.recent[:n])
		s.recent = slices.Clone(s.recent[n:])
	}
	s.recent = nil
}

// put adds events to the current slot, or to the next one if they do not fit.
func (s *stream) put(events []stored) {
	c := &s.slots[s.current]
	together := slices.Concat(c.events, events)
	if c.generation > 0 && (sizeOf(together) > s.limits.Raw || len(encodeEvents(s.first+s.current, c.generation, together)) > s.limits.Segment) {
		next := c.generation + 1
		s.current = (s.current + 1) % len(s.slots)
		c, together = &s.slots[s.current], slices.Clone(events)
		s.dropped += len(c.events)
		c.generation = next
	}
	c.generation = max(c.generation, 1)
	c.events = together
	c.stamp++
	s.changes++
}

// merge adds the events of another stream.
func (s *stream) merge(other *stream) {
	known := map[string]bool{}
	s.each(func(e *inspect.Event) { known[identity(e)] = true })
	take := func(list []stored) {
		for i := range list {
			if id := identity(&list[i].Event); !known[id] {
				known[id] = true
				s.recent = append(s.recent, list[i])
				s.changes++
			}
		}
	}
	for i := range other.slots {
		take(other.slots[i].events)
	}
	take(other.recent)
	s.dropped = max(s.dropped, other.dropped)
	s.seal()
}

// findCurrentSlot determines the current slot of a stream that was read, and drops recent events that are sealed too.
func (s *stream) findCurrentSlot() {
	sealed := map[string]bool{}
	for i := range s.slots {
		if s.slots[i].generation > s.slots[s.current].generation {
			s.current = i
		}
		for j := range s.slots[i].events {
			sealed[identity(&s.slots[i].events[j].Event)] = true
		}
	}
	s.recent = slices.DeleteFunc(s.recent, func(e stored) bool {
		id := identity(&e.Event)
		twice := sealed[id]
		sealed[id] = true
		return twice
	})
}

func sizeOf(list []stored) int {
	sum := 0
	for i := range list {
		sum += list[i].size
	}
	return sum
}

// identity distinguishes events.
func identity(e *inspect.Event) string {
	return strings.Join([]string{strconv.FormatInt(e.At.UnixNano(), 36), e.Kind, e.ID, e.Text}, "\x00")
}

// Limits of an event. What is left out says so.
const (
	mostObjects     = 300
	mostObjectBytes = 16 << 10
	mostText        = 2 << 10
	mostWord        = 256
	mostDetail      = 16 << 10
)

// bounded is an event as it is stored: no larger than the limits, and such that it is the same once it was written and read.
// It returns how many bytes it takes.
func bounded(e inspect.Event) (inspect.Event, int) {
	e.At = e.At.UTC().Round(0)
	if y := e.At.Year(); y < 1 || y > 9999 { // JSON cannot say it
		e.At = time.Time{}
	}
	e.Kind, e.Source, e.ID, e.Text = clip(e.Kind, mostWord), clip(e.Source, mostWord), clip(e.ID, mostWord), clip(e.Text, mostText)
	var objects []string
	bytes := 0
	for _, o := range e.Objects {
		if bytes += len(o); len(objects) == mostObjects || bytes > mostObjectBytes {
			break
		}
		objects = append(objects, validText(o))
	}
	e.Objects, e.Saves = objects, finite(e.Saves)
	if len(e.Detail) > mostDetail {
		e.Detail = json.RawMessage(`{"cut":true,"bytes":` + strconv.Itoa(len(e.Detail)) + `}`)
	}
	if !json.Valid(e.Detail) {
		e.Detail = nil
	}
	line, err := marshal(e)
	if err != nil {
		return e, 0
	}
	var read inspect.Event
	if json.Unmarshal(line, &read) != nil {
		return e, len(line)
	}
	return read, len(line)
}

// clip shortens a text and has it say so.
func clip(text string, most int) string {
	if len(text) > most {
		text = text[:most-len("…")] + "…"
	}
	return validText(text)
}

// validText is a text as JSON can say it.
func validText(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
