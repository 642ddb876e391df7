package store

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

func now() time.Time { return time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC) }

func testOptions() Options {
	return Options{Words: awsv1.Vocabulary(), Lanes: resources.NewTable(), Classes: []schema.GroupKind{{Group: awsv1.Group, Kind: awsv1.Kind}}, Now: now}
}

func amounts(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory), corev1.ResourcePods: resource.MustParse("110")}
}

func poolObject(name string) *karpv1.NodePool {
	return &karpv1.NodePool{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("pool-" + name)},
		Spec: karpv1.NodePoolSpec{
			Template: karpv1.NodeClaimTemplate{Spec: karpv1.NodeClaimTemplateSpec{NodeClassRef: karpv1.NodeClassReference{Group: awsv1.Group, Kind: awsv1.Kind, Name: "default"}}},
			Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100")},
		},
		Status: karpv1.NodePoolStatus{Conditions: []metav1.Condition{{Type: karpv1.ConditionReady, Status: metav1.ConditionTrue}}},
	}
}

func claimObject(name, provider string, launched bool) *karpv1.NodeClaim {
	c := &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("claim-" + name), Labels: map[string]string{karpv1.LabelNodePool: "general"}},
		Spec: karpv1.NodeClaimSpec{
			NodeClassRef: karpv1.NodeClassReference{Group: awsv1.Group, Kind: awsv1.Kind, Name: "default"},
			Resources:    karpv1.ResourceRequirements{Requests: amounts("1", "2Gi")},
			Requirements: []karpv1.Requirement{{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"small", "large"}}},
		},
	}
	if launched {
		c.Status.ProviderID, c.Status.Capacity, c.Status.Allocatable = provider, amounts("4", "16Gi"), amounts("3900m", "14Gi")
		c.Labels[corev1.LabelInstanceTypeStable] = "small"
	}
	return c
}

func nodeObject(name, provider string, ours bool) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("node-" + name), Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelTopologyZone: "a"}},
		Spec:       corev1.NodeSpec{ProviderID: provider},
		Status:     corev1.NodeStatus{Capacity: amounts("4", "16Gi"), Allocatable: amounts("3900m", "14Gi")},
	}
	if ours {
		maps.Copy(n.Labels, map[string]string{
			karpv1.LabelNodePool: "general", karpv1.LabelRegistered: "true", karpv1.LabelInitialized: "true", corev1.LabelInstanceTypeStable: "small",
		})
	}
	return n
}

func podObject(name, node string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("pod-" + name), Labels: map[string]string{"app": name[:1]}},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: amounts("500m", "1Gi")}}}},
	}
	delete(p.Spec.Containers[0].Resources.Requests, corev1.ResourcePods)
	if node == "" {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	}
	return p
}

func testTypes() map[string][]catalog.InstanceType {
	lanes := resources.NewTable()
	typ := func(name, cpu, memory string, price float64) catalog.InstanceType {
		return catalog.InstanceType{
			Name: name, Labels: reqs.FromLabels(map[string]string{corev1.LabelInstanceTypeStable: name}, awsv1.Vocabulary()), Capacity: lanes.Capacity(amounts(cpu, memory)),
			Offerings: []catalog.Offering{{Zone: "a", CapacityType: "on-demand", Price: price, Available: true}},
		}
	}
	return map[string][]catalog.InstanceType{"general": {typ("small", "4", "16Gi", 0.1), typ("large", "16", "64Gi", 0.4)}}
}

// feed gives an object to the right handler, as an informer would.
func (s *Store) feedObject(obj client.Object, gone bool) {
	take := map[string]func(client.Object, bool){
		"*v1.NodePool": s.onPool, "*v1.NodeClaim": s.onClaim, "*v1.Node": s.onNodeObject, "*v1.Pod": s.onPod,
		"*v1.PodDisruptionBudget": s.onBudget, "*v1.DaemonSet": s.onDaemonSet, "*v1.LimitRange": s.onLimitRange, "*v1.PersistentVolumeClaim": s.onVolumeObject,
	}[fmt.Sprintf("%T", obj)]
	h := s.handler(take)
	if gone {
		h.OnDelete(obj)
	} else {
		h.OnAdd(obj, false)
	}
}

