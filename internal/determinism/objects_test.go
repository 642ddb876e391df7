package determinism_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/check"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/drift"
	"github.com/dovetail-sh/dovetail/internal/execute"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/pool"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/solve"
	"github.com/dovetail-sh/dovetail/internal/store"
)

func noon() time.Time { return time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC) }

// read makes an object of its manifest.
func read[T any](text string, args ...any) *T {
	out := new(T)
	if err := yaml.Unmarshal(fmt.Appendf(nil, text, args...), out); err != nil {
		panic(err)
	}
	return out
}

// objects are decisions about objects that were written awkwardly: several faults in one, several that tie.
func objects() []decision {
	list := []decision{
		{"memory: snapshot", 8, func() string {
			view := filledStore().Snapshot(offers())
			return dump(view.Snapshot, texts(view.Ignored), view.Pods, podNames(view))
		}},
		{"memory: plan, claims and faults", 8, plan},
		{"memory: disruption", 8, disruption},
		{"memory: usage and reservations", 8, reservations},
		{"pool: faults and conditions", 20, poolStep},
		{"nodeclaim: life cycle", 20, lives},
	}
	for i := range awkwardPods() {
		name := awkwardPods()[i].Name
		list = append(list, decision{"pod: " + name, 30, func() string {
			reader := cluster.NewReader(awsv1.Vocabulary(), cluster.ReaderOptions{Resources: resources.NewTable()})
			return dump(reader.Pod(awkwardPods()[i], nil))
		}})
	}
	return list
}

// awkwardPods have several faults each.
func awkwardPods() []*corev1.Pod {
	pods := []*corev1.Pod{
		read[corev1.Pod](`{metadata: {name: labels-of-spread, namespace: shop, labels: {d: "-", c: "-", b: "-", a: "-"}}, spec: {topologySpreadConstraints: [
			{topologyKey: topology.kubernetes.io/zone, maxSkew: 1, labelSelector: {}, matchLabelKeys: [d, c, b, a]}]}}`),
		read[corev1.Pod](`{metadata: {name: selectors, namespace: shop}, spec: {topologySpreadConstraints: [
			{topologyKey: k, maxSkew: 1, labelSelector: {matchLabels: {d: "-", c: "-", b: "-", a: "-"}}}, {topologyKey: k, maxSkew: 1, labelSelector: {matchExpressions: [{key: "-", operator: In}, {key: x, operator: Between}]}}]}}`),
		read[corev1.Pod](`{metadata: {name: node-selector, namespace: shop}, spec: {nodeSelector: {"-": "-", "+": "+", "a b": x, beta.kubernetes.io/arch: amd64, kubernetes.io/arch: arm64, karpenter.sh/nodepool: "-"}}}`),
		read[corev1.Pod](`{metadata: {name: node-affinity, namespace: shop}, spec: {nodeSelector: {c: x, b: x, a: x}, affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
			{matchExpressions: [{key: c, operator: In, values: ["y"]}, {key: b, operator: In, values: ["y"]}, {key: a, operator: NotIn, values: [x]}, {key: d, operator: Gt, values: [many]}]}, {}]}}}}}`),
		read[corev1.Pod](`{metadata: {name: namespaces, namespace: shop}, spec: {affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [
			{topologyKey: k, labelSelector: {matchLabels: {"-": a, "+": b}}, namespaceSelector: {matchLabels: {"-": a, "+": b}}}]}}}}`),
	}
	for _, p := range pods {
		p.UID = types.UID(p.Name)
		p.Spec.Containers = []corev1.Container{{Name: "main"}}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	}
	return pods
}

// feed gives a store its objects, as watches do.
type feed map[string]toolscache.ResourceEventHandler

func (f feed) GetInformer(_ context.Context, obj client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	return informer{feed: f, kind: fmt.Sprintf("%T", obj)}, nil
}

type informer struct {
	cache.Informer
	feed feed
	kind string
}

func (i informer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	i.feed[i.kind] = h
	return synced{}, nil
}

type synced struct {
	toolscache.ResourceEventHandlerRegistration
}

func (synced) HasSynced() bool { return true }

