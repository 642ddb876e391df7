package snapshottest

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/snapshot"
)

// NodePools of Varied, beside PoolName.
const (
	TaintedPool = "batch"  // tainted, arm64 only
	LimitedPool = "small"  // its limit on CPU leaves room for a large node only
	ClosedPool  = "closed" // not ready
)

// Varied makes a File in which there is something of everything that can be explained: nodes that can be consolidated
// (node-0000 to node-0002), one that is held by a PodDisruptionBudget and an annotation (node-held), one that has drifted
// (node-drifted), one that terminates (node-leaving), a NodeClaim that is being launched (claim-coming) and a node of others
// (node-foreign); pending pods that fit a new node (default/fits), none (default/huge), or are not planned for
// (default/ignored); NodePools that are tainted, limited and closed.
func Varied() *snapshot.File {
	f := New(Options{Nodes: 3})
	o := &f.Objects
	f.Catalogues[0].NodePools = append(f.Catalogues[0].NodePools, TaintedPool, LimitedPool, ClosedPool)
	tainted, limited, closed := Pool(TaintedPool), Pool(LimitedPool), Pool(ClosedPool)
	tainted.Spec.Template.Spec.Taints = []corev1.Taint{{Key: "team", Value: "batch", Effect: corev1.TaintEffectNoSchedule}}
	tainted.Spec.Template.Spec.Requirements = append(tainted.Spec.Template.Spec.Requirements, karpv1.Requirement{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"arm64"}})
	limited.Spec.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
	closed.Status.Conditions[0].Status = metav1.ConditionFalse
	o.NodePools = append(o.NodePools, *tainted, *limited, *closed)
	o.NodePools[0].Spec.Disruption.Budgets = []karpv1.Budget{
		{Nodes: intstr.FromString("50%")},
		{Nodes: intstr.FromInt32(0), Reasons: []karpv1.DisruptionReason{karpv1.ReasonDrifted}, Schedule: new("0 9 * * 1-5"), Duration: new(karpv1.Duration("8h"))},
	}
	o.DaemonSets = []appsv1.DaemonSet{{
		ObjectMeta: metav1.ObjectMeta{Name: "agent", Namespace: "default", UID: "daemonset-agent"},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "agent"}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "agent"}}, Spec: corev1.PodSpec{Containers: Pod("agent", "", "100m", "128Mi").Spec.Containers}},
		},
	}}
	o.Budgets = []policyv1.PodDisruptionBudget{{
		ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: "default", UID: "budget-db"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}, MaxUnavailable: new(intstr.FromInt32(0))},
	}}
	addVariedNodes(f)
	for i := range o.Nodes {
		agent := Pod("agent-"+o.Nodes[i].Name, o.Nodes[i].Name, "100m", "128Mi")
		agent.Labels = map[string]string{"app": "agent"}
		agent.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", UID: "daemonset-agent", Controller: new(true)}}
		o.Pods = append(o.Pods, *agent)
	}
	ignored := Pod("ignored", "", "1", "1Gi")
	ignored.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "missing"}}}}
	o.Pods = append(o.Pods, *Pod("fits", "", "3500m", "4Gi"), *Pod("huge", "", "8", "4Gi"), *ignored)
	return f
}

func addVariedNodes(f *snapshot.File) {
	o := &f.Objects
	add := func(name, market string, change func(*karpv1.NodeClaim, *corev1.Node), pods ...*corev1.Pod) {
		claim, node := Node(name, "m5.xlarge", "us-east-1a", market)
		change(claim, node)
		o.NodeClaims, o.Nodes = append(o.NodeClaims, *claim), append(o.Nodes, *node)
		for _, p := range pods {
			o.Pods = append(o.Pods, *p)
		}
	}
	db, important, ending := Pod("db-0", "node-held", "1", "2Gi"), Pod("important", "node-held", "500m", "1Gi"), Pod("db-1", "node-leaving", "1", "2Gi")
	db.Labels, ending.Labels = map[string]string{"app": "db"}, map[string]string{"app": "db"}
	important.Annotations = map[string]string{karpv1.AnnotationDoNotDisrupt: "true"}
	add("node-held", karpv1.CapacityTypeOnDemand, func(*karpv1.NodeClaim, *corev1.Node) {}, db, important)
	add("node-drifted", karpv1.CapacityTypeOnDemand, func(c *karpv1.NodeClaim, _ *corev1.Node) {
		c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{Type: karpv1.ConditionDrifted, Status: metav1.ConditionTrue, Reason: "NodePoolDrifted", LastTransitionTime: metav1.NewTime(Now().Add(-time.Hour))})
	}, Pod("steady", "node-drifted", "3", "8Gi"))
	add("node-leaving", karpv1.CapacityTypeSpot, func(c *karpv1.NodeClaim, n *corev1.Node) {
		at := metav1.NewTime(Now().Add(-10 * time.Minute))
		c.DeletionTimestamp, n.DeletionTimestamp = &at, &at
		c.Finalizers, n.Finalizers = []string{karpv1.FinalizerTermination}, []string{karpv1.FinalizerTermination}
	}, ending, Pod("web-leaving", "node-leaving", "500m", "1Gi"))
	coming, _ := Node("coming", "m5.large", "us-east-1b", karpv1.CapacityTypeSpot)
	coming.Status = karpv1.NodeClaimStatus{}
	coming.Labels[karpv1.LabelRegistered], coming.Labels[karpv1.LabelInitialized] = "", ""
	coming.CreationTimestamp = metav1.NewTime(Now().Add(-20 * time.Second))
	o.NodeClaims = append(o.NodeClaims, *coming)
	_, foreign := Node("node-foreign", "m5.large", "us-east-1c", karpv1.CapacityTypeOnDemand)
	foreign.Labels = map[string]string{corev1.LabelHostname: "node-foreign", corev1.LabelInstanceTypeStable: "m5.large"}
	foreign.UID = types.UID("node-foreign")
	o.Nodes = append(o.Nodes, *foreign)
	o.Pods = append(o.Pods, *Pod("outside", "node-foreign", "1", "1Gi"))
}
