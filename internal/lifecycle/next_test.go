package lifecycle_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
)

var created = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const id = "aws:///a/i-1"

func after(d time.Duration) time.Time { return created.Add(d) }

// fresh is a claim that has its finalizer and nothing else.
func fresh() *karpv1.NodeClaim {
	c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: "c", UID: "u", Generation: 1, CreationTimestamp: metav1.NewTime(created),
		Finalizers: []string{karpv1.FinalizerTermination},
		Labels:     map[string]string{karpv1.LabelNodePool: "p", "team": "shop"},
	}}
	c.Spec.NodeClassRef = karpv1.NodeClassReference{Group: "g", Kind: "K", Name: "class"}
	c.Spec.Taints = []corev1.Taint{{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}}
	c.Spec.StartupTaints = []corev1.Taint{{Key: "cni", Effect: corev1.TaintEffectNoExecute}}
	c.Spec.Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("1"), "x.io/gpu": resource.MustParse("1"), "none": resource.MustParse("0")}
	return c
}

// with sets conditions as they would be after some time.
func with(c *karpv1.NodeClaim, at time.Time, changes ...condition.Change) *karpv1.NodeClaim {
	object := condition.Object{Generation: c.Generation, Created: c.CreationTimestamp}
	c.Status.Conditions = lifecycle.Conditions().Apply(c.Status.Conditions, object, metav1.NewTime(at), changes...)
	return c
}

func yes(name string) condition.Change {
	return condition.Change{Type: name, Status: metav1.ConditionTrue}
}

func launched() *karpv1.NodeClaim {
	c := with(fresh(), after(time.Second), yes(karpv1.ConditionLaunched))
	c.Status.ProviderID = id
	return c
}

func registered() *karpv1.NodeClaim {
	return with(launched(), after(time.Minute), yes(karpv1.ConditionRegistered))
}

// joined is a node as the kubelet makes it.
func joined(name string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Spec.ProviderID = id
	n.Spec.Taints = []corev1.Taint{karpv1.UnregisteredTaint()}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	n.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("2"), "x.io/gpu": resource.MustParse("1")}
	return n
}

// usable is a node that nothing keeps from running pods.
func usable() *corev1.Node {
	n := joined("n")
	n.Spec.Taints = []corev1.Taint{{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}}
	n.Labels = map[string]string{karpv1.LabelRegistered: "true"}
	return n
}

func state(c *karpv1.NodeClaim, name string) string {
	found := condition.Find(c.Status.Conditions, name)
	if found == nil {
		return "absent"
	}
	return string(found.Status) + "/" + found.Reason
}

func messages(step lifecycle.Step) []string {
	var out []string
	for _, n := range step.News {
		out = append(out, n.Message)
	}
	return out
}

func TestFinalizerComesFirst(t *testing.T) {
	t.Parallel()
	c := fresh()
	c.Finalizers = []string{"other"}
	step := lifecycle.Next(lifecycle.Facts{Claim: c, Now: created})
	if step.Launch || !step.DecideAgain || !slices.Equal(step.Claim.Finalizers, []string{"other", karpv1.FinalizerTermination}) {
		t.Errorf("LC-01: step %+v, want the finalizer alone", step)
	}
	step = lifecycle.Next(lifecycle.Facts{Claim: fresh(), Now: created})
	if !step.Launch {
		t.Errorf("LC-02: with the finalizer, step %+v, want a launch", step)
	}
}

func TestDeletedClaimsAreNotTouched(t *testing.T) {
	t.Parallel()
	c := fresh()
	c.DeletionTimestamp = new(metav1.NewTime(created))
	step := lifecycle.Next(lifecycle.Facts{Claim: c, Now: after(time.Hour)})
	if step.Launch || step.Remove != nil || !cmp.Equal(step.Claim, c) {
		t.Errorf("section 15, case 5: step %+v, want nothing", step)
	}
}

