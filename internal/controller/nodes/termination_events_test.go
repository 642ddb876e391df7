package nodes_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/controller/nodes"
	"github.com/dovetail-sh/dovetail/internal/drain"
	"github.com/dovetail-sh/dovetail/internal/event"
)

// watchDrains lets the world keep what drains wait for.
func (w *world) watchDrains() *drainNotes {
	notes := &drainNotes{}
	w.nodes.Drains = &nodes.Drains{Metrics: w.metrics, Journal: notes, Now: func() time.Time { return w.clock }}
	w.claims.Drains = w.nodes.Drains
	return notes
}

// wait lets time pass, a second at a time; errors of passes are what the test is about.
func (w *world) wait(d time.Duration, also ...func()) {
	w.t.Helper()
	for end := w.clock.Add(d); w.clock.Before(end); {
		w.clock = w.clock.Add(time.Second)
		_, _ = w.endClaim()
		_, _ = w.endNode()
		for _, f := range also {
			f()
		}
	}
}

// said checks that one cause is reported everywhere: in a condition, in events, in the metric and the journal.
func (w *world) said(notes *drainNotes, kind, cause, want string, on ...string) {
	w.t.Helper()
	claim := &karpv1.NodeClaim{}
	w.has("c", claim)
	if c := condition.Find(claim.Status.Conditions, kind); c == nil || c.Status != metav1.ConditionUnknown || !strings.Contains(c.Message, want) {
		w.t.Errorf("condition %s is %+v, want %q", kind, c, want)
	}
	for _, name := range on {
		if text := w.emitted.Text(name, event.DrainBlocked); !strings.Contains(text, want) {
			w.t.Errorf("event on %s: %q, want %q", name, text, want)
		}
	}
	w.nodes.Drains.Count()
	if n := testutil.ToFloat64(w.metrics.NodesDrainBlocked.WithLabelValues("default", cause)); n != 1 {
		w.t.Errorf("%v nodes wait for %s", n, cause)
	}
	if len(notes.waits) == 0 {
		w.t.Fatal("the journal has nothing")
	}
	if last := notes.waits[len(notes.waits)-1]; len(last) != 1 || string(last[0].Cause) != cause || !strings.Contains(last[0].Text(), want) {
		w.t.Errorf("the journal has %+v", last)
	}
}

// G13: an eviction that a webhook, the rights of the controller or anything but a budget stands in the way
// of is reported like one that a budget holds.
func TestG13_ARefusedEvictionSaysWhy(t *testing.T) {
	t.Parallel()
	pods := schema.GroupResource{Resource: "pods"}
	hook := &apierrors.StatusError{ErrStatus: metav1.Status{Code: 400, Message: `admission webhook "no.evictions.example.com" denied the request: not on Fridays`}}
	for name, tc := range map[string]struct {
		response error
		want     string
	}{
		"a webhook":      {hook, `the API server refuses to evict pods: admission webhook "no.evictions.example.com" denied the request: not on Fridays (default/web)`},
		"no permission":  {apierrors.NewForbidden(pods, "web", errors.New(`User "dovetail" cannot create resource "pods/eviction" in API group ""`)), "give the controller the verb create on pods/eviction"},
		"something else": {apierrors.NewInternalError(errors.New("etcd is ill")), "the API server refuses to evict pods: Internal error occurred: etcd is ill (default/web)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := &evictionAPI{err: tc.response}
			w := newWorld(t, api.funcs(), endNodeObject(), endClaimObject(), endPod("web"))
			notes := w.watchDrains()
			w.delete(endNodeObject())
			try := func() { _, _ = w.queue.Reconcile(t.Context(), webID) }
			w.wait(400*time.Second, try)
			w.said(notes, karpv1.ConditionDrained, "eviction_refused", tc.want, "n", "c")
			api.err = nil
			w.wait(11*time.Second, try)
			w.nodes.Drains.Count()
			if n := testutil.CollectAndCount(w.metrics.NodesDrainBlocked); n != 0 {
				t.Errorf("%d series are left after the API server gave in", n)
			}
		})
	}
}

