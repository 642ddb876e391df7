package nodeclass_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/discover"
	"github.com/dovetail-sh/dovetail/internal/aws/kubelet"
	"github.com/dovetail-sh/dovetail/internal/aws/nodeclass"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/event"
)

// around is everything that a reconciler talks to.
type around struct {
	failSubnets bool
	fallback    bool
	verdict     nodeclass.Verdict
	validated   int
	removed     error
	gone        []string
	events      []string
	now         time.Time
	minor       int
}

func (a *around) Subnets(context.Context, *awsv1.EC2NodeClass) ([]discover.Subnet, error) {
	if a.failSubnets {
		return nil, errOutage
	}
	return []discover.Subnet{{ID: "subnet-1", Zone: "eu-west-1a"}}, nil
}

func (a *around) SecurityGroups(_ context.Context, _ *awsv1.EC2NodeClass, fallback bool) ([]awsv1.SecurityGroup, error) {
	a.fallback = fallback
	return []awsv1.SecurityGroup{{ID: "sg-1"}}, nil
}

func (a *around) Images(context.Context, *awsv1.EC2NodeClass, string) ([]awsv1.AMI, error) {
	return []awsv1.AMI{{ID: "ami-1"}}, nil
}

func (a *around) Reservations(context.Context, *awsv1.EC2NodeClass) ([]discover.Reservation, error) {
	return nil, nil
}

func (a *around) PlacementGroup(context.Context, *awsv1.EC2NodeClass) (*discover.PlacementGroup, error) {
	return nil, nil
}

func (a *around) Ensure(_ context.Context, class *awsv1.EC2NodeClass) (string, error) {
	if !slices.Contains(class.Finalizers, awsv1.FinalizerTermination) {
		return "", errors.New("a profile is made for a class that can vanish")
	}
	return "demo_1", nil
}

func (a *around) Remove(_ context.Context, class *awsv1.EC2NodeClass) error {
	a.gone = append(a.gone, "profiles of "+class.Name)
	return a.removed
}

func (a *around) Validate(context.Context, *awsv1.EC2NodeClass) (reason, message string, retry bool, err error) {
	a.validated++
	return a.verdict.Reason, a.verdict.Message, a.verdict.Retry, a.verdict.Err
}

func (a *around) DeleteTemplates(_ context.Context, class *awsv1.EC2NodeClass) error {
	a.gone = append(a.gone, "templates of "+class.Name)
	return nil
}

func (a *around) Facts() awsv1.Facts {
	return awsv1.Facts{ClusterName: "demo", KubernetesMinor: a.minor}
}

func (a *around) Version() (minor int, text string) { return a.minor, "1.34" }

func (a *around) ServiceCIDR(context.Context) (string, error) { return "10.100.0.0/16", nil }

func (a *around) CABundle() string { return "ca" }

func (a *around) Emit(_ client.Object, events ...event.Event) {
	for _, e := range events {
		a.events = append(a.events, string(e.Reason))
	}
}

func (a *around) Flips(_ client.Object, flips []condition.Flip) {
	for _, f := range flips {
		a.events = append(a.events, f.Type+"="+string(f.To))
	}
}

func newReconciler(t *testing.T, objects ...client.Object) (*nodeclass.Classes, *around, client.Client) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{awsv1.AddToScheme, karpv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	kube := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&awsv1.EC2NodeClass{}, &karpv1.NodeClaim{}).Build()
	a := &around{now: start.Time, minor: 34}
	return &nodeclass.Classes{
		Client: kube, Resolve: a, Profiles: a, Launch: a, Cluster: a, Events: a, Now: func() time.Time { return a.now },
		Machines:  func(*awsv1.EC2NodeClass) ([]kubelet.Machine, error) { return nil, nil },
		DropClass: func(uid types.UID) { a.gone = append(a.gone, "memory of "+string(uid)) },
	}, a, kube
}

func stored() *awsv1.EC2NodeClass {
	class := good().Class.DeepCopy()
	class.Finalizers = nil
	return class
}

