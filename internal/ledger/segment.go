package ledger

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/inspect"
)

// Version is that of the format of segments. A later one is not read.
const (
	Version = 1

	format       = "dovetail-ledger"
	mostLine     = 1 << 20
	mostUnpacked = 16 << 20
)

// LaterVersionError says that a segment was written by a later version of Dovetail. It must not be overwritten.
type LaterVersionError struct {
	Segment int
	Version int
}

// Error names the versions.
func (e LaterVersionError) Error() string {
	return fmt.Sprintf("segment %d of the ledger has format %d, and this version of Dovetail reads formats up to %d", e.Segment, e.Version, Version)
}

// header is the first line of a segment.
type header struct {
	Format     string `json:"format"`
	Version    int    `json:"version"`
	Segment    int    `json:"segment"`
	Generation uint64 `json:"generation,omitempty"`
	Dropped    []int  `json:"dropped,omitempty"` // of the head: events of both streams and days that had to make room
}

// line is every other line: one of its fields is set.
type line struct {
	Event    *inspect.Event `json:"event,omitempty"`
	Minor    *inspect.Event `json:"minor,omitempty"`
	Accounts *accountHead   `json:"accounts,omitempty"`
	Day      string         `json:"day,omitempty"`
	Costs    *bucket        `json:"costs,omitempty"` // of Day
	Fine     *inspect.Cost  `json:"fine,omitempty"`
	Coarse   *inspect.Cost  `json:"coarse,omitempty"`
}

// Segment is a part of a Book as it is stored.
type Segment struct {
	Number int
	Stamp  uint64 // if it is the same, so is the content; 0: the content changes all the time
	Empty  bool

	encode func() []byte
}

// Encode returns the content: JSON lines, compressed with gzip.
func (s Segment) Encode() []byte { return s.encode() }

// Segments are the parts of the Book. The head is the last: what it had before may be in one of the others now.
func (b *Book) Segments() []Segment {
	var out []Segment
	for _, s := range []*stream{&b.context, &b.actions} {
		for i := range s.slots {
			c := &s.slots[i]
			out = append(out, Segment{Number: s.first + i, Stamp: c.stamp + 1, Empty: c.generation == 0, encode: func() []byte { return encodeEvents(s.first+i, c.generation, c.events) }})
		}
	}
	a := &b.accounts
	out = append(out, Segment{Number: past, Stamp: a.stamp + 1, Empty: len(a.days) == 0, encode: a.encodePast})
	return append(out, Segment{Number: head, encode: b.encodeHead})
}

func (b *Book) encodeHead() []byte {
	p := pack(header{Segment: head, Dropped: []int{b.actions.dropped, b.context.dropped, b.accounts.dropped}})
	for i := range b.actions.recent {
		p.add(line{Event: &b.actions.recent[i].Event})
	}
	for i := range b.context.recent {
		p.add(line{Minor: &b.context.recent[i].Event})
	}
	a := &b.accounts
	p.add(line{Accounts: &a.accountHead})
	p.addTimes(a, func(day string) bool { return day >= a.today() })
	for _, at := range slices.Sorted(maps.Keys(a.fine)) {
		c := a.fine[at]
		p.add(line{Fine: &c})
	}
	return p.close()
}

func (a *accounts) encodePast() []byte {
	p := pack(header{Segment: past})
	p.addTimes(a, func(day string) bool { return day < a.today() })
	return p.close()
}

// today is the day of the last observation.
func (a *accounts) today() string { return a.Until.Format(dayFormat) }

// addTimes adds the days that are meant, and the costs of their hours.
func (p *packer) addTimes(a *accounts, meant func(day string) bool) {
	for _, key := range slices.Sorted(maps.Keys(a.days)) {
		if meant(key) {
			p.add(line{Day: key, Costs: a.days[key]})
		}
	}
	for _, at := range slices.Sorted(maps.Keys(a.coarse)) {
		if meant(time.Unix(at, 0).UTC().Format(dayFormat)) {
			c := a.coarse[at]
			p.add(line{Coarse: &c})
		}
	}
}

func encodeEvents(number int, generation uint64, events []stored) []byte {
	p := pack(header{Segment: number, Generation: generation})
	for i := range events {
		p.add(line{Event: &events[i].Event})
	}
	return p.close()
}

// packer writes compressed JSON lines.
type packer struct {
	out bytes.Buffer
	zip *gzip.Writer
}

