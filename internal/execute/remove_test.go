package execute_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/execute"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

// removals is an API server that keeps the requests and the events.
type removals struct {
	patch, delete error
	did           []string
}

func (r *removals) Patch(_ context.Context, obj client.Object, patch client.Patch, _ ...client.PatchOption) error {
	data, err := patch.Data(obj)
	r.did = append(r.did, "patch "+obj.GetName()+" "+string(data))
	obj.SetResourceVersion("8")
	return errors.Join(err, r.patch)
}

func (r *removals) Delete(_ context.Context, obj client.Object, opts ...client.DeleteOption) error {
	o := (&client.DeleteOptions{}).ApplyOptions(opts)
	version := "any"
	if o.Preconditions.ResourceVersion != nil {
		version = *o.Preconditions.ResourceVersion
	}
	r.did = append(r.did, fmt.Sprintf("delete %s uid=%s version=%s", obj.GetName(), *o.Preconditions.UID, version))
	return r.delete
}

func (r *removals) Emit(obj client.Object, events ...event.Event) {
	for _, e := range events {
		r.did = append(r.did, "event on "+obj.GetName()+": "+string(e.Reason)+": "+e.Text)
	}
}

func (r *removals) remover() execute.Remover {
	return execute.Remover{
		Client: r, Events: r, Metrics: metric.New(prometheus.NewRegistry()),
		PodsToMove: func(_ context.Context, node string) int {
			r.did = append(r.did, "count pods on "+node)
			return 2
		},
		Removed: func(claim, node, reason string) { r.did = append(r.did, "record "+claim+" "+node+" "+reason) },
	}
}

func leavingClaim(change ...func(*karpv1.NodeClaim)) *karpv1.NodeClaim {
	c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: "c", UID: "u", ResourceVersion: "7", Labels: map[string]string{karpv1.LabelNodePool: "general", karpv1.LabelCapacityType: "spot"},
	}}
	c.Status.NodeName = "n"
	for _, f := range change {
		f(c)
	}
	return c
}

