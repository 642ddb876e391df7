package journal

import (
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/inspect"
)

// Kind is what an entry is about.
type Kind string

// The kinds of entries.
const (
	Command  Kind = "command"  // nodes are removed
	Outcome  Kind = "outcome"  // how a command ended
	Removal  Kind = "removal"  // a node is removed without a command: it expired, was interrupted, and so on
	Decision Kind = "decision" // what a pass found: prices, candidates, what was refused
	Plan     Kind = "plan"     // nodes are launched, or pods have no place
	Draining Kind = "draining" // what a terminating node waits for; also the state of things
	Blocked  Kind = "blocked"  // what keeps nodes now; not an entry but the state of things
)

// Kinds lists what can be requested.
func Kinds() []Kind { return []Kind{Command, Outcome, Removal, Decision, Plan, Draining, Blocked} }

// Entry is one thing that happened.
type Entry struct {
	Seq   uint64          `json:"seq"` // counts up over all kinds
	At    time.Time       `json:"at"`
	Kind  Kind            `json:"kind"`
	Value json.RawMessage `json:"value"`

	id    string   // of a command
	nodes []string // that it is about
}

// Limits bound what is kept of one kind.
type Limits struct {
	Entries int
	Bytes   int
}

// Journal keeps entries. It is safe for concurrent use, and a nil Journal keeps nothing.
type Journal struct {
	limits Limits
	now    func() time.Time

	mu      sync.Mutex
	seq     uint64
	dropped uint64 // entries that had to make room
	rings   map[Kind]*ring
	last    map[Kind]string // value of the last entry, of kinds that leave out repeats
	blocked blocked
	drains  map[string]Drain // by node
	forward forward          // nil: to nobody
}

// forward records what happened, to keep it for longer. Of minor events there may be many.
type forward func(e inspect.Event, minor bool)

// Forward passes on what is recorded from now on, except what passes found beyond their commands.
func (j *Journal) Forward(to func(e inspect.Event, minor bool)) {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.forward = to
}

// New returns an empty journal. Each kind has room of its own: many refusals push no command out.
func New(limits Limits, now func() time.Time) *Journal {
	j := &Journal{limits: limits, now: now, rings: map[Kind]*ring{}, last: map[Kind]string{}, blocked: blocked{known: map[string]*openRefusal{}}, drains: map[string]Drain{}}
	for _, k := range []Kind{Command, Outcome, Removal, Decision, Plan, Draining} {
		j.rings[k] = &ring{limits: limits}
	}
	return j
}

// add takes an entry in. The caller holds the lock.
func (j *Journal) add(e Entry) {
	j.seq++
	e.Seq = j.seq
	j.dropped += j.rings[e.Kind].push(e)
	if j.forward != nil && e.Kind != Decision {
		j.forward(e.Event(), e.Kind == Draining || e.Kind == Plan && read[shownPlan](e.Value).NodeCount == 0)
	}
}

// repeats reports whether a value is that of the last entry of its kind, and records it. The caller
// holds the lock.
func (j *Journal) repeats(e Entry) bool {
	text := string(e.Value)
	same := text == j.last[e.Kind]
	j.last[e.Kind] = text
	return same
}

// encoded is a value as JSON. One that would take most of the room is left out, and says so.
func (j *Journal) encoded(value any) json.RawMessage {
	const share = 4
	text, err := json.Marshal(value)
	if err != nil {
		text, _ = json.Marshal(map[string]string{"error": err.Error()})
	}
	if len(text) > j.limits.Bytes/share {
		text, _ = json.Marshal(map[string]any{"cut": true, "bytes": len(text)})
	}
	return text
}

// ring keeps the latest entries of one kind, oldest first.
type ring struct {
	limits  Limits
	entries []Entry
	bytes   int
}

// push adds an entry and reports how many had to go.
func (r *ring) push(e Entry) (dropped uint64) {
	r.entries = append(r.entries, e)
	r.bytes += e.size()
	n := 0
	for n < len(r.entries)-1 && (len(r.entries)-n > r.limits.Entries || r.bytes > r.limits.Bytes) {
		r.bytes -= r.entries[n].size()
		n++
	}
	if n > 0 {
		r.entries = slices.Delete(r.entries, 0, n) // clears what is left behind
	}
	return uint64(n)
}

// size is about how many bytes an entry takes.
func (e *Entry) size() int {
	const fixed, perName = 120, 40
	return fixed + len(e.Value) + perName*len(e.nodes)
}
