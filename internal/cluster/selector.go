package cluster

import (
	"encoding/json"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// everything is the text of the selector that matches all labels. Kubernetes writes it as the empty
// text, which here is the selector that matches nothing; no label key contains a star.
const everything = "*"

// NewSelector reads a label selector; nil matches nothing, an empty one everything (SC-30). Selectors
// that differ only in order, repetition or in how a single value is written have the same text.
func NewSelector(s *metav1.LabelSelector) (Selector, error) {
	if s == nil {
		return Selector{}, nil
	}
	list := make([]labels.Requirement, 0, len(s.MatchLabels)+len(s.MatchExpressions))
	var few [4]string
	keys := few[:0]
	for key := range s.MatchLabels {
		keys = append(keys, key)
	}
	slices.Sort(keys) // of several faults the first is reported
	for _, key := range keys {
		r, err := labels.NewRequirement(key, selection.In, []string{s.MatchLabels[key]})
		if err != nil {
			return Selector{}, err
		}
		list = append(list, *r)
	}
	for _, e := range s.MatchExpressions {
		r, err := labels.NewRequirement(e.Key, operatorOf(e.Operator), distinct(e.Values))
		if err != nil {
			return Selector{}, err
		}
		list = append(list, *r)
	}
	return selectorOf(list), nil
}

// SelectorFrom takes over a selector of the library; nil matches nothing.
func SelectorFrom(s labels.Selector) Selector {
	if s == nil {
		return Selector{}
	}
	list, selectable := s.Requirements()
	if !selectable {
		return Selector{}
	}
	out := make([]labels.Requirement, 0, len(list))
	for _, r := range list {
		op := r.Operator()
		switch op {
		case selection.Equals, selection.DoubleEquals:
			op = selection.In
		case selection.NotEquals:
			op = selection.NotIn
		}
		same, err := labels.NewRequirement(r.Key(), op, r.Values().List())
		if err != nil { // cannot be: the library made it
			return Selector{}
		}
		out = append(out, *same)
	}
	return selectorOf(out)
}

// operatorOf turns an operator of the API into the library's; one that does not exist stays as it is
// and is refused there.
func operatorOf(op metav1.LabelSelectorOperator) selection.Operator {
	switch op {
	case metav1.LabelSelectorOpIn:
		return selection.In
	case metav1.LabelSelectorOpNotIn:
		return selection.NotIn
	case metav1.LabelSelectorOpExists:
		return selection.Exists
	case metav1.LabelSelectorOpDoesNotExist:
		return selection.DoesNotExist
	default:
		return selection.Operator("unknown operator " + string(op))
	}
}

// selectorOf orders the requirements by their text and drops repetitions.
func selectorOf(list []labels.Requirement) Selector {
	if len(list) == 0 {
		return Selector{Text: everything, Is: labels.Everything()}
	}
	slices.SortFunc(list, func(a, b labels.Requirement) int { return compareText(a.String(), b.String()) })
	list = slices.CompactFunc(list, func(a, b labels.Requirement) bool { return a.String() == b.String() })
	// The library sorts by key alone, which keeps the order just made among equal keys.
	is := labels.NewSelector().Add(list...)
	return Selector{Text: is.String(), Is: is}
}

// Equal reports whether both have the same text.
func (s Selector) Equal(other Selector) bool { return s.Text == other.Text }

// Inert reports whether the selector matches nothing.
func (s Selector) Inert() bool { return s.Is == nil }

// and returns the selector narrowed by further labels; one that matches nothing stays so.
func (s Selector) and(with map[string]string) (Selector, error) {
	if s.Is == nil || len(with) == 0 {
		return s, nil
	}
	list, _ := s.Is.Requirements()
	list = slices.Clone(list)
	for _, key := range slices.Sorted(maps.Keys(with)) { // of several faults the first is reported
		r, err := labels.NewRequirement(key, selection.In, []string{with[key]})
		if err != nil {
			return Selector{}, err
		}
		list = append(list, *r)
	}
	return selectorOf(list), nil
}

// MarshalJSON writes the text.
func (s Selector) MarshalJSON() ([]byte, error) { return json.Marshal(s.Text) }

// UnmarshalJSON reads the text.
func (s *Selector) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	switch text {
	case "":
		*s = Selector{}
		return nil
	case everything:
		*s = selectorOf(nil)
		return nil
	}
	is, err := labels.Parse(text)
	if err != nil {
		return err
	}
	*s = SelectorFrom(is)
	return nil
}

// distinct returns the texts sorted, once each, in memory of its own.
func distinct(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	list = slices.Clone(list)
	slices.Sort(list)
	return slices.Compact(list)
}
