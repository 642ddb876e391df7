package ledger_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/ledger"
)

// segments are those of a Book, by number.
func segments(b *ledger.Book) map[int][]byte {
	out := map[int][]byte{}
	for _, s := range b.Segments() {
		if !s.Empty {
			out[s.Number] = s.Encode()
		}
	}
	return out
}

// said is everything that a Book answers.
type said struct {
	History inspect.History
	Savings inspect.Savings
	Total   inspect.DaySavings
	Until   time.Time
}

func saidBy(b *ledger.Book) said {
	return said{b.History(inspect.HistoryQuery{Limit: 10_000}), b.Savings(inspect.SavingsQuery{}), b.Total(), b.Until()}
}

func copyOf(t fataler, b *ledger.Book) *ledger.Book {
	out, problems := ledger.Decode(limits(), segments(b))
	if len(problems) > 0 {
		t.Fatalf("what was written cannot be read: %v", problems)
	}
	return out
}

type fataler interface{ Fatalf(string, ...any) }

func limits() ledger.Limits { return ledger.Limits{Recent: 4 << 10, Raw: 1 << 20, Segment: 1 << 20} }

// What is written is read again, also after more has come in.
func TestLG_10_RoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := history(t, noon(), "x")
		again := copyOf(t, b)
		if diff := cmp.Diff(saidBy(b), saidBy(again)); diff != "" {
			t.Fatalf("(-written +read):\n%s", diff)
		}
		if diff := cmp.Diff(lengths(segments(b)), lengths(segments(again))); diff != "" {
			t.Fatalf("segments (-written +again):\n%s", diff)
		}
		next := seen(b.Until().Add(5*time.Minute), "later")
		b.Observe(next)
		again.Observe(next)
		if diff := cmp.Diff(saidBy(b), saidBy(again)); diff != "" {
			t.Fatalf("after another observation (-written +read):\n%s", diff)
		}
	})
}

func lengths(list map[int][]byte) map[int]int {
	out := map[int]int{}
	for n, content := range list {
		out[n] = len(content)
	}
	return out
}

// Two copies that went on from one Book are merged to the same, whichever comes first; nothing counts twice, and no event is
// lost.
func TestLG_11_MergeIsCommutativeAndIdempotent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		base := history(t, noon(), "base")
		a, b := copyOf(t, base), copyOf(t, base)
		later := base.Until()
		if later.IsZero() {
			later = noon()
		}
		extend(t, a, later, "a")
		extend(t, b, later, "b")
		ab, ba, twice := copyOf(t, a), copyOf(t, b), copyOf(t, a)
		ab.Merge(copyOf(t, b))
		ba.Merge(copyOf(t, a))
		twice.Merge(copyOf(t, b))
		twice.Merge(copyOf(t, b))
		twice.Merge(copyOf(t, a))
		if diff := cmp.Diff(saidBy(ab), saidBy(ba)); diff != "" {
			t.Fatalf("another order (-ab +ba):\n%s", diff)
		}
		if diff := cmp.Diff(saidBy(ab), saidBy(twice)); diff != "" {
			t.Fatalf("merged again (-once +twice):\n%s", diff)
		}
		all := map[string]bool{}
		for _, x := range []*ledger.Book{a, b} {
			for _, e := range saidBy(x).History.Events {
				all[e.At.String()+e.Kind+e.ID+e.Text] = true
			}
		}
		if got := len(saidBy(ab).History.Events); got != len(all) {
			t.Fatalf("%d events of %d", got, len(all))
		}
		if got, least := ab.Total().Hours, max(a.Total().Hours, b.Total().Hours); got < least {
			t.Fatalf("%v hours were observed, one copy has %v", got, least)
		}
	})
}

// The Book of an earlier process is put before one that began without it: both count.
func TestLG_12_PrecedeAddsUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		earlier := history(t, noon(), "earlier")
		from := earlier.Until()
		if from.IsZero() {
			from = noon()
		}
		b := history(t, from.Add(time.Minute), "later")
		want, had := b.Total(), earlier.Total()
		events := len(saidBy(b).History.Events) + len(saidBy(earlier).History.Events)
		b.Precede(earlier)
		got := b.Total()
		if !same(got.Total.Spent, want.Total.Spent+had.Total.Spent) || !same(got.Total.Unconsolidated, want.Total.Unconsolidated+had.Total.Unconsolidated) || got.Total.Evictions != want.Total.Evictions+had.Total.Evictions || !same(got.Hours, want.Hours+had.Hours) {
			t.Fatalf("got %+v of %+v and %+v", got.Total, had.Total, want.Total)
		}
		if n := len(saidBy(b).History.Events); n != events {
			t.Fatalf("%d events of %d", n, events)
		}
	})
}

