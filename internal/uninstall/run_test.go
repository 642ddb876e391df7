package uninstall_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/uninstall"
)

const leader = "karpenter-7d9f_1"

func theLease() types.NamespacedName {
	return types.NamespacedName{Namespace: "kube-system", Name: "karpenter-leader-election"}
}

// scene is a cluster that is about to lose its controller.
type fixture struct {
	*testing.T
	kube    client.Client
	options uninstall.Options
	cleaned []string
	began   time.Time
}

func newFixture(t *testing.T, between interceptor.Funcs, objects ...client.Object) *fixture {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, karpv1.AddToScheme, awsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: theLease().Name, Namespace: theLease().Namespace}}
	lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: new(leader), LeaseDurationSeconds: new(int32(15)), LeaseTransitions: new(int32(3))}
	s := &fixture{T: t, began: time.Now(), kube: fake.NewClientBuilder().WithScheme(scheme).WithObjects(append(objects, lease)...).WithInterceptorFuncs(between).Build()}
	s.options = uninstall.Options{Client: s.kube, Class: kind(), Lease: theLease(), Identity: "job_uninstall", Nodes: uninstall.Keep, Now: time.Now, Clean: func(_ context.Context, class client.Object) error {
		if holder := s.holder(); holder != "job_uninstall" || time.Since(s.began) < 15*time.Second {
			t.Errorf("cleaned after %s while %s holds the lease", time.Since(s.began), holder)
		}
		s.cleaned = append(s.cleaned, class.GetName())
		return nil
	}}
	return s
}

func (s *fixture) holder() string {
	s.Helper()
	lease := &coordinationv1.Lease{}
	if err := s.kube.Get(s.Context(), theLease(), lease); err != nil {
		s.Fatal(err)
	}
	return *lease.Spec.HolderIdentity
}

func (s *fixture) finalizers(obj client.Object, name string) []string {
	s.Helper()
	if err := s.kube.Get(s.Context(), types.NamespacedName{Name: name}, obj); err != nil {
		s.Fatal(err)
	}
	return obj.GetFinalizers()
}

// LC-63, S-133: a class that no NodeClaim uses is cleaned under the lease, after the previous leader has stopped, and stays as an object.
// The lease is not given back: a replica that is still there would put the finalizer on again.
func TestLC_63_UnusedClasses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		unused, used, claim := nodeClass("unused"), nodeClass("used"), nodeClaim("a", "used")
		s := newFixture(t, interceptor.Funcs{}, &unused, &used, &claim)
		if err := uninstall.Run(t.Context(), s.options); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(s.cleaned, []string{"unused"}) {
			t.Errorf("cleaned %v", s.cleaned)
		}
		if f := s.finalizers(&awsv1.EC2NodeClass{}, "unused"); len(f) > 0 {
			t.Errorf("unused has finalizers %v", f)
		}
		if f := slices.Concat(s.finalizers(&awsv1.EC2NodeClass{}, "used"), s.finalizers(&karpv1.NodeClaim{}, "a")); len(f) != 2 {
			t.Errorf("what is in use has finalizers %v", f)
		}
		if holder := s.holder(); holder != "job_uninstall" {
			t.Errorf("the lease is held by %s", holder)
		}
	})
}

// Where nothing is to be done, the controller leads on: a job that runs by mistake does no harm.
func TestLC_63_NothingToDo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		used, claim := nodeClass("used"), nodeClaim("a", "used")
		s := newFixture(t, interceptor.Funcs{}, &used, &claim)
		if err := uninstall.Run(t.Context(), s.options); err != nil {
			t.Fatal(err)
		}
		if holder := s.holder(); holder != leader || time.Since(s.began) > 0 {
			t.Errorf("after %s the lease is held by %s", time.Since(s.began), holder)
		}
	})
}

// LC-63 (b): finalizers go from Nodes, NodeClaims and classes; instances and what they use stay.
func TestLC_63_NodesAreReleased(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		used, claim, n := nodeClass("used"), nodeClaim("a", "used"), node("node-a", "a", nil)
		s := newFixture(t, interceptor.Funcs{}, &used, &claim, &n)
		s.options.Nodes = uninstall.Release
		if err := uninstall.Run(t.Context(), s.options); err != nil {
			t.Fatal(err)
		}
		if f := slices.Concat(s.finalizers(&awsv1.EC2NodeClass{}, "used"), s.finalizers(&karpv1.NodeClaim{}, "a"), s.finalizers(&corev1.Node{}, "node-a")); len(f) > 0 || len(s.cleaned) > 0 {
			t.Errorf("finalizers %v are left, cleaned %v", f, s.cleaned)
		}
	})
}