// filledStore returns a store with a cluster in which much ties: four pools with equal prices, nodes that are alike, claims
// of an earlier process for one pod, several budgets for another, and resources that only some nodes have.
func filledStore() *store.Store {
	s := store.New(store.Options{
		Words: awsv1.Vocabulary(), Lanes: resources.NewTable(), Classes: []schema.GroupKind{{Group: awsv1.Group, Kind: awsv1.Kind}}, Now: noon, ReservationLabel: awsv1.LabelCapacityReservationID,
	})
	f := feed{}
	if err := s.Watch(context.Background(), f); err != nil {
		panic(err)
	}
	tell := func(obj client.Object) { f[fmt.Sprintf("%T", obj)].OnAdd(obj, true) }
	for _, name := range poolNames() {
		tell(nodePool(name))
	}
	for i := range 8 {
		claim, node := running(i)
		tell(claim)
		tell(node)
		for j := range 3 {
			p := read[corev1.Pod](`{metadata: {name: run-%d-%d, namespace: shop, labels: {app: web, tier: front, n: "%d"}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: web, controller: true}]},
				spec: {nodeName: %s, containers: [{name: main, resources: {requests: {cpu: 100m, memory: 100Mi, example.com/pod-%d: 1}}}]}, status: {phase: Running}}`, i, j, i, node.Name, (i+j)%5)
			if i == 1 {
				p.Annotations = map[string]string{karpv1.AnnotationDoNotDisrupt: "true"}
			}
			p.UID = types.UID(p.Name)
			tell(p)
		}
	}
	for i := range 4 { // ordered by an earlier process, for the same pod
		c := read[karpv1.NodeClaim](`{metadata: {name: a-coming-%d, labels: {karpenter.sh/nodepool: a}}, spec: {resources: {requests: {cpu: 1, example.com/claim-%d: 1}}}}`, 3-i, i)
		c.Spec.NodeClassRef, c.UID = classRef(), types.UID(c.Name)
		c.Annotations = map[string]string{karpv1.AnnotationPods: cluster.HashPods([]cluster.PodKey{{Namespace: "shop", Name: "wait-0"}})}
		tell(c)
	}
	for i := range 12 {
		p := read[corev1.Pod](`{metadata: {name: wait-%d, namespace: shop, labels: {app: wait, n: "%d"}}, spec: {containers: [{name: main, resources: {requests: {cpu: 700m, memory: 1Gi}}}]}}`, i, i%3)
		switch i % 6 {
		case 1: // several things that no node has
			for j := range 4 {
				p.Spec.Containers[0].Resources.Requests[corev1.ResourceName(fmt.Sprintf("example.com/wish-%d", 3-j))] = resource.MustParse("1")
			}
		case 2:
			p.Spec.NodeSelector = map[string]string{"d": "x", "c": "x", "b": "x", "a": "x"}
		case 3:
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{TopologyKey: corev1.LabelTopologyZone, MaxSkew: 1, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "wait", "n": "0"}}}}
		case 4:
			p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("1000")
		}
		p.UID = types.UID(p.Name)
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
		tell(p)
	}
	for _, p := range awkwardPods() {
		tell(p)
	}
	for i := range 3 {
		b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("budget-", i)}}
		b.Spec.Selector, b.Spec.MaxUnavailable = &metav1.LabelSelector{MatchLabels: map[string]string{"n": "2", "app": "web"}}, new(intstr.FromInt32(0))
		tell(b)
	}
	for i := range 3 {
		d := read[appsv1.DaemonSet](`{metadata: {name: agent-%d, namespace: kube-system}, spec: {template: {spec: {containers: [{name: main, resources: {requests: {cpu: 10m, example.com/agent-%d: 1}}}]}}}}`, i, 2-i)
		d.UID = types.UID(d.Name)
		tell(d)
	}
	return s
}

func poolNames() []string { return []string{"d", "b", "a", "c"} }

func classRef() karpv1.NodeClassReference {
	return karpv1.NodeClassReference{Group: awsv1.Group, Kind: awsv1.Kind, Name: "default"}
}

