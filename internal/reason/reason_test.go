package reason_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/reason"
)

func TestText(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason reason.Reason
		want   string
	}{
		"subject, sentence and rule": {
			reason: reason.Reason{Code: reason.OldFieldRead, Rule: "L-03", Subject: "spec.disruption.consolidationPolicy", Have: "WhenUnderutilized", Want: "WhenEmptyOrUnderutilized"},
			want:   "spec.disruption.consolidationPolicy: WhenUnderutilized is an old form; read as WhenEmptyOrUnderutilized (L-03)",
		},
		"what a node is worth is not called the price of another": {
			reason: reason.Reason{Code: reason.NothingCheaper, Subject: "node/a", Have: "$0.17", Want: "$0.09"},
			want:   "node/a: costs $0.17; its pods are worth $0.09 at the best prices, and no move was found that saves enough",
		},
		"an unknown code still shows its fields": {
			reason: reason.Reason{Code: "Novel", Subject: "node/a", Have: "1", Want: "2"},
			want:   "node/a: Novel: have 1, want 2",
		},
		"causes are bounded, the first ones shown": {
			reason: reason.Reason{Code: reason.FieldRequired, Subject: "a", Want: "x", Because: []reason.Reason{
				{Code: "C1"}, {Code: "C2"}, {Code: "C3"}, {Code: "C4"}, {Code: "C5"},
			}},
			want: "a: is required; set it to x; C1: have , want ; C2: have , want ; C3: have , want ; and 2 more",
		},
		"braces in user text are not expanded twice": {
			reason: reason.Reason{Code: reason.FieldInvalid, Have: "{want}", Want: "{have}"},
			want:   "{want} is not valid; want {have}",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tc.reason.Text(); got != tc.want {
				t.Errorf("Text() = %q\nwant      %q", got, tc.want)
			}
		})
	}
}

func TestJoinCountsWhatItLeavesOut(t *testing.T) {
	t.Parallel()
	three := []reason.Reason{{Code: "A"}, {Code: "B"}, {Code: "C"}}
	if got, want := reason.Join(three, 2), "A: have , want ; B: have , want ; and 1 more"; got != want {
		t.Errorf("Join(3, 2) = %q, want %q", got, want)
	}
	if got := reason.Join(three, 0); strings.Contains(got, "more") {
		t.Errorf("Join(3, 0) = %q, want all of them", got)
	}
}

// Codes are API: each is CamelCase, listed once, and tells the user what to do.
func TestEveryCodeIsDocumented(t *testing.T) {
	t.Parallel()
	if _, known := reason.Lookup("Novel"); known {
		t.Error("a code that does not exist is found")
	}
	camel := regexp.MustCompile(`^([A-Z][a-z0-9]+)+$`)
	seen := map[reason.Code]bool{}
	for _, doc := range reason.Codes() {
		if !camel.MatchString(string(doc.Code)) && doc.Code != reason.AMIDrift { // Karpenter's name
			t.Errorf("%s is not CamelCase", doc.Code)
		}
		if seen[doc.Code] {
			t.Errorf("%s is listed twice", doc.Code)
		}
		seen[doc.Code] = true
		if rest := regexp.MustCompile(`\{(want|have|code)\}`).ReplaceAllString(doc.Form, ""); strings.ContainsAny(rest, "{}") {
			t.Errorf("the form of %s names a field that does not exist: %q", doc.Code, doc.Form)
		}
		if got, known := reason.Lookup(doc.Code); !known || got != doc {
			t.Errorf("%s is found as %+v", doc.Code, got)
		}
		if doc.Form == "" || doc.Meaning == "" || doc.Fix == "" {
			t.Errorf("%s lacks form, meaning or fix", doc.Code)
		}
	}
}

// Texts are made for every node that stays, at each pass: the table is built once.
func BenchmarkText(b *testing.B) {
	r := reason.Reason{Code: reason.NothingCheaper, Subject: "node/a", Have: "$0.17", Want: "$0.09"}
	b.ReportAllocs()
	for b.Loop() {
		_ = r.Text()
	}
}

func BenchmarkLookup(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		_, _ = reason.Lookup(reason.NothingCheaper)
	}
}
