package v1

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/dovetail-sh/dovetail/internal/duration"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

type condition = metav1.Condition

// maxRequirements bounds the keys of template labels and requirements together: each becomes a
// requirement of a NodeClaim, whose list is no longer.
const maxRequirements = 100

// Validate makes the checks of an effective pool that a schema cannot make (API 3.2). Problems are
// reasons not to use the pool. Ignored values are unknown ones beside known ones, which do no harm
// but deserve a log line.
func (p *NodePool) Validate(words reqs.Vocabulary) (problems, ignored []reason.Reason) {
	template := &p.Spec.Template
	v := &validator{words: words}
	v.labels("spec.template.metadata.labels", template.ObjectMeta.Labels)
	v.taints("spec.template.spec", template.Spec.Taints, template.Spec.StartupTaints)
	v.requirements("spec.template.spec.requirements", template.Spec.Requirements)
	v.checkTogether("spec.template", template)
	if n := distinctKeys(template); n > maxRequirements {
		v.problem(reason.TooManyEntries, "spec.template: keys of requirements and labels together", strconv.Itoa(n), strconv.Itoa(maxRequirements))
	}
	v.duration("spec.template.spec.expireAfter", string(template.Spec.ExpireAfter), true)
	v.duration("spec.template.spec.terminationGracePeriod", string(template.Spec.TerminationGracePeriod), false)
	v.duration("spec.disruption.consolidateAfter", string(p.Spec.Disruption.ConsolidateAfter), true)
	return v.problems, v.ignored
}

// checkTogether checks that some node can meet all requirements and have the labels too: a pool that none can
// be of would be skipped without a word.
func (v *validator) checkTogether(at string, template *NodeClaimTemplate) {
	if len(v.problems) > 0 { // would be found again
		return
	}
	const want = "values that can hold at the same time"
	set, faults := reqs.FromEntries(Entries(template.Spec.Requirements), v.words)
	for _, f := range faults {
		v.problem(reason.FieldInvalid, index(at+".spec.requirements", f.Index), f.Key+" "+f.Have, want)
	}
	labels := reqs.FromLabels(template.ObjectMeta.Labels, v.words)
	for _, key := range labels.Keys() {
		if before, found := set[key]; !set.Add(key, labels[key]) && found {
			v.problem(reason.FieldInvalid, at+".metadata.labels["+key+"]", labels[key].String()+" together with requirement "+before.String(), want)
		}
	}
}

func distinctKeys(template *NodeClaimTemplate) int {
	keys := map[string]bool{}
	for key := range template.ObjectMeta.Labels {
		keys[key] = true
	}
	for _, r := range template.Spec.Requirements {
		keys[r.Key] = true
	}
	return len(keys)
}

// duration checks what a pattern cannot: that the length has a representation.
func (v *validator) duration(at, text string, mayBeNever bool) {
	if text == "" || mayBeNever && text == duration.Never {
		return
	}
	_, err := duration.Parse(text)
	if wrong, bad := errors.AsType[*duration.Error](err); bad {
		v.problem(reason.DurationMalformed, at, strconv.Quote(wrong.Text), wrong.Want)
	}
}

type validator struct {
	words             reqs.Vocabulary
	problems, ignored []reason.Reason
}

func (v *validator) problem(code reason.Code, subject, have, want string) {
	v.problems = append(v.problems, reason.Reason{Code: code, Subject: subject, Have: have, Want: want})
}

func (v *validator) labels(at string, labels map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		v.key(at, key)
		for _, text := range validation.IsValidLabelValue(labels[key]) {
			v.problem(reason.LabelMalformed, at+"["+key+"]", strconv.Quote(labels[key]), text)
		}
	}
}

// key checks that a pool may use a label at all.
func (v *validator) key(at, key string) {
	if texts := validation.IsQualifiedName(key); len(texts) > 0 {
		v.problem(reason.LabelMalformed, at, strconv.Quote(key), strings.Join(texts, ", "))
		return
	}
	if v.words.Canonical(key) == LabelNodePool || v.words.Restricted(key) {
		v.problem(reason.LabelRestricted, at, key, "a label of a domain of your own")
	}
}

