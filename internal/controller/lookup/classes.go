package lookup

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

// ClassKind is a kind of node class, seen from the core: that it exists, and its conditions.
type ClassKind struct {
	schema.GroupKind

	New        func() client.Object
	Conditions func(client.Object) []metav1.Condition
	Refusals   func(class client.Object, pool *karpv1.NodePool) []reason.Reason // of a pool in its effective form; nil: there are none
}

// ClassOf is the node class a pool refers to, whatever shape it was applied in.
func ClassOf(p *karpv1.NodePool) karpv1.NodeClassReference {
	effective, _ := p.Effective(false)
	return effective.Spec.Template.Spec.NodeClassRef
}

// KindOf finds the kind of node class among those this controller manages.
func KindOf(classes []ClassKind, ref karpv1.NodeClassReference) (kind ClassKind, ours bool) {
	i := slices.IndexFunc(classes, func(k ClassKind) bool { return k.Group == ref.Group && k.Kind == ref.Kind })
	if i < 0 {
		return ClassKind{}, false
	}
	return classes[i], true
}

// Managed reports whether a node class is of a kind that this process manages.
func Managed(classes []schema.GroupKind, ref karpv1.NodeClassReference) bool {
	return slices.Contains(classes, schema.GroupKind{Group: ref.Group, Kind: ref.Kind})
}
