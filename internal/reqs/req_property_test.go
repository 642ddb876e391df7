package reqs_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/reqs"
)

func TestReqAgreesWithModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := modelsOf().Draw(t, "model")
		r := m.build(t)
		for _, v := range sample() {
			if got, want := r.Has(v), m.allows(v); got != want {
				t.Fatalf("%v: Has(%q) = %t, want %t", r, v, got, want)
			}
		}
		if got, want := r.Operator(), m.operator(); got != want {
			t.Fatalf("%v: Operator() = %s, want %s", r, got, want)
		}
		if got, want := r.Negative(), m.negative(); got != want {
			t.Fatalf("%v: Negative() = %t, want %t", r, got, want)
		}
		minValues := slices.MaxFunc(m, func(a, b entry) int { return a.min - b.min }).min
		if r.MinValues != minValues {
			t.Fatalf("%v: minValues %d, want the largest, %d", r, r.MinValues, minValues)
		}
	})
}

func TestIntersectLaws(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := modelsOf().Draw(t, "a").build(t), modelsOf().Draw(t, "b").build(t), modelsOf().Draw(t, "c").build(t)
		before := a.String() + b.String()
		ab := a.Intersect(b)
		if diff := cmp.Diff(ab, b.Intersect(a)); diff != "" {
			t.Fatalf("not commutative (-ab +ba):\n%s", diff)
		}
		if diff := cmp.Diff(ab.Intersect(c), a.Intersect(b.Intersect(c))); diff != "" {
			t.Fatalf("not associative (-(ab)c +a(bc)):\n%s", diff)
		}
		if diff := cmp.Diff(a, a.Intersect(a)); diff != "" {
			t.Fatalf("not idempotent (-a +aa):\n%s", diff)
		}
		if diff := cmp.Diff(a, a.Intersect(reqs.Req{Not: true})); diff != "" {
			t.Fatalf("Exists is not neutral (-a +a∩Exists):\n%s", diff)
		}
		for _, v := range sample() {
			if got, want := ab.Has(v), a.Has(v) && b.Has(v); got != want {
				t.Fatalf("(%v) ∩ (%v) = %v: Has(%q) = %t, want %t", a, b, ab, v, got, want)
			}
		}
		if after := a.String() + b.String(); after != before {
			t.Fatalf("Intersect changed its operands: %s, was %s", after, before)
		}
	})
}

func TestOverlapsIsNonEmptyIntersection(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m, n := modelsOf().Draw(t, "m"), modelsOf().Draw(t, "n")
		a, b := m.build(t), n.build(t)
		if got, want := a.Overlaps(b), !m.and(n).empty(); got != want {
			t.Fatalf("(%v).Overlaps(%v) = %t, want %t", a, b, got, want)
		}
		if a.Overlaps(b) != b.Overlaps(a) || a.Overlaps(b) == a.Intersect(b).Empty() {
			t.Fatalf("(%v).Overlaps(%v) disagrees with the intersection or its mirror", a, b)
		}
		if shared := slices.ContainsFunc(sample(), func(v string) bool { return a.Has(v) && b.Has(v) }); shared && !a.Overlaps(b) {
			t.Fatalf("(%v) and (%v) share a value but do not overlap", a, b)
		}
	})
}

func TestEmissionRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := modelsOf().Draw(t, "model").build(t)
		got := reqs.Req{Not: true}
		for _, e := range r.Requirements("key") {
			if e.Key != "key" || e.MinValues != r.MinValues {
				t.Fatalf("entry %+v of %v lost its key or minValues", e, r)
			}
			got = got.Intersect(must(t, e.Operator, e.Values, e.MinValues))
		}
		if diff := cmp.Diff(r, got); diff != "" {
			t.Fatalf("round trip (-was +is):\n%s", diff)
		}
	})
}

func TestJSONRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := modelSets().Draw(t, "set").build(t)
		data, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var got reqs.Set
		if err := json.Unmarshal(data, &got); err != nil {
			t.Fatal(err)
		}
		if !got.Equal(s) {
			t.Fatalf("%s: got %v, want %v", data, got, s)
		}
	})
}

func TestSetAgreesWithModel(t *testing.T) {
	t.Parallel()
	known := reqs.Options{AllowUndefined: map[string]bool{"known": true}}
	rapid.Check(t, func(t *rapid.T) {
		p, n := modelSets().Draw(t, "pod"), modelSets().Draw(t, "node")
		a, b := p.build(t), n.build(t)
		key, found := a.Conflict(b)
		if wantKey, want := p.conflict(n); key != wantKey || found != want {
			t.Fatalf("(%v).Conflict(%v) = %q %t, want %q %t", a, b, key, found, wantKey, want)
		}
		if mirror, _ := b.Conflict(a); mirror != key {
			t.Fatalf("Conflict is not symmetric: %q and %q", key, mirror)
		}
		for allow, opts := range map[bool]reqs.Options{false: {}, true: known} {
			why, ok := reqs.Compatible(a, b, opts)
			wantKey, bad := p.mismatch(n, allow)
			if ok == bad || why.Key != wantKey {
				t.Fatalf("Compatible(%v, %v, %t) = %v %t, want key %q, bad %t", a, b, allow, why, ok, wantKey, bad)
			}
			if _, defined := b[why.Key]; !ok && why.Undefined == defined {
				t.Fatalf("mismatch %v on %v: Undefined is wrong", why, b)
			}
		}
		both := a.Intersect(b)
		for _, k := range []string{"custom", "known", "size"} {
			for _, v := range sample() {
				if got, want := both.Allows(k, v), a.Allows(k, v) && b.Allows(k, v); got != want {
					t.Fatalf("(%v) ∩ (%v): Allows(%s, %q) = %t, want %t", a, b, k, v, got, want)
				}
			}
		}
		reread, faults := reqs.FromEntries(both.Requirements(), reqs.Vocabulary{})
		if len(faults) > 0 || !reread.Equal(both) {
			t.Fatalf("%v written and read back is %v, faults %v", both, reread, faults)
		}
	})
}
