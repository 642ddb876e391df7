package controller

import (
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// leanPatch changes metadata or status of a claim. Its spec never changes, and names hundreds of instance
// types: to copy, encode and compare it is most of the work of a patch, so it is left out.
type leanPatch struct{ before *karpv1.NodeClaim }

// leanMergePatch is a merge patch that insists on the version of a claim.
func leanMergePatch(before *karpv1.NodeClaim) client.Patch { return leanPatch{before} }

func (p leanPatch) Type() types.PatchType { return types.MergePatchType }

func (p leanPatch) Data(obj client.Object) ([]byte, error) {
	after := obj.(*karpv1.NodeClaim)
	from := &karpv1.NodeClaim{ObjectMeta: p.before.ObjectMeta, Status: p.before.Status}
	to := &karpv1.NodeClaim{ObjectMeta: after.ObjectMeta, Status: after.Status}
	return client.MergeFromWithOptions(from, client.MergeFromWithOptimisticLock{}).Data(to)
}

// withoutSpec is a copy of a claim to be patched; the answer of the API server fills in the rest.
func withoutSpec(claim *karpv1.NodeClaim) *karpv1.NodeClaim {
	out := &karpv1.NodeClaim{TypeMeta: claim.TypeMeta, Status: *claim.Status.DeepCopy()}
	claim.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return out
}