// Whatever order events come in, and however often a snapshot was cut in between, memory shows the
// same as one that was fed only with what is left at the end (LC-45).
func TestIncrementalEqualsRebuilt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		live := map[string]client.Object{}
		s := New(testOptions())
		tell := func(s *Store, obj client.Object, gone bool) { s.feedObject(obj, gone) }
		steps := rapid.IntRange(1, 60).Draw(t, "steps")
		for range steps {
			obj, gone := drawEvent(t)
			key := fmt.Sprintf("%T/%s/%s", obj, obj.GetNamespace(), obj.GetName())
			if gone {
				if live[key] == nil {
					continue
				}
				obj = live[key]
				delete(live, key)
			} else {
				live[key] = obj
			}
			tell(s, obj, gone)
			if rapid.IntRange(0, 4).Draw(t, "look") == 0 {
				s.Snapshot(testTypes())
			}
		}
		fresh := New(testOptions())
		for _, key := range slices.Sorted(maps.Keys(live)) {
			tell(fresh, live[key], false)
		}
		if diff := cmp.Diff(plain(fresh.Snapshot(testTypes())), plain(s.Snapshot(testTypes()))); diff != "" {
			t.Fatalf("rebuilt (-) and incremental (+) differ:\n%s", diff)
		}
	})
}

func drawEvent(t *rapid.T) (client.Object, bool) {
	n := rapid.IntRange(0, 3).Draw(t, "which")
	gone := rapid.IntRange(0, 3).Draw(t, "gone") == 0
	provider := func() string {
		return fmt.Sprintf("aws:///a/i-%d", rapid.IntRange(0, 3).Draw(t, "provider"))
	}
	switch rapid.IntRange(0, 5).Draw(t, "kind") {
	case 0:
		return poolObject([]string{"general", "other"}[n%2]), gone
	case 1:
		c := claimObject(fmt.Sprintf("general-%d", n), fmt.Sprintf("aws:///a/i-%d", n), rapid.Bool().Draw(t, "launched"))
		if rapid.IntRange(0, 3).Draw(t, "deleting") == 0 {
			c.DeletionTimestamp = new(metav1.NewTime(now()))
		}
		return c, gone
	case 2:
		id := ""
		if rapid.IntRange(0, 3).Draw(t, "known") > 0 {
			id = provider()
		}
		return nodeObject(fmt.Sprintf("ip-%d", n), id, rapid.Bool().Draw(t, "ours")), gone
	case 3:
		return &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "budget"},
			Spec: policyv1.PodDisruptionBudgetSpec{
				Selector:       &metav1.LabelSelector{MatchLabels: map[string]string{"app": "w"}},
				MaxUnavailable: new(intstr.FromInt32(int32(n % 2))),
			},
		}, gone
	default:
		node := ""
		if rapid.Bool().Draw(t, "bound") {
			node = fmt.Sprintf("ip-%d", rapid.IntRange(0, 3).Draw(t, "node"))
		}
		p := podObject(fmt.Sprintf("w%d", rapid.IntRange(0, 5).Draw(t, "pod")), node)
		if node == "" && rapid.IntRange(0, 2).Draw(t, "nominated") == 0 {
			p.Status.NominatedNodeName = fmt.Sprintf("ip-%d", rapid.IntRange(0, 3).Draw(t, "nominated on"))
		}
		switch rapid.IntRange(0, 5).Draw(t, "form") {
		case 0:
			p.Annotations = map[string]string{karpv1.AnnotationDoNotDisrupt: "10m"}
		case 1:
			p.Status.Phase = corev1.PodSucceeded
		case 2:
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
				TopologyKey: corev1.LabelTopologyZone, MaxSkew: 1, LabelSelector: &metav1.LabelSelector{}, MatchLabelKeys: []string{"pod-template-hash"},
			}}
			p.Labels["pod-template-hash"] = "x"
		}
		return p, gone
	}
}

// plain is a view without what depends on the order of reading.
func plain(v View) map[string]any {
	pods := func(list []cluster.Pod) []string {
		var out []string
		for _, p := range list {
			out = append(out, fmt.Sprintf("%s %v %v %v %v %v", p.Key, p.Shape.Requests, p.Shape.Labels, len(p.Shape.Spread), p.Stays, p.Terminating))
		}
		slices.Sort(out)
		return out
	}
	nodes := map[string]any{}
	for i := range v.Nodes {
		n := &v.Nodes[i]
		nodes[n.Name] = []any{n.Claim, n.Pool, labels.FormatLabels(n.Labels), n.Capacity.String(), n.Allocatable.String(), n.Initialized, n.Deleting, n.Price, n.Needs.String(), pods(n.Pods)}
	}
	pools := map[string]any{}
	for _, p := range v.Pools {
		pools[p.Name] = []any{p.Closed, p.Limits}
	}
	return map[string]any{"nodes": nodes, "pods": pods(v.Pods), "pools": pools, "pending": v.Pending}
}

