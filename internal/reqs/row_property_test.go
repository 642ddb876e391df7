package reqs_test

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/reqs"
)

func words() reqs.Vocabulary {
	return reqs.Vocabulary{WellKnownKeys: map[string]bool{"known": true}}
}

// tableOf interns the sets, some values that no requirement mentions, and enough padding keys and values that
// bitmaps take more than one word.
func tableOf(t *rapid.T, sets ...reqs.Set) *reqs.Table {
	b := reqs.NewBuilder(words())
	for _, s := range sets {
		b.AddSet(s)
	}
	for _, key := range []string{"custom", "known", "size"} {
		if rapid.Bool().Draw(t, key+" padded") {
			b.AddValues(key, universe()...)
			for i := range 150 {
				b.AddValues(key, string(rune('a'+i%26))+string(rune('a'+i/26)), string(rune('1'+i%9))+string(rune('0'+i/9%10))+"0")
			}
		}
	}
	if rapid.Bool().Draw(t, "many keys") {
		for i := range 130 {
			b.AddValues("key" + string(rune('a'+i%26)) + string(rune('a'+i/26)))
		}
	}
	return b.Build()
}

func compile(t fataler, table *reqs.Table, s reqs.Set) reqs.Row {
	t.Helper()
	row, err := table.Compile(s)
	if err != nil {
		t.Fatalf("Compile(%v): %v", s, err)
	}
	return row
}

// checkRow compares everything a row says with the set it stands for.
func checkRow(t *rapid.T, table *reqs.Table, row reqs.Row, want reqs.Set) {
	if got := row.Set(); !got.Equal(want) {
		t.Fatalf("row reads %v, want %v", got, want)
	}
	for k := range reqs.KeyID(table.Len()) {
		r, defined := want[table.KeyName(k)]
		if !defined {
			r = reqs.Req{Not: true}
		}
		allowed := 0
		for v := range reqs.ValueID(table.ValueCount(k)) {
			name := table.ValueName(k, v)
			if got := row.Allows(k, v); got != r.Has(name) {
				t.Fatalf("%s %v: Allows(%q) = %t", table.KeyName(k), r, name, got)
			}
			if r.Has(name) {
				allowed++
			}
		}
		if row.Count(k) != allowed || row.Defined(k) != defined || row.Open(k) != r.Not ||
			row.Operator(k) != r.Operator() || row.MinValues(k) != r.MinValues || !row.Req(k).Equal(r) {
			t.Fatalf("%s: row says count %d defined %t open %t operator %s minValues %d, want %d %t %t %s %d",
				table.KeyName(k), row.Count(k), row.Defined(k), row.Open(k), row.Operator(k), row.MinValues(k),
				allowed, defined, r.Not, r.Operator(), r.MinValues)
		}
	}
}

func TestRowAgreesWithSet(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, n := modelSets().Draw(t, "pod"), modelSets().Draw(t, "node")
		a, b, c := p.build(t), n.build(t), modelSets().Draw(t, "third").build(t)
		table := tableOf(t, a, b, c)
		x, y, z := compile(t, table, a), compile(t, table, b), compile(t, table, c)
		checkRow(t, table, x, a)

		both := table.NewRow()
		if !table.Intersect(both, x, y) {
			t.Fatalf("Intersect refused rows of its table")
		}
		checkRow(t, table, both, a.Intersect(b))
		if fromSet := compile(t, table, a.Intersect(b)); !both.Equal(fromSet) {
			t.Fatalf("intersection of rows is not the row of the intersection: %v", both.Set())
		}

		for _, allow := range []bool{false, true} {
			wantKey, bad := p.mismatch(n, allow)
			id, found := table.Mismatch(x, y, allow)
			if table.Compatible(x, y, allow) == bad || found != bad || bad && table.KeyName(id) != wantKey {
				t.Fatalf("Mismatch(%v, %v, %t) = %q %t, want %q %t", a, b, allow, table.KeyName(id), found, wantKey, bad)
			}
		}

		// The result of one step is an operand of the next, in place.
		table.Intersect(both, both, z)
		checkRow(t, table, both, a.Intersect(b).Intersect(c))
		if mixed := a.Intersect(b).Intersect(c); table.Compatible(both, z, false) != compatible(mixed, c) ||
			table.Compatible(z, both, false) != compatible(c, mixed) {
			t.Fatalf("Compatible differs after two intersections: %v with %v", mixed, c)
		}
		if !x.Equal(compile(t, table, a)) || !y.Equal(compile(t, table, b)) {
			t.Fatalf("Intersect changed its operands")
		}
	})
}

func compatible(pod, node reqs.Set) bool {
	_, ok := reqs.Compatible(pod, node, reqs.Options{})
	return ok
}

// What the Builder was not shown is refused by name, never dropped.
func TestCompileRefusesTheUnseen(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := modelSets().Draw(t, "seen").build(t), modelSets().Draw(t, "compiled").build(t)
		builder := reqs.NewBuilder(words())
		builder.AddSet(a)
		table := builder.Build()
		row, err := table.Compile(b)
		if err == nil {
			checkRow(t, table, row, b)
			return
		}
		unseen, typed := errors.AsType[*reqs.UnseenError](err)
		if !typed {
			t.Fatalf("Compile: %v, want an UnseenError", err)
		}
		builder.AddSet(reqs.Set{unseen.Key: b[unseen.Key]})
		if _, err := builder.Build().Compile(reqs.Set{unseen.Key: b[unseen.Key]}); err != nil {
			t.Fatalf("after adding what was missing: %v", err)
		}
	})
}