func TestLaunchSucceeds(t *testing.T) {
	t.Parallel()
	c := fresh()
	c.Labels[corev1.LabelTopologyZone] = "b"
	c.Annotations = map[string]string{"x": "old", "keep": "y"}
	instance := cloud.Instance{
		ID: id, Type: "m5.large", Zone: "a", CapacityType: "spot", Image: "ami-1",
		Labels:      map[string]string{"team": "cloud", "arch": "amd64"},
		Annotations: map[string]string{"x": "new"},
		Capacity:    corev1.ResourceList{"cpu": resource.MustParse("2")},
		Allocatable: corev1.ResourceList{"cpu": resource.MustParse("1900m")},
	}
	step := lifecycle.Next(lifecycle.Facts{Claim: c, Launch: &lifecycle.Outcome{Instance: instance}, Now: after(time.Second)})
	got := step.Claim
	wantLabels := map[string]string{
		karpv1.LabelNodePool: "p", "team": "shop", "arch": "amd64",
		corev1.LabelInstanceTypeStable: "m5.large", corev1.LabelTopologyZone: "a", karpv1.LabelCapacityType: "spot",
	}
	if diff := cmp.Diff(wantLabels, got.Labels); diff != "" {
		t.Errorf("LC-03, FM A18: the claim's own labels win unless they lie about the instance (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"x": "new", "keep": "y"}, got.Annotations); diff != "" {
		t.Errorf("LC-03: annotations of the cloud win (-want +got):\n%s", diff)
	}
	if got.Status.ProviderID != id || got.Status.ImageID != "ami-1" || len(got.Status.Capacity) != 1 || len(got.Status.Allocatable) != 1 {
		t.Errorf("LC-03: status %+v", got.Status)
	}
	want := map[string]string{
		karpv1.ConditionLaunched: "True/Launched", karpv1.ConditionRegistered: "Unknown/NodeNotFound",
		karpv1.ConditionInitialized: "Unknown/AwaitingReconciliation", karpv1.ConditionReady: "Unknown/ReconcilingDependents",
	}
	for name, wanted := range want {
		if have := state(got, name); have != wanted {
			t.Errorf("%s is %s, want %s", name, have, wanted)
		}
	}
	if diff := cmp.Diff([]string{"launched nodeclaim"}, messages(step)); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	if c.Labels["arch"] != "" || c.Status.ProviderID != "" {
		t.Error("the facts were changed")
	}
}

func TestLaunchFails(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 2000)
	for name, tc := range map[string]struct {
		err         error
		wantRemoved string
		wantEvent   event.Reason
		wantPods    bool
		wantState   string
		wantMessage string
	}{
		"LC-04 no capacity": {
			err:         &cloud.Error{Kind: cloud.NoCapacity, Message: "nothing left"},
			wantRemoved: "insufficient_capacity", wantEvent: event.InsufficientCapacityError, wantPods: true,
		},
		"LC-04, FM A16 the node class is not ready": {
			err:         &cloud.Error{Kind: cloud.NotReady, Message: "no subnets"},
			wantRemoved: "nodeclass_not_ready", wantEvent: event.NodeClassNotReady,
		},
		"LC-04 the cloud gives a reason": {
			err:       &cloud.Error{Kind: cloud.Denied, Op: "create fleet", Reason: "Unauthorized", Message: "allow ec2:CreateFleet"},
			wantState: "Unknown/Unauthorized", wantMessage: "allow ec2:CreateFleet", wantEvent: event.LaunchFailed, wantPods: true,
		},
		"Trust B05 a request that can never succeed": {
			err:       &cloud.Error{Kind: cloud.Invalid, Op: "create fleet", Message: "user data is too long"},
			wantState: "Unknown/LaunchFailed", wantMessage: "create fleet: user data is too long", wantEvent: event.LaunchFailed, wantPods: true,
		},
		"Trust B05 a throttle is no news for users": {
			err:       &cloud.Error{Kind: cloud.Throttled, Op: "create fleet", Reason: "RequestLimitExceeded", Message: "slow down"},
			wantState: "Unknown/RequestLimitExceeded", wantMessage: "slow down",
		},
		"LC-04 anything else": {
			err:       errors.New("boom"),
			wantState: "Unknown/LaunchFailed", wantMessage: "boom",
		},
		"V15-62 texts are cut": {
			err:       errors.New(long),
			wantState: "Unknown/LaunchFailed", wantMessage: strings.Repeat("é", 1021) + "...",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			step := lifecycle.Next(lifecycle.Facts{Claim: fresh(), Launch: &lifecycle.Outcome{Err: tc.err, Wait: 2 * time.Second}, Now: after(time.Minute)})
			if !slices.Equal(messages(step), []string{"failed launching nodeclaim"}) {
				t.Errorf("log %v", messages(step))
			}
			if emitted := len(step.Events) == 1 && step.Events[0].Reason == tc.wantEvent; emitted != (tc.wantEvent != "") || (len(step.PodEvents) > 0) != tc.wantPods {
				t.Errorf("events %v, on pods %v (V15-61)", step.Events, step.PodEvents)
			}
			if tc.wantRemoved != "" {
				if step.Remove == nil || step.Remove.Reason != tc.wantRemoved || step.Remove.Failure != nil {
					t.Fatalf("removal %+v, want %s, which is no failure to register", step.Remove, tc.wantRemoved)
				}
				return
			}
			c := condition.Find(step.Claim.Status.Conditions, karpv1.ConditionLaunched)
			if have := state(step.Claim, karpv1.ConditionLaunched); have != tc.wantState || c.Message != tc.wantMessage {
				t.Errorf("Launched is %s %q, want %s %q", have, c.Message, tc.wantState, tc.wantMessage)
			}
			if step.Remove != nil || step.After != 2*time.Second {
				t.Errorf("step %+v, want another try after the wait", step)
			}
		})
	}
}

