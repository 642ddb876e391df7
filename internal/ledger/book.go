package ledger

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/dovetail-sh/dovetail/internal/inspect"
)

// Segments of a Book.
const (
	head         = 0 // recent events, the accounts of today, costs of the last day
	past         = 1 // accounts of earlier days, costs of earlier hours
	firstAction  = 2 // sealed events: commands and how they ended, removals, plans that launch nodes
	firstContext = 6 // sealed events of less weight: what drains waited for, plans that launch nothing
	NumSegments  = 8
)

// Limits bound a Book.
type Limits struct {
	Recent  int // bytes of events, as JSON, that the head has of each stream
	Raw     int // bytes of events, as JSON, in a sealed segment
	Segment int // bytes of a segment other than the head, compressed
}

// DefaultLimits keep all segments together below 4 MiB.
func DefaultLimits() Limits { return Limits{Recent: 192 << 10, Raw: 1 << 20, Segment: 448 << 10} }

// Book is a ledger. It is not safe for concurrent use.
type Book struct {
	actions  stream
	context  stream
	accounts accounts
	unread   []string // what of the segments could not be read, and why
}

// New returns an empty Book.
func New(limits Limits) *Book {
	return &Book{
		actions:  stream{limits: limits, first: firstAction, slots: make([]slot, firstContext-firstAction)},
		context:  stream{limits: limits, first: firstContext, slots: make([]slot, NumSegments-firstContext)},
		accounts: newAccounts(limits),
	}
}

// Entry is an event as a Book takes it in.
type Entry struct {
	inspect.Event

	Minor bool `json:"-"` // there may be many such events, which must not push the others out
}

// Record takes an event in. One that is there already changes nothing.
func (b *Book) Record(e Entry) {
	if e.ID != "" && len(e.Objects) == 0 { // the outcome of a command that another process decided on
		e.Objects = b.objectsOf(e.ID)
	}
	event, size := bounded(e.Event)
	s := &b.actions
	if e.Minor {
		s = &b.context
	}
	s.add(event, size)
	s.seal()
}

// objectsOf returns the objects of the latest event with an ID that has any.
func (b *Book) objectsOf(id string) []string {
	var latest *inspect.Event
	b.actions.each(func(e *inspect.Event) {
		if e.ID == id && len(e.Objects) > 0 && (latest == nil || order(latest, e) < 0) {
			latest = e
		}
	})
	if latest == nil {
		return nil
	}
	return latest.Objects
}

// Changed is a number that changes whenever an event or a removal was recorded. Observations do not count: they come all
// the time.
func (b *Book) Changed() uint64 {
	return b.actions.changes + b.context.changes + b.accounts.changes
}

// Until is when the last observation was made; zero: never.
func (b *Book) Until() time.Time { return b.accounts.Until }

// Merge adds the contents of another Book. Both may have gone on from one that was stored: what they have in common counts once.
// The other one is not used afterwards.
func (b *Book) Merge(other *Book) {
	b.mergeEvents(other)
	b.accounts.merge(&other.accounts)
}

// Precede puts the Book of an earlier process before this one: their costs are of different times, and add up. Its segments
// stay as they are. The earlier Book is not used afterwards.
func (b *Book) Precede(earlier *Book) {
	earlier.mergeEvents(b)
	b.actions, b.context, b.unread = earlier.actions, earlier.context, earlier.unread
	b.accounts.precede(&earlier.accounts)
}

func (b *Book) mergeEvents(other *Book) {
	b.actions.merge(&other.actions)
	b.context.merge(&other.context)
	b.unread = slices.Compact(slices.Sorted(slices.Values(slices.Concat(b.unread, other.unread))))
}

// order is the order of events: by time, then by what distinguishes them.
func order(a, b *inspect.Event) int {
	return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Text, b.Text))
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}
