package cluster

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// checkSelector makes the checks of 3.4 b for a nodeSelector.
func (b *builder) checkSelector(at string, selector map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(selector)) {
		b.checkEntry(at, key, corev1.NodeSelectorOpIn, []string{selector[key]})
	}
}

// checkTerm makes the checks of 3.4 b for a required term. Operators are checked where they are read.
func (b *builder) checkTerm(at string, list []corev1.NodeSelectorRequirement) {
	for i, e := range list {
		b.checkEntry(index(at+".matchExpressions", i), e.Key, e.Operator, e.Values)
	}
}

// checkEntry checks a label that a pending pod requests. A DaemonSet may request any: it only follows
// the nodes there are.
func (b *builder) checkEntry(at, key string, op corev1.NodeSelectorOperator, values []string) {
	if b.in.template {
		return
	}
	if texts := validation.IsQualifiedName(key); len(texts) > 0 {
		b.refuse(reason.LabelMalformed, at, strconv.Quote(key), strings.Join(texts, ", "))
		return
	}
	if b.words.Restricted(key) {
		b.refuse(reason.LabelRestricted, at, key, "a label that nodes can be chosen by")
	}
	if op != corev1.NodeSelectorOpIn && op != corev1.NodeSelectorOpNotIn {
		return
	}
	for _, value := range values {
		if texts := validation.IsValidLabelValue(value); len(texts) > 0 {
			b.refuse(reason.LabelMalformed, at, strconv.Quote(value), strings.Join(texts, ", "))
		}
	}
	known, closed := b.words.ClosedValues[b.words.Canonical(key)]
	isKnown := func(value string) bool { return slices.Contains(known, value) }
	if closed && op == corev1.NodeSelectorOpIn && len(values) > 0 && !slices.ContainsFunc(values, isKnown) {
		b.refuse(reason.ValueUnknown, at, strings.Join(values, ", "), strings.Join(known, ", "))
	}
}

// faultReason says what is wrong with a requirement of a pod.
func faultReason(at string, f reqs.Fault) reason.Reason {
	r := reason.Reason{Subject: at, Have: f.Have, Want: f.Want}
	switch f.Kind {
	case reqs.OperatorUnknown:
		r.Code, r.Have = reason.OperatorUnknown, strconv.Quote(string(f.Operator))
	case reqs.ValuesMissing, reqs.MinValuesNegative:
		r.Code, r.Have = reason.ValuesMissing, string(f.Operator)
	case reqs.ValueNotInteger:
		r.Code = reason.ValueNotInteger
	case reqs.Contradiction:
		r.Code, r.Have = reason.RequirementsContradict, f.Key+" "+f.Have
	case reqs.FieldsUsed:
		r.Code = reason.FieldUnsupported
	}
	return r
}