func reconcile(t *testing.T, r interface {
	Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error)
},
) (ctrl.Result, error) {
	t.Helper()
	return r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "default"}})
}

func read(t *testing.T, kube client.Client) *awsv1.EC2NodeClass {
	t.Helper()
	class := &awsv1.EC2NodeClass{}
	if err := kube.Get(t.Context(), client.ObjectKey{Name: "default"}, class); err != nil {
		t.Fatal(err)
	}
	return class
}

func TestReconcileMakesAClassReady(t *testing.T) {
	t.Parallel()
	r, a, kube := newReconciler(t, stored())
	result, err := reconcile(t, r)
	if err != nil || result.RequeueAfter != time.Minute {
		t.Fatalf("result %v, %v", result, err)
	}
	class := read(t, kube)
	if !condition.True(class.Status.Conditions, "Ready") || class.Status.InstanceProfile != "demo_1" || len(class.Finalizers) != 1 {
		t.Errorf("class %+v", class)
	}
	if !slices.Contains(a.events, "Ready=True") || a.fallback {
		t.Errorf("events %v, fallback %v", a.events, a.fallback)
	}

	// Unchanged: nothing is written or reported.
	a.events = nil
	if _, err := reconcile(t, r); err != nil || len(a.events) > 0 || read(t, kube).ResourceVersion != class.ResourceVersion {
		t.Errorf("a second pass changed something: %v, %v", err, a.events)
	}
}

// L-08: only absent terms fall back.
func TestL_08_AbsentTermsFallBack(t *testing.T) {
	t.Parallel()
	class := stored()
	class.Spec.SecurityGroupSelectorTerms = nil
	r, a, _ := newReconciler(t, class)
	if _, err := reconcile(t, r); err != nil || !a.fallback {
		t.Errorf("fallback %v, %v", a.fallback, err)
	}
	if !slices.Contains(a.events, "DefaultAssumed") {
		t.Errorf("events %v", a.events)
	}
}

