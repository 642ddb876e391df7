package nodes_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/controller/nodes"
	"github.com/dovetail-sh/dovetail/internal/drain"
	"github.com/dovetail-sh/dovetail/internal/event"
)

// impossible is a budget for the pods of endPod that can never allow an eviction.
func impossible() *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromInt32(0)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	}
}

// drainNotes keeps what is written to the journal.
type drainNotes struct{ waits [][]drain.Wait }

func (d *drainNotes) Draining(_, _ string, waits []drain.Wait, _ time.Time) {
	d.waits = append(d.waits, waits)
}

// G13, FM K01: a node whose drain a budget holds for ever says so everywhere: event, condition, metric and
// journal; and it stops saying so when it is over.
func TestG13_ADrainThatCannotEndSaysWhy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, interceptor.Funcs{}, endNodeObject(), endClaimObject(), endPod("p"), impossible())
	notes := &drainNotes{}
	w.nodes.Drains = &nodes.Drains{Metrics: w.metrics, Journal: notes, Now: func() time.Time { return w.clock }}
	w.delete(endNodeObject())
	w.pass() // the claim follows
	w.pass()
	written := ""
	for range 400 {
		w.clock = w.clock.Add(time.Second)
		w.pass()
		claim := &karpv1.NodeClaim{}
		w.has("c", claim)
		written = claim.ResourceVersion
	}
	const want = "PodDisruptionBudget default/web can never allow an eviction: maxUnavailable is 0 (default/p)"
	claim := &karpv1.NodeClaim{}
	w.has("c", claim)
	if c := condition.Find(claim.Status.Conditions, karpv1.ConditionDrained); c == nil || !strings.Contains(c.Message, want) {
		t.Errorf("condition %+v, want %q", c, want)
	}
	for _, on := range []string{"n", "c"} {
		if text := w.emitted.Text(on, event.DrainBlocked); !strings.Contains(text, want) {
			t.Errorf("event on %s: %q", on, text)
		}
	}
	w.clock = w.clock.Add(time.Second)
	w.pass()
	if w.has("c", claim); claim.ResourceVersion != written {
		t.Error("the claim is written although nothing changed")
	}
	w.nodes.Drains.Count()
	labels := []string{"default", string(drain.ImpossibleBudget)}
	if n := testutil.ToFloat64(w.metrics.NodesDrainBlocked.WithLabelValues(labels...)); n != 1 {
		t.Errorf("%v nodes wait", n)
	}
	if s := testutil.ToFloat64(w.metrics.NodesDrainBlockedTime.WithLabelValues(labels...)); s < 400 {
		t.Errorf("for %v s", s)
	}
	w.delete(endPod("p"))
	w.clock = w.clock.Add(time.Second)
	w.pass()
	w.nodes.Drains.Count()
	if n := testutil.CollectAndCount(w.metrics.NodesDrainBlocked); n != 0 {
		t.Errorf("%d series are left behind (FM N03)", n)
	}
	if last := notes.waits[len(notes.waits)-1]; len(last) != 0 {
		t.Errorf("the journal still has %+v", last)
	}
}

// A node that another client deletes leaves no series behind.
func TestDrainsForget(t *testing.T) {
	t.Parallel()
	w := newWorld(t, interceptor.Funcs{}, endNodeObject(), endClaimObject(), endPod("p", func(p *corev1.Pod) {
		p.Annotations = map[string]string{karpv1.AnnotationDoNotDisrupt: "true"}
	}))
	w.nodes.Drains = &nodes.Drains{Metrics: w.metrics, Now: func() time.Time { return w.clock }}
	w.delete(endNodeObject())
	w.pass()
	w.pass()
	w.clock = w.clock.Add(20 * time.Second)
	w.pass()
	w.nodes.Drains.Count()
	if n := testutil.CollectAndCount(w.metrics.NodesDrainBlocked); n != 1 {
		t.Fatalf("%d series", n)
	}
	w.clock = w.clock.Add(2 * time.Minute)
	w.nodes.Drains.Count()
	if n := testutil.CollectAndCount(w.metrics.NodesDrainBlocked); n != 0 {
		t.Errorf("%d series are left behind", n)
	}
}

// The owner of a budget that can never allow an eviction gets an event on the budget, if it holds a node of ours.
func TestImpossibleBudgets(t *testing.T) {
	t.Parallel()
	elsewhere := func(p *corev1.Pod) { p.Spec.NodeName = "other" }
	ended := func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }
	possible := impossible()
	possible.Spec.MaxUnavailable = new(intstr.FromInt32(1))
	for name, tc := range map[string]struct {
		budget *policyv1.PodDisruptionBudget
		pod    *corev1.Pod
		want   string
	}{
		"it holds a pod":                   {impossible(), endPod("p"), "can never allow an eviction: maxUnavailable is 0. It holds 1 pod(s)"},
		"it wants all there are":           {full(), endPod("p"), "The budget cannot allow an eviction while it has 1 replica: it wants 1 healthy. It holds 1 pod(s)"},
		"on a node of another owner":       {impossible(), endPod("p", elsewhere), ""},
		"a pod that has ended":             {impossible(), endPod("p", ended), ""},
		"a budget that can allow it":       {possible, endPod("p"), ""},
		"a pod that it does not select":    {impossible(), endPod("p", func(p *corev1.Pod) { p.Labels = nil }), ""},
		"a pod that waits for a node":      {impossible(), endPod("p", func(p *corev1.Pod) { p.Spec.NodeName = "" }), ""},
		"a pod of the name, elsewhere too": {impossible(), endPod("p", func(p *corev1.Pod) { p.Namespace = "kube-system" }), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			other := endNodeObject(func(n *corev1.Node) { n.Name, n.Labels = "other", nil })
			w := newWorld(t, interceptor.Funcs{}, endNodeObject(), other, tc.pod, tc.budget)
			r := &nodes.ImpossibleBudgets{Client: w.client, Events: w.emitted, Metrics: w.metrics}
			if err := r.Pass(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := w.emitted.Text("web", event.EvictionImpossible); tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
				t.Errorf("reported %q, want %q", got, tc.want)
			}
		})
	}
}
