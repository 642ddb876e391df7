package awsemu

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Conditions are what must hold besides action and resource, as a policy of IAM writes it: values by
// key by operator, such as {"StringEquals": {"aws:RequestTag/team": ["a", "b"]}}. All keys must hold,
// of the values one.
type Conditions map[string]map[string]Texts

// Texts is a list that may also be written as a single text.
type Texts []string

// UnmarshalJSON reads a text or a list of them.
func (t *Texts) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*t = Texts{one}
		return nil
	}
	var list []string
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	*t = list
	return nil
}

// operator is a condition operator, taken apart.
type operator struct {
	forAll   bool // every value of the call must match; none is fine
	ifExists bool // a key that the call does not have is fine
	null     bool // true: the key must be absent
	negated  bool
	matches  func(pattern, value string) bool
}

const (
	forAllValues = "ForAllValues:"
	forAnyValue  = "ForAnyValue:"
)

// operatorOf reads a name such as ForAllValues:StringEquals or StringLikeIfExists.
func operatorOf(name string) (operator, bool) {
	if name == "Null" {
		return operator{null: true}, true
	}
	var o operator
	if rest, found := strings.CutPrefix(name, forAllValues); found {
		o.forAll, name = true, rest
	}
	name = strings.TrimPrefix(name, forAnyValue)
	if rest, found := strings.CutSuffix(name, "IfExists"); found {
		o.ifExists, name = true, rest
	}
	plain, negated := strings.Replace(name, "Not", "", 1), strings.Contains(name, "Not")
	o.negated = negated
	switch plain {
	case "StringEquals":
		o.matches = func(pattern, value string) bool { return pattern == value }
	case "StringEqualsIgnoreCase":
		o.matches = strings.EqualFold
	case "StringLike", "ArnLike", "ArnEquals":
		o.matches = ec2Wildcard
	default:
		return operator{}, false
	}
	return o, true
}

// check finds operators that are not emulated: they must not pass for conditions that hold.
func (c Conditions) check() error {
	for _, name := range slices.Sorted(maps.Keys(c)) {
		if _, known := operatorOf(name); !known {
			return fmt.Errorf("conditions: the operator %q is not emulated; there are StringEquals, StringEqualsIgnoreCase, StringLike, ArnEquals and ArnLike, each also with Not, IfExists, %s or %s, and Null",
				name, forAllValues, forAnyValue)
		}
	}
	return nil
}

// unmet names the first condition that does not hold. What is not known holds or not, as told.
func (c Conditions) unmet(a access, unsureHolds bool) (condition string, found bool) {
	for _, name := range slices.Sorted(maps.Keys(c)) {
		o, known := operatorOf(name)
		for _, key := range slices.Sorted(maps.Keys(c[name])) {
			values, present := a.context[key]
			holds := known && o.holds(c[name][key], values, present)
			if !present && slices.ContainsFunc(a.unsure, func(prefix string) bool { return strings.HasPrefix(key, prefix) }) {
				holds = unsureHolds
			}
			if !holds {
				return fmt.Sprintf("%s %s %q, not %q", name, key, []string(c[name][key]), values), true
			}
		}
	}
	return "", false
}

func (o operator) holds(patterns Texts, values []string, present bool) bool {
	if o.null {
		return slices.Contains(patterns, "true") == !present
	}
	if !present {
		return o.ifExists || o.forAll || o.negated
	}
	one := func(value string) bool {
		found := slices.ContainsFunc(patterns, func(pattern string) bool { return o.matches(pattern, value) })
		return found != o.negated
	}
	if o.forAll {
		return !slices.ContainsFunc(values, func(value string) bool { return !one(value) })
	}
	return slices.ContainsFunc(values, one)
}
