package model

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Tolerations is one distinct list of tolerations.
type Tolerations struct {
	List  []corev1.Toleration
	Soft  bool   // PreferNoSchedule is tolerated too, as the last step of relaxation
	known []int8 // by taint set: 0 not computed, 1 tolerated, -1 not
}

// TaintSet is one distinct list of taints.
type TaintSet []corev1.Taint

// InternTolerations returns the id of a list of tolerations; soft: PreferNoSchedule taints are tolerated too.
func (m *Model) InternTolerations(list []corev1.Toleration, soft bool) int {
	var b strings.Builder
	for _, t := range list {
		AppendKey(&b, t.Key, string(t.Operator), t.Value, string(t.Effect))
	}
	b.WriteString(strconv.FormatBool(soft))
	if id, known := m.tolerationIDs[b.String()]; known {
		return id
	}
	m.tolerationIDs[b.String()] = len(m.Tolerations)
	m.Tolerations = append(m.Tolerations, Tolerations{List: list, Soft: soft})
	return len(m.Tolerations) - 1
}

func (m *Model) internTaints(list []corev1.Taint) int {
	var b strings.Builder
	for _, t := range list {
		AppendKey(&b, t.Key, t.Value, string(t.Effect))
	}
	if id, known := m.taintIDs[b.String()]; known {
		return id
	}
	m.taintIDs[b.String()] = len(m.taints)
	m.taints = append(m.taints, list)
	return len(m.taints) - 1
}

// Tolerated reports whether a list of tolerations covers a list of taints.
func (m *Model) Tolerated(tolID, taintID int) bool {
	t := &m.Tolerations[tolID]
	for len(t.known) <= taintID {
		t.known = append(t.known, 0)
	}
	if t.known[taintID] == 0 {
		t.known[taintID] = 1
		if _, found := Untolerated(t.List, t.Soft, m.taints[taintID]); found {
			t.known[taintID] = -1
		}
	}
	return t.known[taintID] > 0
}

// Untolerated returns the first taint that nothing tolerates. A PreferNoSchedule taint counts like
// any other until it is relaxed (SC-14).
func Untolerated(list []corev1.Toleration, soft bool, taints []corev1.Taint) (corev1.Taint, bool) {
	for _, taint := range taints {
		if soft && taint.Effect == corev1.TaintEffectPreferNoSchedule {
			continue
		}
		if !toleratesTaint(list, &taint) {
			return taint, true
		}
	}
	return corev1.Taint{}, false
}

func toleratesTaint(list []corev1.Toleration, taint *corev1.Taint) bool {
	for i := range list {
		t := &list[i]
		if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
			continue
		}
		switch t.Operator {
		case corev1.TolerationOpExists:
			return true
		case "", corev1.TolerationOpEqual:
			if t.Key != "" && t.Value == taint.Value {
				return true
			}
		default: // Lt and Gt compare numbers
			if matchesNumerically(t, taint) {
				return true
			}
		}
	}
	return false
}

// matchesNumerically is the comparison of Kubernetes' numeric toleration operators.
func matchesNumerically(t *corev1.Toleration, taint *corev1.Taint) bool {
	want, err := strconv.ParseInt(t.Value, 10, 64)
	if err != nil || t.Key == "" {
		return false
	}
	have, err := strconv.ParseInt(taint.Value, 10, 64)
	if err != nil {
		return false
	}
	return t.Operator == corev1.TolerationOpLt && have < want || t.Operator == corev1.TolerationOpGt && have > want
}