// The queue knows since when the API server says no, and what; a pod that it lets go, or that another client
// protects meanwhile, begins anew.
func TestTheQueueKnowsHowFarItIs(t *testing.T) {
	t.Parallel()
	busy := apierrors.NewTooManyRequests("later", 1)
	api := &evictionAPI{}
	w := newWorld(t, api.funcs(), endNodeObject(), endPod("web"))
	w.delete(endNodeObject())
	began := w.clock
	w.queue.Add(drain.Eviction{Pod: webID, Node: "n"})
	protect := func(value string) {
		p := endPod("web")
		if value != "" {
			p.Annotations = map[string]string{karpv1.AnnotationDoNotDisrupt: value}
		}
		if err := w.client.Update(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	for i, step := range []struct {
		response  error
		protected string
		want      drain.Try
	}{
		{response: busy, want: drain.Try{Since: began.Add(time.Minute), Response: "later"}},
		{response: apierrors.NewInternalError(errors.New("etcd")), want: drain.Try{Since: began.Add(time.Minute), Response: "Internal error occurred: etcd"}},
		{response: tooMany(), want: drain.Try{Since: began.Add(3 * time.Minute), Response: "no (The disruption budget web needs 2 healthy pods and has 2 currently)", Budget: true}},
		{response: tooMany(), protected: "true", want: drain.Try{Since: began.Add(4 * time.Minute)}},
		{response: errors.New("no route to host"), want: drain.Try{Since: began.Add(5 * time.Minute), Response: "no route to host"}},
		{want: drain.Try{Since: began.Add(6 * time.Minute)}},
	} {
		w.clock = w.clock.Add(time.Minute)
		api.err = step.response
		protect(step.protected)
		_, _ = w.queue.Reconcile(t.Context(), webID)
		if diff := cmp.Diff(map[types.UID]drain.Try{"uid-web": step.want}, w.queue.Tries([]*corev1.Pod{endPod("web"), endPod("other")})); diff != "" {
			t.Errorf("step %d (-want +got):\n%s", i, diff)
		}
	}
}

// G13, FM E19: an instance that cannot be ended is reported on the objects, and not before a call had time to
// work when it is repeated.
func TestG13_AnInstanceThatStaysSaysWhy(t *testing.T) {
	t.Parallel()
	node, claim := endNodeObject(), endClaimObject()
	unjoined := endClaimObject(func(c *karpv1.NodeClaim) { c.Status.Conditions = nil })
	for name, tc := range map[string]struct {
		objects []client.Object
		err     error
		reason  string
		want    string
		on      []string
	}{
		"not permitted": {
			[]client.Object{node, claim},
			&cloud.Error{Kind: cloud.Denied, Op: "terminate instance i-1", Message: "UnauthorizedOperation"},
			"Unauthorized", "the cloud does not terminate the instance: terminate instance i-1: UnauthorizedOperation (" + instanceID + "); give the controller",
			[]string{"n", "c"},
		},
		"out of reach": {
			[]client.Object{node, claim},
			errors.New("dial tcp: no route to host"),
			"TerminationFailed", "the cloud does not terminate the instance: dial tcp: no route to host",
			[]string{"n", "c"},
		},
		"the zone is shifted away, the provider says so": {
			[]client.Object{node, claim},
			&cloud.Error{Reason: "ZoneShifted", Message: "i-1 stays for now: zone a is shifted away"},
			"ZoneShifted", "zone a is shifted away",
			[]string{"n", "c"},
		},
		"of a claim without a Node": {
			[]client.Object{unjoined},
			&cloud.Error{Kind: cloud.Denied, Message: "UnauthorizedOperation"},
			"Unauthorized", "the cloud does not terminate the instance: UnauthorizedOperation",
			[]string{"c"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var objects []client.Object
			for _, o := range tc.objects {
				objects = append(objects, o.DeepCopyObject().(client.Object))
			}
			w := newWorld(t, interceptor.Funcs{}, objects...)
			notes := w.watchDrains()
			w.delete(objects[0])
			w.cloud.err = tc.err
			w.wait(10 * time.Second)
			if got := w.mark(karpv1.ConditionInstanceTerminating); got != "absent" {
				t.Errorf("after a moment the condition is %s", got)
			}
			w.wait(330 * time.Second)
			if got := w.mark(karpv1.ConditionInstanceTerminating); got != "Unknown/"+tc.reason {
				t.Errorf("the condition is %s", got)
			}
			w.said(notes, karpv1.ConditionInstanceTerminating, "instance", tc.want, tc.on...)
			if n := gaps(notes); n != 0 {
				t.Errorf("the journal is told %d times meanwhile that nothing is waited for", n)
			}
			w.cloud.err = nil
			w.wait(10 * time.Second)
			if got := w.mark(karpv1.ConditionInstanceTerminating); got != "True/InstanceTerminating" {
				t.Errorf("the condition is %s once the cloud agrees", got)
			}
			w.nodes.Drains.Count()
			if n := testutil.CollectAndCount(w.metrics.NodesDrainBlocked); n != 0 {
				t.Errorf("%d series are left after the cloud gave in", n)
			}
		})
	}
}

// gaps counts how often the journal recorded that nothing is waited for.
func gaps(notes *drainNotes) (empty int) {
	for _, waits := range notes.waits {
		if len(waits) == 0 {
			empty++
		}
	}
	return empty
}
