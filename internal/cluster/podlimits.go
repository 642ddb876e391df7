package cluster

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/reason"
)

// How much of a pod is read. Planning tries preferences one by one, each together with all rules, so the work for
// one pod grows with the product of the lists; these are far beyond what people write and keep any pod cheap.
const (
	mostPreferences  = 100    // of one kind; the heaviest count
	mostPodTerms     = 100    // required ones of one kind, and spread constraints
	mostAlternatives = 1000   // required node terms, entries of the nodeSelector
	mostValues       = 10_000 // of all entries of one list of terms
)

// tooMany refuses a pod with more entries than can be processed. A DaemonSet is not refused: it is only checked where
// it runs.
func (b *builder) tooMany(at string, n, most int) bool {
	if b.in.template || n <= most {
		return false
	}
	b.refuse(reason.TooManyEntries, at, strconv.Itoa(n), strconv.Itoa(most))
	return true
}

// ignoreExcess notes that some preferences do not count: a preference never holds a pod up.
func (b *builder) ignoreExcess(at string, n, most int) {
	b.shape.Ignored = append(b.shape.Ignored, reason.Reason{Code: reason.PreferencesIgnored, Subject: at, Have: strconv.Itoa(n), Want: strconv.Itoa(most)})
}

// limitSpread keeps the hard constraints and the first of the soft ones.
func (b *builder) limitSpread(at string) {
	soft, kept := 0, b.shape.Spread[:0]
	for _, s := range b.shape.Spread {
		if s.Soft {
			if soft++; soft > mostPreferences {
				continue
			}
		}
		kept = append(kept, s)
	}
	if b.shape.Spread = kept; soft > mostPreferences {
		b.ignoreExcess(at+" with ScheduleAnyway", soft, mostPreferences)
	}
	b.tooMany(at, len(kept)-min(soft, mostPreferences), mostPodTerms)
}

func valuesIn(terms []corev1.NodeSelectorTerm) int {
	n := 0
	for i := range terms {
		for j := range terms[i].MatchExpressions {
			n += len(terms[i].MatchExpressions[j].Values)
		}
	}
	return n
}
