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
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
)

func taints(n *corev1.Node) []string {
	out := []string{}
	for _, t := range n.Spec.Taints {
		out = append(out, t.ToString())
	}
	slices.Sort(out)
	return out
}

func TestRegistration(t *testing.T) {
	t.Parallel()
	going := joined("going")
	going.DeletionTimestamp = new(metav1.NewTime(created))
	other := joined("other")
	other.Spec.ProviderID = ""
	for name, tc := range map[string]struct {
		nodes     []*corev1.Node
		want      string
		wantEvent bool
	}{
		"LC-06 no node":           {want: "Unknown/NodeNotFound"},
		"LC-06 one node":          {nodes: []*corev1.Node{joined("n")}, want: "True/Registered"},
		"LC-06, FM B04 two nodes": {nodes: []*corev1.Node{joined("n"), joined("m")}, want: "False/MultipleNodesFound"},
		"FM B06 a node without an id belongs to no claim": {nodes: []*corev1.Node{other}, want: "Unknown/NodeNotFound"},
		"FM B17 a node on its way out does not count":     {nodes: []*corev1.Node{going}, want: "Unknown/NodeNotFound"},
		"LC-07, FM B03 without the taint":                 {nodes: []*corev1.Node{func() *corev1.Node { n := joined("n"); n.Spec.Taints = nil; return n }()}, want: "True/Registered", wantEvent: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			step := lifecycle.Next(lifecycle.Facts{Claim: launched(), Nodes: tc.nodes, Now: after(time.Minute)})
			if have := state(step.Claim, karpv1.ConditionRegistered); have != tc.want {
				t.Errorf("Registered is %s, want %s", have, tc.want)
			}
			if step.Registered != (tc.want == "True/Registered") || (step.Node != nil) != step.Registered {
				t.Errorf("registered %t, node %v", step.Registered, step.Node)
			}
			found := slices.ContainsFunc(step.Events, func(e event.Event) bool { return e.Reason == event.UnregisteredTaintMissing })
			if found != tc.wantEvent {
				t.Errorf("events %v", step.Events)
			}
		})
	}
}

