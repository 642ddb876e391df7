package lifecycle

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// FM-F09: claims in a capacity block are deleted 40 min before its end, claims in other reservations are not.
func TestFM_F09_WhichClaimsLeaveTheirBlock(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	blocks := Blocks{ReservationLabel: "cr", TypeLabel: "type", Type: "block", Ends: map[string]time.Time{
		"soon": now.Add(40 * time.Minute), "later": now.Add(40*time.Minute + time.Second), "over": now.Add(-time.Minute),
	}}
	for name, tc := range map[string]struct {
		labels   map[string]string
		deleting bool
		want     bool
	}{
		"its block ends soon":                   {labels: map[string]string{"cr": "soon", "type": "block"}, want: true},
		"its block is over":                     {labels: map[string]string{"cr": "over", "type": "block"}, want: true},
		"its block ends later":                  {labels: map[string]string{"cr": "later", "type": "block"}},
		"it is being deleted":                   {labels: map[string]string{"cr": "soon", "type": "block"}, deleting: true},
		"a reservation of another type":         {labels: map[string]string{"cr": "soon", "type": "default"}},
		"a reservation whose type is not known": {labels: map[string]string{"cr": "soon"}},
		"a block whose end is not known":        {labels: map[string]string{"cr": "odd", "type": "block"}},
		"no reservation":                        {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Labels: tc.labels}}
			if tc.deleting {
				claim.DeletionTimestamp = new(metav1.NewTime(now))
			}
			end, ending := blocks.Ending(claim, now)
			if ending != tc.want || ending && !end.Equal(blocks.Ends[tc.labels["cr"]]) {
				t.Errorf("%v, %v", end, ending)
			}
		})
	}
}

// FM-F09: an instance that is left behind by its reservation counts as on-demand.
func TestFM_F09_LabelsOfInstancesOutOfTheirReservation(t *testing.T) {
	t.Parallel()
	before := map[string]string{karpv1.LabelCapacityType: "reserved", "cr": "a", "type": "default", "keep": "me"}
	if diff := cmp.Diff(map[string]string{karpv1.LabelCapacityType: "on-demand", "keep": "me"}, OnDemandLabels(before, "cr", "type")); diff != "" {
		t.Error(diff)
	}
	if len(before) != 4 {
		t.Errorf("what was handed in has changed: %v", before)
	}
	if diff := cmp.Diff(map[string]string{karpv1.LabelCapacityType: "on-demand"}, OnDemandLabels(nil)); diff != "" {
		t.Error(diff)
	}
}