// G8, FM D04: a claim that was just created is there for the next plan, before any watch reports it,
// and is dropped if none ever does (FM D10).
func TestFM_D04_CreatedClaimsCountAtOnce(t *testing.T) {
	t.Parallel()
	at := now()
	o := testOptions()
	o.Now = func() time.Time { return at }
	s := New(o)
	s.feedObject(poolObject("general"), false)
	s.feedObject(podObject("w1", ""), false)
	claim := claimObject("general-x", "", false)
	s.RecordCreatedClaim(claim, []cluster.PodKey{{Namespace: "default", Name: "w1"}})

	view := s.Snapshot(testTypes())
	if len(view.Nodes) != 1 || view.Nodes[0].Claim != "general-x" || view.Nodes[0].Needs == nil {
		t.Fatalf("nodes = %+v, want the claim in flight", view.Nodes)
	}
	if got := view.Pools[0].Limits[0].Remaining; got != 84_000 {
		t.Errorf("cpu left = %dm, want 84000m: the claim may become the largest of its types (FM I20)", got)
	}
	if got := s.Planned("general-x"); len(got) != 1 || got[0].Name != "w1" {
		t.Errorf("Planned() = %v, want w1", got)
	}
	at = at.Add(unwatchedTimeout + time.Second)
	if view := s.Snapshot(testTypes()); len(view.Nodes) != 0 {
		t.Errorf("nodes = %+v after %v without a word of the claim, want none", view.Nodes, unwatchedTimeout)
	}
}

// Scheduling 3.2: pods of a terminating node are planned for, its capacity is offered to no pod.
func TestPodsOfDeletingNodesNeedAPlace(t *testing.T) {
	t.Parallel()
	s := New(testOptions())
	claim := claimObject("general-1", "aws:///a/i-1", true)
	claim.DeletionTimestamp = new(metav1.NewTime(now()))
	daemon := podObject("d1", "ip-1")
	daemon.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", UID: "d"}}
	held := podObject("h1", "ip-1")
	held.Annotations = map[string]string{karpv1.AnnotationDoNotDisrupt: "true"}
	for _, obj := range []client.Object{poolObject("general"), claim, nodeObject("ip-1", "aws:///a/i-1", true), podObject("w1", "ip-1"), daemon, held} {
		s.feedObject(obj, false)
	}
	view := s.Snapshot(testTypes())
	if len(view.Pods) != 1 || view.Pods[0].Key.Name != "w1" {
		t.Errorf("pods to place = %v, want w1 alone", view.Pods)
	}
	if len(view.Nodes) != 1 || !view.Nodes[0].Deleting {
		t.Errorf("nodes = %+v, want one that goes", view.Nodes)
	}
}

// SC-02, SC-03: what requests a plan.
func TestWake(t *testing.T) {
	t.Parallel()
	var woken []types.UID
	o := testOptions()
	o.Wake = func(uid types.UID) { woken = append(woken, uid) }
	s := New(o)
	pending := podObject("w1", "")
	tainted := nodeObject("ip-1", "", false)
	tainted.Spec.Taints = []corev1.Taint{karpv1.DisruptedTaint()}
	gated := podObject("g1", "")
	gated.Status.Conditions[0].Reason = corev1.PodReasonSchedulingGated
	for _, obj := range []client.Object{pending, pending.DeepCopy(), gated, podObject("b1", "ip-1"), tainted, tainted.DeepCopy()} {
		s.feedObject(obj, false)
	}
	if diff := cmp.Diff([]types.UID{pending.UID, tainted.UID}, woken); diff != "" {
		t.Errorf("who requested a plan (-want +got):\n%s", diff)
	}
	if got := s.Waiting(); got != 2 {
		t.Errorf("Waiting() = %d, want the pod and the node with a pod on it", got)
	}
}

