package cluster_test

import (
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
)

const (
	claimText = `
metadata: {name: c-1, labels: {karpenter.sh/nodepool: default, topology.kubernetes.io/zone: a, node.kubernetes.io/instance-type: m5.large}}
spec:
  nodeClassRef: {name: x}
  requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}, {key: team, operator: In, values: [red, blue]}]
  resources: {requests: {cpu: 900m, pods: "3"}}
  taints: [{key: dedicated, value: red, effect: NoSchedule}]
  startupTaints: [{key: cilium, effect: NoExecute}]
status:
  providerID: aws:///a/i-1
  capacity: {cpu: "2", memory: 8Gi, pods: "29"}
  allocatable: {cpu: 1900m, memory: 7Gi, pods: "29"}
`
	nodeText = `
metadata:
  name: ip-1
  labels: {kubernetes.io/hostname: ip-1, karpenter.sh/nodepool: default, karpenter.sh/registered: "true", node.kubernetes.io/instance-type: m5.large, failure-domain.beta.kubernetes.io/zone: b}
spec:
  providerID: aws:///b/i-1
  taints: [{key: dedicated, value: red, effect: NoSchedule}, {key: cilium, effect: NoExecute}, {key: node.kubernetes.io/not-ready, effect: NoSchedule}, {key: readiness.k8s.io/net, effect: NoSchedule}, {key: mine, effect: NoSchedule}]
status:
  capacity: {cpu: "2", memory: "0", nvidia.com/gpu: "1"}
  allocatable: {cpu: 1800m, memory: "0", nvidia.com/gpu: "1", hugepages-2Mi: "0"}
`
)

func TestNode(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		node, claim     string
		change          func(*corev1.Node, *karpv1.NodeClaim)
		wantName        string
		wantTaints      []string
		wantAllocatable string
		wantLabels      map[string]string // some of them; "-" means absent
		wantInitialized bool
		wantDeleting    bool
		wantNeeds       string
	}{
		"6.1 a claim without a node has the claim's labels, taints and estimate": {
			claim: claimText, wantName: "c-1", wantTaints: []string{"dedicated:NoSchedule"},
			wantAllocatable: "cpu:1900m,memory:7Gi,pods:29",
			wantLabels: map[string]string{
				"karpenter.sh/nodepool": "default", "topology.kubernetes.io/zone": "a", "kubernetes.io/arch": "amd64",
				"kubernetes.io/hostname": "c-1", "team": "-",
			},
		},
		"a claim that is not launched is as large as what was planned for it": {
			claim: claimText, wantName: "c-1", wantTaints: []string{"dedicated:NoSchedule"},
			change:          func(_ *corev1.Node, c *karpv1.NodeClaim) { c.Status = karpv1.NodeClaimStatus{} },
			wantAllocatable: "cpu:900m,pods:3",
			wantNeeds:       "kubernetes.io/arch In [amd64]; team In [blue red]",
		},
		"6.1 a registered node that is not initialized: startup and ephemeral taints do not count, zeros are estimated": {
			node: nodeText, claim: claimText, wantName: "ip-1", wantTaints: []string{"dedicated:NoSchedule", "mine:NoSchedule"},
			wantAllocatable: "cpu:1800m,memory:7Gi,pods:29,nvidia.com/gpu:1",
			wantLabels:      map[string]string{"topology.kubernetes.io/zone": "b", "kubernetes.io/arch": "-"},
		},
		"6.1 an unregistered node has the claim's labels and taints": {
			node: nodeText, claim: claimText, wantName: "ip-1", wantTaints: []string{"dedicated:NoSchedule"},
			change:          func(n *corev1.Node, _ *karpv1.NodeClaim) { delete(n.Labels, karpv1.LabelRegistered) },
			wantAllocatable: "cpu:1800m,memory:7Gi,pods:29,nvidia.com/gpu:1",
			wantLabels:      map[string]string{"topology.kubernetes.io/zone": "a", "kubernetes.io/hostname": "ip-1"},
		},
		"6.1 once initialized, what the node says counts, taints included": {
			node: nodeText, claim: claimText, wantName: "ip-1", wantInitialized: true,
			change: func(n *corev1.Node, _ *karpv1.NodeClaim) {
				n.Labels[karpv1.LabelInitialized] = "true"
				n.Spec.Unschedulable = true
			},
			wantTaints: []string{
				"dedicated:NoSchedule", "cilium:NoExecute", "node.kubernetes.io/not-ready:NoSchedule", "readiness.k8s.io/net:NoSchedule",
				"mine:NoSchedule", "node.kubernetes.io/unschedulable:NoSchedule",
			},
			wantAllocatable: "cpu:1800m,nvidia.com/gpu:1",
		},
		"V15-42 a rebooting node keeps offering its capacity": {
			node: nodeText, claim: claimText, wantName: "ip-1", wantInitialized: true,
			change: func(n *corev1.Node, c *karpv1.NodeClaim) {
				n.Labels[karpv1.LabelInitialized] = "true"
				n.Spec.Taints = append(n.Spec.Taints, karpv1.RebootingTaint())
				c.Status.Conditions = conditions(karpv1.ConditionRebooting)
			},
			wantTaints:      []string{"dedicated:NoSchedule", "mine:NoSchedule"},
			wantAllocatable: "cpu:1800m,nvidia.com/gpu:1",
		},
		"6.1 a node without provider id is not believed yet": {
			node: nodeText, claim: claimText, wantName: "c-1", wantTaints: []string{"dedicated:NoSchedule"},
			change:          func(n *corev1.Node, _ *karpv1.NodeClaim) { n.Spec.ProviderID = "" },
			wantAllocatable: "cpu:1900m,memory:7Gi,pods:29",
		},
		"6.1 an unmanaged node counts as it is": {
			node: nodeText, wantName: "ip-1", wantInitialized: true,
			wantTaints: []string{
				"dedicated:NoSchedule", "cilium:NoExecute", "node.kubernetes.io/not-ready:NoSchedule",
				"readiness.k8s.io/net:NoSchedule", "mine:NoSchedule",
			},
			wantAllocatable: "cpu:1800m,nvidia.com/gpu:1",
		},
		"3.2 an instance that is terminating is deleting": {
			claim: claimText, wantName: "c-1", wantTaints: []string{"dedicated:NoSchedule"}, wantDeleting: true,
			change: func(_ *corev1.Node, c *karpv1.NodeClaim) {
				c.Status.Conditions = conditions(karpv1.ConditionInstanceTerminating)
			},
			wantAllocatable: "cpu:1900m,memory:7Gi,pods:29",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node, claim := read[corev1.Node](t, tc.node), read[karpv1.NodeClaim](t, tc.claim)
			if tc.change != nil {
				tc.change(node, claim)
			}
			facts := cluster.NodeFacts{Price: 0.5}
			if tc.node != "" {
				facts.Node = node
			}
			if tc.claim != "" {
				facts.Claim = claim
			}
			r := newReader(cluster.ReaderOptions{})
			got := r.Node(facts)
			var taints []string
			for _, taint := range got.Taints {
				taints = append(taints, taint.Key+":"+string(taint.Effect))
			}
			diff(t, "Name", got.Name, tc.wantName)
			diff(t, "Taints", taints, tc.wantTaints)
			diff(t, "Allocatable", r.Table().Format(got.Allocatable), tc.wantAllocatable)
			diff(t, "Initialized", got.Initialized, tc.wantInitialized)
			diff(t, "Deleting", got.Deleting, tc.wantDeleting)
			diff(t, "Needs", got.Needs.String(), tc.wantNeeds)
			for _, key := range slices.Sorted(maps.Keys(tc.wantLabels)) {
				if value, has := got.Labels[key]; has != (tc.wantLabels[key] != "-") || has && value != tc.wantLabels[key] {
					t.Errorf("label %s = %q, want %q", key, value, tc.wantLabels[key])
				}
			}
		})
	}
}

