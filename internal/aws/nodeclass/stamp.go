package nodeclass

import (
	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/classhash"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/drift"
)

// Stamp is the annotations to be put on one claim.
type Stamp struct {
	Claim       string
	Annotations map[string]string
}

// Stamps says which hash annotations to write: on claims first, then on the class, so that a crash in
// between repeats the work (EC2NodeClass 16). Claims that another version stamped get the new hash,
// unless they are drifted already: a change of version is no drift (K22).
func Stamps(class *awsv1.EC2NodeClass, claims []karpv1.NodeClaim, hash drift.Hash) (onClass map[string]string, onClaims []Stamp) {
	have := class.Annotations
	if onClass = classhash.Annotations(hash); drift.Stamped(have, onClass) {
		return nil, nil
	}
	if have[awsv1.AnnotationNodeClassHashVersion] == classhash.Version {
		return onClass, nil // the class changed: claims keep the hash they were made with, and drift
	}
	for i := range claims {
		claim := &claims[i]
		if claim.Annotations[awsv1.AnnotationNodeClassHashVersion] == classhash.Version {
			continue
		}
		stamp := Stamp{Claim: claim.Name, Annotations: map[string]string{awsv1.AnnotationNodeClassHashVersion: classhash.Version}}
		if !condition.True(claim.Status.Conditions, karpv1.ConditionDrifted) {
			stamp.Annotations = onClass
		}
		onClaims = append(onClaims, stamp)
	}
	return onClass, onClaims
}

// UsedBy reports whether a claim refers to a class, whatever version it is written in (L-09).
func UsedBy(class string, claim *karpv1.NodeClaim) bool {
	if claim.Spec.NodeClassRef.Name != class {
		return false
	}
	effective, _ := claim.Effective(nil, false)
	ref := effective.Spec.NodeClassRef
	return ref.Group == awsv1.Group && ref.Kind == awsv1.Kind
}