// nodePool is like the others, except for its name.
func nodePool(name string) *karpv1.NodePool {
	p := read[karpv1.NodePool](`{metadata: {name: %s, generation: 1}, spec: {weight: 10, limits: {cpu: 40, memory: 40Gi, nodes: 12, example.com/node-1: 3, example.com/node-2: 3},
		disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 0s, budgets: [{nodes: "100%%"}]},
		template: {metadata: {labels: {team: x, tier: y, env: z}, annotations: {note: a, other: b}}, spec: {expireAfter: Never,
			requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}, {key: example.com/rack, operator: NotIn, values: [r1]}],
			taints: [], startupTaints: [{key: starting, effect: NoSchedule}]}}}}`, name)
	p.UID, p.Spec.Template.Spec.NodeClassRef = types.UID("pool-"+name), classRef()
	p.Status.Conditions = []metav1.Condition{{Type: karpv1.ConditionReady, Status: metav1.ConditionTrue}}
	return p
}

// running is a node of a pool with its claim; every other one is drifted or not looked after.
func running(i int) (*karpv1.NodeClaim, *corev1.Node) {
	name, id, pool := fmt.Sprint("node-", i), fmt.Sprint("aws:///zone-a/i-", i), poolNames()[i%4]
	labels := map[string]string{
		karpv1.LabelNodePool: pool, karpv1.LabelRegistered: "true", karpv1.LabelInitialized: "true", corev1.LabelInstanceTypeStable: "small", corev1.LabelTopologyZone: "zone-a",
		karpv1.LabelCapacityType: "on-demand", corev1.LabelHostname: name, "team": "x", "tier": "y", "beta.kubernetes.io/instance-type": "large",
	}
	size := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse([]string{"16Gi", "17179869184"}[i/4%2]), corev1.ResourcePods: resource.MustParse("110"),
		corev1.ResourceName(fmt.Sprintf("example.com/node-%d", 7-i)): resource.MustParse("1"),
	}
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: pool + fmt.Sprint("-", i), UID: types.UID(id), Labels: labels, CreationTimestamp: metav1.NewTime(noon().Add(-time.Hour))}}
	claim.Spec.NodeClassRef = classRef()
	claim.Status.ProviderID, claim.Status.Capacity, claim.Status.Allocatable, claim.Status.NodeName = id, size, size, name
	kinds := []string{karpv1.ConditionLaunched, karpv1.ConditionRegistered, karpv1.ConditionInitialized, karpv1.ConditionConsolidatable}
	if i%3 == 0 {
		kinds = append(kinds, karpv1.ConditionDrifted)
	}
	for _, kind := range kinds {
		claim.Status.Conditions = append(claim.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: kind, LastTransitionTime: metav1.NewTime(noon().Add(-30 * time.Minute))})
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: labels, CreationTimestamp: claim.CreationTimestamp}}
	node.Spec.ProviderID, node.Status.Capacity, node.Status.Allocatable = id, size, size
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return claim, node
}

// offers are what the pools can launch: types that cost the same, in zones that cost the same.
func offers() map[string][]catalog.InstanceType {
	lanes := resources.NewTable()
	var list []catalog.InstanceType
	for _, name := range []string{"small", "same", "large"} {
		cores := map[string]string{"small": "4", "same": "4", "large": "16"}[name]
		price := map[string]float64{"small": 0.2, "same": 0.2, "large": 0.8}[name]
		t := catalog.InstanceType{
			Name: name, Labels: reqs.FromLabels(map[string]string{corev1.LabelInstanceTypeStable: name, corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux", awsv1.LabelInstanceFamily: name[:1]}, awsv1.Vocabulary()),
			Capacity:     lanes.Capacity(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cores), corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourcePods: resource.MustParse("110")}),
			VolumeLimits: map[string]int{"ebs.csi.aws.com": 20, "efs.csi.aws.com": 30},
		}
		for _, zone := range []string{"zone-b", "zone-a", "zone-c"} {
			for _, capacity := range []string{"spot", "on-demand"} {
				t.Offerings = append(t.Offerings, catalog.Offering{Zone: zone, CapacityType: capacity, Price: price, Available: true, Labels: map[string]string{awsv1.LabelZoneID: zone + "-id", "example.com/hall": "1", "example.com/row": "2"}})
			}
		}
		list = append(list, t)
	}
	out := map[string][]catalog.InstanceType{}
	for _, name := range poolNames() {
		out[name] = list
	}
	return out
}

// texts are the reasons why pods are left out, as users read them.
func texts(pods []cluster.Pod) []string {
	var out []string
	for i := range pods {
		out = append(out, pods[i].Key.String()+": "+reason.Join(pods[i].Shape.Invalid, 10))
	}
	return out
}

