package aws

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/classhash"
	"github.com/dovetail-sh/dovetail/internal/aws/inventory"
	"github.com/dovetail-sh/dovetail/internal/aws/launch"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

func quantity(s string) resource.Quantity { return resource.MustParse(s) }

func TestLaunchReturnsAllThatIsKnown(t *testing.T) {
	t.Parallel()
	class := newClass()
	w := newWorld(t, class)
	got, err := w.provider.Launch(t.Context(), newClaim("a", start))
	if err != nil {
		t.Fatal(err)
	}
	hash, err := classhash.Of(class, w.Facts(), w.CABundle())
	if err != nil {
		t.Fatal(err)
	}
	want := cloud.Instance{
		ID: "aws:///eu-west-1a/i-new", Type: "m5.large", Zone: "eu-west-1a", CapacityType: "spot", Image: "ami-1", Launched: start, Pool: "default",
		Labels: map[string]string{
			corev1.LabelInstanceTypeStable: "m5.large", corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux",
			corev1.LabelTopologyZone: "eu-west-1a", awsv1.LabelZoneID: "euw1-az1", karpv1.LabelCapacityType: "spot",
			awsv1.LabelInstanceTenancy: "default", karpv1.LabelNodePool: "default", awsv1.LabelNodeClass: "default",
		},
		Annotations: map[string]string{
			awsv1.AnnotationNodeClassHash: hash.Sum, awsv1.AnnotationNodeClassHashVersion: classhash.Version, awsv1.AnnotationNodeClassFields: hash.Fields, awsv1.AnnotationInstanceProfileName: "nodes-profile",
		},
		Capacity:    corev1.ResourceList{corev1.ResourceCPU: quantity("2"), corev1.ResourceMemory: quantity("8Gi")},
		Allocatable: corev1.ResourceList{corev1.ResourceCPU: quantity("1900m"), corev1.ResourceMemory: quantity("7Gi")},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if w.lists != 0 {
		t.Error("a claim that is younger than the process was looked up")
	}
}

// A launch chooses among types as NodeOverlays make them, and the claim has what they add: otherwise the next plan would
// launch another node for the same pod.
func TestOV_22_LaunchesSeeNodeOverlays(t *testing.T) {
	t.Parallel()
	const device = "example.com/device"
	w := newWorld(t, newClass())
	larger := w.provider.lanes.Extend(device)
	lane, _ := larger.Lane(device)
	w.provider.overlaid = func(_ context.Context, _ *karpv1.NodeClaim, types []catalog.InstanceType) ([]catalog.InstanceType, resources.Table, error) {
		types = slices.Clone(types)
		for i := range types {
			types[i].Capacity = resources.With(types[i].Capacity, lane, 3)
		}
		return types, larger, nil
	}
	got, err := w.provider.Launch(t.Context(), newClaim("a", start))
	if err != nil {
		t.Fatal(err)
	}
	if n := got.Capacity[device]; n.Value() != 3 {
		t.Errorf("capacity %v", got.Capacity)
	}
	w.provider.overlaid = func(context.Context, *karpv1.NodeClaim, []catalog.InstanceType) ([]catalog.InstanceType, resources.Table, error) {
		return nil, resources.Table{}, cloud.ErrUnevaluated
	}
	if _, err := w.provider.Launch(t.Context(), newClaim("b", start)); !errors.Is(err, cloud.ErrUnevaluated) || cloud.Is(err, cloud.NoCapacity) || w.launches != 1 {
		t.Errorf("error %v, %d launches; a launch has to wait for the evaluation", err, w.launches)
	}
}

func TestReservedMachinesCarryTheirReservation(t *testing.T) {
	t.Parallel()
	got := machineLabels(new(instanceType("m5.large")), machine{Type: "m5.large", Zone: "eu-west-1a", CapacityType: "reserved", Reservation: "cr-1", Interruptible: true, PlacementGroup: "pg-1", Partition: "2"})
	want := map[string]string{
		corev1.LabelInstanceTypeStable: "m5.large", corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux", corev1.LabelTopologyZone: "eu-west-1a",
		awsv1.LabelZoneID: "euw1-az1", karpv1.LabelCapacityType: "reserved", awsv1.LabelCapacityReservationID: "cr-1", awsv1.LabelCapacityReservationType: "default",
		awsv1.LabelCapacityReservationInterrupt: "true", awsv1.LabelPlacementGroupID: "pg-1", awsv1.LabelPlacementGroupPartition: "2",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// LC-04: what is wrong with the class decides over the fate of the claim.
func TestLC04_ClassesThatCannotBeLaunchedWith(t *testing.T) {
	t.Parallel()
	status := func(s metav1.ConditionStatus, generation int64) func(*awsv1.EC2NodeClass) {
		return func(c *awsv1.EC2NodeClass) {
			c.Status.Conditions = []metav1.Condition{{Type: karpv1.ConditionReady, Status: s, ObservedGeneration: generation, Message: "why"}}
		}
	}
	for name, tc := range map[string]struct {
		class   *awsv1.EC2NodeClass
		ref     *karpv1.NodeClassReference
		kind    cloud.Kind
		reason  string
		emitted []string
	}{
		"it does not exist": {kind: cloud.NoCapacity, reason: "NodeClassNotFound", emitted: []string{"NodeClassNotFound a"}},
		"it is being deleted": {class: newClass(func(c *awsv1.EC2NodeClass) {
			c.DeletionTimestamp, c.Finalizers = &metav1.Time{Time: start}, []string{"x"}
		}), kind: cloud.NoCapacity, reason: "NodeClassNotFound", emitted: []string{"NodeClassNotFound a"}},
		"it is of another cloud":    {class: newClass(), ref: &karpv1.NodeClassReference{Group: "other", Kind: "Odd", Name: "default"}, kind: cloud.NoCapacity},
		"it is not ready":           {class: newClass(status(metav1.ConditionFalse, 3)), kind: cloud.NotReady},
		"its status lags its spec":  {class: newClass(status(metav1.ConditionTrue, 2)), kind: cloud.NotReady},
		"nothing is known about it": {class: newClass(func(c *awsv1.EC2NodeClass) { c.Status.Conditions = nil }), reason: "NodeClassReadinessUnknown"},
		"it is being found out":     {class: newClass(status(metav1.ConditionUnknown, 3)), reason: "NodeClassReadinessUnknown"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if tc.class != nil {
				w = newWorld(t, tc.class)
			}
			claim := newClaim("a", start)
			if tc.ref != nil {
				claim.Spec.NodeClassRef = *tc.ref
			}
			_, err := w.provider.Launch(t.Context(), claim)
			failure, ok := errors.AsType[*cloud.Error](err)
			if !ok || failure.Kind != tc.kind || failure.Reason != tc.reason || w.launches != 0 {
				t.Errorf("error %#v, %d launches", err, w.launches)
			}
			if diff := cmp.Diff(tc.emitted, w.emitted); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLaunchWaitsForInstanceTypes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newClass())
	w.typeError = &cloud.Error{Kind: cloud.NotReady, Message: "no subnets"}
	_, err := w.provider.Launch(t.Context(), newClaim("a", start))
	failure, ok := errors.AsType[*cloud.Error](err)
	if !ok || failure.Kind != cloud.Unknown || failure.Reason != "InstanceTypeResolutionFailed" {
		t.Errorf("%#v", err)
	}
}

// A01: the process died after CreateFleet returned. The next one finds what was paid for.
func TestFM_A01_AnEarlierLaunchIsFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newClass(), newClaim("other", start.Add(-time.Hour), withInstance("i-taken")))
	w.instances["i-taken"] = newInstance("i-taken", start.Add(-time.Minute))
	w.instances["i-mine"] = newInstance("i-mine", start.Add(-time.Minute))
	old := start.Add(-2 * time.Minute)
	got, err := w.provider.Launch(t.Context(), newClaim("first", old))
	if err != nil || got.ID != "aws:///eu-west-1a/i-mine" || w.launches != 0 || got.Labels[awsv1.LabelZoneID] != "euw1-az1" {
		t.Fatalf("%v, %v, %d launches", got.ID, err, w.launches)
	}
	w.now = w.now.Add(time.Second)
	got, err = w.provider.Launch(t.Context(), newClaim("second", old))
	if err != nil || got.ID != "aws:///eu-west-1a/i-new" || w.launches != 1 {
		t.Errorf("an orphan was given away twice: %v, %v", got.ID, err)
	}
	if w.lists != 1 {
		t.Errorf("%d lists", w.lists)
	}
	got, err = w.provider.Launch(t.Context(), newClaim("first", old))
	if err != nil || got.ID != "aws:///eu-west-1a/i-mine" {
		t.Errorf("called again, the claim got another instance: %v, %v", got.ID, err)
	}
}

// An instance that was found is no news to the count of its reservation, but that the claim has it is.
func TestFM_F08_AFoundInstanceIsCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newClass())
	w.instances["i-mine"] = newInstance("i-mine", start.Add(-time.Minute), func(i *inventory.Instance) { i.CapacityType, i.Reservation = "reserved", "cr-1" })
	claim := newClaim("first", start.Add(-2*time.Minute), func(c *karpv1.NodeClaim) { c.Spec.Requirements[1].Values = []string{"reserved"} })
	if got, err := w.provider.Launch(t.Context(), claim); err != nil || got.ID != "aws:///eu-west-1a/i-mine" {
		t.Fatalf("%v, %v", got.ID, err)
	}
	if !slices.Equal(w.held, []string{"cr-1 uid-first"}) {
		t.Errorf("reported %v", w.held)
	}
}

