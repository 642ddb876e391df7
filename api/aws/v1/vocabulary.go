package v1

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// Vocabulary returns the labels of the core together with those of AWS.
func Vocabulary() reqs.Vocabulary {
	wellKnown := map[string]bool{}
	for _, label := range WellKnownLabels() {
		wellKnown[label] = true
	}
	return reqs.CoreVocabulary().With(reqs.Vocabulary{
		WellKnownKeys: wellKnown,
		Aliases:       map[string]string{LabelEBSZone: corev1.LabelTopologyZone},
		ClosedValues: map[string][]string{
			LabelInstanceTenancy:   {"dedicated", "default"},
			corev1.LabelArchStable: {"amd64", "arm64"},
			corev1.LabelOSStable:   {"linux", "windows"},
		},
	})
}
