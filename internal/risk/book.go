package risk

import (
	"maps"
	"math"
	"strings"
	"time"
)

// Event is something that was observed of offerings.
type Event string

// Events.
const (
	Interrupted          Event = "Interrupted"          // a spot instance is taken back
	RebalanceRecommended Event = "RebalanceRecommended" // it may be soon
	InsufficientCapacity Event = "InsufficientCapacity" // a launch failed
)

const (
	// HalfLife is the time after which what was observed counts for half.
	HalfLife = 2 * time.Hour
	// MaxShare is the most that observations add up to, as a share of the price.
	MaxShare = 0.3
	// perPoint is the share of the price that one interruption counts, and levels how many steps lie between.
	perPoint, levels = 0.1, 4
)

// points is how much an event counts for the type it was observed of, and for the other types of its family in the zone.
func (e Event) points() (own, family float64) {
	switch e {
	case Interrupted:
		return 1, 0.25
	case RebalanceRecommended:
		return 0.5, 0
	case InsufficientCapacity:
		return 0.5, 0.25
	}
	return 0, 0
}

// Offering is what events are counted for: an instance type in a zone, as a capacity type.
type Offering struct{ InstanceType, Zone, CapacityType string }

// family is the key under which an event counts for all types of a family.
func (o Offering) family() Offering {
	name, _, _ := strings.Cut(o.InstanceType, ".")
	o.InstanceType = name + "."
	return o
}

// score is a number of points at a time, from when on they decay.
type score struct {
	points float64
	at     time.Time
}

func (s score) now(now time.Time) float64 {
	age := max(now.Sub(s.at), 0) // a clock may go back
	return s.points * math.Exp2(-float64(age)/float64(HalfLife))
}

// Book is what was observed. The zero value is ready. It is not safe for concurrent use.
type Book struct {
	scores  map[Offering]score
	shown   map[Offering]int // levels as of the last Version
	next    time.Time        // when a level changes next; zero: none will
	version uint64
}

// Add counts an event.
func (b *Book) Add(e Event, o Offering, now time.Time) {
	own, family := e.points()
	b.add(o, own-family, now)
	b.add(o.family(), family, now)
	b.refresh(now)
}

func (b *Book) add(o Offering, points float64, now time.Time) {
	if points <= 0 {
		return
	}
	if b.scores == nil {
		b.scores = map[Offering]score{}
	}
	before := b.scores[o].now(now)
	if levelOf(before) == 0 { // as if it were dropped already
		before = 0
	}
	b.scores[o] = score{min(before+points, MaxShare/perPoint), now}
}

func levelOf(points float64) int { return int(math.Round(points * levels)) }

// Share is what the risk of an offering counts, as a share of its price.
func (b *Book) Share(o Offering, now time.Time) float64 {
	if len(b.scores) == 0 {
		return 0
	}
	b.advance(now)
	return min(MaxShare, perPoint*float64(b.shown[o]+b.shown[o.family()])/levels)
}

// Version rises when a share changes.
func (b *Book) Version(now time.Time) uint64 {
	b.advance(now)
	return b.version
}

func (b *Book) advance(now time.Time) {
	if !b.next.IsZero() && !now.Before(b.next) {
		b.refresh(now)
	}
}

// refresh brings the levels up to a time, and drops what no longer counts.
func (b *Book) refresh(now time.Time) {
	shown := make(map[Offering]int, len(b.scores))
	b.next = time.Time{}
	// any order: each decays by itself, and the earliest change is kept
	for o, s := range b.scores {
		points := s.now(now)
		level := levelOf(points)
		if level == 0 {
			delete(b.scores, o)
			continue
		}
		shown[o] = level
		// The level falls once the points are below half a step above the next lower one.
		below := (float64(level) - 0.5) / levels
		left := time.Duration(math.Log2(points/below) * float64(HalfLife))
		if change := now.Add(max(left, 0) + time.Millisecond); b.next.IsZero() || change.Before(b.next) {
			b.next = change
		}
	}
	if !maps.Equal(shown, b.shown) {
		b.version++
	}
	b.shown = shown
}