func pack(h header) *packer {
	p := &packer{}
	p.zip = gzip.NewWriter(&p.out)
	h.Format, h.Version = format, Version
	p.add(h)
	return p
}

// add adds a line. Everything in a Book can be written: numbers are finite, and details are JSON.
func (p *packer) add(value any) {
	if text, err := marshal(value); err == nil {
		_, _ = p.zip.Write(append(text, '\n')) // to memory
	}
}

func (p *packer) close() []byte {
	_ = p.zip.Close() // to memory
	return p.out.Bytes()
}

// marshal writes JSON as it is: what was read is written again byte by byte.
func marshal(value any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(value)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

// Decode reads a Book from segments, by number. What cannot be read is left out; the errors say what, and some are
// LaterVersionErrors. The Book is valid in any case.
func Decode(limits Limits, segments map[int][]byte) (*Book, []error) {
	b := New(limits)
	var problems []error
	for _, number := range slices.Sorted(maps.Keys(segments)) {
		if err := b.decode(number, segments[number]); err != nil {
			problems = append(problems, err)
		}
	}
	b.actions.findCurrentSlot()
	b.context.findCurrentSlot()
	b.accounts.bound()
	for _, err := range problems {
		b.unread = append(b.unread, err.Error())
	}
	return b, problems
}

func (b *Book) decode(number int, content []byte) error {
	zip, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("segment %d of the ledger cannot be read: %w", number, err)
	}
	lines := bufio.NewScanner(io.LimitReader(zip, mostUnpacked))
	lines.Buffer(nil, mostLine)
	var h header
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &h) != nil || h.Format != format {
		return fmt.Errorf("segment %d of the ledger cannot be read: it has no header: %w", number, cmp.Or(lines.Err(), io.ErrUnexpectedEOF))
	}
	if h.Version > Version {
		return LaterVersionError{number, h.Version}
	}
	if h.Segment != number || number < head || number >= NumSegments {
		return fmt.Errorf("segment %d of the ledger is that of number %d; it is left out", number, h.Segment)
	}
	b.begin(&h)
	bad, n := 0, 1
	first := ""
	for lines.Scan() {
		n++
		var l line
		err := json.Unmarshal(lines.Bytes(), &l)
		if err == nil {
			err = b.take(number, &l)
		}
		if err != nil {
			if bad++; bad == 1 {
				first = fmt.Sprintf("line %d: %v", n, err)
			}
		}
	}
	switch err := lines.Err(); {
	case err != nil:
		return fmt.Errorf("segment %d of the ledger cannot be read beyond line %d: %w", number, n, err)
	case bad > 0:
		return fmt.Errorf("%s of segment %d of the ledger cannot be read and %s left out: %s", count(bad, "line"), number, wasWere(bad), first)
	}
	return nil
}

func wasWere(n int) string {
	if n == 1 {
		return "was"
	}
	return "were"
}

// begin reads a header.
func (b *Book) begin(h *header) {
	if s, at := b.slotOf(h.Segment); s != nil {
		s.slots[at].generation = max(h.Generation, 1)
	}
	if h.Segment == head && len(h.Dropped) == 3 {
		b.actions.dropped, b.context.dropped, b.accounts.dropped = max(0, h.Dropped[0]), max(0, h.Dropped[1]), max(0, h.Dropped[2])
	}
}

// slotOf returns the stream of a sealed segment, and which of its slots it is.
func (b *Book) slotOf(number int) (*stream, int) {
	switch {
	case number >= firstContext && number < NumSegments:
		return &b.context, number - firstContext
	case number >= firstAction && number < firstContext:
		return &b.actions, number - firstAction
	}
	return nil, 0
}

var errEmptyLine = errors.New("it has nothing that is known")

// take reads a line.
func (b *Book) take(number int, l *line) error {
	a := &b.accounts
	s, at := b.slotOf(number)
	switch {
	case l.Event != nil && s != nil:
		e, size := bounded(*l.Event)
		s.slots[at].events = append(s.slots[at].events, stored{e, size})
	case l.Event != nil && number == head:
		e, size := bounded(*l.Event)
		b.actions.recent = append(b.actions.recent, stored{e, size})
	case l.Minor != nil && number == head:
		e, size := bounded(*l.Minor)
		b.context.recent = append(b.context.recent, stored{e, size})
	case l.Accounts != nil && number == head:
		a.accountHead = *l.Accounts
	case l.Costs != nil && number <= past:
		if _, err := time.Parse(dayFormat, l.Day); err != nil {
			return fmt.Errorf("%q is no day", l.Day)
		}
		if known := a.days[l.Day]; known == nil || betterBucket(l.Costs, known) {
			a.days[l.Day] = l.Costs
		}
	case l.Fine != nil && number == head:
		takePoint(a.fine, fineSlot, *l.Fine)
	case l.Coarse != nil && number <= past:
		takePoint(a.coarse, coarseSlot, *l.Coarse)
	default:
		return errEmptyLine
	}
	return nil
}

