package drift

import (
	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// Reasons of drift that do not come from a node class (API 8).
const (
	NodePoolDrifted      = "NodePoolDrifted"
	RequirementsDrifted  = "RequirementsDrifted"
	InstanceTypeNotFound = "InstanceTypeNotFound"
)

// Pool says why a claim is not what its pool, in its effective form, asks for now; empty if it is.
// Hashes are only compared if both sides have one of the same version.
func Pool(pool *karpv1.NodePool, claim *karpv1.NodeClaim, words reqs.Vocabulary) string {
	have, want := claim.Annotations, pool.Annotations
	hash, hashed := have[karpv1.AnnotationNodePoolHash]
	version, versioned := have[karpv1.AnnotationNodePoolHashVersion]
	poolHash, poolHashed := want[karpv1.AnnotationNodePoolHash]
	if hashed && versioned && poolHashed && version == want[karpv1.AnnotationNodePoolHashVersion] && hash != poolHash {
		return NodePoolDrifted
	}
	if !satisfies(claim.Labels, pool.Spec.Template.Spec.Requirements, words) {
		return RequirementsDrifted
	}
	return ""
}

// satisfies reports whether labels meet requirements. A label that is not there meets only one that
// can do without it. Requirements that cannot be read are no reason to replace a node.
func satisfies(labels map[string]string, list []karpv1.Requirement, words reqs.Vocabulary) bool {
	set, faults := reqs.FromEntries(karpv1.Entries(list), words)
	if len(faults) > 0 {
		return true
	}
	have := reqs.FromLabels(labels, words)
	for key, want := range set {
		value, there := have[key]
		if there && (len(value.Values) != 1 || !want.Has(value.Values[0])) || !there && !want.Negative() {
			return false
		}
	}
	return true
}

// Catalogue says whether what a claim was bought as has vanished from what is for sale. An empty list
// is a fault of whoever asked, not news about the type (FM E11).
func Catalogue(types []catalog.InstanceType, claim *karpv1.NodeClaim) string {
	if len(types) == 0 {
		return ""
	}
	name, zone, capacity := claim.Labels[corev1.LabelInstanceTypeStable], claim.Labels[corev1.LabelTopologyZone], claim.Labels[karpv1.LabelCapacityType]
	for i := range types {
		if types[i].Name != name {
			continue
		}
		for j := range types[i].Offerings {
			o := &types[i].Offerings[j]
			if o.Zone == zone && (o.CapacityType == capacity || capacity == karpv1.CapacityTypeReserved && o.CapacityType == karpv1.CapacityTypeOnDemand) {
				return ""
			}
		}
	}
	return InstanceTypeNotFound
}
