package snapshot

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// Annotations of Cluster Autoscaler that protect pods and nodes.
const (
	annotationSafeToEvict = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	annotationNoScaleDown = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
)

const annotationTrue, annotationFalse = "true", "false"

// labelControlPlane marks nodes that no autoscaler manages.
const labelControlPlane = "node-role.kubernetes.io/control-plane"

// groupLabels name the node group of a node, in the words of several clouds.
func groupLabels() []string {
	return []string{"eks.amazonaws.com/nodegroup", "alpha.eksctl.io/nodegroup-name", "kops.k8s.io/instancegroup", "cloud.google.com/gke-nodepool", "kubernetes.azure.com/agentpool"}
}

// adoptNodeGroups takes the node groups of a cluster without NodePools for NodePools: of the instance types, zones,
// capacity types, labels and taints that their nodes have. What a plan for such a cluster says is what Dovetail would do
// if it managed the nodes.
func (f *File) adoptNodeGroups() {
	o := &f.Objects
	_, forbidden := f.Lacks("nodepools.karpenter.sh")
	if forbidden || len(o.NodePools) > 0 || len(o.NodeClaims) > 0 || len(f.Settings.Classes) == 0 {
		return
	}
	groups := map[string][]*corev1.Node{}
	for i := range o.Nodes {
		n := &o.Nodes[i]
		if _, is := n.Labels[labelControlPlane]; is || n.Labels[corev1.LabelInstanceTypeStable] == "" || n.DeletionTimestamp != nil {
			continue
		}
		group := groupOf(n)
		groups[group] = append(groups[group], n)
	}
	if len(groups) == 0 {
		return
	}
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		nodes := groups[group]
		o.NodePools = append(o.NodePools, poolOf(group, nodes, f.Settings.Classes[0]))
		for _, n := range nodes {
			adopt(n, group)
			o.NodeClaims = append(o.NodeClaims, claimOf(n, f.Settings.Classes[0]))
		}
	}
	slices.SortFunc(o.NodeClaims, func(a, b karpv1.NodeClaim) int { return cmp.Compare(a.Name, b.Name) })
	for i := range o.Pods {
		if p := &o.Pods[i]; p.Annotations[annotationSafeToEvict] == annotationFalse {
			p.Annotations = withValues(p.Annotations, map[string]string{karpv1.AnnotationDoNotDisrupt: annotationTrue})
		}
	}
	f.Missing = append(f.Missing, Missing{
		What: missingPools, Why: "the cluster has none",
		Then: fmt.Sprintf("each of its %d node groups is taken for a NodePool with the instance types, zones, labels and taints of its nodes; minimum and maximum sizes of groups are not known", len(groups)),
	})
}

// missingPools is what a File lacks whose NodePools stand for node groups.
const missingPools = "NodePools"

// adoptedGroups reports whether the NodePools of the File stand for node groups. The cluster has no NodeClaims then.
func (f *File) adoptedGroups() bool {
	_, adopted := f.Lacks(missingPools)
	return adopted
}

// groupOf is the node group of a node, in a form that is a name.
func groupOf(n *corev1.Node) string {
	for _, key := range groupLabels() {
		if value := n.Labels[key]; value != "" {
			return strings.ToLower(strings.ReplaceAll(value, "_", "-"))
		}
	}
	return strings.ToLower(n.Labels[corev1.LabelInstanceTypeStable])
}

