package drain_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/drain"
)

// overBudget is what the API server says to an eviction that a PodDisruptionBudget forbids.
func overBudget() error {
	return withCause(apierrors.NewTooManyRequests("no", 0), policyv1.DisruptionBudgetCause, "needs 2")
}

// work decides about a pod in the queue as often as it says, records the response to each request, and writes down when it did
// what, until the queue is empty or a time is over.
func work(q *drain.EvictionQueue, id cluster.PodID, pod *corev1.Pod, node *corev1.Node, until time.Duration, respond func() error) (done []string) {
	for at := time.Duration(0); at <= until; {
		step := q.Next(id, pod, node, after(at))
		line, wait := fmt.Sprint(at, " waits"), step.After
		switch step.Act {
		case drain.Evict, drain.Delete:
			line = fmt.Sprint(at, " evicts")
			if step.Act == drain.Delete {
				line = fmt.Sprint(at, " deletes with ", step.Grace)
			}
			err := respond()
			out := q.Record(id, step.Act, err, after(at))
			if wait = out.After; out.Failed {
				line += ", failed"
			}
		case drain.Drop:
			line = fmt.Sprint(at, " drops")
		case drain.Hold:
		}
		if done = append(done, line); wait == 0 {
			break
		}
		at += wait
	}
	return done
}

// LC-34, LC-35, LC-36, G12: what the queue does about one pod, and when.
func TestLC34_EvictionQueue(t *testing.T) {
	t.Parallel()
	pods := schema.GroupResource{Resource: "pods"}
	stays := node(func(n *corev1.Node) { n.DeletionTimestamp = nil })
	rebooting := node(func(n *corev1.Node) {
		n.DeletionTimestamp, n.Spec.Taints = nil, []corev1.Taint{karpv1.RebootingTaint()}
	})
	for name, tc := range map[string]struct {
		pod   *corev1.Pod
		node  *corev1.Node
		limit drain.Limit
		err   error
		until time.Duration
		want  []string
		left  int
	}{
		"accepted: the cache is waited for": {pod: pod("web"), node: node(), until: 10 * time.Second, want: []string{"0s evicts", "10s evicts"}, left: 1},
		"a budget refuses": {pod: pod("web"), node: node(), err: overBudget(), until: 25 * time.Second, want: []string{
			"0s evicts", "100ms evicts", "300ms evicts", "700ms evicts", "1.5s evicts", "3.1s evicts", "6.3s evicts", "12.7s evicts", "22.7s evicts",
		}, left: 1},
		"FM L10 an error": {
			pod: pod("web"), node: node(), err: apierrors.NewInternalError(errors.New("etcd")), until: 500 * time.Millisecond,
			want: []string{"0s evicts, failed", "100ms evicts, failed", "300ms evicts, failed"}, left: 1,
		},
		"it is gone":                         {node: node(), want: []string{"0s drops"}},
		"FM L11 another pod has its name":    {pod: pod("web", func(p *corev1.Pod) { p.UID = "new" }), node: node(), want: []string{"0s drops"}},
		"the API server knows another":       {pod: pod("web"), node: node(), err: apierrors.NewConflict(pods, "web", errors.New("uid")), want: []string{"0s evicts"}},
		"its node is gone":                   {pod: pod("web"), want: []string{"0s drops"}},
		"its node stays":                     {pod: pod("web"), node: stays, want: []string{"0s drops"}},
		"it ends":                            {pod: pod("web", endsAt(time.Minute)), node: node(), want: []string{"0s drops"}},
		"LC-33 it is protected":              {pod: pod("web", protected("true")), node: node(), until: 500 * time.Millisecond, want: []string{"0s waits", "100ms waits", "300ms waits"}, left: 1},
		"LC-36 the deadline has come":        {pod: pod("web", protected("true")), node: node(), limit: drain.Limit{At: after(20 * time.Second)}, want: []string{"0s deletes with 20s"}, left: 1},
		"LC-36 the deletion is refused":      {pod: pod("web"), node: node(), limit: drain.Limit{At: after(20 * time.Second)}, err: overBudget(), want: []string{"0s deletes with 20s, failed"}, left: 1},
		"LC-36 the deadline comes meanwhile": {pod: pod("web"), node: node(), limit: drain.Limit{At: after(35 * time.Second)}, until: 10 * time.Second, want: []string{"0s evicts", "10s deletes with 25s"}, left: 1},
		"V15-37 the timeout of a reboot": {
			pod: pod("web"), node: rebooting, limit: drain.Limit{At: after(time.Second), Stay: true}, err: overBudget(), until: time.Minute,
			want: []string{"0s evicts", "100ms evicts", "300ms evicts", "700ms evicts", "1.5s drops"},
		},
		"V15-63 a reboot that is over": {pod: pod("web"), node: stays, limit: drain.Limit{Stay: true}, want: []string{"0s drops"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var q drain.EvictionQueue
			id := cluster.PodIDOf(pod("web"))
			if wake := q.Add(start, drain.Eviction{Pod: id, Node: "n", Limit: tc.limit}); len(wake) != 1 || wake[0] != id {
				t.Errorf("wakes %v", wake)
			}
			got := work(&q, id, tc.pod, tc.node, tc.until, func() error { return tc.err })
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if q.Len() != tc.left || len(q.Pods()) != tc.left {
				t.Errorf("%d left, want %d", q.Len(), tc.left)
			}
		})
	}
}

