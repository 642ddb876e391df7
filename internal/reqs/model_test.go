package reqs_test

import (
	"math"
	"math/big"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/reqs"
	_ "github.com/dovetail-sh/dovetail/internal/seed" // the same values in every run
)

const (
	opIn           = corev1.NodeSelectorOpIn
	opNotIn        = corev1.NodeSelectorOpNotIn
	opExists       = corev1.NodeSelectorOpExists
	opDoesNotExist = corev1.NodeSelectorOpDoesNotExist
	opGt           = corev1.NodeSelectorOpGt
	opLt           = corev1.NodeSelectorOpLt
)

// The model: a requirement is the list of raw entries it came from, and every question is answered by
// checking each entry in turn over a finite sample. It shares no code with the package.

// universe are the values entries are drawn from; fresh values are never in an entry or a table.
func universe() []string {
	return []string{"", "a", "b", "c", "0", "1", "2", "3", "4", "5", "003", "3.0", "9223372036854775807", "9223372036854775808"}
}

func fresh() []string {
	return []string{"fresh", "A", " 3", "6", "0004", "+3", "-1", "-0", "1e3", "9223372036854775806", "-9223372036854775809"}
}

func sample() []string { return slices.Concat(universe(), fresh()) }

type entry struct {
	op     corev1.NodeSelectorOperator
	values []string
	min    int
}

type model []entry

// whole reads an integer of 64 bits through big.Int, so as not to use strconv like the package.
func whole(s string) (*big.Int, bool) {
	n, ok := new(big.Int).SetString(s, 10)
	if !ok || !n.IsInt64() {
		return nil, false
	}
	return n, true
}

func (e entry) allows(v string) bool {
	switch e.op {
	case opIn:
		return slices.Contains(e.values, v)
	case opNotIn:
		return !slices.Contains(e.values, v)
	case opExists:
		return true
	case opDoesNotExist:
		return false
	}
	n, isInteger := whole(v)
	limit, _ := whole(e.values[0])
	if !isInteger {
		return false
	}
	switch order := n.Cmp(limit); e.op {
	case opGt:
		return order > 0
	case opLt:
		return order < 0
	case reqs.OpGte:
		return order >= 0
	default:
		return order <= 0
	}
}

func (e entry) numeric() bool {
	return slices.Contains([]corev1.NodeSelectorOperator{opGt, opLt, reqs.OpGte, reqs.OpLte}, e.op)
}

func (m model) allows(v string) bool {
	for _, e := range m {
		if !e.allows(v) {
			return false
		}
	}
	return true
}

func (m model) finite() bool {
	return slices.ContainsFunc(m, func(e entry) bool { return e.op == opIn || e.op == opDoesNotExist })
}

// operator follows the sentences of API 2.2. The integers tried for "bounds contradict" are those
// next to any limit: if bounds allow an integer at all, they allow one of these.
func (m model) operator() corev1.NodeSelectorOperator {
	var numeric model
	near := []*big.Int{big.NewInt(0), big.NewInt(-1), big.NewInt(math.MaxInt64), big.NewInt(math.MinInt64)}
	for _, e := range m {
		if e.numeric() {
			numeric = append(numeric, e)
			n, _ := whole(e.values[0])
			for _, d := range []int64{-1, 0, 1} {
				near = append(near, new(big.Int).Add(n, big.NewInt(d)))
			}
		}
	}
	if m.finite() {
		for _, e := range m {
			if e.op == opIn && slices.ContainsFunc(e.values, m.allows) {
				return opIn
			}
		}
		return opDoesNotExist
	}
	if !slices.ContainsFunc(near, func(n *big.Int) bool { return numeric.allows(n.String()) }) {
		return opDoesNotExist
	}
	for _, e := range m {
		if e.op == opNotIn && slices.ContainsFunc(e.values, numeric.allows) {
			return opNotIn
		}
	}
	return opExists
}

func (m model) empty() bool { return m.operator() == opDoesNotExist }

func (m model) negative() bool { return m.operator() == opNotIn || m.operator() == opDoesNotExist }

func (m model) and(other model) model { return slices.Concat(m, other) }

func (m model) agrees(other model) bool {
	return !m.and(other).empty() || m.negative() && other.negative()
}

type modelSet map[string]model

func (p modelSet) conflict(n modelSet) (string, bool) {
	for _, key := range []string{"custom", "known", "size"} {
		a, inP := p[key]
		b, inN := n[key]
		if inP && inN && !a.agrees(b) {
			return key, true
		}
	}
	return "", false
}

func (p modelSet) mismatch(n modelSet, allowKnown bool) (string, bool) {
	for _, key := range []string{"custom", "known", "size"} {
		a, inP := p[key]
		b, inN := n[key]
		switch {
		case !inP:
		case inN && !a.agrees(b):
			return key, true
		case !inN && !a.negative() && (!allowKnown || key != "known"):
			return key, true
		}
	}
	return "", false
}

// Generators.

func entries() *rapid.Generator[entry] {
	ops := []corev1.NodeSelectorOperator{opIn, opNotIn, opNotIn, opExists, opDoesNotExist, opGt, opLt, reqs.OpGte, reqs.OpLte}
	numbers := []string{"0", "1", "2", "3", "4", "5", "003", "9223372036854775806", "9223372036854775807"}
	return rapid.Custom(func(t *rapid.T) entry {
		e := entry{op: rapid.SampledFrom(ops).Draw(t, "op"), min: rapid.SampledFrom([]int{0, 0, 0, 1, 2, 50}).Draw(t, "min")}
		switch {
		case e.numeric():
			e.values = []string{rapid.SampledFrom(numbers).Draw(t, "number")}
		case e.op == opIn:
			e.values = rapid.SliceOfN(rapid.SampledFrom(universe()), 1, 6).Draw(t, "values")
		default:
			e.values = rapid.SliceOfN(rapid.SampledFrom(universe()), 0, 4).Draw(t, "values")
		}
		return e
	})
}

func modelsOf() *rapid.Generator[model] {
	return rapid.Map(rapid.SliceOfN(entries(), 1, 4), func(e []entry) model { return e })
}

func modelSets() *rapid.Generator[modelSet] {
	return rapid.Custom(func(t *rapid.T) modelSet {
		s := modelSet{}
		for _, key := range []string{"custom", "known", "size"} {
			if rapid.Bool().Draw(t, key+" defined") {
				s[key] = modelsOf().Draw(t, key)
			}
		}
		return s
	})
}

// fataler is what *testing.T, *rapid.T and *testing.F have in common for our purposes.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

func must(t fataler, op corev1.NodeSelectorOperator, values []string, minValues int) reqs.Req {
	t.Helper()
	r, err := reqs.New(op, values, minValues)
	if err != nil {
		t.Fatalf("New(%s, %q, %d): %v", op, values, minValues, err)
	}
	return r
}

// req is shorthand for tables.
func req(t *testing.T, op corev1.NodeSelectorOperator, values ...string) reqs.Req {
	t.Helper()
	return must(t, op, values, 0)
}

func (m model) build(t fataler) reqs.Req {
	t.Helper()
	r := reqs.Req{Not: true}
	for _, e := range m {
		r = r.Intersect(must(t, e.op, e.values, e.min))
	}
	return r
}

func (p modelSet) build(t fataler) reqs.Set {
	t.Helper()
	s := reqs.Set{}
	for key, m := range p {
		s.Add(key, m.build(t))
	}
	return s
}