// poolOf is a node group as a NodePool.
func poolOf(group string, nodes []*corev1.Node, class metav1.GroupKind) karpv1.NodePool {
	labels, taints := maps.Clone(nodes[0].Labels), slices.Clone(nodes[0].Spec.Taints)
	instanceTypes, zones, markets := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, n := range nodes {
		instanceTypes[n.Labels[corev1.LabelInstanceTypeStable]] = true
		zones[n.Labels[corev1.LabelTopologyZone]] = true
		markets[capacityTypeOf(n)] = true
		maps.DeleteFunc(labels, func(key, value string) bool { return n.Labels[key] != value })
		taints = slices.DeleteFunc(taints, func(t corev1.Taint) bool {
			return !slices.ContainsFunc(n.Spec.Taints, func(other corev1.Taint) bool { return other.MatchTaint(&t) && other.Value == t.Value })
		})
	}
	maps.DeleteFunc(labels, func(key, _ string) bool { return !isGroupLabel(key) })
	taints = slices.DeleteFunc(taints, func(t corev1.Taint) bool { return strings.HasPrefix(t.Key, "node.kubernetes.io/") })
	if len(taints) == 0 {
		taints = nil
	}
	in := func(key string, values map[string]bool) karpv1.Requirement {
		return karpv1.Requirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: slices.Sorted(maps.Keys(values))}
	}
	requirements := []karpv1.Requirement{in(corev1.LabelInstanceTypeStable, instanceTypes), in(karpv1.LabelCapacityType, markets)}
	if !zones[""] {
		requirements = append(requirements, in(corev1.LabelTopologyZone, zones))
	}
	pool := karpv1.NodePool{
		ObjectMeta: metav1.ObjectMeta{Name: group, UID: types.UID("nodegroup/" + group), CreationTimestamp: nodes[0].CreationTimestamp},
		Spec: karpv1.NodePoolSpec{
			Template: karpv1.NodeClaimTemplate{
				ObjectMeta: karpv1.TemplateMeta{Labels: labels},
				Spec: karpv1.NodeClaimTemplateSpec{
					NodeClassRef: karpv1.NodeClassReference{Group: class.Group, Kind: class.Kind, Name: group}, Requirements: requirements, Taints: taints, ExpireAfter: "Never",
				},
			},
			Disruption: karpv1.Disruption{ConsolidationPolicy: karpv1.ConsolidationWhenEmptyOrUnderutilized, ConsolidateAfter: "0s"},
		},
	}
	pool.Status.Conditions = []metav1.Condition{{Type: karpv1.ConditionReady, Status: metav1.ConditionTrue, Reason: karpv1.ConditionReady, LastTransitionTime: nodes[0].CreationTimestamp}}
	return pool
}

// isGroupLabel reports whether a label can belong to a group: it is none of one machine, and none that requirements are
// about.
func isGroupLabel(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	switch {
	case domain == karpv1.Group, strings.HasPrefix(key, "topology.") || strings.HasPrefix(key, "failure-domain."), domain == "beta.kubernetes.io",
		key == corev1.LabelHostname, key == corev1.LabelInstanceTypeStable, key == corev1.LabelArchStable, key == corev1.LabelOSStable:
		return false
	}
	return true
}

// adopt gives a node what nodes of NodePools have.
func adopt(n *corev1.Node, pool string) {
	n.Labels = maps.Clone(n.Labels)
	n.Labels[karpv1.LabelNodePool], n.Labels[karpv1.LabelCapacityType] = pool, capacityTypeOf(n)
	n.Labels[karpv1.LabelRegistered], n.Labels[karpv1.LabelInitialized] = annotationTrue, annotationTrue
	if n.Spec.ProviderID == "" {
		n.Spec.ProviderID = "node:///" + n.Name
	}
	if n.Annotations[annotationNoScaleDown] == annotationTrue {
		n.Annotations = withValues(n.Annotations, map[string]string{karpv1.AnnotationDoNotDisrupt: annotationTrue})
	}
}

// claimOf is the NodeClaim of a node that was adopted.
func claimOf(n *corev1.Node, class metav1.GroupKind) karpv1.NodeClaim {
	claim := karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: "nodeclaim/" + n.UID, Labels: maps.Clone(n.Labels), CreationTimestamp: n.CreationTimestamp},
		Spec: karpv1.NodeClaimSpec{
			NodeClassRef: karpv1.NodeClassReference{Group: class.Group, Kind: class.Kind, Name: n.Labels[karpv1.LabelNodePool]}, ExpireAfter: "Never",
			Requirements: []karpv1.Requirement{{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: []string{n.Labels[corev1.LabelInstanceTypeStable]}}},
		},
		Status: karpv1.NodeClaimStatus{ProviderID: n.Spec.ProviderID, NodeName: n.Name, Capacity: n.Status.Capacity, Allocatable: n.Status.Allocatable},
	}
	for _, kind := range []string{karpv1.ConditionLaunched, karpv1.ConditionRegistered, karpv1.ConditionInitialized, karpv1.ConditionConsolidatable, karpv1.ConditionReady} {
		claim.Status.Conditions = append(claim.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: kind, LastTransitionTime: n.CreationTimestamp})
	}
	return claim
}

// launchPools are the NodePools whose instance types a market may know: those of the cluster.
func (f *File) launchPools() []karpv1.NodePool {
	return slices.DeleteFunc(slices.Clone(f.Objects.NodePools), func(p karpv1.NodePool) bool { return strings.HasPrefix(string(p.UID), "nodegroup/") })
}
