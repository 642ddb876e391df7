package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Conditions are what a statement requests besides, as a document writes it: values by key by operator,
// such as {"StringEquals": {"aws:RequestTag/team": ["a", "b"]}}. All keys must hold, of the values one.
type Conditions map[string]map[string]Values

// Values are what a condition compares with: texts, true and false or numbers, or a list of these.
type Values []string

// UnmarshalJSON reads one value or a list.
func (v *Values) UnmarshalJSON(data []byte) error {
	var list []any
	if json.Unmarshal(data, &list) != nil || list == nil {
		var one any
		if err := json.Unmarshal(data, &one); err != nil {
			return err
		}
		list = []any{one}
	}
	*v = make(Values, 0, len(list))
	for _, value := range list {
		switch value.(type) {
		case string, bool, float64:
			*v = append(*v, fmt.Sprint(value))
		default:
			return errors.New("conditions: want values that are texts, numbers or booleans")
		}
	}
	return nil
}

// condition is one operator on one key.
type condition struct {
	operator
	name   string // of the operator, for refusals
	key    string
	values []string
}

// operator is a condition operator, taken apart.
type operator struct {
	forAll   bool // every value of the call must match; none is fine
	forAny   bool // one value of the call must match; none is not enough, whatever is required
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
func operatorOf(name string) (operator, error) {
	if name == "Null" {
		return operator{null: true}, nil
	}
	var o operator
	plain := name
	if rest, found := strings.CutPrefix(plain, forAllValues); found {
		o.forAll, plain = true, rest
	} else if rest, found := strings.CutPrefix(plain, forAnyValue); found {
		o.forAny, plain = true, rest
	}
	if rest, found := strings.CutSuffix(plain, "IfExists"); found {
		o.ifExists, plain = true, rest
	}
	for _, kind := range []string{"String", "Arn"} {
		if rest, found := strings.CutPrefix(plain, kind+"Not"); found {
			o.negated, plain = true, kind+rest
		}
	}
	switch plain {
	case "StringEquals":
		o.matches = func(pattern, value string) bool { return pattern == value }
	case "StringEqualsIgnoreCase", "Bool":
		o.matches = strings.EqualFold
	case "StringLike":
		o.matches = matchWildcard
	case "ArnLike", "ArnEquals":
		o.matches = arnLike
	default:
		return operator{}, fmt.Errorf("the operator %q is not evaluated here; there are StringEquals, StringEqualsIgnoreCase, StringLike, ArnEquals and ArnLike, each also with Not, Bool, all also with IfExists, %s or %s, and Null",
			name, forAllValues, forAnyValue)
	}
	return o, nil
}

// compileConditions takes conditions apart, in a fixed order.
func (c Conditions) compileConditions() ([]condition, error) {
	var list []condition
	for _, name := range slices.Sorted(maps.Keys(c)) {
		o, err := operatorOf(name)
		if err != nil {
			return nil, err
		}
		for _, key := range slices.Sorted(maps.Keys(c[name])) {
			if len(c[name][key]) == 0 {
				return nil, fmt.Errorf("%s %s: no value to compare with", name, key)
			}
			list = append(list, condition{operator: o, name: name, key: key, values: c[name][key]})
		}
	}
	return list, nil
}

// Check finds what cannot be evaluated: it must not pass for a condition that holds.
func (c Conditions) Check() error {
	_, err := c.compileConditions()
	return err
}

// firstUnmet names the first condition that a request does not meet. For unknown keys of the request, the caller decides whether they match.
func firstUnmet(list []condition, r *Request, unknownHolds bool) (text string, found bool) {
	for n := range list {
		c := &list[n]
		values, present := r.value(c.key)
		holds := c.matchesValues(values, present)
		if !present && r.isUnknownKey(c.key) {
			holds = unknownHolds
		}
		if !holds {
			return fmt.Sprintf("%s %s %q, not %q", c.name, c.key, c.values, values), true
		}
	}
	return "", false
}

func (c *condition) matchesValues(values []string, present bool) bool {
	switch {
	case c.null:
		return slices.Contains(c.values, "true") == !present
	case !present && c.forAny:
		return c.ifExists
	case !present:
		return c.ifExists || c.forAll || c.negated
	case c.forAll:
		return !slices.ContainsFunc(values, func(value string) bool { return !c.matchesOne(value) })
	default:
		return slices.ContainsFunc(values, c.matchesOne)
	}
}

// matchesOne reports whether one value of the call is as required.
func (c *condition) matchesOne(value string) bool {
	return c.negated != slices.ContainsFunc(c.values, func(pattern string) bool { return c.matches(pattern, value) })
}