// taints checks keys and that a key and effect appear once over both lists.
func (v *validator) taints(at string, lists ...[]corev1.Taint) {
	names := []string{".taints", ".startupTaints"}
	type identity struct {
		key    string
		effect corev1.TaintEffect
	}
	seen := map[identity]bool{}
	for l, list := range lists {
		for i, t := range list {
			field := index(at+names[l], i)
			if texts := validation.IsQualifiedName(t.Key); len(texts) > 0 {
				v.problem(reason.TaintMalformed, field+".key", strconv.Quote(t.Key), strings.Join(texts, ", "))
			}
			if texts := validation.IsValidLabelValue(t.Value); len(texts) > 0 {
				v.problem(reason.TaintMalformed, field+".value", strconv.Quote(t.Value), strings.Join(texts, ", "))
			}
			switch t.Effect {
			case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
			default:
				v.problem(reason.FieldInvalid, field+".effect", strconv.Quote(string(t.Effect)), "NoSchedule, PreferNoSchedule or NoExecute")
			}
			id := identity{t.Key, t.Effect}
			if seen[id] {
				v.problem(reason.TaintDuplicate, field, t.Key+":"+string(t.Effect), "")
			}
			seen[id] = true
		}
	}
}

func (v *validator) requirements(at string, list []Requirement) {
	for i, r := range list {
		field := index(at, i)
		v.key(field+".key", r.Key)
		minValues := 0
		if r.MinValues != nil {
			minValues = *r.MinValues
		}
		if !v.operator(field, r, minValues) {
			continue
		}
		if r.Operator != corev1.NodeSelectorOpIn && r.Operator != corev1.NodeSelectorOpNotIn {
			continue
		}
		for _, value := range r.Values {
			if texts := validation.IsValidLabelValue(value); len(texts) > 0 {
				v.problem(reason.LabelMalformed, field+".values", strconv.Quote(value), strings.Join(texts, ", "))
			}
		}
		if r.Operator == corev1.NodeSelectorOpIn {
			v.closedValues(field, r, minValues)
		}
	}
}

// operator checks that operator, values and minValues go together (NP-01 to NP-03).
func (v *validator) operator(at string, r Requirement, minValues int) bool {
	_, err := reqs.New(r.Operator, r.Values, minValues)
	if fault, bad := errors.AsType[*reqs.Fault](err); bad {
		switch fault.Kind {
		case reqs.OperatorUnknown:
			v.problem(reason.OperatorUnknown, at+".operator", strconv.Quote(string(r.Operator)), fault.Want)
		case reqs.ValueNotInteger:
			v.problem(reason.ValueNotInteger, at+".values", strings.Join(r.Values, ", "), "")
		case reqs.MinValuesNegative:
			v.problem(reason.FieldInvalid, at+".minValues", strconv.Itoa(minValues), fault.Want)
		case reqs.ValuesMissing, reqs.Contradiction, reqs.FieldsUsed: // the last two cannot come from one requirement
			v.problem(reason.ValuesMissing, at+".values", string(r.Operator), fault.Want)
		}
		return false
	}
	if r.Operator == corev1.NodeSelectorOpIn && len(r.Values) < minValues {
		v.problem(reason.MinValuesUnmet, at, strconv.Itoa(len(r.Values)), strconv.Itoa(minValues))
		return false
	}
	return true
}

// closedValues checks a requirement on a key whose values are all known, such as the capacity type.
func (v *validator) closedValues(at string, r Requirement, minValues int) {
	all, closed := v.words.ClosedValues[v.words.Canonical(r.Key)]
	if !closed {
		return
	}
	var known, unknown []string
	for _, value := range r.Values {
		if slices.Contains(all, value) {
			known = append(known, value)
		} else {
			unknown = append(unknown, value)
		}
	}
	want := strings.Join(all, ", ")
	switch {
	case len(known) == 0:
		v.problem(reason.ValueUnknown, at+".values", strings.Join(unknown, ", "), want)
	case len(known) < minValues:
		v.problem(reason.MinValuesUnmet, at, strconv.Itoa(len(known)), strconv.Itoa(minValues))
	case len(unknown) > 0:
		v.ignored = append(v.ignored, reason.Reason{Code: reason.ValueUnknown, Subject: at + ".values", Have: strings.Join(unknown, ", "), Want: want})
	}
}

func index(at string, i int) string { return at + "[" + strconv.Itoa(i) + "]" }