func TestVolumeLimits(t *testing.T) {
	t.Parallel()
	published := read[storagev1.CSINode](t, `{spec: {drivers: [{name: ebs, nodeID: x, allocatable: {count: 3}}, {name: efs, nodeID: x}]}}`)
	r := newReader(cluster.ReaderOptions{})
	declared := map[string]int{"ebs": 26, "efs": 5, "fsx": 7}
	own := r.Node(cluster.NodeFacts{Node: &corev1.Node{}, CSINode: published}).VolumeLimits
	diff(t, "V15-58: published, without a count it is unlimited", own, map[string]int{"ebs": 3})
	got := cluster.WithDeclaredLimits(own, declared, published)
	diff(t, "V15-58: published wins, the rest is declared", got, map[string]int{"ebs": 3, "fsx": 7})
	diff(t, "V15-58: nothing published", cluster.WithDeclaredLimits(nil, declared, nil), declared)
	diff(t, "V15-58: of two types the least", cluster.WithDeclaredLimits(declared, map[string]int{"ebs": 27, "efs": 4}, nil), map[string]int{"ebs": 26, "efs": 4, "fsx": 7})
	diff(t, "what is handed in stays as it is", declared, map[string]int{"ebs": 26, "efs": 5, "fsx": 7})
}

func TestNodePodsAreInOrderAndAlive(t *testing.T) {
	t.Parallel()
	var pods []*corev1.Pod
	for _, text := range []string{
		"{metadata: {namespace: b, name: x}}", "{metadata: {namespace: a, name: z}}", "{metadata: {namespace: a, name: m}}",
		"{metadata: {namespace: a, name: done}, status: {phase: Succeeded}}", "{metadata: {namespace: a, name: failed}, status: {phase: Failed}}",
	} {
		pods = append(pods, read[corev1.Pod](t, text))
	}
	var got []string
	for _, p := range newReader(cluster.ReaderOptions{}).Node(cluster.NodeFacts{Node: &corev1.Node{}, Pods: pods}).Pods {
		got = append(got, p.Key.String())
	}
	diff(t, "Pods", got, []string{"a/m", "a/z", "b/x"})
}

// A claim that has no node yet may be called like a node of others; their order does not depend on how the
// caller has them.
func TestNodesWithOneNameAreInOrder(t *testing.T) {
	t.Parallel()
	claim, other := cluster.Node{Name: "n1", Claim: "n1"}, cluster.Node{Name: "n1"}
	for _, nodes := range [][]cluster.Node{{claim, other}, {other, claim}} {
		got := newReader(cluster.ReaderOptions{}).Snapshot(cluster.Snapshot{Nodes: nodes}).Nodes
		if got[0].Claim != "" || got[1].Claim != "n1" {
			t.Errorf("claims of the nodes in order: %q, %q; want the one without a claim first", got[0].Claim, got[1].Claim)
		}
	}
}