func removedNode(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// Everything that removes a claim without a check whether it may go does it like this (LC-16 to LC-18, LC-43).
func TestRemove(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	stamped := func(text string) func(*karpv1.NodeClaim) {
		return func(c *karpv1.NodeClaim) {
			c.Annotations = map[string]string{karpv1.AnnotationTerminationTimestamp: text}
		}
	}
	unregistered := func(c *karpv1.NodeClaim) { c.Status.NodeName = "" }
	forced := func(version string) string {
		return `patch c {"metadata":{"annotations":{"karpenter.sh/nodeclaim-termination-timestamp":"2026-03-01T12:00:00Z"}` + version + `}}`
	}
	gone := apierrors.NewNotFound(schema.GroupResource{}, "c")
	const text = "DisruptionTerminating: Disrupting the node, reason Expired: it is old"
	for name, tc := range map[string]struct {
		x             execute.Removal
		patch, delete error
		want          []string
		counted       float64
	}{
		"exactly what was read": {
			x:    execute.Removal{Claim: leavingClaim(), Nodes: []*corev1.Node{removedNode("n")}, Event: execute.Terminating("Expired: it is old")},
			want: []string{"count pods on n", "delete c uid=u version=7", "event on c: " + text, "event on n: " + text, "record c n gone"}, counted: 1,
		},
		"without an event":              {x: execute.Removal{Claim: leavingClaim()}, want: []string{"delete c uid=u version=7", "record c n gone"}, counted: 1},
		"a node that did not register":  {x: execute.Removal{Claim: leavingClaim(unregistered), Nodes: []*corev1.Node{removedNode("m")}}, want: []string{"count pods on m", "delete c uid=u version=7", "record c m gone"}, counted: 1},
		"without a node":                {x: execute.Removal{Claim: leavingClaim(unregistered)}, want: []string{"delete c uid=u version=7", "record c  gone"}, counted: 1},
		"whatever was written since":    {x: execute.Removal{Claim: leavingClaim(), AnyVersion: true}, want: []string{"delete c uid=u version=any", "record c n gone"}, counted: 1},
		"a deadline, then that version": {x: execute.Removal{Claim: leavingClaim(), Deadline: now}, want: []string{forced(`,"resourceVersion":"7"`), "delete c uid=u version=8", "record c n gone"}, counted: 1},
		"a deadline, whatever was written since": {
			x: execute.Removal{Claim: leavingClaim(), Deadline: now, AnyVersion: true}, want: []string{forced(""), "delete c uid=u version=any", "record c n gone"}, counted: 1,
		},
		"V15-29 a deadline of a command": {
			x: execute.Removal{Claim: leavingClaim(stamped("2027-01-01T00:00:00Z")), Deadline: now, Command: "token"},
			want: []string{
				`patch c {"metadata":{"annotations":{"` + karpv1.AnnotationHeldBy + `":"token","karpenter.sh/nodeclaim-termination-timestamp":"2026-03-01T12:00:00Z"},"resourceVersion":"7"}}`,
				"delete c uid=u version=8", "record c n gone",
			},
			counted: 1,
		},
		"V15-29 an earlier deadline is kept":    {x: execute.Removal{Claim: leavingClaim(stamped("2026-03-01T11:00:00Z")), Deadline: now, Command: "token"}, want: []string{"delete c uid=u version=7", "record c n gone"}, counted: 1},
		"FM L18 one that cannot be read is not": {x: execute.Removal{Claim: leavingClaim(stamped("soon")), Deadline: now}, want: []string{forced(`,"resourceVersion":"7"`), "delete c uid=u version=8", "record c n gone"}, counted: 1},
		"a deadline that cannot be written": {
			x: execute.Removal{Claim: leavingClaim(), Deadline: now, Event: execute.Terminating("Expired: it is old")}, patch: gone, want: []string{forced(`,"resourceVersion":"7"`)},
		},
		"gone already": {x: execute.Removal{Claim: leavingClaim(), Event: execute.Terminating("Expired: it is old")}, delete: gone, want: []string{"delete c uid=u version=7"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := &removals{patch: tc.patch, delete: tc.delete}
			r := api.remover()
			tc.x.Reason = "gone"
			before := tc.x.Claim.DeepCopy()
			err := r.Remove(t.Context(), tc.x)
			if want := errors.Join(tc.patch, tc.delete); (err == nil) != (want == nil) || want != nil && (!apierrors.IsNotFound(err) || !strings.Contains(err.Error(), "nodeclaim c")) {
				t.Errorf("error %v, want %v", err, want)
			}
			if diff := cmp.Diff(tc.want, api.did); diff != "" {
				t.Errorf("it did (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tc.x.Claim); diff != "" {
				t.Errorf("the claim that was given changed, and a cache shares it (-before +after):\n%s", diff)
			}
			if got := testutil.CollectAndCount(r.Metrics.NodeClaimsDisrupted); float64(got) != tc.counted {
				t.Errorf("%d series of claims, want %v", got, tc.counted)
			}
			labels := []string{"gone", "general", "spot", "", "graceful"}
			if got := testutil.ToFloat64(r.Metrics.NodeClaimsDisrupted.WithLabelValues(labels...)); got != tc.counted {
				t.Errorf("%v claims counted, want %v", got, tc.counted)
			}
			if got, want := testutil.ToFloat64(r.Metrics.PodsDisruptionInitiated.WithLabelValues(labels...)), tc.counted*2*float64(len(tc.x.Nodes)); got != want {
				t.Errorf("%v pods counted, want %v", got, want)
			}
		})
	}
}

// The mode is a label of the counter, for every cause of the removal. A period that cannot be read sets no deadline, so
// the drain is a graceful one.
func TestRemovalsAreCountedByTheirMode(t *testing.T) {
	t.Parallel()
	for period, mode := range map[karpv1.Duration]string{"": "graceful", "0s": "forceful", "5m": "eventual", "5 m": "graceful"} {
		r := (&removals{}).remover()
		if err := r.Remove(t.Context(), execute.Removal{Claim: leavingClaim(func(c *karpv1.NodeClaim) { c.Spec.TerminationGracePeriod = period }), Reason: "gone"}); err != nil {
			t.Fatal(err)
		}
		if got := testutil.ToFloat64(r.Metrics.NodeClaimsDisrupted.WithLabelValues("gone", "general", "spot", "", mode)); got != 1 {
			t.Errorf("period %q: %v counted as %s", period, got, mode)
		}
	}
}

// A drain that runs is only ever made shorter.
func TestAdvanceDeadline(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]bool{"": true, "soon": true, "2026-03-01T12:00:01Z": true, "2026-03-01T12:00:00Z": false} {
		api := &removals{}
		claim := leavingClaim(func(c *karpv1.NodeClaim) {
			c.Annotations = map[string]string{karpv1.AnnotationTerminationTimestamp: text}
		})
		if written, err := api.remover().AdvanceDeadline(t.Context(), claim, now); written != want || err != nil || (len(api.did) == 1) != want {
			t.Errorf("%q: written %t, error %v, %q", text, written, err, api.did)
		}
	}
}
