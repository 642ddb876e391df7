package respond

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/cloudtest"
	"github.com/dovetail-sh/dovetail/internal/execute"
	"github.com/dovetail-sh/dovetail/internal/interruption"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

const reservationLabel = "example.com/reservation"

var start = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func newCluster(instances ...string) *cloudtest.Cluster {
	return cloudtest.NewCluster(reservationLabel, instances...)
}

// actorOf reacts to notices in a cluster.
func actorOf(c *cloudtest.Cluster) *Actor {
	m := metric.New(c.Metrics)
	return &Actor{
		Directory: c, Events: c, Metrics: m, ReservationLabel: reservationLabel, Now: func() time.Time { return start },
		Remover:         execute.Remover{Client: c, Events: c, Metrics: m, PodsToMove: func(context.Context, string) int { return 3 }},
		SpotLost:        func(instanceType, zone string) { c.Note("spot lost " + instanceType + " " + zone) },
		ReservationLost: func(id string) { c.Note("reservation lost " + id) },
	}
}

func TestAct(t *testing.T) {
	t.Parallel()
	emitted := func(reason string) []string {
		return []string{"event " + reason + " claim-i-1", "event " + reason + " node-i-1"}
	}
	deleted := []string{"delete claim-i-1 uid=uid-i-1", "event TerminatingOnInterruption claim-i-1", "event TerminatingOnInterruption node-i-1"}
	forced := []string{`patch claim-i-1 {"metadata":{"annotations":{"karpenter.sh/nodeclaim-termination-timestamp":"2030-01-01T12:00:00Z"}}}`}
	going := func(deadline string) func(*karpv1.NodeClaim) {
		return func(c *karpv1.NodeClaim) {
			c.DeletionTimestamp = &metav1.Time{Time: start.Add(-time.Hour)}
			if deadline != "" {
				c.Annotations = map[string]string{karpv1.AnnotationTerminationTimestamp: deadline}
			}
		}
	}
	for name, tc := range map[string]struct {
		kind  interruption.Kind
		setup func(*karpv1.NodeClaim)
		want  []string
	}{
		"S-012 a spot interruption":         {interruption.SpotInterrupted, nil, slices.Concat(emitted("SpotInterrupted"), []string{"spot lost m5.large eu-west-1a"}, deleted)},
		"H12 a recommendation is only told": {interruption.RebalanceRecommended, nil, emitted("SpotRebalanceRecommendation")},
		"E05 a stop":                        {interruption.InstanceStopped, nil, slices.Concat(emitted("InstanceStopping"), deleted)},
		"E04 an end":                        {interruption.InstanceTerminated, nil, slices.Concat(emitted("InstanceTerminating"), deleted)},
		"maintenance":                       {interruption.ScheduledChange, nil, slices.Concat(emitted("InstanceUnhealthy"), deleted)},
		"a reservation":                     {interruption.ReservationInterrupted, nil, slices.Concat(emitted("CapacityReservationInstanceInterrupted"), []string{"reservation lost cr-1"}, deleted)},
		"a broken instance is not drained":  {interruption.InstanceStatus, nil, slices.Concat(emitted("InstanceUnhealthy"), forced, deleted)},
		"a deadline that is over is kept": {
			interruption.InstanceStatus, func(c *karpv1.NodeClaim) {
				c.Annotations = map[string]string{karpv1.AnnotationTerminationTimestamp: "2030-01-01T11:00:00Z"}
			}, slices.Concat(emitted("InstanceUnhealthy"), deleted),
		},
		"a broken host is not drained":                   {interruption.SystemStatus, nil, slices.Concat(emitted("InstanceUnhealthy"), forced, deleted)},
		"a scheduled event drains":                       {interruption.EventStatus, nil, slices.Concat(emitted("InstanceUnhealthy"), deleted)},
		"a drain that runs on a broken instance is over": {interruption.InstanceStatus, going(""), slices.Concat(emitted("InstanceUnhealthy"), forced)},
		"whatever time it had left":                      {interruption.SystemStatus, going("2030-01-01T12:00:01Z"), slices.Concat(emitted("InstanceUnhealthy"), forced)},
		"a time that cannot be read is none":             {interruption.SystemStatus, going("soon"), slices.Concat(emitted("InstanceUnhealthy"), forced)},
		"its time is over already":                       {interruption.InstanceStatus, going("2030-01-01T12:00:00Z"), emitted("InstanceUnhealthy")},
		"a scheduled event leaves a drain its time":      {interruption.EventStatus, going(""), emitted("InstanceUnhealthy")},
		"H10 a claim that is going is not hit":           {interruption.SpotInterrupted, func(c *karpv1.NodeClaim) { c.DeletionTimestamp = &metav1.Time{Time: start} }, slices.Concat(emitted("SpotInterrupted"), []string{"spot lost m5.large eu-west-1a"})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster("i-1")
			if tc.setup != nil {
				claim := c.ClaimOf["i-1"]
				tc.setup(&claim)
				c.ClaimOf["i-1"] = claim
			}
			if known, err := actorOf(c).Act(t.Context(), interruption.Notice{Kind: tc.kind, Instance: "i-1"}); !known || err != nil {
				t.Fatal(known, err)
			}
			if diff := cmp.Diff(tc.want, c.Did()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFM_H02_FiveTimesIsOneDeletion(t *testing.T) {
	t.Parallel()
	c := newCluster("i-1")
	a := actorOf(c)
	for range 5 { // the cache never shows the deletion
		if _, err := a.Act(t.Context(), interruption.Notice{Kind: interruption.SpotInterrupted, Instance: "i-1"}); err != nil {
			t.Fatal(err)
		}
	}
	if n := c.Count("delete"); n != 1 {
		t.Errorf("%d deletions", n)
	}
	want := map[string]float64{"spot default spot_interrupted graceful": 1}
	if diff := cmp.Diff(want, c.Counted(t, "karpenter_nodeclaims_disrupted_total")); diff != "" {
		t.Error(diff)
	}
	want = map[string]float64{"spot default spot_interrupted graceful": 3}
	if diff := cmp.Diff(want, c.Counted(t, "karpenter_pods_disruption_initiated_total")); diff != "" {
		t.Error(diff)
	}
}

func TestADeletionThatFailsIsTriedAgain(t *testing.T) {
	t.Parallel()
	c := newCluster("i-1")
	c.Fail = errors.New("no API server")
	a := actorOf(c)
	if known, err := a.Act(t.Context(), interruption.Notice{Kind: interruption.SpotInterrupted, Instance: "i-1"}); !known || err == nil {
		t.Fatal(known, err)
	}
	c.Fail = nil
	if _, err := a.Act(t.Context(), interruption.Notice{Kind: interruption.SpotInterrupted, Instance: "i-1"}); err != nil || c.Count("delete") != 1 {
		t.Error(err, c.Did())
	}
}

func TestAClaimThatIsGoneIsFine(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"not found":           apierrors.NewNotFound(schema.GroupResource{}, "x"),
		"another of its name": apierrors.NewConflict(schema.GroupResource{}, "x", errors.New("uid")),
	} {
		c := newCluster("i-1")
		c.Fail = err
		if _, err := actorOf(c).Act(t.Context(), interruption.Notice{Kind: interruption.SpotInterrupted, Instance: "i-1"}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := c.Counted(t, "karpenter_nodeclaims_disrupted_total"); len(got) != 0 {
			t.Errorf("%s: counted %v", name, got)
		}
	}
}

func TestAPanicIsAnError(t *testing.T) {
	t.Parallel()
	c := newCluster("i-1")
	a := actorOf(c)
	a.SpotLost = func(string, string) { panic("odd") }
	if _, err := a.Act(t.Context(), interruption.Notice{Kind: interruption.SpotInterrupted, Instance: "i-1"}); err == nil || !strings.Contains(err.Error(), "odd") {
		t.Error(err)
	}
}

// An interruption that removes a node is on record; one that is only announced is not.
func TestInterruptionsAreRecorded(t *testing.T) {
	t.Parallel()
	c := newCluster("i-1", "i-2")
	a := actorOf(c)
	var record []string
	a.Remover.Removed = func(claim, node, reason string) { record = append(record, claim+" "+node+" "+reason) }
	for instance, kind := range map[string]interruption.Kind{"i-1": interruption.SpotInterrupted, "i-2": interruption.RebalanceRecommended} {
		if _, err := a.Act(t.Context(), interruption.Notice{Kind: kind, Instance: instance}); err != nil {
			t.Fatal(err)
		}
	}
	if len(record) != 1 || record[0] != "claim-i-1 node-i-1 "+string(interruption.SpotInterrupted) {
		t.Errorf("on record is %q", record)
	}
}