// LC-63 (a): NodePools are deleted while the controller leads, and nothing else is done before the last node is gone.
func TestLC_63_NodesAreDeleted(t *testing.T) {
	t.Parallel()
	for name, drains := range map[string]bool{"in time": true, "not in time": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				class, claim := nodeClass("used"), nodeClaim("a", "used")
				claim.Status.Conditions = []metav1.Condition{{Type: karpv1.ConditionDrained, Status: metav1.ConditionUnknown, Message: "waits for a PodDisruptionBudget"}}
				pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "pool"}}
				pool.Spec.Template.Spec.NodeClassRef = claim.Spec.NodeClassRef
				s := newFixture(t, interceptor.Funcs{}, &class, &claim, pool)
				s.options.Nodes = uninstall.Delete
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				done := make(chan error)
				go func() { done <- uninstall.Run(ctx, s.options) }()
				time.Sleep(time.Minute)
				if err := s.kube.Get(t.Context(), client.ObjectKeyFromObject(pool), pool); !apierrors.IsNotFound(err) {
					t.Errorf("the pool: %v", err)
				}
				if s.holder() != leader || len(s.cleaned) > 0 {
					t.Errorf("%s leads, cleaned %v, before the nodes are gone", s.holder(), s.cleaned)
				}
				if drains {
					s.began = time.Now().Add(-time.Hour)
					claim.Finalizers = nil
					if err := errors.Join(s.kube.Update(t.Context(), &claim), s.kube.Delete(t.Context(), &claim)); err != nil {
						t.Fatal(err)
					}
				}
				err := <-done
				if drains && (err != nil || !slices.Equal(s.cleaned, []string{"used"})) {
					t.Errorf("%v, cleaned %v", err, s.cleaned)
				}
				if !drains && (err == nil || !strings.Contains(err.Error(), "NodeClaim a (waits for a PodDisruptionBudget)") || s.holder() != leader) {
					t.Errorf("%v, %s leads", err, s.holder())
				}
			})
		})
	}
}

// A class whose leavings cannot be deleted keeps its finalizer, the others are done, and the error names it.
func TestLC_63_AWSDenies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := nodeClass("a"), nodeClass("b")
		s := newFixture(t, interceptor.Funcs{}, &a, &b)
		s.options.Clean = func(_ context.Context, class client.Object) error {
			if class.GetName() == "a" {
				return errors.New("AccessDenied")
			}
			return nil
		}
		err := uninstall.Run(t.Context(), s.options)
		if err == nil || !strings.Contains(err.Error(), "EC2NodeClass a: AccessDenied") {
			t.Errorf("error %v", err)
		}
		if len(s.finalizers(&awsv1.EC2NodeClass{}, "a")) != 1 || len(s.finalizers(&awsv1.EC2NodeClass{}, "b")) != 0 {
			t.Error("a lost its finalizer, or b kept it")
		}
	})
}

// Others write to the same objects, and the lease is renewed at the same moment.
func TestLC_63_Conflicts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		unused := nodeClass("unused")
		var first sync.Map
		conflict := func(obj client.Object) error {
			key := obj.GetName()
			if _, again := first.LoadOrStore(key, true); again {
				return nil
			}
			return apierrors.NewConflict(schema.GroupResource{}, key, errors.New("changed"))
		}
		s := newFixture(t, interceptor.Funcs{
			Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
				if err := conflict(obj); err != nil {
					return err
				}
				return c.Update(ctx, obj, opts...)
			},
			Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
				if err := conflict(obj); err != nil {
					return err
				}
				return c.Patch(ctx, obj, patch, opts...)
			},
		}, &unused)
		if err := uninstall.Run(t.Context(), s.options); err != nil {
			t.Fatal(err)
		}
		if f := s.finalizers(&awsv1.EC2NodeClass{}, "unused"); len(f) > 0 {
			t.Errorf("finalizers %v", f)
		}
	})
}

// The CRDs were deleted first: nothing is left to clean up, and nothing hangs.
func TestLC_63_NoCRDs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t, interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: awsv1.Group, Kind: awsv1.Kind}}
		}})
		if err := uninstall.Run(t.Context(), s.options); err != nil {
			t.Error(err)
		}
	})
}