// podNames shows promises, whose keys JSON does not take.
func podNames(view store.View) map[string]string {
	out := map[string]string{}
	for key, node := range view.PlannedNodes {
		out[key.String()] = node
	}
	return out
}

// plan plans for the cluster, writes the claims of the plan, and says what is wrong with a plan of nothing.
func plan() string {
	s := filledStore()
	view := s.Snapshot(offers())
	problem := solve.Problem{View: view.Snapshot, Pods: view.Pods, Policy: solve.Policy{NodeFee: 0.02}}
	for pod, node := range view.PlannedNodes {
		problem.PlannedBinds = append(problem.PlannedBinds, solve.Bind{Pod: pod, Node: node})
	}
	_, made := solve.PlanAwaitingReplacement(problem, view.AwaitingReplacement, never)
	parts := []any{made, check.Plan(problem, solve.Plan{})}
	for i := range made.Unplaced {
		parts = append(parts, reason.Join(made.Unplaced[i].Why, 10))
	}
	for i, n := range made.Create {
		parts = append(parts, must(execute.Claim(execute.Order{
			Pool: nodePool(n.Pool), Node: n, Lanes: view.Resources, Words: awsv1.Vocabulary(), Seed: fmt.Sprint(i), Marks: map[string]string{"x": "1", "y": "2"},
		})))
	}
	return dump(parts...)
}

// disruption decides what goes, and says what keeps the rest.
func disruption() string {
	view := disrupt.View{DisruptionView: filledStore().Disruption(offers())}
	view.Policy, view.Methods = solve.Policy{NodeFee: 0.02}, disrupt.Methods{Repair: true, Static: true}
	view.Tuning = disrupt.Tuning{Horizon: 24 * time.Hour, PodCost: 0.001}
	view.Repairs = must(disrupt.NewRepairSet([]cloud.Repair{{Condition: "Ready", Status: "False", ReasonRegex: "x", Toleration: time.Minute, Action: cloud.ReplaceNode}, {Condition: "Ready", Status: "Unknown", Toleration: time.Minute, Action: cloud.ReplaceNode}}))
	decided := disrupt.Next(view, never)
	costs := disrupt.DeletionCosts(view, map[string]disrupt.NodeNote{"node-1": {Pinned: true}, "node-2": {Pinned: true}, "node-3": {Tainted: true}})
	return dump(decided, decided.Events, decided.Allowed, decided.Busy, disrupt.PersistentBlocks(view), disrupt.Blocked(view), costs, view.Nodes, view.PlannedBinds)
}

// reservations are how much pools use, and what is refused because of it.
func reservations() string {
	s := filledStore()
	view := s.Snapshot(offers())
	waits := []cluster.PodKey{{Namespace: "shop", Name: "wait-1"}}
	for i := range 3 { // several for one pod, by commands that replace one node
		c, _ := running(9 - i)
		c.Status.ProviderID = ""
		c.Annotations = (&disrupt.Command{ID: fmt.Sprint(i), Decided: noon(), Remove: []disrupt.Candidate{{Claim: "d-0"}}, Create: make([]solve.NewNode, 1)}).Marks()
		s.RecordCreatedClaim(c, waits)
	}
	s.SetCommanded("node-0", true)
	var nodes []solve.NewNode
	for _, name := range poolNames() {
		for i := range 4 {
			nodes = append(nodes, solve.NewNode{Pool: name, Types: []string{"small", "large"}})
			if i == 0 {
				nodes[len(nodes)-1].Pods = waits
			}
		}
	}
	refused, _ := s.Reserve(nodes, nil, view.Version)
	said := map[int]string{}
	for i, err := range refused {
		said[i] = err.Error()
	}
	parts := []any{said}
	for _, name := range poolNames() {
		used, count := s.Usage(name)
		parts = append(parts, used, count, s.Loads(name))
	}
	return dump(parts...)
}