// LC-34: a pod that is requested again keeps its back-off, unless the limit is tighter or due.
func TestLC34_RequestedAgain(t *testing.T) {
	t.Parallel()
	id, soon := cluster.PodIDOf(pod("web")), drain.Limit{At: after(time.Minute)}
	for name, tc := range map[string]struct {
		first, again drain.Eviction
		wakes        bool
		limit        drain.Limit
		reason       string
	}{
		"the same":                   {first: drain.Eviction{Reason: "Drifted"}, again: drain.Eviction{Reason: "Expired"}, reason: "Expired"},
		"a deadline":                 {again: drain.Eviction{Limit: soon}, wakes: true, limit: soon},
		"a later deadline":           {first: drain.Eviction{Limit: soon}, again: drain.Eviction{Limit: drain.Limit{At: after(time.Hour)}}, limit: soon},
		"the deadline has come":      {first: drain.Eviction{Limit: soon}, again: drain.Eviction{Limit: soon, Due: true}, wakes: true, limit: soon},
		"a reboot becomes a removal": {first: drain.Eviction{Reason: "Unhealthy", Limit: drain.Limit{Stay: true}}, again: drain.Eviction{Reason: "Drifted"}, wakes: true, reason: "Drifted"},
		"a removal stays one":        {first: drain.Eviction{Reason: "Drifted"}, again: drain.Eviction{Reason: "Unhealthy", Limit: drain.Limit{At: after(0), Stay: true}}, reason: "Unhealthy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var q drain.EvictionQueue
			tc.first.Pod, tc.again.Pod = id, id
			q.Add(start, tc.first)
			wake := q.Add(start, tc.again)
			e, found := q.Eviction(id)
			if !found || (len(wake) > 0) != tc.wakes || e.Limit != tc.limit || e.Reason != tc.reason {
				t.Errorf("wakes %v, %+v; want %+v", wake, e, tc)
			}
		})
	}
}

// What explanations of a drain say rests on: since when a pod has been refused, and by what.
func TestProgressOfEvictions(t *testing.T) {
	t.Parallel()
	var q drain.EvictionQueue
	web, other := pod("web"), pod("other")
	id := cluster.PodIDOf(web)
	q.Add(start, drain.Eviction{Pod: id, Node: "n"})
	check := func(want drain.Try) {
		t.Helper()
		if diff := cmp.Diff(map[types.UID]drain.Try{"web": want}, q.Tries([]*corev1.Pod{web, other})); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	check(drain.Try{Since: start})
	for _, at := range []time.Duration{time.Second, 2 * time.Second} {
		q.Record(id, q.Next(id, web, node(), after(at)).Act, overBudget(), after(at))
		check(drain.Try{Since: after(time.Second), Response: "no (needs 2)", Budget: true})
	}
	q.Record(id, drain.Evict, errors.New("no response"), after(3*time.Second))
	check(drain.Try{Since: after(3 * time.Second), Response: "no response"})
	q.Next(id, pod("web", protected("true")), node(), after(4*time.Second))
	check(drain.Try{Since: after(4 * time.Second)})
	q.Record(id, drain.Evict, nil, after(5*time.Second))
	check(drain.Try{Since: after(5 * time.Second)})
	if out := q.Record(cluster.PodIDOf(other), drain.Evict, overBudget(), start); out.After != 0 {
		t.Errorf("a pod that is not in the queue is decided about again: %+v", out)
	}
}
