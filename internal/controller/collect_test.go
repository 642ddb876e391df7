package controller_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/controller"
)

// listing is a cloud that only lists.
type listing func() ([]cloud.Instance, error)

func (l listing) List(context.Context) ([]cloud.Instance, error) { return l() }

func TestCollector(t *testing.T) {
	t.Parallel()
	sick := joinedNode()
	sick.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	for name, tc := range map[string]struct {
		node        *corev1.Node
		instances   []cloud.Instance
		err         error
		wantDeleted bool
	}{
		"LC-38 the instance was ended outside": {node: sick, wantDeleted: true},
		"LC-38 the node is alive":              {node: joinedNode()},
		"LC-38 the instance is alive":          {node: sick, instances: []cloud.Instance{{ID: claimInstance}}},
		"G3 a list that fails":                 {node: sick, err: errors.New("throttled")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newClaimWorld(t, readyClaim(), tc.node)
			r := &controller.Collector{
				Client: w.api, Metrics: w.metrics, Classes: claimKinds(),
				Provider: listing(func() ([]cloud.Instance, error) { return tc.instances, tc.err }),
			}
			result, err := r.Reconcile(t.Context(), ctrl.Request{})
			if (err != nil) != (tc.err != nil) || err == nil && result.RequeueAfter != 2*time.Minute {
				t.Errorf("error %v, next round after %s", err, result.RequeueAfter)
			}
			if deleted := w.claim(t).DeletionTimestamp != nil; deleted != tc.wantDeleted {
				t.Errorf("deleted %t, want %t", deleted, tc.wantDeleted)
			}
			counted := testutil.ToFloat64(w.metrics.NodeClaimsDisrupted.WithLabelValues("garbage_collected", "p", "", "", "graceful"))
			if (counted == 1) != tc.wantDeleted {
				t.Errorf("counted %v", counted)
			}
		})
	}
}

// A claim that is written while the instances are listed is none that could be missing from the list.
func TestCollectorListsClaimsFirst(t *testing.T) {
	t.Parallel()
	w := newClaimWorld(t)
	r := &controller.Collector{
		Client: w.api, Metrics: w.metrics, Classes: claimKinds(),
		Provider: listing(func() ([]cloud.Instance, error) { return nil, w.api.Create(t.Context(), readyClaim()) }),
	}
	if _, err := r.Reconcile(t.Context(), ctrl.Request{}); err != nil {
		t.Fatal(err)
	}
	if w.claim(t).DeletionTimestamp != nil {
		t.Error("LC-38: the claim of a moment ago was collected")
	}
}
