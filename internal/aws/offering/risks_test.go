package offering

import (
	"testing"
	"time"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/risk"
)

// IR-04: the risk of an offering is what was observed and what the table says, times its price. It is in the list once it
// changes, and the list is the same while it does not.
func TestIR_04_OfferingsHaveTheirRisk(t *testing.T) {
	t.Parallel()
	var risks *Risks
	now := time.Unix(1e9, 0)
	l := newFixture(t, func(o *Options) {
		risks = NewRisks(map[string]float64{"m5.large/us-east-1b": 0.5, "m5.large": 0.1}, func() time.Time { return now })
		o.Risks, o.Unavailable.Risks = risks, risks
	}, allTypes(t)...)
	class := class("AL2023")
	want := func(when string, a, b, onDemand float64) {
		t.Helper()
		for _, o := range l.one(t, class, "m5.large").Offerings {
			expected := onDemand
			if o.CapacityType == karpv1.CapacityTypeSpot {
				expected = map[string]float64{"us-east-1a": a, "us-east-1b": b, "us-east-1c": 0.03}[o.Zone]
			}
			if got := o.Risk; got < expected-1e-9 || got > expected+1e-9 {
				t.Errorf("%s: %s in %s: %v, want %v", when, o.CapacityType, o.Zone, got, expected)
			}
		}
	}
	want("at first", 0.03, 0.15, 0)
	l.unavailable.MarkInterrupted("m5.large", "us-east-1a")
	want("after an interruption", 0.06, 0.15, 0)
	l.unavailable.Mark("spot", "m5.large", "us-east-1a", Group{}, "ICE") // known already
	want("after a launch that the interruption explains", 0.06, 0.15, 0)
	risks.Record(risk.RebalanceRecommended, "spot", "m5.large", "us-east-1b")
	want("after a recommendation", 0.06, 0.165, 0)
	l.unavailable.Mark("spot", "m5.xlarge", "us-east-1a", Group{}, "ICE")
	want("after a launch of the family without capacity there", 0.0675, 0.165, 0)
	l.unavailable.Mark("spot", "m5.xlarge", "us-east-1a", Group{ID: "pg-1"}, "ICE")
	want("after one in a placement group, which says nothing of the offering", 0.0675, 0.165, 0)
	l.unavailable.Mark("on-demand", "m5.xlarge", "us-east-1c", Group{}, "ICE")
	for _, o := range l.one(t, class, "m5.large").Offerings {
		if expected := 0.0; o.CapacityType == karpv1.CapacityTypeOnDemand && o.Zone == "us-east-1c" && o.Risk == expected {
			t.Error("an on-demand launch without capacity does not count for its family")
		}
	}
	first := &l.one(t, class, "m5.large").Offerings[0]
	now = now.Add(time.Second)
	if &l.one(t, class, "m5.large").Offerings[0] != first {
		t.Error("a second later it is another list")
	}
	now = now.Add(20 * risk.HalfLife)
	want("days later", 0.03, 0.15, 0)
}