// G1: a claim took over the instance of another. The token of that other still stands for it.
func TestFM_G1_TwoClaimsNeverShareAnInstance(t *testing.T) {
	t.Parallel()
	for name, owner := range map[string]func(*world){
		"assigned to another":           func(w *world) { w.ledger.Assign("uid-other", "i-new") },
		"written down by another claim": func(w *world) { _ = w.kube.Create(t.Context(), newClaim("other", start, withInstance("i-new"))) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, newClass())
			owner(w)
			got, err := w.provider.Launch(t.Context(), newClaim("a", start))
			if err != nil || got.ID != "aws:///eu-west-1a/i-another" || w.launches != 2 {
				t.Errorf("%v, %v, %d launches", got.ID, err, w.launches)
			}
		})
	}
}

// A01: without a list nothing is launched, since an instance may be there.
func TestFM_A01_NothingIsBoughtBlindly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newClass())
	w.listError = &cloud.Error{Kind: cloud.Throttled}
	if _, err := w.provider.Launch(t.Context(), newClaim("a", start.Add(-time.Minute))); !cloud.Is(err, cloud.Throttled) || w.launches != 0 {
		t.Errorf("%v, %d launches", err, w.launches)
	}
}

// A01: the token was used before, with another request.
func TestFM_A01_AParameterMismatchLeadsToALookup(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newClass())
	w.sellError = &cloud.Error{Op: "create fleet", Err: launch.ErrTokenUsed}
	if _, err := w.provider.Launch(t.Context(), newClaim("a", start)); err == nil {
		t.Error("no instance, no error")
	}
	w.now = w.now.Add(time.Minute)
	w.instances["i-mine"] = newInstance("i-mine", start)
	got, err := w.provider.Launch(t.Context(), newClaim("a", start))
	if err != nil || got.ID != "aws:///eu-west-1a/i-mine" {
		t.Errorf("%v, %v", got.ID, err)
	}
}