// SC-22: the newest pod of a DaemonSet says what it needs.
func TestNewestDaemonPodCounts(t *testing.T) {
	t.Parallel()
	s := New(testOptions())
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "agent", UID: "agent"}}
	set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: amounts("100m", "1Mi")}}}
	pod := func(name, cpu string, age time.Duration) *corev1.Pod {
		p := podObject(name, "ip-1")
		p.CreationTimestamp = metav1.NewTime(now().Add(-age))
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", UID: "agent"}}
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(cpu)
		return p
	}
	cpu := func() int64 { return s.Snapshot(nil).Daemons[0].Shape.Requests.At(0) }
	s.feedObject(set, false)
	if got := cpu(); got != 100 {
		t.Errorf("cpu = %dm, want 100m of the template", got)
	}
	s.feedObject(pod("old", "200m", time.Hour), false)
	s.feedObject(pod("new", "300m", time.Minute), false)
	if got := cpu(); got != 300 {
		t.Errorf("cpu = %dm, want 300m of the newest pod", got)
	}
	s.feedObject(pod("new", "300m", time.Minute), true)
	if got := cpu(); got != 200 {
		t.Errorf("cpu = %dm, want 200m of the pod that is left", got)
	}
}

// A12: what the LimitRanges of its namespace will have the first pod of a DaemonSet request counts before it exists.
func TestTrust_A12_LimitRangesCountBeforeTheFirstPod(t *testing.T) {
	t.Parallel()
	s := New(testOptions())
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "agent", UID: "agent"}}
	set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main"}}
	limits := func(namespace, name, cpu string) *corev1.LimitRange {
		r := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		r.Spec.Limits = []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, DefaultRequest: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}
		return r
	}
	s.feedObject(set, false)
	for _, step := range []struct {
		what string
		obj  *corev1.LimitRange
		gone bool
		want int64
	}{
		{"of another namespace", limits("other", "a", "900m"), false, 0},
		{"the first", limits("default", "a", "200m"), false, 200},
		{"a larger one", limits("default", "b", "300m"), false, 300},
		{"now smaller", limits("default", "b", "100m"), false, 200},
		{"the first is gone", limits("default", "a", "200m"), true, 100},
		{"the last is gone", limits("default", "b", "100m"), true, 0},
	} {
		s.feedObject(step.obj, step.gone)
		if got := s.Snapshot(nil).Daemons[0].Shape.Requests.At(0); got != step.want {
			t.Errorf("%s: cpu = %dm, want %dm", step.what, got, step.want)
		}
	}
}

// What is kept of a pod is all that reading looks at.
func TestStrippedPodsReadTheSame(t *testing.T) {
	t.Parallel()
	p := podObject("w1", "")
	p.Annotations = map[string]string{"a": "b", karpv1.AnnotationDoNotDisrupt: "true", corev1.PodDeletionCost: "5"}
	p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "x"}}
	p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: strings.Repeat("x", 1000)}}
	p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80}, {ContainerPort: 81, HostPort: 81}}
	p.Spec.Volumes = []corev1.Volume{{Name: "c"}, {Name: "d", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "d"}}}}
	p.Spec.Tolerations = []corev1.Toleration{{Key: "a", Operator: corev1.TolerationOpExists}}
	read := func(p *corev1.Pod) cluster.Pod {
		return cluster.NewReader(awsv1.Vocabulary(), cluster.ReaderOptions{}).Pod(p, newVolumes())
	}
	want := read(p.DeepCopy())
	stripPod(p)
	got := read(p)
	if got.Shape.Key != want.Shape.Key || got.EvictCost != want.EvictCost {
		t.Errorf("stripped: %s, whole: %s", got.Shape.Key, want.Shape.Key)
	}
	if len(p.Spec.Containers[0].Env) > 0 || len(p.Annotations) != 2 || len(p.Spec.Volumes) != 1 {
		t.Errorf("kept too much: %+v", p)
	}
}

func BenchmarkSnapshot(b *testing.B) {
	s := New(testOptions())
	s.feedObject(poolObject("general"), false)
	for i := range 5000 {
		name, id := fmt.Sprintf("ip-%d", i), fmt.Sprintf("aws:///a/i-%d", i)
		s.feedObject(claimObject(fmt.Sprintf("general-%d", i), id, true), false)
		s.feedObject(nodeObject(name, id, true), false)
		for k := range 10 {
			s.feedObject(podObject(fmt.Sprintf("w%d-%d", i, k), name), false)
		}
	}
	offers := testTypes()
	s.Snapshot(offers)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		s.feedObject(podObject(fmt.Sprintf("w%d-0", i%5000), fmt.Sprintf("ip-%d", i%5000)), false)
		s.Snapshot(offers)
		i++
	}
}