// An error that is kept is neither news nor a reason to try before its time (G12).
func TestKnownFailureIsNotReportedAgain(t *testing.T) {
	t.Parallel()
	outcome := &lifecycle.Outcome{Err: errors.New("boom"), Wait: 10 * time.Minute, Reported: true}
	step := lifecycle.Next(lifecycle.Facts{Claim: fresh(), Launch: outcome, Tried: after(0), Now: after(4 * time.Minute)})
	if len(step.News) > 0 || step.Launch {
		t.Errorf("step %+v, want neither a launch nor news", step)
	}
	if step.After != time.Minute {
		t.Errorf("FM A09: requeues after %s, want when the launch timeout is due", step.After)
	}
}

func TestAPaidInstanceIsNotBoughtAgain(t *testing.T) {
	t.Parallel()
	c := fresh()
	c.Status.ProviderID = id
	step := lifecycle.Next(lifecycle.Facts{Claim: c, Now: after(time.Minute)})
	if step.Launch || state(step.Claim, karpv1.ConditionLaunched) != "True/Launched" {
		t.Errorf("FM C14: step %+v, want the instance to be taken as launched", step)
	}
}

func TestTimeouts(t *testing.T) {
	t.Parallel()
	multiple := with(launched(), after(10*time.Minute), condition.Change{Type: karpv1.ConditionRegistered, Status: metav1.ConditionFalse, Reason: "MultipleNodesFound"})
	late := with(fresh(), after(30*time.Minute), yes(karpv1.ConditionLaunched))
	late.Status.ProviderID = id
	denied := &lifecycle.Outcome{Err: &cloud.Error{Reason: "Unauthorized", Message: "m"}, Wait: time.Minute}
	for name, tc := range map[string]struct {
		claim       *karpv1.NodeClaim
		nodes       []*corev1.Node
		launch      *lifecycle.Outcome
		tried       time.Time
		launching   bool
		now         time.Time
		wantLaunch  bool
		wantRemoved string
		wantFailure lifecycle.Failure
		wantAfter   time.Duration
	}{
		"LC-13 five minutes without an instance": {
			claim: fresh(), launch: denied, tried: after(0), now: after(5 * time.Minute),
			wantRemoved: "launch_timeout", wantFailure: lifecycle.Failure{Reason: "Unauthorized", Message: "m"},
		},
		"LC-13 one that is due is not launched first": {
			claim: fresh(), tried: after(0), now: after(6 * time.Minute),
			wantRemoved: "launch_timeout", wantFailure: lifecycle.Failure{Reason: "AwaitingReconciliation"},
		},
		"LC-13 a second before":                             {claim: fresh(), launch: denied, tried: after(0), now: after(5*time.Minute - time.Second), wantAfter: time.Second},
		"Trust A08 one that waited for its turn is tried":   {claim: fresh(), now: after(time.Hour), wantLaunch: true},
		"Trust A08 and gets all of its time then":           {claim: fresh(), launch: denied, tried: after(time.Hour), now: after(time.Hour + 4*time.Minute), wantAfter: time.Minute},
		"Trust A08 the cloud is being called":               {claim: fresh(), launching: true, tried: after(0), now: after(time.Hour)},
		"Trust C07 a clock that is ahead of the API server": {claim: fresh(), launch: denied, tried: after(20 * time.Minute), now: after(20*time.Minute + time.Second), wantAfter: time.Minute},
		"Trust A08 launched late, it has time to register":  {claim: late, now: after(31 * time.Minute), wantAfter: 14 * time.Minute},
		"LC-14, FM B01 fifteen minutes without a node": {
			claim: launched(), now: after(15*time.Minute + time.Second),
			wantRemoved: "registration_timeout", wantFailure: lifecycle.Failure{Reason: "RegistrationFailed", Message: "Claim c was launched but its node did not register within 15m0s"},
		},
		"LC-14 a second before":                     {claim: launched(), now: after(15 * time.Minute), wantAfter: time.Second},
		"LC-14, FM B04 the clock of two nodes":      {claim: multiple, now: after(24 * time.Minute), wantAfter: time.Minute},
		"LC-14 two nodes for fifteen minutes":       {claim: multiple, now: after(25 * time.Minute), wantRemoved: "registration_timeout", wantFailure: lifecycle.Failure{Reason: "RegistrationFailed", Message: "Claim c was launched but its node did not register within 15m0s"}},
		"LC-12 no timeout for initialization":       {claim: registered(), now: after(1000 * time.Hour)},
		"FM N08 a claim of the future has age zero": {claim: launched(), now: after(-time.Hour), wantAfter: 15 * time.Minute},
		"FM B02 a node that joins at the last moment is registered": {
			claim: launched(), nodes: []*corev1.Node{joined("n")}, now: after(15*time.Minute + time.Second),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			step := lifecycle.Next(lifecycle.Facts{Claim: tc.claim, Nodes: tc.nodes, Launch: tc.launch, Tried: tc.tried, Launching: tc.launching, Now: tc.now})
			if step.After != tc.wantAfter || step.Launch != tc.wantLaunch {
				t.Errorf("requeues after %s (launch %t), want %s", step.After, step.Launch, tc.wantAfter)
			}
			if (step.Remove != nil) != (tc.wantRemoved != "") {
				t.Fatalf("removal %+v, want %q", step.Remove, tc.wantRemoved)
			}
			if step.Remove == nil {
				return
			}
			if diff := cmp.Diff(&lifecycle.Removal{Reason: tc.wantRemoved, Failure: &tc.wantFailure}, step.Remove); diff != "" {
				t.Errorf("LC-15 (-want +got):\n%s", diff)
			}
			if !slices.Contains(messages(step), "terminating due to timeout") {
				t.Errorf("log %v", messages(step))
			}
		})
	}
}

func TestDecidedConditionsAreRenewed(t *testing.T) {
	t.Parallel()
	c := registered()
	c.Generation = 2
	step := lifecycle.Next(lifecycle.Facts{Claim: c, Now: after(time.Hour)})
	for _, name := range []string{karpv1.ConditionLaunched, karpv1.ConditionRegistered} {
		got := condition.Find(step.Claim.Status.Conditions, name)
		if got.ObservedGeneration != 2 || got.Status != metav1.ConditionTrue || got.LastTransitionTime.After(after(time.Minute)) {
			t.Errorf("LC-05: %s is %+v", name, got)
		}
	}
}