// EC2NodeClass 18: verdicts stand for 30 minutes; a touched annotation triggers another, our own hash does not.
func TestVerdictsAreKept(t *testing.T) {
	t.Parallel()
	r, a, kube := newReconciler(t, stored())
	annotate := func(key string) {
		t.Helper()
		class := read(t, kube)
		before := class.DeepCopy()
		if class.Annotations == nil {
			class.Annotations = map[string]string{}
		}
		class.Annotations[key] = "1"
		if err := kube.Patch(t.Context(), class, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	pass := func(want int) {
		t.Helper()
		if _, err := reconcile(t, r); err != nil && a.verdict.Err == nil {
			t.Fatal(err)
		}
		if a.validated != want {
			t.Fatalf("%d dry runs, want %d", a.validated, want)
		}
	}
	a.verdict = nodeclass.Verdict{Reason: "CreateFleetAuthCheckFailed"}
	pass(1)
	pass(1)
	annotate(awsv1.AnnotationNodeClassHash)
	pass(1)
	annotate(awsv1.AnnotationNodeClassFields)
	pass(1)
	annotate("touched")
	pass(2)
	a.now = a.now.Add(30 * time.Minute)
	a.verdict = nodeclass.Verdict{Err: errOutage} // E17: the old verdict stays on the object, and it is tried again
	pass(3)
	pass(4)
	if got := condition.Find(read(t, kube).Status.Conditions, "ValidationSucceeded"); got.Reason != "CreateFleetAuthCheckFailed" {
		t.Errorf("condition %+v", got)
	}
	a.verdict = nodeclass.Verdict{Reason: "InstanceProfileNotFound", Retry: true}
	pass(5)
	pass(6)
	a.verdict = nodeclass.Verdict{}
	pass(7)
	pass(7)
}

func TestReconcileWritesWhatItKnowsDespiteErrors(t *testing.T) {
	t.Parallel()
	r, a, kube := newReconciler(t, stored())
	a.failSubnets = true
	if _, err := reconcile(t, r); !errors.Is(err, errOutage) || !strings.Contains(err.Error(), "EC2NodeClass default") {
		t.Fatal(err)
	}
	if class := read(t, kube); !condition.True(class.Status.Conditions, "AMIsReady") || condition.True(class.Status.Conditions, "Ready") {
		t.Errorf("conditions %+v", class.Status.Conditions)
	}
}

func TestFM_A08_ReconcileDeletion(t *testing.T) {
	t.Parallel()
	class := stored()
	class.Finalizers, class.DeletionTimestamp = []string{awsv1.FinalizerTermination, "example.com/other"}, &start
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: karpv1.NodeClaimSpec{NodeClassRef: karpv1.NodeClassReference{Group: awsv1.Group, Kind: awsv1.Kind, Name: "default"}}}
	r, a, kube := newReconciler(t, class, claim)
	result, err := reconcile(t, r)
	if err != nil || result.RequeueAfter != 10*time.Minute || !slices.Equal(a.events, []string{"WaitingOnNodeClaimTermination"}) || len(a.gone) > 0 {
		t.Fatalf("result %v, %v, events %v, gone %v", result, err, a.events, a.gone)
	}
	if err := kube.Delete(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	a.removed = errOutage
	if _, err := reconcile(t, r); !errors.Is(err, errOutage) || len(read(t, kube).Finalizers) != 2 {
		t.Fatalf("the finalizer went although the profiles did not: %v", err)
	}
	a.removed, a.gone = nil, nil
	if _, err := reconcile(t, r); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"profiles of default", "templates of default", "memory of u1"}, a.gone); diff != "" {
		t.Errorf("cleaned up (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"example.com/other"}, read(t, kube).Finalizers); diff != "" {
		t.Errorf("finalizers (-want +got):\n%s", diff)
	}
}

func TestFM_K22_ReconcileHash(t *testing.T) {
	t.Parallel()
	class := stored()
	class.Annotations = map[string]string{awsv1.AnnotationNodeClassHash: "9", awsv1.AnnotationNodeClassHashVersion: "v6", "mine": "1"}
	claim := &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{awsv1.AnnotationNodeClassHash: "9", awsv1.AnnotationNodeClassHashVersion: "v6"}},
		Spec:       karpv1.NodeClaimSpec{NodeClassRef: karpv1.NodeClassReference{Group: awsv1.Group, Kind: awsv1.Kind, Name: "default"}},
	}
	_, a, kube := newReconciler(t, class, claim)
	hashes := &nodeclass.Hashes{Client: kube, Cluster: a}
	a.minor = 0
	if result, err := reconcile(t, hashes); err != nil || result.RequeueAfter != 5*time.Second || read(t, kube).Annotations[awsv1.AnnotationNodeClassHash] != "9" {
		t.Fatalf("stamped without a version: %v, %v", result, err)
	}
	a.minor = 34
	if result, err := reconcile(t, hashes); err != nil || result.RequeueAfter != 5*time.Minute {
		t.Fatal(result, err)
	}
	got := &karpv1.NodeClaim{}
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(claim), got); err != nil {
		t.Fatal(err)
	}
	after := read(t, kube)
	hash := after.Annotations[awsv1.AnnotationNodeClassHash]
	want := map[string]string{awsv1.AnnotationNodeClassHash: hash, awsv1.AnnotationNodeClassHashVersion: "dovetail-2", awsv1.AnnotationNodeClassFields: after.Annotations[awsv1.AnnotationNodeClassFields]}
	if diff := cmp.Diff(want, got.Annotations); diff != "" || hash == "9" {
		t.Errorf("hash %s, claim (-want +got):\n%s", hash, diff)
	}
	if after.Annotations["mine"] != "1" || nodeclass.Drift(after, got, nodeclass.Instance{}, nodeclass.Wanted{}).Code != "" {
		t.Errorf("class %v", after.Annotations)
	}
}
