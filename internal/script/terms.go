package script

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// Labels of the cloud that scripts use beside those of the core.
const (
	labelCategory    = "karpenter.k8s.aws/instance-category"
	labelFamily      = "karpenter.k8s.aws/instance-family"
	labelSize        = "karpenter.k8s.aws/instance-size"
	labelCPUs        = "karpenter.k8s.aws/instance-cpu"
	labelReservation = "karpenter.k8s.aws/capacity-reservation-id"
)

// shortNames returns the words that stand for well-known label keys.
func shortNames() map[string]string {
	return map[string]string{
		"zone": corev1.LabelTopologyZone, "region": corev1.LabelTopologyRegion, "hostname": corev1.LabelHostname,
		"arch": corev1.LabelArchStable, "os": corev1.LabelOSStable, "type": corev1.LabelInstanceTypeStable,
		"pool": karpv1.LabelNodePool, "captype": karpv1.LabelCapacityType, "category": labelCategory, "family": labelFamily,
		"size": labelSize, "cpus": labelCPUs, "reservation": labelReservation,
	}
}

// Key returns the label key that a short name stands for; other keys stand for themselves.
func Key(name string) string {
	if full, short := shortNames()[name]; short {
		return full
	}
	return name
}

// terms reads "zone in a,b; arch in arm64 or zone in c": alternatives of expressions that hold
// together.
func (l *Line) terms(text string) []corev1.NodeSelectorTerm {
	var terms []corev1.NodeSelectorTerm
	for _, alternative := range split(text, " or ") {
		var term corev1.NodeSelectorTerm
		for _, expression := range split(alternative, ";") {
			term.MatchExpressions = append(term.MatchExpressions, l.expression(expression))
		}
		terms = append(terms, term)
	}
	return terms
}

// expression reads "zone in a,b", "team exists", "cpus > 4".
func (l *Line) expression(text string) corev1.NodeSelectorRequirement {
	const form = `write "key in a,b", "key notin a", "key exists", "key absent" or "key > 4" (also >=, <, <=)`
	words := strings.Fields(text)
	if len(words) < 2 {
		l.Failf("%q is not a requirement; %s", text, form)
		return corev1.NodeSelectorRequirement{}
	}
	operators := map[string]corev1.NodeSelectorOperator{
		"in": corev1.NodeSelectorOpIn, "notin": corev1.NodeSelectorOpNotIn,
		"exists": corev1.NodeSelectorOpExists, "absent": corev1.NodeSelectorOpDoesNotExist,
		">": corev1.NodeSelectorOpGt, "<": corev1.NodeSelectorOpLt, ">=": "Gte", "<=": "Lte",
	}
	operator, known := operators[words[1]]
	values := split(strings.Join(words[2:], ""), ",")
	bare := operator == corev1.NodeSelectorOpExists || operator == corev1.NodeSelectorOpDoesNotExist
	if !known || bare != (len(values) == 0) {
		l.Failf("%q is not a requirement; %s", text, form)
	}
	return corev1.NodeSelectorRequirement{Key: Key(words[0]), Operator: operator, Values: values}
}

// taints reads "key=value:Effect,key:Effect".
func (l *Line) taints(key string) []corev1.Taint {
	var taints []corev1.Taint
	for _, text := range l.List(key) {
		name, value, effect := cutTaint(text)
		if !validEffect(effect) {
			l.Failf("taint %s has no effect; write key=value:NoSchedule, :PreferNoSchedule or :NoExecute", text)
		}
		taints = append(taints, corev1.Taint{Key: name, Value: value, Effect: effect})
	}
	return taints
}

// tolerations reads "key=value:Effect", "key:Effect", "key" and "*".
func (l *Line) tolerations(key string) []corev1.Toleration {
	var tolerations []corev1.Toleration
	for _, text := range l.List(key) {
		if text == "*" {
			tolerations = append(tolerations, corev1.Toleration{Operator: corev1.TolerationOpExists})
			continue
		}
		name, value, effect := cutTaint(text)
		if effect != "" && !validEffect(effect) {
			l.Failf("toleration %s has an unknown effect; write key, key:NoSchedule or key=value:NoSchedule", text)
		}
		operator := corev1.TolerationOpExists
		if value != "" {
			operator = corev1.TolerationOpEqual
		}
		tolerations = append(tolerations, corev1.Toleration{Key: name, Operator: operator, Value: value, Effect: effect})
	}
	return tolerations
}

func cutTaint(text string) (key, value string, effect corev1.TaintEffect) {
	pair, end, _ := strings.Cut(text, ":")
	key, value, _ = strings.Cut(pair, "=")
	return key, value, corev1.TaintEffect(end)
}

func validEffect(effect corev1.TaintEffect) bool {
	return slices.Contains([]corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}, effect)
}

// selector reads a label selector in the form kubectl knows, "app=web,tier in (a,b)". "*" matches
// everything and "none" is no selector at all, which matches nothing.
func (l *Line) selector(text string) *metav1.LabelSelector {
	switch text {
	case "*":
		return &metav1.LabelSelector{}
	case "none":
		return nil
	}
	selector, err := metav1.ParseToLabelSelector(text)
	if err != nil {
		l.Failf("%q is not a selector; write app=web, *, or none", text)
		return nil
	}
	return selector
}

// parts cuts "zone/1/min=2/match=app=x" into what is positional and what is named. Keys with a slash
// have short names, or should be avoided in scripts.
func parts(text string) (positional []string, named map[string]string) {
	named = map[string]string{}
	for _, part := range split(text, "/") {
		option, value, isNamed := strings.Cut(part, ":")
		if isNamed {
			named[option] = value
			continue
		}
		positional = append(positional, part)
	}
	return positional, named
}
