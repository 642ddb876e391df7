package reqs

import (
	"errors"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// FromEntries reads a list of requirements, aliases rewritten, entries for one key combined. The set
// holds every entry that could be read; the faults name the rest, and contradictions, in list order.
// A contradicting key reads DoesNotExist in the set, so a caller that continues despite faults would
// match nodes without the label.
func FromEntries(entries []Entry, words Vocabulary) (Set, []Fault) {
	set := make(Set, len(entries))
	contradicted := map[string]bool{} // reported once per key
	var faults []Fault
	for i, e := range entries {
		key := words.Canonical(e.Key)
		r, err := New(e.Operator, words.values(key, e), e.MinValues)
		if fault, bad := errors.AsType[*Fault](err); bad {
			fault.Index, fault.Key = i, e.Key
			faults = append(faults, *fault)
			continue
		}
		have := string(e.Operator) + listed(e.Values)
		if before, defined := set[key]; defined {
			have += " together with " + before.String()
		}
		impossible := r.Empty() && e.Operator != corev1.NodeSelectorOpDoesNotExist
		if agreed := set.Add(key, r); (!agreed || impossible) && !contradicted[key] {
			contradicted[key] = true
			faults = append(faults, contradiction(i, e, have))
		}
	}
	return set, faults
}

func contradiction(i int, e Entry, have string) Fault {
	return Fault{
		Kind: Contradiction, Index: i, Key: e.Key, Operator: e.Operator,
		Have: have, Want: "change or remove one of the entries for this label",
	}
}

// FromLabels reads the labels of a node or a template: each key has exactly its value. Aliases are
// rewritten; where an alias and the canonical label are both there, the canonical one wins, so that a
// stale alias label cannot make a node unusable.
func FromLabels(labels map[string]string, words Vocabulary) Set {
	set := make(Set, len(labels))
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		canonical := words.Canonical(key)
		if _, taken := set[canonical]; taken && key != canonical {
			continue
		}
		set[canonical] = Req{Values: []string{words.Value(canonical, labels[key])}}
	}
	return set
}

// FromSelector reads a pod's spec.nodeSelector: every entry is an In of one value. Unlike labels, an
// alias and its canonical key must both hold; faults report where they cannot.
func FromSelector(selector map[string]string, words Vocabulary) (Set, []Fault) {
	entries := make([]Entry, 0, len(selector))
	for _, key := range slices.Sorted(maps.Keys(selector)) {
		entries = append(entries, Entry{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{selector[key]}})
	}
	return FromEntries(entries, words)
}

// FromNodeSelectorTerm reads one term of a node affinity. Kubernetes lets pods compare with negative
// numbers; since no label value can be one, those bounds are moved to zero. A term without
// expressions gives the empty set, and its meaning (nothing for a required term, everything for a
// preferred one) is the caller's. matchFields is a fault.
func FromNodeSelectorTerm(term corev1.NodeSelectorTerm, words Vocabulary) (Set, []Fault) {
	entries := make([]Entry, 0, len(term.MatchExpressions))
	for _, e := range term.MatchExpressions {
		op, values := nonNegative(e.Operator, e.Values)
		entries = append(entries, Entry{Key: e.Key, Operator: op, Values: values})
	}
	set, faults := FromEntries(entries, words)
	if len(term.MatchFields) > 0 {
		faults = append(faults, Fault{
			Kind: FieldsUsed, Key: term.MatchFields[0].Key, Operator: term.MatchFields[0].Operator,
			Have: "matchFields", Want: "select nodes by label in matchExpressions",
		})
	}
	return set, faults
}

// nonNegative rewrites a comparison with a negative number to the one with zero that the same label
// values satisfy: all integers are greater than -5, none is less.
func nonNegative(op corev1.NodeSelectorOperator, values []string) (corev1.NodeSelectorOperator, []string) {
	if len(values) != 1 {
		return op, values
	}
	if n, isInteger := Integer(values[0]); !isInteger || n >= 0 {
		return op, values
	}
	switch op {
	case corev1.NodeSelectorOpGt, OpGte:
		return OpGte, []string{"0"}
	case corev1.NodeSelectorOpLt, OpLte:
		return corev1.NodeSelectorOpLt, []string{"0"}
	default:
		return op, values
	}
}
