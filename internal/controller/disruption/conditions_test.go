package disruption_test

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/controller/controllertest"
	"github.com/dovetail-sh/dovetail/internal/controller/disruption"
	"github.com/dovetail-sh/dovetail/internal/controller/lookup"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

// driftless is a cloud with given drift, which counts requests for instance types.
type driftless struct {
	says  reason.Code
	fails error
	lists int
}

func (d *driftless) Drift(context.Context, *karpv1.NodeClaim) (reason.Reason, error) {
	return reason.Reason{Code: d.says}, d.fails
}

func (d *driftless) Types(context.Context, *karpv1.NodePool) ([]catalog.InstanceType, error) {
	d.lists++
	return nil, errors.New("not now")
}

// unheard drops what it gets.
type unheard struct{ *controllertest.Transcript }

func (unheard) Flips(client.Object, []condition.Flip) {}

// markedClaim is one that runs and has been quiet for hours.
func markedClaim(now time.Time, age time.Duration) *karpv1.NodeClaim {
	since := metav1.NewTime(now.Add(-age))
	c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "c", CreationTimestamp: since, Labels: map[string]string{karpv1.LabelNodePool: "p"}}}
	c.Spec.NodeClassRef = karpv1.NodeClassReference{Group: awsv1.Group, Kind: awsv1.Kind, Name: "default"}
	for _, kind := range []string{karpv1.ConditionLaunched, karpv1.ConditionRegistered, karpv1.ConditionInitialized} {
		c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: kind, LastTransitionTime: since})
	}
	return c
}

func TestMarks(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		change         func(claim *karpv1.NodeClaim, pool *karpv1.NodePool, cloud *driftless)
		drifted        string
		consolidatable bool
		lists          int
		age            time.Duration
	}{
		"LC-55 quiet for long enough": {age: 30 * time.Minute, consolidatable: true},
		"LC-57 the cloud says so": {
			age: 30 * time.Minute, consolidatable: true, drifted: "AMIDrift",
			change: func(_ *karpv1.NodeClaim, _ *karpv1.NodePool, cloud *driftless) { cloud.says = "AMIDrift" },
		},
		"LC-57 the pool comes first": {
			age: 30 * time.Minute, consolidatable: true, drifted: "RequirementsDrifted",
			change: func(_ *karpv1.NodeClaim, pool *karpv1.NodePool, cloud *driftless) {
				cloud.says = "AMIDrift"
				pool.Spec.Template.Spec.Requirements = []karpv1.Requirement{{Key: karpv1.LabelCapacityType, Operator: "In", Values: []string{"spot"}}}
			},
		},
		"LC-57 only what was launched": {
			age: 30 * time.Minute,
			change: func(claim *karpv1.NodeClaim, _ *karpv1.NodePool, cloud *driftless) {
				cloud.says, claim.Status.Conditions = "AMIDrift", nil
			},
		},
		"LC-57 the catalogue is read from an hour on, and a failure is no drift (FM E10)": {age: 2 * time.Hour, consolidatable: true, lists: 1},
		"FM E13 what cannot be found out stays as it was": {
			age: 30 * time.Minute, consolidatable: true, drifted: "AMIDrift",
			change: func(claim *karpv1.NodeClaim, _ *karpv1.NodePool, cloud *driftless) {
				cloud.fails = errors.New("throttled")
				claim.Status.Conditions = append(claim.Status.Conditions, metav1.Condition{Type: karpv1.ConditionDrifted, Status: metav1.ConditionTrue, Reason: "AMIDrift"})
			},
		},
		"LC-58 a claim without a pool": {
			age: 30 * time.Minute,
			change: func(claim *karpv1.NodeClaim, _ *karpv1.NodePool, cloud *driftless) {
				cloud.says, claim.Labels = "AMIDrift", nil
			},
		},
		"LC-58 a claim whose pool is gone": {
			age: 30 * time.Minute,
			change: func(claim *karpv1.NodeClaim, _ *karpv1.NodePool, cloud *driftless) {
				cloud.says, claim.Labels = "AMIDrift", map[string]string{karpv1.LabelNodePool: "other"}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			claim, pool, cloud := markedClaim(now, tc.age), controllertest.ReadyPool("p"), &driftless{}
			if tc.change != nil {
				tc.change(claim, pool, cloud)
			}
			scheme := runtime.NewScheme()
			if err := karpv1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(claim, pool).WithStatusSubresource(claim).Build()
			r := &disruption.Conditions{
				Client: c, Cloud: cloud, Events: unheard{&controllertest.Transcript{}}, Words: awsv1.Vocabulary(), Now: func() time.Time { return now },
				Classes: []lookup.ClassKind{{GroupKind: schema.GroupKind{Group: awsv1.Group, Kind: awsv1.Kind}}},
			}
			if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(claim)}); err != nil {
				t.Fatal(err)
			}
			got := &karpv1.NodeClaim{}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(claim), got); err != nil {
				t.Fatal(err)
			}
			drifted := ""
			if found := condition.Find(got.Status.Conditions, karpv1.ConditionDrifted); found != nil && found.Status == metav1.ConditionTrue {
				drifted = found.Reason
			}
			if quiet := condition.True(got.Status.Conditions, karpv1.ConditionConsolidatable); drifted != tc.drifted || quiet != tc.consolidatable || cloud.lists != tc.lists {
				t.Errorf("drifted %q, consolidatable %v, %d listings, want %q, %v, %d", drifted, quiet, cloud.lists, tc.drifted, tc.consolidatable, tc.lists)
			}
		})
	}
}