func TestNodeGetsWhatTheClaimHas(t *testing.T) {
	t.Parallel()
	c := launched()
	c.Annotations = map[string]string{"note": "claim"}
	n := joined("n")
	n.Labels = map[string]string{"team": "kubelet", "own": "x"}
	n.Annotations = map[string]string{"note": "kubelet", "other": "y"}
	n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "dedicated", Value: "kept", Effect: corev1.TaintEffectNoSchedule})
	step := lifecycle.Next(lifecycle.Facts{Claim: c, Nodes: []*corev1.Node{n}, Now: after(time.Minute)})
	got := step.Node
	wantLabels := map[string]string{
		"team": "shop", "own": "x", karpv1.LabelNodePool: "p", karpv1.LabelProvisionerName: "p", karpv1.LabelRegistered: "true",
	}
	if diff := cmp.Diff(wantLabels, got.Labels); diff != "" {
		t.Errorf("LC-08, L-14 labels (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"note": "claim", "other": "y"}, got.Annotations); diff != "" {
		t.Errorf("LC-08 annotations (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"cni:NoExecute", "dedicated=kept:NoSchedule"}, taints(got)); diff != "" {
		t.Errorf("LC-08, LC-10 taints (-want +got):\n%s", diff)
	}
	wantOwner := []metav1.OwnerReference{{APIVersion: "karpenter.sh/v1", Kind: "NodeClaim", Name: "c", UID: "u", BlockOwnerDeletion: new(true)}}
	if diff := cmp.Diff(wantOwner, got.OwnerReferences); diff != "" {
		t.Errorf("LC-08 owner (-want +got):\n%s", diff)
	}
	if !slices.Contains(got.Finalizers, karpv1.FinalizerTermination) || step.Claim.Status.NodeName != "n" {
		t.Errorf("LC-08, LC-10: finalizers %v, node name %q", got.Finalizers, step.Claim.Status.NodeName)
	}
	if diff := cmp.Diff([]string{"registered nodeclaim"}, messages(step)); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

// FM B07: a startup taint that its daemon has removed does not come back.
func TestTaintsAreSyncedOnce(t *testing.T) {
	t.Parallel()
	owner := []metav1.OwnerReference{{APIVersion: "karpenter.sh/v1", Kind: "NodeClaim", Name: "c", UID: "u", BlockOwnerDeletion: new(true)}}
	for name, tc := range map[string]struct {
		change func(*corev1.Node)
		want   []string
	}{
		"LC-08 the first time": {change: func(*corev1.Node) {}, want: []string{"cni:NoExecute", "dedicated:NoSchedule"}},
		"LC-08 the kubelet has set them": {
			change: func(n *corev1.Node) { n.Labels = map[string]string{karpv1.LabelDoNotSyncTaints: "true"} }, want: []string{},
		},
		"FM B07 after a gate was waited for": {change: func(n *corev1.Node) { n.OwnerReferences = owner }, want: []string{}},
		"FM B07 after a crash before the claim was written": {
			change: func(n *corev1.Node) { n.Labels = map[string]string{karpv1.LabelRegistered: "true"} }, want: []string{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := joined("n")
			tc.change(n)
			step := lifecycle.Next(lifecycle.Facts{Claim: launched(), Nodes: []*corev1.Node{n}, Now: after(time.Minute)})
			if diff := cmp.Diff(tc.want, taints(step.Node)); diff != "" {
				t.Errorf("taints (-want +got):\n%s", diff)
			}
		})
	}
}

func TestGates(t *testing.T) {
	t.Parallel()
	facts := lifecycle.Facts{Claim: launched(), Nodes: []*corev1.Node{joined("n")}, Gated: true, Now: after(time.Minute)}
	if step := lifecycle.Next(facts); !step.CallGates || step.Node != nil {
		t.Fatalf("LC-09: step %+v, want the gates to be queried first", step)
	}
	facts.Gates = []lifecycle.GateState{
		{Name: "slow", Wait: 20 * time.Second}, {Name: "open", Labels: map[string]string{"partition": "3"}}, {Name: "broken", Err: errors.New("boom")},
	}
	step := lifecycle.Next(facts)
	c := condition.Find(step.Claim.Status.Conditions, karpv1.ConditionRegistered)
	if have := state(step.Claim, karpv1.ConditionRegistered); have != "Unknown/RegistrationHookPending" || c.Message != "Waiting for broken (boom), slow" {
		t.Errorf("LC-09: Registered is %s %q", have, c.Message)
	}
	if step.Registered || step.After != 5*time.Second {
		t.Errorf("LC-09: registered %t, requeues after %s, want the shortest wait", step.Registered, step.After)
	}
	if !slices.Contains(taints(step.Node), "karpenter.sh/unregistered:NoExecute") || step.Node.Labels["team"] != "shop" {
		t.Errorf("LC-09: node %v with %v, want it synced and the taint kept", step.Node.Labels, taints(step.Node))
	}
	if step.Claim.Labels["partition"] != "3" || step.Node.Labels["partition"] != "3" {
		t.Error("LC-09: what a gate found out is not on claim and node")
	}
	facts.Claim, facts.Nodes = step.Claim, []*corev1.Node{step.Node}
	facts.Gates = []lifecycle.GateState{{Name: "slow"}, {Name: "open"}, {Name: "broken"}}
	if step = lifecycle.Next(facts); !step.Registered || slices.Contains(taints(step.Node), "karpenter.sh/unregistered:NoExecute") {
		t.Errorf("LC-10: all gates open, yet %s", state(step.Claim, karpv1.ConditionRegistered))
	}
}

func TestInitialization(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		node    func(*corev1.Node)
		claim   func(*karpv1.NodeClaim)
		gone    bool
		drivers *lifecycle.Drivers
		want    string
	}{
		"LC-12 all is well": {want: "True/Initialized"},
		"LC-11 no node":     {gone: true, want: "Unknown/NodeNotFound"},
		"LC-11 not ready":   {node: func(n *corev1.Node) { n.Status.Conditions = nil }, want: "Unknown/NodeNotReady"},
		"LC-11 a startup taint": {
			node: func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "cni", Value: "any", Effect: "NoExecute"}} },
			want: "Unknown/StartupTaintsExist",
		},
		"LC-11 a taint with the key of a startup taint and another effect": {
			node: func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "cni", Effect: "NoSchedule"}} },
			want: "True/Initialized",
		},
		"LC-11 an ephemeral taint": {
			node: func(n *corev1.Node) {
				n.Spec.Taints = []corev1.Taint{{Key: "node.cloudprovider.kubernetes.io/uninitialized", Effect: "NoSchedule"}}
			},
			want: "Unknown/KnownEphemeralTaintsExist",
		},
		"LC-11, FM B08 an undeclared taint": {
			node: func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "other", Effect: "NoSchedule"}} },
			want: "True/Initialized",
		},
		"LC-11, FM B10 no device plugin": {
			node: func(n *corev1.Node) { delete(n.Status.Allocatable, "x.io/gpu") }, want: "Unknown/ResourceNotRegistered",
		},
		"FM B10 a device count of zero": {
			node: func(n *corev1.Node) { n.Status.Allocatable["x.io/gpu"] = resource.MustParse("0") }, want: "Unknown/ResourceNotRegistered",
		},
		"LC-11 the order: not ready before taints": {
			node: func(n *corev1.Node) {
				n.Status.Conditions, n.Status.Allocatable = nil, nil
				n.Spec.Taints = []corev1.Taint{{Key: "cni", Effect: "NoExecute"}}
			},
			want: "Unknown/NodeNotReady",
		},
		"LC-11 a driver without a pool": {
			claim: func(c *karpv1.NodeClaim) {
				c.Annotations = map[string]string{karpv1.AnnotationRequestedDRADrivers: "a.io,b.io"}
			},
			drivers: &lifecycle.Drivers{Ready: []string{"a.io"}}, want: "Unknown/DRADriverPoolsNotPublished",
		},
		"LC-11 drivers with the feature off": {
			claim: func(c *karpv1.NodeClaim) {
				c.Annotations = map[string]string{karpv1.AnnotationRequestedDRADrivers: "a.io,b.io"}
			},
			want: "True/Initialized",
		},
		"V15-39 not while it reboots": {
			claim: func(c *karpv1.NodeClaim) {
				with(c, after(time.Hour), yes(karpv1.ConditionRebooting), condition.Change{Type: karpv1.ConditionInitialized, Status: metav1.ConditionUnknown, Reason: "Rebooting"})
			},
			want: "Unknown/Rebooting",
		},
		"V15-39 again after the reboot": {
			claim: func(c *karpv1.NodeClaim) {
				with(c, after(time.Hour), condition.Change{Type: karpv1.ConditionRebooting, Status: metav1.ConditionFalse, Reason: "RebootSucceeded"}, condition.Change{Type: karpv1.ConditionInitialized, Status: metav1.ConditionUnknown, Reason: "Rebooting"})
			},
			want: "True/Initialized",
		},
		"FM B11 once is enough": {
			claim: func(c *karpv1.NodeClaim) { with(c, after(time.Hour), yes(karpv1.ConditionInitialized)) },
			node:  func(n *corev1.Node) { n.Status.Conditions = nil }, want: "True/Initialized",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, n := registered(), usable()
			if tc.claim != nil {
				tc.claim(c)
			}
			if tc.node != nil {
				tc.node(n)
			}
			before := state(c, karpv1.ConditionInitialized)
			facts := lifecycle.Facts{Claim: c, Nodes: []*corev1.Node{n}, Drivers: tc.drivers, Now: after(2 * time.Hour)}
			if tc.gone {
				facts.Nodes = nil
			}
			step := lifecycle.Next(facts)
			if have := state(step.Claim, karpv1.ConditionInitialized); have != tc.want {
				t.Errorf("Initialized is %s, want %s", have, tc.want)
			}
			news := tc.want == "True/Initialized" && before != tc.want
			if (step.Node != nil && step.Node.Labels[karpv1.LabelInitialized] == "true") != news {
				t.Errorf("LC-12: node wanted as %v", step.Node)
			}
			if slices.Contains(messages(step), "initialized nodeclaim") != news {
				t.Errorf("log %v", messages(step))
			}
			if have := state(step.Claim, karpv1.ConditionConsistentStateFound); news && have != "True/ConsistentStateFound" {
				t.Errorf("LC-40: ConsistentStateFound is %s in the write that says Initialized", have)
			}
		})
	}
}

