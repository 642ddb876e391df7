package snapshottest

import (
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/snapshot"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// PoolName is the name of the NodePool.
const PoolName = "default"

// Options say what a cluster has.
type Options struct {
	Nodes   int // of PoolName, each half full
	Pods    int // on each node; 0: 2
	Pending int // pods that fit a new node
	Huge    int // pending pods that fit no instance type

	Shapes   int // different sizes of pods, in turn; 0: all are equal
	Families int // times that there is each instance type, each time under another name and at another price; 0: 1
}

// Now is when the File is taken.
func Now() time.Time { return time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC) }

// New makes a File with one NodePool. Its nodes are m5.xlarge, on demand and spot in turn, each with pods that would fit
// in half of it.
func New(o Options) *snapshot.File {
	f := &snapshot.File{
		Format: snapshot.Format, Name: "test", Taken: Now(), Tool: "dovetail test", Controller: "dovetail",
		Settings: snapshot.Settings{
			Classes: []metav1.GroupKind{{Group: awsv1.Group, Kind: awsv1.Kind}},
			Policy:  solve.Policy{NodeFee: 0.02, Workers: 1},
			Tuning:  disrupt.Tuning{Horizon: time.Hour, MinSaving: 0.1},
		},
		Catalogues: []snapshot.Catalogue{{NodePools: []string{PoolName}, InstanceTypes: families(max(1, o.Families))}},
	}
	f.Objects.Namespaces = []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "default"}}}
	f.Objects.NodePools = []karpv1.NodePool{*Pool(PoolName)}
	pods := o.Pods
	if pods == 0 {
		pods = 2
	}
	for i := range o.Nodes {
		market := karpv1.CapacityTypeOnDemand
		if i%2 == 1 {
			market = karpv1.CapacityTypeSpot
		}
		claim, node := Node(fmt.Sprintf("node-%04d", i), "m5.xlarge", []string{"us-east-1a", "us-east-1b", "us-east-1c"}[i%3], market)
		f.Objects.NodeClaims, f.Objects.Nodes = append(f.Objects.NodeClaims, *claim), append(f.Objects.Nodes, *node)
		for j := range pods {
			f.Objects.Pods = append(f.Objects.Pods, *Pod(fmt.Sprintf("web-%04d-%d", i, j), node.Name, fmt.Sprintf("%dm", 1800/pods-(i*pods+j)%max(1, o.Shapes)), "1Gi"))
		}
	}
	for i := range o.Pending {
		f.Objects.Pods = append(f.Objects.Pods, *Pod(fmt.Sprintf("pending-%04d", i), "", "2", "4Gi"))
	}
	for i := range o.Huge {
		f.Objects.Pods = append(f.Objects.Pods, *Pod(fmt.Sprintf("huge-%04d", i), "", "500", "4Gi"))
	}
	return f
}

// InstanceTypes are six in three zones, on demand and spot.
func InstanceTypes() []snapshot.InstanceType {
	var out []snapshot.InstanceType
	for _, t := range []struct {
		family, size, arch string
		cpu, memory        int64
		price              float64
	}{
		{"m5", "large", "amd64", 2, 8, 0.096},
		{"m5", "xlarge", "amd64", 4, 16, 0.192},
		{"m5", "2xlarge", "amd64", 8, 32, 0.384},
		{"c5", "xlarge", "amd64", 4, 8, 0.17},
		{"r5", "xlarge", "amd64", 4, 32, 0.252},
		{"m7g", "xlarge", "arm64", 4, 16, 0.1632},
	} {
		name := t.family + "." + t.size
		it := snapshot.InstanceType{
			Name: name,
			Labels: map[string][]string{
				corev1.LabelInstanceTypeStable: {name}, corev1.LabelArchStable: {t.arch}, corev1.LabelOSStable: {"linux"},
				awsv1.LabelInstanceFamily: {t.family}, awsv1.LabelInstanceSize: {t.size}, awsv1.LabelInstanceCategory: {t.family[:1]}, awsv1.LabelInstanceGPUName: nil,
			},
			Capacity: corev1.ResourceList{
				corev1.ResourceCPU: *resource.NewQuantity(t.cpu, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(t.memory<<30, resource.BinarySI),
				corev1.ResourcePods: resource.MustParse("58"), corev1.ResourceEphemeralStorage: resource.MustParse("20Gi"),
			},
			Overhead: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("80m"), corev1.ResourceMemory: resource.MustParse("1Gi")},
		}
		for _, zone := range []string{"us-east-1a", "us-east-1b", "us-east-1c"} {
			it.Offerings = append(it.Offerings,
				snapshot.Offering{Zone: zone, CapacityType: karpv1.CapacityTypeOnDemand, Price: t.price, Available: true},
				snapshot.Offering{Zone: zone, CapacityType: karpv1.CapacityTypeSpot, Price: t.price * 0.4, Available: true})
		}
		out = append(out, it)
	}
	return out
}

