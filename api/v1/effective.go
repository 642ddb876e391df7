package v1

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/dovetail-sh/dovetail/internal/reason"
)

// Values in force where a field is absent.
const (
	DefaultExpireAfter      Duration = "720h"
	DefaultConsolidateAfter Duration = "0s"

	defaultBudgetNodes    = "10%"
	defaultNodeClassGroup = "karpenter.k8s.aws"
	defaultNodeClassKind  = "EC2NodeClass"
)

// Effective returns the pool as the controllers read it: strict v1 with every default filled in,
// whatever shape was applied (v1, v1beta1, or one of the leniencies L-01 to L-13). The reasons name
// what was read into it; with strict set, a leniency is a refusal (see reason.Refusals), and the
// pool must not be used. The receiver is not changed.
func (p *NodePool) Effective(strict bool) (*NodePool, []reason.Reason) {
	out, notes := p.Canonical(strict)
	spec := &out.Spec.Template.Spec
	if spec.ExpireAfter == "" {
		spec.ExpireAfter = DefaultExpireAfter
	}
	d := &out.Spec.Disruption
	if d.ConsolidationPolicy == "" {
		d.ConsolidationPolicy = ConsolidationWhenEmptyOrUnderutilized
	}
	if d.ConsolidateAfter == "" {
		d.ConsolidateAfter = DefaultConsolidateAfter
	}
	if d.Budgets == nil {
		d.Budgets = []Budget{{Nodes: intstr.FromString(defaultBudgetNodes)}}
	}
	return out, notes
}

// Canonical returns the pool in strict v1 spelling: old fields moved to their place, old names
// replaced, and only those absent fields filled in that strict v1 requires. `dovetail convert`
// writes this form.
func (p *NodePool) Canonical(strict bool) (*NodePool, []reason.Reason) {
	out := p.DeepCopy()
	notes := &reason.Notes{Strict: strict}
	out.SetGroupVersionKind(GroupVersion().WithKind("NodePool"))
	spec := &out.Spec.Template.Spec
	spec.NodeClassRef.canonicalize("spec.template.spec.nodeClassRef", notes)
	spec.Requirements = canonicalRequirements(spec.Requirements, "spec.template.spec.requirements", notes)

	d := &out.Spec.Disruption
	if d.ConsolidationPolicy == consolidationWhenUnderutilized {
		notes.Old("L-03", "spec.disruption.consolidationPolicy", string(consolidationWhenUnderutilized), string(ConsolidationWhenEmptyOrUnderutilized))
		d.ConsolidationPolicy = ConsolidationWhenEmptyOrUnderutilized
	}
	moveExpireAfter(spec, d, notes)
	if d.ConsolidateAfter == "" && (d.ConsolidationPolicy != "" || d.Budgets != nil) {
		notes.Assumed("L-04", "spec.disruption.consolidateAfter", string(DefaultConsolidateAfter))
		d.ConsolidateAfter = DefaultConsolidateAfter
	}
	for i := range d.Budgets {
		if n := &d.Budgets[i].Nodes; n.Type == intstr.Int {
			notes.Note(reason.ShortFormRead, "L-13", index("spec.disruption.budgets", i)+".nodes", n.String(), `"`+n.String()+`"`)
			*n = intstr.FromString(n.String())
		}
	}
	if spec.Kubelet != nil {
		notes.Old("CV-06", "spec.template.spec.kubelet", "a kubelet block on a pool", "settings of this pool that override spec.kubelet of its EC2NodeClass")
	}
	return out, notes.List
}

// moveExpireAfter moves expireAfter to its place in v1. The default of v1beta1 is not a choice of the user
// and equal to that of v1, so it goes without a word.
func moveExpireAfter(spec *NodeClaimTemplateSpec, d *Disruption, notes *reason.Notes) {
	const at = "spec.disruption.expireAfter"
	switch old := d.DeprecatedExpireAfter; {
	case old == "" || old == spec.ExpireAfter:
	case spec.ExpireAfter == "" && old == DefaultExpireAfter:
	case spec.ExpireAfter == "":
		notes.Old("L-10", at, "expireAfter in this place", "spec.template.spec.expireAfter: "+string(old))
		spec.ExpireAfter = old
	case old != DefaultExpireAfter:
		notes.Note(reason.FieldIgnored, "L-10", at, string(old), "spec.template.spec.expireAfter: "+string(spec.ExpireAfter))
	}
	d.DeprecatedExpireAfter = ""
}

// Effective returns the claim as the controllers read it. The pool that owns it, in its effective
// form, supplies what a v1beta1 claim did not have; nil means there is none.
func (c *NodeClaim) Effective(owner *NodePool, strict bool) (*NodeClaim, []reason.Reason) {
	out := c.DeepCopy()
	notes := &reason.Notes{Strict: strict}
	out.SetGroupVersionKind(GroupVersion().WithKind("NodeClaim"))
	out.Spec.NodeClassRef.canonicalize("spec.nodeClassRef", notes)
	out.Spec.Requirements = canonicalRequirements(out.Spec.Requirements, "spec.requirements", notes)
	if out.Spec.ExpireAfter == "" { // CV-14
		out.Spec.ExpireAfter = DefaultExpireAfter
		if owner != nil && owner.Spec.Template.Spec.ExpireAfter != "" {
			out.Spec.ExpireAfter = owner.Spec.Template.Spec.ExpireAfter
		}
	}
	out.Status.Conditions = slices.DeleteFunc(out.Status.Conditions, func(c condition) bool {
		return c.Type == "Empty" || c.Type == "Expired" || c.Type == "Underutilized" // v1beta1 only (API 11.2)
	})
	return out, notes.List
}

// canonicalize fills group and kind and moves apiVersion to group.
func (r *NodeClassReference) canonicalize(at string, notes *reason.Notes) {
	old := r.DeprecatedAPIVersion
	group, _, versioned := strings.Cut(old, "/")
	switch {
	case !versioned || group == "": // no group in it; CV-05 reads that as absent
	case r.Group == "" || r.Group == defaultNodeClassGroup:
		// The schema fills group with its default even where apiVersion names another group, so a
		// default group next to an apiVersion is not a choice of the user.
		notes.Old("L-09", at+".apiVersion", old, "group: "+group)
		r.Group = group
	case r.Group != group:
		notes.Note(reason.FieldIgnored, "L-09", at+".apiVersion", old, "group: "+r.Group)
	}
	r.DeprecatedAPIVersion = ""
	if r.Group == "" {
		notes.Assumed("L-01", at+".group", defaultNodeClassGroup)
		r.Group = defaultNodeClassGroup
	}
	if r.Kind == "" {
		notes.Assumed("L-01", at+".kind", defaultNodeClassKind)
		r.Kind = defaultNodeClassKind
	}
}

// canonicalRequirements fills absent operators; the result is never nil, since strict v1 requires
// the list.
func canonicalRequirements(list []Requirement, at string, notes *reason.Notes) []Requirement {
	if list == nil {
		return []Requirement{}
	}
	for i := range list {
		if list[i].Operator == "" {
			notes.Assumed("L-02", index(at, i)+".operator", string(corev1.NodeSelectorOpIn))
			list[i].Operator = corev1.NodeSelectorOpIn
		}
	}
	return list
}