// A process that reads the ledger within ten minutes goes on as if it had never stopped.
func TestLG_12_ARestartIsNoGap(t *testing.T) {
	t.Parallel()
	b := ledger.New(limits())
	at := observe(b, noon(), 30, "a")
	next := ledger.New(limits())
	next.Precede(copyOf(t, b))
	observe(next, at.Add(2*time.Minute), 28, "a")
	near(t, "spent", next.Total().Total.Spent, 1)
	if notes := next.Savings(inspect.SavingsQuery{}).Notes; len(notes) > 0 {
		t.Errorf("got %q", notes)
	}
}

// Whatever comes in, segments fit into ConfigMaps and all of them into 4 MiB. Names are as long as they may be, and random:
// nothing compresses well.
func TestLG_13_Bounded(t *testing.T) {
	t.Parallel()
	chance := rand.New(rand.NewPCG(1, 2))
	word := func(n int) string {
		const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
		out := make([]byte, n)
		for i := range out {
			out[i] = letters[chance.IntN(len(letters))]
		}
		return string(out)
	}
	b := ledger.New(ledger.DefaultLimits())
	names := make([]string, 400)
	for i := range names {
		names[i] = word(253)
	}
	at := noon()
	for i := range 60 {
		at = at.Add(24 * time.Hour)
		for range 2 {
			at = at.Add(5 * time.Minute)
			o := ledger.Observation{At: at, Pools: names, Namespaces: map[string]float64{}, Bound: chance.Float64()}
			for range 150 {
				name := names[chance.IntN(len(names))]
				o.Nodes = append(o.Nodes, ledger.Node{Claim: word(253), Pool: name, Price: chance.Float64()})
				o.Namespaces[name] = chance.Float64() / 10
			}
			b.Observe(o)
		}
		for j := range 15 {
			e := event(at.Add(time.Duration(j)*time.Second), "command", word(5000), word(300), word(40))
			e.Detail, e.Minor = []byte(`"`+word(15000)+`"`), i%2 == 0
			b.Record(e)
			b.Removed(ledger.Removal{Command: word(9), Claim: word(253), Pool: names[chance.IntN(len(names))], Price: 1, All: 1})
			b.Launched(word(253), at)
			b.Evicted(at, names[chance.IntN(len(names))], word(253))
		}
	}
	sum := 0
	for number, content := range segments(b) {
		sum += len(content)
		if len(content) > 900<<10 {
			t.Errorf("segment %d has %d bytes, more than 900 KiB", number, len(content))
		}
	}
	if sum > 4<<20 {
		t.Errorf("all segments have %d bytes, more than 4 MiB", sum)
	}
	t.Logf("%d bytes in all: %v", sum, lengths(segments(b)))
	again, problems := ledger.Decode(ledger.DefaultLimits(), segments(b))
	if len(problems) > 0 || !again.Until().Equal(b.Until()) {
		t.Errorf("it cannot be read again: %v", problems)
	}
}

// zipped is a segment with these lines.
func zipped(lines ...string) []byte {
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	_, _ = zip.Write([]byte(strings.Join(lines, "\n") + "\n"))
	_ = zip.Close()
	return out.Bytes()
}

