package claims_test

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/controller/claims"
	"github.com/dovetail-sh/dovetail/internal/controller/controllertest"
	"github.com/dovetail-sh/dovetail/internal/controller/write"
	"github.com/dovetail-sh/dovetail/internal/event"
)

// listing is a cloud that lists some instances and knows others.
type listing struct {
	list func() ([]cloud.Instance, error)
	find func() (cloud.Instance, error) // nil: nothing
}

func (l listing) List(context.Context) ([]cloud.Instance, error) { return l.list() }

func (l listing) Find(_ context.Context, id cloud.ID) (cloud.Instance, error) {
	if l.find == nil {
		return cloud.Instance{}, &cloud.Error{Kind: cloud.NotFound, Op: "find instance " + string(id)}
	}
	return l.find()
}

func TestCollector(t *testing.T) {
	t.Parallel()
	unhealthy := joinedNode()
	unhealthy.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	for name, tc := range map[string]struct {
		node        *corev1.Node
		instances   []cloud.Instance
		err         error
		find        func() (cloud.Instance, error)
		age         time.Duration // since the launch; 0: an hour
		wantDeleted bool
		wantAfter   time.Duration // 0: the usual
	}{
		"LC-38 the instance was ended outside": {node: unhealthy, wantDeleted: true},
		"LC-38 the node is alive":              {node: joinedNode()},
		"LC-38 the instance is alive":          {node: unhealthy, instances: []cloud.Instance{{ID: claimInstance}}},
		"FM E01 the instance is not shown yet": {node: unhealthy, age: 15 * time.Second, wantAfter: time.Minute},
		"FM E01 it ought to be shown by now":   {node: unhealthy, age: 75 * time.Second, wantDeleted: true},
		"G3 a list that fails":                 {node: unhealthy, err: errors.New("throttled")},
		"Trust A09 its tag was removed":        {node: unhealthy, find: func() (cloud.Instance, error) { return cloud.Instance{ID: claimInstance}, nil }},
		"Trust A09 it is on its way out":       {node: unhealthy, find: func() (cloud.Instance, error) { return cloud.Instance{ID: claimInstance, Terminating: true}, nil }, wantDeleted: true},
		"Trust A09 G3 it is not known":         {node: unhealthy, find: func() (cloud.Instance, error) { return cloud.Instance{}, &cloud.Error{Kind: cloud.Throttled} }, wantAfter: 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newClaimWorld(t, readyClaim(), tc.node.DeepCopy()) // a world writes what it is given
			launched := condition.Find(w.claim(t).Status.Conditions, karpv1.ConditionLaunched).LastTransitionTime
			said := &controllertest.Recorder{}
			r := &claims.Collector{
				Client: w.api, Remover: write.NewRemover(w.api, said, w.metrics, nil), Classes: claimKinds(),
				Provider: listing{list: func() ([]cloud.Instance, error) { return tc.instances, tc.err }, find: tc.find},
				Now:      func() time.Time { return launched.Add(cmp.Or(tc.age, time.Hour)) },
			}
			result, err := r.Reconcile(t.Context(), ctrl.Request{})
			if (err != nil) != (tc.err != nil) || err == nil && result.RequeueAfter != cmp.Or(tc.wantAfter, 2*time.Minute) {
				t.Errorf("error %v, next round after %s", err, result.RequeueAfter)
			}
			if deleted := w.claim(t).DeletionTimestamp != nil; deleted != tc.wantDeleted {
				t.Errorf("deleted %t, want %t", deleted, tc.wantDeleted)
			}
			counted := testutil.ToFloat64(w.metrics.NodeClaimsDisrupted.WithLabelValues("garbage_collected", "p", "", "", "graceful"))
			if (counted == 1) != tc.wantDeleted {
				t.Errorf("counted %v", counted)
			}
			if text := said.Text("c", event.DisruptionTerminating); strings.Contains(text, "reason GarbageCollected: instance") != tc.wantDeleted {
				t.Errorf("the claim says %q", text)
			}
		})
	}
}

// An instance without its tags is missing in the list and still exists: its node may be out of
// touch for a moment and is not to be removed for that. Once EC2 does not know the id any more, it is.
func TestTrust_A09_AStrippedTagDoesNotCostANode(t *testing.T) {
	t.Parallel()
	unhealthy := joinedNode()
	unhealthy.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	w := newClaimWorld(t, readyClaim(), unhealthy)
	alive := true
	r := &claims.Collector{
		Client: w.api, Remover: write.NewRemover(w.api, &controllertest.Recorder{}, w.metrics, nil), Classes: claimKinds(), Now: func() time.Time { return time.Now().Add(time.Hour) },
		Provider: listing{
			list: func() ([]cloud.Instance, error) { return nil, nil },
			find: func() (cloud.Instance, error) {
				if alive {
					return cloud.Instance{ID: claimInstance}, nil
				}
				return cloud.Instance{}, &cloud.Error{Kind: cloud.NotFound}
			},
		},
	}
	for _, want := range []bool{false, true} {
		if _, err := r.Reconcile(t.Context(), ctrl.Request{}); err != nil {
			t.Fatal(err)
		}
		if deleted := w.claim(t).DeletionTimestamp != nil; deleted != want {
			t.Fatalf("instance alive: %t, claim deleted: %t", alive, deleted)
		}
		alive = false
	}
}

// A claim that is written while the instances are listed is none that could be missing from the list.
func TestCollectorListsClaimsFirst(t *testing.T) {
	t.Parallel()
	w := newClaimWorld(t)
	r := &claims.Collector{
		Client: w.api, Remover: write.NewRemover(w.api, &controllertest.Recorder{}, w.metrics, nil), Classes: claimKinds(),
		Provider: listing{list: func() ([]cloud.Instance, error) { return nil, w.api.Create(t.Context(), readyClaim()) }}, Now: time.Now,
	}
	if _, err := r.Reconcile(t.Context(), ctrl.Request{}); err != nil {
		t.Fatal(err)
	}
	if w.claim(t).DeletionTimestamp != nil {
		t.Error("LC-38: the claim of a moment ago was collected")
	}
}
