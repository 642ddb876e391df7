package journal_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/journal"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

// Trust B04: what keeps nodes is what keeps them now. Nodes that are gone or go are not listed, nor what kept a
// node until it was kept by something else, nor what was done about.
func TestTrust_B04_BlockedIsWhatHoldsNow(t *testing.T) {
	t.Parallel()
	refused := func(kept int, list ...disrupt.Refused) disrupt.Decision {
		return disrupt.Decision{Refused: list, Kept: kept, Nodes: []string{"n1", "n2", "n3"}}
	}
	why := func(code reason.Code, nodes ...string) disrupt.Refused {
		return disrupt.Refused{Reason: karpv1.ReasonUnderutilized, Nodes: nodes, Why: reason.Reason{Code: code}}
	}
	empty := why(reason.NodeNominated, "n1")
	empty.Reason = karpv1.ReasonEmpty
	gone := refused(0)
	gone.Nodes = []string{"n2", "n3"}
	going := refused(0)
	going.Commands = []disrupt.Command{{ID: "c", Remove: []disrupt.Candidate{{Node: "n1", Claim: "claim-n1"}}}}
	before := refused(0, why(reason.NothingCheaper, "n1"), why(reason.BenefitTooSmall, "n1", "n2"), why(reason.NothingCheaper, "n3"))
	protected := refused(1, why(reason.DoNotDisrupt, "n1"))
	for name, tc := range map[string]struct {
		before, after disrupt.Decision
		want          []string // code and nodes
	}{
		"a pass that did not get there says nothing": {before, refused(0), []string{"NothingCheaper n1", "BenefitTooSmall n1,n2", "NothingCheaper n3"}},
		"a node that is gone":                        {before, gone, []string{"NothingCheaper n3"}},
		"a terminating node":                         {before, going, []string{"NothingCheaper n3"}},
		"something else keeps it now":                {before, refused(0, why(reason.BenefitTooSmall, "n1")), []string{"BenefitTooSmall n1,n2", "NothingCheaper n3", "BenefitTooSmall n1"}},
		"it is protected now":                        {before, protected, []string{"NothingCheaper n3", "DoNotDisrupt n1"}},
		"it is not protected any more":               {protected, refused(0), nil},
		"another method has its own reasons":         {before, refused(0, empty), []string{"NothingCheaper n1", "BenefitTooSmall n1,n2", "NothingCheaper n3", "NodeNominated n1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := roomy()
			tc.before.At, tc.after.At = noon, noon.Add(10*time.Second)
			j.Decided(tc.before)
			j.Decided(tc.after)
			var got []string
			for _, r := range j.Read(journal.Query{Kind: journal.Blocked}).Blocked {
				got = append(got, string(r.Why.Code)+" "+strings.Join(r.Nodes, ","))
			}
			if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(tc.want))) {
				t.Errorf("blocked are %q, want %q", got, tc.want)
			}
		})
	}
}
