package drift

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// Pool says why a claim is not what its pool, in its effective form, requests now; no code if it is.
// Hashes are only compared if both sides have one of the same version.
func Pool(pool *karpv1.NodePool, claim *karpv1.NodeClaim, words reqs.Vocabulary) reason.Reason {
	subject := "NodePool " + pool.Name
	have, want := claim.Annotations, pool.Annotations
	hash, hashed := have[karpv1.AnnotationNodePoolHash]
	version, versioned := have[karpv1.AnnotationNodePoolHashVersion]
	poolHash, poolHashed := want[karpv1.AnnotationNodePoolHash]
	if hashed && versioned && poolHashed && version == want[karpv1.AnnotationNodePoolHashVersion] && hash != poolHash {
		return reason.Reason{Code: reason.NodePoolDrifted, Subject: subject, Have: poolFields(Changed(have[karpv1.AnnotationNodePoolFields], want[karpv1.AnnotationNodePoolFields]))}
	}
	if why, violated := violation(claim.Labels, pool.Spec.Template.Spec.Requirements, words); violated {
		why.Subject = subject
		return why
	}
	return reason.Reason{}
}

// poolFields are fields of a pool as a user finds them in a manifest.
func poolFields(names []string) string {
	return Paths(names, "a field of spec.template", func(name string) string {
		if name == "labels" || name == "annotations" {
			return "spec.template.metadata." + name
		}
		return "spec.template.spec." + name
	})
}

// Paths lists fields, or says why they are not known.
func Paths(names []string, unknown string, path func(string) string) string {
	if len(names) == 0 {
		return unknown
	}
	list := make([]string, 0, len(names))
	for _, name := range names {
		list = append(list, path(name))
	}
	return strings.Join(list, ", ")
}

// violation names the first requirement, by key, that labels do not meet. A label that is not there
// meets only one that can do without it. Requirements that cannot be read are no reason to replace a node.
func violation(labels map[string]string, list []karpv1.Requirement, words reqs.Vocabulary) (why reason.Reason, violated bool) {
	set, faults := reqs.FromEntries(karpv1.Entries(list), words)
	if len(faults) > 0 {
		return reason.Reason{}, false
	}
	have := reqs.FromLabels(labels, words)
	for _, key := range set.Keys() {
		want := set[key]
		value, there := have[key]
		switch {
		case there && (len(value.Values) != 1 || !want.Has(value.Values[0])):
			return reason.Reason{Code: reason.RequirementsDrifted, Want: key + " " + want.String(), Have: strings.Join(value.Values, ",")}, true
		case !there && !want.Negative():
			return reason.Reason{Code: reason.RequirementsDrifted, Want: key + " " + want.String(), Have: "no such label"}, true
		}
	}
	return reason.Reason{}, false
}

const (
	catalogueAge      = time.Hour        // of a claim from which its instance type may vanish
	catalogueInterval = 30 * time.Minute // between two lookups for one claim
)

// CatalogueLookup is the last lookup of the instance type of a claim. The zero value is that of none.
type CatalogueLookup struct {
	At    time.Time
	Found reason.Reason
}

// Due reports whether the instance type of a claim is looked up again. Until then the last result holds.
func (l CatalogueLookup) Due(claim *karpv1.NodeClaim, now time.Time) bool {
	return now.Sub(claim.CreationTimestamp.Time) >= catalogueAge && (l.At.IsZero() || now.Sub(l.At) >= catalogueInterval)
}

// Catalogue says whether what a claim was launched as has vanished from what is offered. An empty list
// is a fault of the request, not news about the type (FM E11).
func Catalogue(types []catalog.InstanceType, claim *karpv1.NodeClaim) reason.Reason {
	if len(types) == 0 {
		return reason.Reason{}
	}
	name, zone, capacity := claim.Labels[corev1.LabelInstanceTypeStable], claim.Labels[corev1.LabelTopologyZone], claim.Labels[karpv1.LabelCapacityType]
	for i := range types {
		if types[i].Name != name {
			continue
		}
		for j := range types[i].Offerings {
			o := &types[i].Offerings[j]
			if o.Zone == zone && (o.CapacityType == capacity || capacity == karpv1.CapacityTypeReserved && o.CapacityType == karpv1.CapacityTypeOnDemand) {
				return reason.Reason{}
			}
		}
	}
	return reason.Reason{Code: reason.InstanceTypeNotFound, Subject: "instance type " + name, Have: capacity + " in " + zone}
}