// F05: the account lacks the role for spot, whether or not the launch went well without.
func TestFM_F05_AMissingSpotRoleIsReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newClass())
	w.result.SpotRoleMissing = true
	if _, err := w.provider.Launch(t.Context(), newClaim("a", start)); err != nil {
		t.Fatal(err)
	}
	w.sellError = &cloud.Error{Kind: cloud.NoCapacity, Reason: "SpotSLRCreationFailed"}
	if _, err := w.provider.Launch(t.Context(), newClaim("b", start)); !cloud.Is(err, cloud.NoCapacity) {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"SpotServiceLinkedRoleMissing a", "SpotServiceLinkedRoleMissing b"}, w.emitted); diff != "" {
		t.Error(diff)
	}
}

// A02: the status could not be written; called again, the process returns the cached instance.
func TestFM_A02_ASecondLaunchIsTheFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newClass())
	for range 10 {
		got, err := w.provider.Launch(t.Context(), newClaim("a", start))
		if err != nil || got.ID != "aws:///eu-west-1a/i-new" {
			t.Fatalf("%v, %v", got.ID, err)
		}
	}
	if w.launches != 1 {
		t.Errorf("%d launches", w.launches)
	}
	w.findError = &cloud.Error{Kind: cloud.Throttled}
	if _, err := w.provider.Launch(t.Context(), newClaim("a", start)); err == nil || w.launches != 1 {
		t.Errorf("launched again although the first may live: %v", err)
	}
}

