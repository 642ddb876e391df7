package reqs

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Req is what one label must satisfy. The zero value is DoesNotExist.
//
// Every Req that New, Intersect and decoding from JSON return is in normal form: Values sorted and
// distinct; with Not unset they are the allowed values and there are no bounds; with Not set they are
// exclusions that lie within the bounds; bounds do not contradict. Methods expect that form. A Req is
// a value: Values is shared between copies and never written.
type Req struct {
	Not       bool     `json:"not,omitempty"` // Values are excluded, everything else is allowed
	Values    []string `json:"values,omitempty"`
	Bounds    Bounds   `json:"bounds,omitzero"`
	MinValues int      `json:"minValues,omitempty"` // 0: no demand
}

// Has reports whether a node whose label has this value satisfies the requirement.
func (r Req) Has(value string) bool {
	_, listed := slices.BinarySearch(r.Values, value)
	return listed != r.Not && r.Bounds.Contain(value)
}

// Empty reports whether no value is allowed, which is what DoesNotExist means.
func (r Req) Empty() bool { return !r.Not && len(r.Values) == 0 }

// Negative reports whether a node without the label satisfies the requirement: the effective
// operator is NotIn or DoesNotExist.
func (r Req) Negative() bool { return r.Not == (len(r.Values) > 0) }

// Operator is the effective operator: NotIn, Exists, In or DoesNotExist. Bounds do not show in it;
// a requirement with bounds and nothing excluded reads Exists.
func (r Req) Operator() corev1.NodeSelectorOperator { return operator(r.Not, len(r.Values) > 0) }

func operator(complement, listed bool) corev1.NodeSelectorOperator {
	switch {
	case complement && listed:
		return corev1.NodeSelectorOpNotIn
	case complement:
		return corev1.NodeSelectorOpExists
	case listed:
		return corev1.NodeSelectorOpIn
	default:
		return corev1.NodeSelectorOpDoesNotExist
	}
}

// Intersect returns the requirement that allows what both allow; minValues becomes the larger one.
// It is commutative, associative and idempotent. Contradicting bounds give DoesNotExist. Exclusions
// alone never do, even if they happen to cover every integer between the bounds.
func (r Req) Intersect(other Req) Req {
	if r.Not && !other.Not {
		r, other = other, r
	}
	values := make([]string, 0, len(r.Values))
	switch {
	case r.Not: // both are complements: union of the exclusions
		values = slices.Compact(slices.Sorted(slices.Values(slices.Concat(r.Values, other.Values))))
	default: // r is finite: what the other one allows of it
		for _, v := range r.Values {
			if other.Has(v) {
				values = append(values, v)
			}
		}
	}
	return normalized(Req{
		Not:       r.Not,
		Values:    values,
		Bounds:    r.Bounds.tighten(other.Bounds),
		MinValues: max(r.MinValues, other.MinValues),
	})
}

// normalized brings a Req with sorted, distinct values into normal form. It may reuse r.Values.
func normalized(r Req) Req {
	if r.Bounds.Contradictory() {
		return Req{MinValues: r.MinValues}
	}
	if r.Bounds.Limited() {
		r.Values = slices.DeleteFunc(r.Values, func(v string) bool { return !r.Bounds.Contain(v) })
	}
	if !r.Not {
		r.Bounds = Bounds{}
	}
	if len(r.Values) == 0 {
		r.Values = nil
	}
	return r
}

// Overlaps reports whether the intersection is not Empty, without building it. Two complements
// always overlap unless their bounds contradict.
func (r Req) Overlaps(other Req) bool {
	if r.Not && other.Not {
		return !r.Bounds.tighten(other.Bounds).Contradictory()
	}
	if r.Not || !other.Not && len(other.Values) < len(r.Values) {
		r, other = other, r // the shorter list is walked: one name against hundreds is a frequent case
	}
	return slices.ContainsFunc(r.Values, other.Has)
}

// agreesWith is the test for a key that two sets both define: they overlap, or both are met by a node
// without the label.
func (r Req) agreesWith(other Req) bool {
	return r.Overlaps(other) || r.Negative() && other.Negative()
}

// Equal reports whether both mean the same, minValues included.
func (r Req) Equal(other Req) bool {
	return r.Not == other.Not && r.Bounds == other.Bounds && r.MinValues == other.MinValues &&
		slices.Equal(r.Values, other.Values)
}

// WithMinValues returns the requirement with another minValues; nothing below zero.
func (r Req) WithMinValues(n int) Req {
	r.MinValues = max(n, 0)
	return r
}

// shownValues bounds how many values String prints: a list of 800 instance types explains nothing.
const shownValues = 10

// String renders the requirement for people: "In [a b]", "NotIn [x], >= 3", "Exists, minValues 2".
// Long lists are cut; use Requirements for the exact form.
func (r Req) String() string {
	var parts []string
	if !r.Bounds.Limited() || len(r.Values) > 0 {
		parts = append(parts, string(r.Operator())+listed(r.Values))
	}
	if r.Bounds.HasLo {
		parts = append(parts, ">= "+strconv.FormatInt(r.Bounds.Lo, 10))
	}
	if r.Bounds.HasHi {
		parts = append(parts, "<= "+strconv.FormatInt(r.Bounds.Hi, 10))
	}
	if r.MinValues > 0 {
		parts = append(parts, "minValues "+strconv.Itoa(r.MinValues))
	}
	return strings.Join(parts, ", ")
}

func listed(values []string) string {
	if len(values) == 0 {
		return ""
	}
	shown, rest := values, ""
	if over := len(values) - shownValues; over > 0 {
		shown, rest = values[:shownValues], " and "+strconv.Itoa(over)+" more"
	}
	return " [" + strings.Join(shown, " ") + rest + "]"
}

// UnmarshalJSON reads what encoding/json wrote and normalizes it, so that a recorded Req edited by
// hand still keeps the invariants of the type.
func (r *Req) UnmarshalJSON(data []byte) error {
	type plain Req
	var p plain
	if err := json.Unmarshal(data, &p); err != nil {
		return err
	}
	p.Values = distinct(p.Values)
	p.MinValues = max(p.MinValues, 0)
	if !p.Bounds.HasLo {
		p.Bounds.Lo = 0
	}
	if !p.Bounds.HasHi {
		p.Bounds.Hi = 0
	}
	*r = normalized(Req(p))
	return nil
}

// distinct returns the values sorted, once each, in memory of its own.
func distinct(values []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(values)))
}
