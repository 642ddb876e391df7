package reqs_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/reqs"
)

func TestCompileNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	b := reqs.NewBuilder(words())
	b.AddValues("k", "a")
	table := b.Build()
	for want, s := range map[string]reqs.Set{
		`key of "other" not in the table; add the set to the Builder before Build`:             {"other": req(t, opExists)},
		`value "b" of "k" not in the table; add the set to the Builder before Build`:           {"k": req(t, opNotIn, "a", "b")},
		`bounds or minValues of "k" not in the table; add the set to the Builder before Build`: {"k": req(t, opGt, "1")},
	} {
		_, err := table.Compile(s)
		if _, typed := errors.AsType[*reqs.UnseenError](err); !typed || err.Error() != want {
			t.Errorf("Compile(%v) fails with %v\nwant %s", s, err, want)
		}
	}
}

// A row of another table, or of none, is refused; nothing panics.
func TestForeignRowsAreRefused(t *testing.T) {
	t.Parallel()
	b := reqs.NewBuilder(words())
	b.AddSet(reqs.Set{"k": must(t, opIn, []string{"a"}, 1)})
	one, two := b.Build(), b.Build()
	row := one.NewRow()
	for name, foreign := range map[string]reqs.Row{"other table": two.NewRow(), "zero row": {}} {
		if one.Intersect(row, row, foreign) || one.Intersect(foreign, row, row) ||
			one.Compatible(foreign, row, true) || row.CopyFrom(foreign) || foreign.CopyFrom(row) || row.Equal(foreign) {
			t.Errorf("%s was accepted", name)
		}
		if _, mismatch := one.Mismatch(row, foreign, false); mismatch {
			t.Errorf("%s: a mismatch was named on a key", name)
		}
	}
	var zero reqs.Row
	for _, k := range []reqs.KeyID{-1, 0, 1} {
		if zero.Allows(k, 0) || zero.Defined(k) || zero.Open(k) || zero.Count(k) != 0 || zero.MinValues(k) != 0 || len(zero.Set()) != 0 || zero.Req(k).String() != "Exists" || zero.Operator(k) != opExists {
			t.Errorf("zero row says something about key %d", k)
		}
	}
	for _, k := range []reqs.KeyID{-1, 1} {
		if _, known := one.Value(k, "a"); known || one.KeyName(k) != "" || one.ValueName(k, 0) != "" || one.ValueCount(k) != 0 || row.Allows(k, 0) || row.Allows(0, reqs.ValueID(k)) {
			t.Errorf("id %d is out of range but known", k)
		}
	}
}

func TestRowsDoNotShareMemory(t *testing.T) {
	t.Parallel()
	s := reqs.Set{"k": req(t, opIn, "a")}
	b := reqs.NewBuilder(words())
	b.AddSet(s)
	table := b.Build()
	rows := []reqs.Row{table.NewRow(), table.NewRow()}
	row := compile(t, table, s)
	clone := rows[0].Clone()
	if !rows[0].CopyFrom(row) || !rows[0].Equal(row) || rows[1].Equal(row) || clone.Equal(row) || !rows[1].Equal(table.NewRow()) {
		t.Error("writing one row changed another")
	}
}

// scene is a problem of realistic size: 800 types, 40 keys, a pool with bounds and minValues.
type fixture struct {
	table           *reqs.Table
	poolSet, podSet reqs.Set
	pool, pod, dst  reqs.Row
}

func newFixture(t fataler) fixture {
	t.Helper()
	types := make([]string, 800)
	for i := range types {
		types[i] = fmt.Sprintf("m%d.%dxlarge", i/20, i%20)
	}
	kind := reqs.Set{
		"node.kubernetes.io/instance-type": must(t, opIn, types[217:218], 0),
		zone:                               must(t, opIn, []string{"a", "b", "c"}, 0),
		"cpu":                              must(t, opIn, []string{"8"}, 0),
	}
	for i := range 37 {
		op := opIn
		if i%2 == 0 {
			op = opDoesNotExist
		}
		kind[fmt.Sprintf("karpenter.k8s.aws/label-%d", i)] = must(t, op, []string{"x"}, 0)
	}
	s := fixture{
		poolSet: reqs.Set{
			"node.kubernetes.io/instance-type": must(t, opIn, types, 3),
			zone:                               must(t, opIn, []string{"a", "b"}, 0),
			"cpu":                              must(t, opGt, []string{"3"}, 0).Intersect(must(t, opNotIn, []string{"16"}, 0)),
			"team":                             must(t, opIn, []string{"red"}, 0),
		},
		podSet: reqs.Set{
			zone:                         must(t, opIn, []string{"b", "c"}, 0),
			"cpu":                        must(t, opLt, []string{"64"}, 0),
			"team":                       must(t, opIn, []string{"red"}, 0),
			"karpenter.k8s.aws/label-0":  must(t, opNotIn, []string{"x"}, 0),
			"karpenter.sh/capacity-type": must(t, opIn, []string{"spot"}, 0),
		},
	}
	b := reqs.NewBuilder(reqs.CoreVocabulary())
	for _, set := range []reqs.Set{kind, s.poolSet, s.podSet} {
		b.AddSet(set)
	}
	b.AddValues("cpu", "2", "4", "8", "16", "32", "64", "96", "192")
	s.table = b.Build()
	s.pool, s.pod = compile(t, s.table, s.poolSet), compile(t, s.table, s.podSet)
	s.dst = s.table.NewRow()
	return s
}

// The solver's inner loop must not allocate; not parallel, since AllocsPerRun counts for the process.
func TestRowHotPathsDoNotAllocate(t *testing.T) {
	s := newFixture(t)
	cpu, _ := s.table.Key("cpu")
	if eight, known := s.table.Value(cpu, "8"); !known || s.table.ValueName(cpu, eight) != "8" || !s.pool.Allows(cpu, eight) {
		t.Fatal("cpu 8 is in the scene, but the table or the pool does not say so")
	}
	if !s.table.Compatible(s.pod, s.pool, true) {
		t.Fatal("the scene takes a short cut: its rows do not match")
	}
	for name, run := range map[string]func(){
		"Intersect":  func() { s.table.Intersect(s.dst, s.pool, s.pod) },
		"Compatible": func() { s.table.Compatible(s.pod, s.pool, true) },
		"Mismatch":   func() { s.table.Mismatch(s.pod, s.pool, false) },
		"CopyFrom":   func() { s.dst.CopyFrom(s.pool) },
		"reading":    func() { s.pool.Allows(cpu, 3); s.pool.Count(cpu); s.pool.MinValues(cpu); s.pool.Operator(cpu) },
	} {
		if n := testing.AllocsPerRun(100, run); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

func BenchmarkSetIntersect(b *testing.B) {
	s := newFixture(b)
	b.ReportAllocs()
	for b.Loop() {
		s.poolSet.Intersect(s.podSet)
	}
}

func BenchmarkRowIntersect(b *testing.B) {
	s := newFixture(b)
	b.ReportAllocs()
	for b.Loop() {
		s.table.Intersect(s.dst, s.pool, s.pod)
	}
}

func BenchmarkRowCompatible(b *testing.B) {
	s := newFixture(b)
	b.ReportAllocs()
	for b.Loop() {
		s.table.Compatible(s.pod, s.pool, true)
	}
}