func TestDriftNeedsAReadyClass(t *testing.T) {
	t.Parallel()
	launched := newClaim("a", start, withInstance("i-1"))
	for name, tc := range map[string]struct {
		class *awsv1.EC2NodeClass
		claim *karpv1.NodeClaim
		want  string
	}{
		"all is there":       {newClass(), launched, "AMIDrift"},
		"not launched yet":   {newClass(), newClaim("a", start), ""},
		"class not ready":    {newClass(func(c *awsv1.EC2NodeClass) { c.Status.Conditions = nil }), launched, ""},
		"class of that name": {newClass(func(c *awsv1.EC2NodeClass) { c.Name = "other" }), launched, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, tc.class)
			if got, err := w.provider.Drift(t.Context(), tc.claim); string(got.Code) != tc.want || err != nil {
				t.Errorf("%q, %v", got, err)
			}
			if len(w.emitted) != 0 {
				t.Error("drift told users about a class")
			}
		})
	}
}

func TestForeignProviderIDsAreNotGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, id := range []cloud.ID{"", "gce://p/z/n", "kwok://x"} {
		if err := w.provider.Terminate(t.Context(), id); !cloud.Is(err, cloud.Invalid) {
			t.Errorf("%q: %v", id, err)
		}
		if _, err := w.provider.Find(t.Context(), id); !cloud.Is(err, cloud.Invalid) {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// A kubelet block on a claim, which it has from a v1beta1 pool, must not reach a node as it is: any user who may
// edit a pool could have the node run what they like.
func TestTrust_C01_KubeletBlocksOfClaimsAreCheckedBeforeTheLaunch(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ block, reason, text string }{
		"a documented block":              {block: `{"maxPods": 20, "evictionHard": {"memory.available": "5%"}}`},
		"a field that runs pods":          {`{"staticPodURL": "http://example.com/pod"}`, "InvalidKubeletConfiguration", "staticPodURL"},
		"access without a name":           {`{"authentication": {"anonymous": {"enabled": true}}}`, "InvalidKubeletConfiguration", "authentication"},
		"a field that there is not":       {`{"maxPod": 20}`, "InvalidKubeletConfiguration", "maxPod"},
		"a threshold that is none":        {`{"evictionHard": {"memory.available": "5%\"\nExecStartPre=/bin/x"}}`, "InvalidKubeletConfiguration", "evictionHard"},
		"an address that is none":         {`{"clusterDNS": ["10.0.0.10\"] | .staticPodURL=\"x\" | .y=[\""]}`, "InvalidKubeletConfiguration", "clusterDNS"},
		"what the family cannot apply":    {`{"clusterDNS": ["10.0.0.10", "10.0.0.11"]}`, "UnsupportedKubeletConfiguration", "clusterDNS"},
		"an expression without its gate":  {`{"maxPods": "vcpus * 10"}`, "KubeletExpressionsDisabled", "maxPods"},
		"something that is not an object": {`[1]`, "InvalidKubeletConfiguration", "object"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, newClass(func(c *awsv1.EC2NodeClass) { c.Spec.AMIFamily = awsv1.FamilyAL2 }))
			claim := newClaim("a", start)
			claim.Spec.Kubelet = &runtime.RawExtension{Raw: []byte(tc.block)}
			_, err := w.provider.Launch(t.Context(), claim)
			if tc.reason == "" {
				if err != nil || w.launches != 1 {
					t.Errorf("error %v, %d launches, want one", err, w.launches)
				}
				return
			}
			failure, ok := errors.AsType[*cloud.Error](err)
			if !ok || failure.Kind != cloud.Invalid || failure.Reason != tc.reason || !strings.Contains(failure.Message, tc.text) {
				t.Errorf("got %#v, want %s about %s", err, tc.reason, tc.text)
			}
			if w.launches != 0 {
				t.Error("an instance was launched")
			}
		})
	}
}

func TestTrust_C01_PoolsWithSuchABlockAreRefusedBeforeTheyOrder(t *testing.T) {
	t.Parallel()
	pool := &karpv1.NodePool{}
	if got := refusals(newClass(), pool, false); got != nil {
		t.Errorf("a pool without a block is refused: %v", got)
	}
	pool.Spec.Template.Spec.Kubelet = &runtime.RawExtension{Raw: []byte(`{"maxPods": 20}`)}
	if got := refusals(newClass(), pool, false); got != nil {
		t.Errorf("a documented block is refused: %v", got)
	}
	pool.Spec.Template.Spec.Kubelet = &runtime.RawExtension{Raw: []byte(`{"maxPods": 20, "staticPodPath": "/tmp"}`)}
	if got := refusals(newClass(), pool, false); len(got) != 1 || !strings.HasPrefix(got[0].Text(), "spec.template.spec.kubelet: staticPodPath may not be set here, only clusterDNS, maxPods") {
		t.Errorf("got %v", got)
	}
}
