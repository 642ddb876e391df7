package lifecycle

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// HydrateClaim returns the labels that a claim, in its effective form, lacks because an older version
// made it (LC-44).
func HydrateClaim(claim *karpv1.NodeClaim) map[string]string {
	ref := claim.Spec.NodeClassRef
	key := ref.LabelKey()
	if claim.Labels[key] != "" || ref.Name == "" {
		return nil
	}
	return map[string]string{key: ref.Name}
}

// HydrateNode returns a node with what an older version, or a user, left out or left behind (LC-44,
// LC-62, FM B16); nil if it is all there. A node that is not registered gets it by registration.
func HydrateNode(node *corev1.Node, claim *karpv1.NodeClaim) *corev1.Node {
	if node.Labels[karpv1.LabelRegistered] != "true" {
		return nil
	}
	want := node.DeepCopy()
	missing := map[string]string{
		claim.Spec.NodeClassRef.LabelKey(): claim.Spec.NodeClassRef.Name,
		karpv1.LabelNodePool:               claim.Labels[karpv1.LabelNodePool],
		karpv1.LabelProvisionerName:        claim.Labels[karpv1.LabelNodePool],
	}
	for key, value := range missing {
		if value != "" && want.Labels[key] == "" {
			want.Labels[key] = value
		}
	}
	if node.DeletionTimestamp == nil && claim.DeletionTimestamp == nil {
		want.Spec.Taints = slices.DeleteFunc(want.Spec.Taints, func(t corev1.Taint) bool { return t.Key == karpv1.TaintKeyDisruption })
	}
	if equality.Semantic.DeepEqual(node, want) {
		return nil
	}
	return want
}
