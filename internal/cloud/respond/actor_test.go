package respond

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/execute"
	"github.com/dovetail-sh/dovetail/internal/interruption"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

// cluster is objects by instance, as a cache shows them, and a record of what was done.
type cluster struct {
	mu     sync.Mutex
	claims map[string]karpv1.NodeClaim
	nodes  map[string]corev1.Node
	fail   error         // of Delete
	slow   time.Duration // Delete
	last   time.Time     // Delete
	did    []string
	reg    *prometheus.Registry
}

const reservationLabel = "example.com/reservation"

var start = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func newCluster(instances ...string) *cluster {
	c := &cluster{claims: map[string]karpv1.NodeClaim{}, nodes: map[string]corev1.Node{}, reg: prometheus.NewRegistry()}
	for _, id := range instances {
		c.claims[id] = karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
			Name: "claim-" + id, UID: types.UID("uid-" + id),
			Labels: map[string]string{
				karpv1.LabelNodePool: "default", karpv1.LabelCapacityType: "spot",
				corev1.LabelInstanceTypeStable: "m5.large", corev1.LabelTopologyZone: "eu-west-1a", reservationLabel: "cr-1",
			},
		}}
		c.nodes[id] = corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-" + id}}
	}
	return c
}

func (c *cluster) actor() *Actor {
	m := metric.New(c.reg)
	return &Actor{
		Directory: c, Events: c, Metrics: m, ReservationLabel: reservationLabel, Now: func() time.Time { return start },
		Remover:         execute.Remover{Client: c, Events: c, Metrics: m, PodsToMove: func(context.Context, string) int { return 3 }},
		SpotLost:        func(instanceType, zone string) { c.note("spot lost " + instanceType + " " + zone) },
		ReservationLost: func(id string) { c.note("reservation lost " + id) },
	}
}

func (c *cluster) note(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.did = append(c.did, what)
}

func (c *cluster) count(prefix string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, what := range c.did {
		if strings.HasPrefix(what, prefix) {
			n++
		}
	}
	return n
}

func (c *cluster) Claims(_ context.Context, instance string) ([]karpv1.NodeClaim, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if claim, found := c.claims[instance]; found {
		return []karpv1.NodeClaim{*claim.DeepCopy()}, nil
	}
	return nil, nil
}

func (c *cluster) Nodes(_ context.Context, instance string) ([]corev1.Node, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if node, found := c.nodes[instance]; found {
		return []corev1.Node{node}, nil
	}
	return nil, nil
}

func (c *cluster) Delete(_ context.Context, obj client.Object, opts ...client.DeleteOption) error {
	var o client.DeleteOptions
	o.ApplyOptions(opts)
	if c.fail != nil {
		return c.fail
	}
	time.Sleep(c.slow)
	c.mu.Lock()
	c.last = time.Now()
	c.mu.Unlock()
	c.note(fmt.Sprintf("delete %s uid=%s", obj.GetName(), *o.Preconditions.UID))
	return nil
}

func (c *cluster) Patch(_ context.Context, obj client.Object, patch client.Patch, _ ...client.PatchOption) error {
	data, err := patch.Data(obj)
	c.note("patch " + obj.GetName() + " " + string(data))
	return err
}

func (c *cluster) Emit(obj client.Object, events ...event.Event) {
	for _, e := range events {
		c.note("event " + string(e.Reason) + " " + obj.GetName())
	}
}

// counted is a metric by its labels, with empty ones left out.
func (c *cluster) counted(t *testing.T, name string) map[string]float64 {
	t.Helper()
	families, err := c.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				if l.GetValue() != "" {
					labels = append(labels, l.GetValue())
				}
			}
			if f.GetName() == name {
				out[strings.Join(labels, " ")] = m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return out
}