// families are the instance types several times, the first time as they are.
func families(times int) []snapshot.InstanceType {
	var out []snapshot.InstanceType
	for n := range times {
		for _, t := range InstanceTypes() {
			if n > 0 {
				family, size, _ := strings.Cut(t.Name, ".")
				family += fmt.Sprintf("x%d", n)
				t.Name = family + "." + size
				t.Labels[corev1.LabelInstanceTypeStable], t.Labels[awsv1.LabelInstanceFamily] = []string{t.Name}, []string{family}
				for i := range t.Offerings {
					t.Offerings[i].Price *= 1 + float64(n)/100
				}
			}
			out = append(out, t)
		}
	}
	return out
}

// Pool is a NodePool that is ready and has no limits.
func Pool(name string) *karpv1.NodePool {
	return &karpv1.NodePool{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("pool-" + name), CreationTimestamp: metav1.NewTime(Now().Add(-48 * time.Hour))},
		Spec: karpv1.NodePoolSpec{
			Template: karpv1.NodeClaimTemplate{Spec: karpv1.NodeClaimTemplateSpec{
				NodeClassRef: karpv1.NodeClassReference{Group: awsv1.Group, Kind: awsv1.Kind, Name: "default"},
				Requirements: []karpv1.Requirement{
					{Key: karpv1.LabelCapacityType, Operator: corev1.NodeSelectorOpIn, Values: []string{karpv1.CapacityTypeOnDemand, karpv1.CapacityTypeSpot}},
				},
			}},
			Disruption: karpv1.Disruption{ConsolidationPolicy: karpv1.ConsolidationWhenEmptyOrUnderutilized, ConsolidateAfter: "0s", Budgets: []karpv1.Budget{{Nodes: intstr.FromString("100%")}}},
		},
		Status: karpv1.NodePoolStatus{Conditions: []metav1.Condition{{Type: karpv1.ConditionReady, Status: metav1.ConditionTrue}}},
	}
}

// Node is an initialized node of PoolName that can be consolidated, with its NodeClaim, which is called claim-NAME.
func Node(name, instanceType, zone, market string) (*karpv1.NodeClaim, *corev1.Node) {
	var size snapshot.InstanceType
	for _, t := range InstanceTypes() {
		if t.Name == instanceType {
			size = t
		}
	}
	labels := map[string]string{
		karpv1.LabelNodePool: PoolName, karpv1.LabelCapacityType: market, corev1.LabelInstanceTypeStable: instanceType, corev1.LabelTopologyZone: zone,
		karpv1.LabelRegistered: "true", karpv1.LabelInitialized: "true", corev1.LabelHostname: name, corev1.LabelOSStable: "linux",
	}
	for key, values := range size.Labels {
		if len(values) == 1 {
			labels[key] = values[0]
		}
	}
	allocatable := corev1.ResourceList{}
	// any order: each is computed by itself
	for resourceName, q := range size.Capacity {
		left := q.DeepCopy()
		left.Sub(size.Overhead[resourceName])
		allocatable[resourceName] = left
	}
	created := metav1.NewTime(Now().Add(-24 * time.Hour))
	provider := "aws:///" + zone + "/i-" + name
	claim := &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "claim-" + name, UID: types.UID("claim-" + name), Labels: maps.Clone(labels), CreationTimestamp: created},
		Spec: karpv1.NodeClaimSpec{
			NodeClassRef: karpv1.NodeClassReference{Group: awsv1.Group, Kind: awsv1.Kind, Name: "default"},
			Requirements: []karpv1.Requirement{{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: []string{instanceType}}},
		},
		Status: karpv1.NodeClaimStatus{ProviderID: provider, NodeName: name, Capacity: size.Capacity, Allocatable: allocatable},
	}
	for _, kind := range []string{karpv1.ConditionLaunched, karpv1.ConditionRegistered, karpv1.ConditionInitialized, karpv1.ConditionConsolidatable, karpv1.ConditionReady} {
		claim.Status.Conditions = append(claim.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: kind, LastTransitionTime: created})
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("node-" + name), Labels: maps.Clone(labels), CreationTimestamp: created},
		Spec:       corev1.NodeSpec{ProviderID: provider},
		Status: corev1.NodeStatus{
			Capacity: size.Capacity, Allocatable: allocatable, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: created}},
		},
	}
	return claim, node
}

// Pod is a pod of a ReplicaSet, running on a node, or unschedulable if none is given.
func Pod(name, node, cpu, memory string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", UID: types.UID("pod-" + name), Labels: map[string]string{"app": "web"}, CreationTimestamp: metav1.NewTime(Now().Add(-time.Hour)),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "replicaset-web", Controller: new(true)}},
		},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{
			Name:      "app",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}},
		}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	if node == "" {
		p.Status.Phase = corev1.PodPending
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	}
	return p
}