// DR-16, FM M09: a driver that is late is reported in the condition, by an event and by one line of the log.
func TestDR_16_SilentDrivers(t *testing.T) {
	t.Parallel()
	claim := registered()
	claim.Annotations = map[string]string{karpv1.AnnotationRequestedDRADrivers: "b.io,a.io"}
	since := condition.Find(claim.Status.Conditions, karpv1.ConditionRegistered).LastTransitionTime.Time
	facts := lifecycle.Facts{Claim: claim, Nodes: []*corev1.Node{usable()}, Drivers: &lifecycle.Drivers{Ready: []string{"a.io"}}}
	lines := 0
	for _, tc := range []struct {
		after time.Duration
		late  bool
		lines int
	}{{time.Minute, false, 0}, {cluster.DriverTimeout - time.Second, false, 0}, {cluster.DriverTimeout, true, 1}, {time.Hour, true, 1}} {
		facts.Now = since.Add(tc.after)
		step := lifecycle.Next(facts)
		c := condition.Find(step.Claim.Status.Conditions, karpv1.ConditionInitialized)
		if c.Reason != lifecycle.DriverPoolsNotPublished || !strings.Contains(c.Message, "b.io") || strings.Contains(c.Message, "a.io") || strings.Contains(c.Message, "15m0s") != tc.late {
			t.Errorf("after %s: %s %q", tc.after, c.Reason, c.Message)
		}
		emitted := slices.ContainsFunc(step.Events, func(e event.Event) bool { return e.Reason == event.DeviceDriverSilent })
		for _, n := range step.News {
			if n.Err != nil {
				lines++
			}
		}
		if emitted != tc.late || lines != tc.lines {
			t.Errorf("after %s: event %t, %d lines of the log", tc.after, emitted, lines)
		}
		facts.Claim = step.Claim
	}
	facts.Drivers.Ready = []string{"a.io", "b.io"}
	if step := lifecycle.Next(facts); state(step.Claim, karpv1.ConditionInitialized) != "True/Initialized" {
		t.Error("it is not initialized once the driver has published its devices")
	}
}

// A node that is ready when it joins is done in one pass.
func TestRegisteredAndInitializedAtOnce(t *testing.T) {
	t.Parallel()
	c := launched()
	c.Spec.StartupTaints = nil
	step := lifecycle.Next(lifecycle.Facts{Claim: c, Nodes: []*corev1.Node{joined("n")}, Now: after(time.Minute)})
	if state(step.Claim, karpv1.ConditionReady) != "True/Ready" || step.After != 0 {
		t.Errorf("Ready is %s, requeues after %s", state(step.Claim, karpv1.ConditionReady), step.After)
	}
	if l := step.Node.Labels; l[karpv1.LabelRegistered] != "true" || l[karpv1.LabelInitialized] != "true" {
		t.Errorf("labels %v", l)
	}
}
