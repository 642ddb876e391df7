package write

import (
	"errors"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/condition"
)

// leanPatch changes metadata or status of a claim. Its spec never changes, and names hundreds of instance
// types: to copy, encode and compare it is most of the work of a patch, so it is left out.
type leanPatch struct{ before *karpv1.NodeClaim }

// LeanMergePatch is a merge patch that insists on the version of a claim.
func LeanMergePatch(before *karpv1.NodeClaim) client.Patch { return leanPatch{before} }

func (p leanPatch) Type() types.PatchType { return types.MergePatchType }

func (p leanPatch) Data(obj client.Object) ([]byte, error) {
	after := obj.(*karpv1.NodeClaim)
	from := &karpv1.NodeClaim{ObjectMeta: p.before.ObjectMeta, Status: p.before.Status}
	to := &karpv1.NodeClaim{ObjectMeta: after.ObjectMeta, Status: after.Status}
	return client.MergeFromWithOptions(from, client.MergeFromWithOptimisticLock{}).Data(to)
}

// WithoutSpec is a copy of a claim to be patched; the response of the API server fills in the rest.
func WithoutSpec(claim *karpv1.NodeClaim) *karpv1.NodeClaim {
	out := &karpv1.NodeClaim{TypeMeta: claim.TypeMeta, Status: *claim.Status.DeepCopy()}
	claim.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return out
}

// SameStatus does not mind the order of the conditions: claims that another version wrote are not
// written anew for that alone (FM C07).
func SameStatus(a, b karpv1.NodeClaimStatus) bool {
	if len(a.Conditions) != len(b.Conditions) {
		return false
	}
	for _, c := range a.Conditions {
		other := condition.Find(b.Conditions, c.Type)
		if other == nil || !equality.Semantic.DeepEqual(c, *other) {
			return false
		}
	}
	a.Conditions, b.Conditions = nil, nil
	return equality.Semantic.DeepEqual(a, b)
}

// IsStale reports whether another client wrote or removed an object since it was read, so that it has to
// be read again. Errors of the cloud never count, even if they wrap one of the API server.
func IsStale(err error) bool {
	if _, ofCloud := errors.AsType[*cloud.Error](err); ofCloud {
		return false
	}
	return apierrors.IsConflict(err) || apierrors.IsNotFound(err)
}

// WithOptimisticLock returns a patch that fails if another client wrote the object since it was read.
func WithOptimisticLock(before client.Object) client.Patch {
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}