func TestAct(t *testing.T) {
	t.Parallel()
	told := func(reason string) []string {
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
		"S-012 a spot interruption":         {interruption.SpotInterrupted, nil, slices.Concat(told("SpotInterrupted"), []string{"spot lost m5.large eu-west-1a"}, deleted)},
		"H12 a recommendation is only told": {interruption.RebalanceRecommended, nil, told("SpotRebalanceRecommendation")},
		"E05 a stop":                        {interruption.InstanceStopped, nil, slices.Concat(told("InstanceStopping"), deleted)},
		"E04 an end":                        {interruption.InstanceTerminated, nil, slices.Concat(told("InstanceTerminating"), deleted)},
		"maintenance":                       {interruption.ScheduledChange, nil, slices.Concat(told("InstanceUnhealthy"), deleted)},
		"a reservation":                     {interruption.ReservationInterrupted, nil, slices.Concat(told("CapacityReservationInstanceInterrupted"), []string{"reservation lost cr-1"}, deleted)},
		"a broken instance is not drained":  {interruption.InstanceStatus, nil, slices.Concat(told("InstanceUnhealthy"), forced, deleted)},
		"a deadline that is over is kept": {
			interruption.InstanceStatus, func(c *karpv1.NodeClaim) {
				c.Annotations = map[string]string{karpv1.AnnotationTerminationTimestamp: "2030-01-01T11:00:00Z"}
			}, slices.Concat(told("InstanceUnhealthy"), deleted),
		},
		"a broken host is not drained":                   {interruption.SystemStatus, nil, slices.Concat(told("InstanceUnhealthy"), forced, deleted)},
		"a scheduled event drains":                       {interruption.EventStatus, nil, slices.Concat(told("InstanceUnhealthy"), deleted)},
		"a drain that runs on a broken instance is over": {interruption.InstanceStatus, going(""), slices.Concat(told("InstanceUnhealthy"), forced)},
		"whatever time it had left":                      {interruption.SystemStatus, going("2030-01-01T12:00:01Z"), slices.Concat(told("InstanceUnhealthy"), forced)},
		"a time that cannot be read is none":             {interruption.SystemStatus, going("soon"), slices.Concat(told("InstanceUnhealthy"), forced)},
		"its time is over already":                       {interruption.InstanceStatus, going("2030-01-01T12:00:00Z"), told("InstanceUnhealthy")},
		"a scheduled event leaves a drain its time":      {interruption.EventStatus, going(""), told("InstanceUnhealthy")},
		"H10 a claim that is going is not hit":           {interruption.SpotInterrupted, func(c *karpv1.NodeClaim) { c.DeletionTimestamp = &metav1.Time{Time: start} }, slices.Concat(told("SpotInterrupted"), []string{"spot lost m5.large eu-west-1a"})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster("i-1")
			if tc.setup != nil {
				claim := c.claims["i-1"]
				tc.setup(&claim)
				c.claims["i-1"] = claim
			}
			if known, err := c.actor().Act(t.Context(), interruption.Notice{Kind: tc.kind, Instance: "i-1"}); !known || err != nil {
				t.Fatal(known, err)
			}
			if diff := cmp.Diff(tc.want, c.did); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFM_H02_FiveTimesIsOneDeletion(t *testing.T) {
	t.Parallel()
	c := newCluster("i-1")
	a := c.actor()
	for range 5 { // the cache never shows the deletion
		if _, err := a.Act(t.Context(), interruption.Notice{Kind: interruption.SpotInterrupted, Instance: "i-1"}); err != nil {
			t.Fatal(err)
		}
	}
	if n := c.count("delete"); n != 1 {
		t.Errorf("%d deletions", n)
	}
	want := map[string]float64{"spot default spot_interrupted graceful": 1}
	if diff := cmp.Diff(want, c.counted(t, "karpenter_nodeclaims_disrupted_total")); diff != "" {
		t.Error(diff)
	}
	want = map[string]float64{"spot default spot_interrupted graceful": 3}
	if diff := cmp.Diff(want, c.counted(t, "karpenter_pods_disruption_initiated_total")); diff != "" {
		t.Error(diff)
	}
}

func TestADeletionThatFailsIsTriedAgain(t *testing.T) {
	t.Parallel()
	c := newCluster("i-1")
	c.fail = errors.New("no API server")
	a := c.actor()
	if known, err := a.Act(t.Context(), interruption.Notice{Kind: interruption.SpotInterrupted, Instance: "i-1"}); !known || err == nil {
		t.Fatal(known, err)
	}
	c.fail = nil
	if _, err := a.Act(t.Context(), interruption.Notice{Kind: interruption.SpotInterrupted, Instance: "i-1"}); err != nil || c.count("delete") != 1 {
		t.Error(err, c.did)
	}
}

func TestAClaimThatIsGoneIsFine(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"not found":           apierrors.NewNotFound(schema.GroupResource{}, "x"),
		"another of its name": apierrors.NewConflict(schema.GroupResource{}, "x", errors.New("uid")),
	} {
		c := newCluster("i-1")
		c.fail = err
		if _, err := c.actor().Act(t.Context(), interruption.Notice{Kind: interruption.SpotInterrupted, Instance: "i-1"}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := c.counted(t, "karpenter_nodeclaims_disrupted_total"); len(got) != 0 {
			t.Errorf("%s: counted %v", name, got)
		}
	}
}

func TestAPanicIsAnError(t *testing.T) {
	t.Parallel()
	c := newCluster("i-1")
	a := c.actor()
	a.SpotLost = func(string, string) { panic("odd") }
	if _, err := a.Act(t.Context(), interruption.Notice{Kind: interruption.SpotInterrupted, Instance: "i-1"}); err == nil || !strings.Contains(err.Error(), "odd") {
		t.Error(err)
	}
}

// An interruption that removes a node is on record; one that is only announced is not.
func TestInterruptionsAreRecorded(t *testing.T) {
	t.Parallel()
	c := newCluster("i-1", "i-2")
	a := c.actor()
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