// poolStep is what is written on a pool with many faults.
func poolStep() string {
	p := read[karpv1.NodePool](`{metadata: {name: x, generation: 3, annotations: {b: "1", a: "2"}}, spec: {weight: 0, limits: {cpu: -1, memory: 1Gi, nodes: 3}, disruption: {budgets: [{nodes: x}, {schedule: y, duration: z}, {nodes: "1", reasons: [Odd, Even]}]},
		template: {metadata: {labels: {karpenter.sh/nodepool: y, kubernetes.io/hostname: h, "-": "-", "+": "+", a: "1", b: "2", c: "3", karpenter.k8s.aws/unknown: u}},
			spec: {expireAfter: soon, requirements: [{key: c, operator: In, values: [x]}, {key: b, operator: In, values: [x]}, {key: a, operator: In, values: [x]}, {key: "-", operator: Between, values: [x]},
				{key: karpenter.k8s.aws/instance-cpu, operator: Gt, values: [many]}, {key: kubernetes.io/hostname, operator: Exists}, {key: d, operator: In, values: [x], minValues: 3}],
			taints: [{key: "-", value: "+", effect: Sometimes}, {key: a, effect: NoSchedule}, {key: a, effect: NoSchedule}]}}}}`)
	p.Spec.Template.Spec.NodeClassRef = classRef()
	claims := []karpv1.NodeClaim{}
	for i := range 3 {
		claims = append(claims, karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("x-", i), Annotations: map[string]string{karpv1.AnnotationNodePoolHash: "1", karpv1.AnnotationNodePoolHashVersion: "v0", "other": "x"}}})
	}
	step := must(pool.Next(pool.Facts{Pool: p, Claims: claims, Words: awsv1.Vocabulary(), Now: metav1.NewTime(noon()), Class: &pool.Class{}}))
	problems, ignored := p.Validate(awsv1.Vocabulary())
	good := nodePool("a")
	return dump(step, reason.Join(problems, 100), reason.Join(ignored, 100), must(drift.PoolHash(p)), must(drift.PoolHash(good)), drift.Pool(good, &claims[0], awsv1.Vocabulary()))
}

// lives are steps in the life of a claim with many labels, gates and taints.
func lives() string {
	claim, node := running(0)
	young := claim.DeepCopy()
	young.Status = karpv1.NodeClaimStatus{}
	young.Spec.Taints = []corev1.Taint{{Key: "a", Effect: "NoSchedule"}, {Key: "b", Effect: "NoExecute"}}
	young.Spec.StartupTaints = []corev1.Taint{{Key: "s", Effect: "NoSchedule"}}
	young.Spec.Requirements = []karpv1.Requirement{{Key: "c", Operator: "In", Values: []string{"x"}}, {Key: "d", Operator: "In", Values: []string{"y"}}}
	instance := cloud.Instance{
		ID: "aws:///zone-a/i-0", Type: "small", Zone: "zone-a", CapacityType: "spot", Labels: map[string]string{"a": "1", "b": "2", "team": "other", "c": "3"}, Annotations: map[string]string{"x": "1", "y": "2"},
		Capacity: claim.Status.Capacity, Allocatable: claim.Status.Allocatable, Launched: noon(),
	}
	bare := node.DeepCopy()
	bare.Labels, bare.Spec.Taints = map[string]string{"kubelet": "x"}, []corev1.Taint{{Key: karpv1.TaintKeyUnregistered, Effect: "NoExecute"}}
	bare.Status.Conditions, bare.Status.Allocatable = nil, nil
	gates := []lifecycle.GateState{{Name: "one", Labels: map[string]string{"g1": "a", "g2": "b", "team": "c"}}, {Name: "two", Wait: time.Second, Labels: map[string]string{"g1": "d", "g3": "e"}}}
	var parts []any
	for _, f := range []lifecycle.Facts{
		{Claim: young},
		{Claim: young, Launch: &lifecycle.Outcome{Instance: instance}},
		{Claim: young, Launch: &lifecycle.Outcome{Err: &cloud.Error{Kind: cloud.NoCapacity, Op: "create fleet", Message: "none left"}, Wait: time.Minute}},
		{Claim: claim, Nodes: []*corev1.Node{bare}, Gated: true, Gates: gates},
		{Claim: claim, Nodes: []*corev1.Node{bare}, Gated: true, Gates: gates[:1]},
		{Claim: claim, Nodes: []*corev1.Node{node, bare}},
		{Claim: claim, NodeGone: true},
	} {
		f.Claim, f.Now = f.Claim.DeepCopy(), noon()
		step := lifecycle.Next(f)
		parts = append(parts, step)
		for _, n := range step.News {
			parts = append(parts, strings.TrimSpace(fmt.Sprintln(append([]any{n.Message, n.Err}, n.Fields...)...)))
		}
	}
	return dump(parts...)
}