func takePoint(points map[int64]inspect.Cost, slot time.Duration, c inspect.Cost) {
	c.At = c.At.UTC().Round(0)
	c.Hourly, c.Bound, c.Saved = positive(c.Hourly), positive(c.Bound), positive(c.Saved)
	c.Nodes, c.Pods, c.Evictions = max(0, c.Nodes), max(0, c.Pods), max(0, c.Evictions)
	key := c.At.Truncate(slot).Unix()
	if known, found := points[key]; !found || betterPoint(&c, &known) {
		points[key] = c
	}
}

// bound makes accounts that were read as bounded as those that were observed.
func (a *accounts) bound() {
	a.Since, a.Until = a.Since.UTC().Round(0), a.Until.UTC().Round(0)
	a.Total = a.Total.bounded()
	for key, k := range a.days { // any order: each by itself
		*k = k.bounded()
		k.Seconds = min(k.Seconds, day.Seconds())
		k.BoundSeconds = min(k.BoundSeconds, k.Seconds)
		a.days[key] = k
	}
	r := bucket{Pools: a.Rate.Pools}.bounded()
	a.Rate.Pools, a.Rate.Bound, a.Rate.Unpriced = r.Pools, positive(a.Rate.Bound), max(0, a.Rate.Unpriced)
	namespaces := map[string]float64{}
	for i, name := range slices.Sorted(maps.Keys(a.Rate.Namespaces)) {
		if i < mostRows+2 && len(name) <= mostName {
			namespaces[validText(name)] = positive(a.Rate.Namespaces[name])
		}
	}
	a.Rate.Namespaces = namespaces
	a.boundTracked()
	keys := slices.Sorted(maps.Keys(a.days))
	for _, key := range keys[:max(0, len(keys)-mostDays)] {
		delete(a.days, key)
		a.dropped++
	}
	a.dropOldCosts()
}

// boundTracked does so for the state that savings follow from.
func (a *accounts) boundTracked() {
	saved, left, started := map[string][]lot{}, map[string]leaving{}, map[string]start{}
	for _, pool := range slices.Sorted(maps.Keys(a.Saved)) {
		for _, l := range a.Saved[pool] {
			if _, err := time.Parse(dayFormat, l.Day); err == nil && l.Hourly > 0 && len(pool) <= mostName && (saved[pool] != nil || len(saved) < mostRows) && len(saved[pool]) < 2*int(savedFor/day) {
				saved[pool] = addLot(saved[pool], l)
			}
		}
	}
	for _, claim := range slices.Sorted(maps.Keys(a.Leaving)) {
		if hasRoom(left, claim) {
			left[claim] = leaving{clip(a.Leaving[claim].Pool, mostName), positive(a.Leaving[claim].Saves)}
		}
	}
	for _, claim := range slices.Sorted(maps.Keys(a.Starting)) {
		if hasRoom(started, claim) {
			started[claim] = start{a.Starting[claim].At.UTC().Round(0)}
		}
	}
	a.Saved, a.Leaving, a.Starting = saved, left, started
}

// bounded is a bucket within the limits.
func (k bucket) bounded() bucket {
	out := bucket{Seconds: positive(k.Seconds), BoundSeconds: positive(k.BoundSeconds), Bound: positive(k.Bound), BoundSpent: positive(k.BoundSpent), Unpriced: max(0, k.Unpriced)}
	out.BoundSeconds = min(out.BoundSeconds, out.Seconds)
	for _, name := range slices.Sorted(maps.Keys(k.Pools)) {
		out.pool(name, k.Pools[name].positive())
	}
	for _, name := range slices.Sorted(maps.Keys(k.Namespaces)) {
		out.namespace(name, k.Namespaces[name].positive())
	}
	return out
}

func (r row) positive() row {
	return row{positive(r.Spent), positive(r.Saved), max(0, r.Evictions)}
}
