package reqs

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Operators that NodePools know in addition to those of Kubernetes.
const (
	OpGte corev1.NodeSelectorOperator = "Gte"
	OpLte corev1.NodeSelectorOperator = "Lte"
)

// Kind says what is wrong with a requirement. Callers switch on it.
type Kind string

// The ways a requirement can be wrong.
const (
	OperatorUnknown   Kind = "OperatorUnknown"   // no such operator
	ValuesMissing     Kind = "ValuesMissing"     // too few or too many values for the operator
	ValueNotInteger   Kind = "ValueNotInteger"   // numeric operator without an integer of zero or more
	MinValuesNegative Kind = "MinValuesNegative" // minValues below zero
	Contradiction     Kind = "Contradiction"     // no label value satisfies all entries for one key
	FieldsUsed        Kind = "FieldsUsed"        // a node selector term uses matchFields
)

// Fault is what is wrong with one requirement, and the fix. It is an error and a value.
type Fault struct {
	Kind     Kind
	Index    int    // of the entry in the list it was read from
	Key      string // as written; empty from New, which sees one requirement without its key
	Operator corev1.NodeSelectorOperator
	Have     string
	Want     string
}

// Error renders the fault as one sentence that names the fix.
func (f *Fault) Error() string {
	var b strings.Builder
	if f.Key != "" {
		b.WriteString(f.Key + ": ")
	}
	switch f.Kind {
	case OperatorUnknown:
		b.WriteString("operator " + strconv.Quote(string(f.Operator)) + " is unknown; use " + f.Want)
	case ValuesMissing, ValueNotInteger:
		b.WriteString("operator " + string(f.Operator) + " has " + f.Have + "; give it " + f.Want)
	case MinValuesNegative:
		b.WriteString("minValues is " + f.Have + "; use " + f.Want)
	case Contradiction:
		b.WriteString(f.Have + " allows no value; " + f.Want)
	case FieldsUsed:
		b.WriteString("matchFields is not supported; " + f.Want)
	}
	return b.String()
}

// New reads one requirement in API form. Values that Exists and DoesNotExist carry are ignored;
// NotIn without values is Exists. minValues 0 means none; that In lists enough values for it is a
// rule for manifests, not for requirements, and is not checked here. The error is a *Fault.
func New(op corev1.NodeSelectorOperator, values []string, minValues int) (Req, error) {
	if minValues < 0 {
		return Req{}, &Fault{Kind: MinValuesNegative, Operator: op, Have: strconv.Itoa(minValues), Want: "a number of 1 or more, or leave it out"}
	}
	r := Req{MinValues: minValues}
	switch op {
	case corev1.NodeSelectorOpIn:
		if len(values) == 0 {
			return Req{}, &Fault{Kind: ValuesMissing, Operator: op, Have: "no values", Want: "at least one value, or use Exists to allow any"}
		}
		r.Values = distinct(values)
	case corev1.NodeSelectorOpNotIn:
		r.Not, r.Values = true, distinct(values)
	case corev1.NodeSelectorOpExists:
		r.Not = true
	case corev1.NodeSelectorOpDoesNotExist:
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt, OpGte, OpLte:
		n, err := number(op, values)
		if err != nil {
			return Req{}, err
		}
		r.Bounds, r.Not = bounded(op, n)
	default:
		return Req{}, &Fault{Kind: OperatorUnknown, Operator: op, Have: string(op), Want: "one of In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte, Lte"}
	}
	return r, nil
}

// bounded returns the bounds of a numeric operator; false says that no integer satisfies it.
func bounded(op corev1.NodeSelectorOperator, n int64) (Bounds, bool) {
	switch op {
	case corev1.NodeSelectorOpGt:
		return above(n)
	case corev1.NodeSelectorOpLt:
		return below(n), true
	case OpLte:
		return atMost(n), true
	default:
		return atLeast(n), true
	}
}

// number reads the one value of a numeric operator.
func number(op corev1.NodeSelectorOperator, values []string) (int64, error) {
	const want = "exactly one whole number of zero or more"
	if len(values) != 1 {
		return 0, &Fault{Kind: ValuesMissing, Operator: op, Have: strconv.Itoa(len(values)) + " values", Want: want}
	}
	n, isInteger := Integer(values[0])
	if !isInteger || n < 0 {
		return 0, &Fault{Kind: ValueNotInteger, Operator: op, Have: strconv.Quote(values[0]), Want: want}
	}
	return n, nil
}

// Entry is one requirement in API form, as NodePools and NodeClaims list them.
type Entry struct {
	Key       string
	Operator  corev1.NodeSelectorOperator
	Values    []string
	MinValues int // 0: none
}

// Requirements returns the requirement in API form: one entry, or several that mean the same when
// combined. Bounds come out inclusive, so "Gt 2" as "Gte 3"; exclusions that coexist with bounds get
// a NotIn of their own. "Lt 0" stays as it is, since the API refuses "Lte -1". minValues is on every
// entry: the largest counts, so the order of the entries never matters. Values is shared with r.
func (r Req) Requirements(key string) []Entry {
	var entries []Entry
	emit := func(op corev1.NodeSelectorOperator, values []string) {
		entries = append(entries, Entry{Key: key, Operator: op, Values: values, MinValues: r.MinValues})
	}
	if !r.Bounds.Limited() || len(r.Values) > 0 {
		emit(r.Operator(), r.Values)
	}
	if r.Bounds.HasLo {
		emit(OpGte, []string{strconv.FormatInt(r.Bounds.Lo, 10)})
	}
	switch {
	case r.Bounds.HasHi && r.Bounds.Hi < 0:
		emit(corev1.NodeSelectorOpLt, []string{"0"})
	case r.Bounds.HasHi:
		emit(OpLte, []string{strconv.FormatInt(r.Bounds.Hi, 10)})
	}
	return entries
}