// What cannot be read is left out and said. The rest is read.
func TestLG_14_DamagedSegments(t *testing.T) {
	t.Parallel()
	b := ledger.New(limits())
	observe(b, noon(), 60, "a")
	b.Record(event(noon(), "command", "kept", "node/a"))
	whole := segments(b)[0]
	const good = `{"event":{"at":"2026-11-19T12:00:00Z","kind":"command","text":"kept","source":"ledger"}}`
	head := func(version int) string {
		return fmt.Sprintf(`{"format":"dovetail-ledger","version":%d,"segment":0}`, version)
	}
	for name, tc := range map[string]struct {
		content []byte
		says    string
		events  int
	}{
		"empty":                {nil, "segment 0 of the ledger cannot be read", 0},
		"no gzip":              {[]byte("hello"), "segment 0 of the ledger cannot be read", 0},
		"cut":                  {whole[:len(whole)-20], "segment 0 of the ledger cannot be read beyond line", 1},
		"no header":            {zipped(good), "it has no header", 0},
		"another format":       {zipped(`{"format":"x","version":1}`), "it has no header", 0},
		"another segment":      {zipped(`{"format":"dovetail-ledger","version":1,"segment":3}`, good), "is that of number 3", 0},
		"a bad line":           {zipped(head(1), "{", good), "1 line of segment 0 of the ledger cannot be read and was left out: line 2", 1},
		"a line of nothing":    {zipped(head(1), "{}", good, "[]"), "2 lines of segment 0 of the ledger cannot be read and were left out", 1},
		"a later version":      {zipped(head(2), good), "has format 2, and this version of Dovetail reads formats up to 1", 0},
		"no day":               {zipped(head(1), `{"day":"tomorrow","costs":{}}`, good), `"tomorrow" is no day`, 1},
		"nothing wrong":        {zipped(head(1), good), "", 1},
		"fields of the future": {zipped(head(1), strings.TrimSuffix(good, "}")+`,"more":1}`), "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, problems := ledger.Decode(limits(), map[int][]byte{0: tc.content})
			text := fmt.Sprint(errors.Join(problems...))
			if (len(problems) == 0) != (tc.says == "") || !strings.Contains(text, tc.says) {
				t.Errorf("got %v, want %q", problems, tc.says)
			}
			h := got.History(inspect.HistoryQuery{})
			if len(h.Events) != tc.events {
				t.Errorf("%d events, want %d", len(h.Events), tc.events)
			}
			if notes := strings.Join(h.Notes, "\n"); !strings.Contains(notes, tc.says) {
				t.Errorf("responses do not say %q: %q", tc.says, notes)
			}
			_, later := errors.AsType[ledger.LaterVersionError](errors.Join(problems...))
			if later != (name == "a later version") {
				t.Errorf("later version: %v", later)
			}
		})
	}
}

// Any content is read without panic, and what was read can be written and read again.
func FuzzDecode(f *testing.F) {
	b := ledger.New(limits())
	observe(b, noon(), 60, "a")
	b.Record(event(noon(), "command", "kept", "node/a"))
	b.Removed(ledger.Removal{Command: "c", Claim: "a", Pool: "general", Price: 1, All: 1})
	for _, number := range []int{0, 1, 2} {
		if content, found := segments(b)[number]; found {
			unzip, _ := gzip.NewReader(bytes.NewReader(content))
			var text bytes.Buffer
			_, _ = text.ReadFrom(unzip)
			f.Add(number, text.Bytes())
		}
	}
	f.Add(0, []byte(`{"format":"dovetail-ledger","version":1}`+"\n"+`{"accounts":{"total":{"seconds":-1,"pools":{"a":{"spent":-4}}},"saved":{"a":[{"day":"x"}]}}}`))
	f.Fuzz(func(t *testing.T, number int, text []byte) {
		read, _ := ledger.Decode(limits(), map[int][]byte{number: zipped(string(text))})
		_, _ = ledger.Decode(limits(), map[int][]byte{number: text})
		for _, d := range append(read.Savings(inspect.SavingsQuery{}).Days, read.Total()) {
			if d.Total.Unconsolidated < d.Total.Spent || d.Total.Spent < 0 {
				t.Fatalf("got %+v", d)
			}
		}
		again := copyOf(t, read)
		one, two := saidBy(read), saidBy(again)
		one.History.Notes, two.History.Notes, one.Savings.Notes, two.Savings.Notes = nil, nil, nil, nil // what could not be read is said once
		if diff := cmp.Diff(one, two); diff != "" {
			t.Fatalf("(-read +again):\n%s", diff)
		}
	})
}

// What is sealed is not written again: as long as the stamp is the same, so is the content.
func TestLG_15_SealedSegmentsRest(t *testing.T) {
	t.Parallel()
	b := ledger.New(limits())
	stamps, contents, rewritten := map[int]uint64{}, map[int]string{}, map[int]int{}
	for i := range 300 {
		b.Record(event(noon().Add(time.Duration(i)*time.Second), "command", fmt.Sprintf("command %d %s", i, strings.Repeat("x", 90)), "node/a"))
		b.Observe(seen(noon().Add(time.Duration(i)*time.Second), "a"))
		for _, s := range b.Segments() {
			if s.Stamp == 0 || s.Empty {
				continue
			}
			content := string(s.Encode())
			if s.Stamp == stamps[s.Number] && content != contents[s.Number] {
				t.Fatalf("segment %d has changed, and its stamp has not", s.Number)
			}
			if s.Stamp != stamps[s.Number] {
				rewritten[s.Number]++
			}
			stamps[s.Number], contents[s.Number] = s.Stamp, content
		}
	}
	if n := rewritten[2]; n < 5 || n > 40 {
		t.Errorf("segment 2 was written %d times for 300 events", n)
	}
	if n := len(b.History(inspect.HistoryQuery{Limit: 1000}).Events); n != 300 {
		t.Errorf("%d events, want 300", n)
	}
}