// G8: a pod with a planned claim keeps it until it needs no place, the claim is deleted, or another pod
// has its name.
func TestPlannedNodes(t *testing.T) {
	t.Parallel()
	w1 := cluster.PodKey{Namespace: "default", Name: "w1"}
	for name, tc := range map[string]struct {
		then func(s *Store)
		want map[cluster.PodKey]string
	}{
		"waiting":     {then: func(*Store) {}, want: map[cluster.PodKey]string{w1: "general-x"}},
		"node joined": {then: func(s *Store) { joined(s, "general-x") }, want: map[cluster.PodKey]string{w1: "ip-1"}},
		"planned elsewhere": {then: func(s *Store) {
			s.feedObject(claimObject("general-y", "", false), false)
			s.RecordPlannedNode(w1, "general-y")
		}, want: map[cluster.PodKey]string{w1: "general-y"}},
		"pod bound":                    {then: func(s *Store) { s.feedObject(podObject("w1", "ip-9"), false) }},
		"pod gone":                     {then: func(s *Store) { s.feedObject(podObject("w1", ""), true) }},
		"claim gone":                   {then: func(s *Store) { s.feedObject(claimObject("general-x", "", false), true) }},
		"planned on a node that is up": {then: func(s *Store) { joined(s, "general-z"); s.RecordPlannedNode(w1, "ip-1") }, want: map[cluster.PodKey]string{w1: "ip-1"}},
		"planned on an altered one, FM A13": {then: func(s *Store) {
			joined(s, "general-z")
			s.RecordAlteredClaim("general-z")
			s.RecordPlannedNode(w1, "ip-1")
		}},
		"planned on a node of others": {then: func(s *Store) { s.feedObject(nodeObject("ip-7", "", false), false); s.RecordPlannedNode(w1, "ip-7") }},
		"claim goes": {then: func(s *Store) {
			claim := claimObject("general-x", "", false)
			claim.DeletionTimestamp = new(metav1.NewTime(now()))
			s.feedObject(claim, false)
		}},
		"another pod of the name": {then: func(s *Store) {
			pod := podObject("w1", "")
			pod.UID = "another"
			s.feedObject(pod, false)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := New(testOptions())
			s.feedObject(poolObject("general"), false)
			s.feedObject(podObject("w1", ""), false)
			s.RecordCreatedClaim(claimObject("general-x", "", false), []cluster.PodKey{w1})
			tc.then(s)
			got := s.Snapshot(testTypes()).PlannedNodes
			if len(got) != len(tc.want) || !maps.Equal(got, tc.want) {
				t.Errorf("planned = %v, want %v", got, tc.want)
			}
			if len(s.plannedClaims) != len(tc.want) {
				t.Errorf("%d planned claims are kept, want %d", len(s.plannedClaims), len(tc.want))
			}
		})
	}
}

// joined feeds a claim whose node runs.
func joined(s *Store, claim string) {
	s.feedObject(claimObject(claim, "aws:///a/i-1", true), false)
	s.feedObject(nodeObject("ip-1", "aws:///a/i-1", true), false)
}

// SC-05, FM D11: memory is complete when every kind was delivered, and what it still waits for is named.
func TestFM_D11_MissingKindsAreNamed(t *testing.T) {
	t.Parallel()
	at := now()
	o := testOptions()
	o.Now = func() time.Time { return at }
	s := New(o)
	late := true
	s.feeds = []feed{{kind: "Node", synced: func() bool { return true }}, {kind: "Pod", synced: func() bool { return !late }}}
	if s.Synced() {
		t.Error("Synced() = true although pods are missing")
	}
	at = at.Add(time.Minute)
	if d, missing := s.Unsynced(); d != time.Minute || !slices.Equal(missing, []string{"Pod"}) {
		t.Errorf("Unsynced() = %v, %v, want a minute and Pod", d, missing)
	}
	late = false
	if d, missing := s.Unsynced(); d != 0 || missing != nil || !s.Synced() {
		t.Errorf("Unsynced() = %v, %v after all came", d, missing)
	}
}
