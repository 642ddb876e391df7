package v1

import (
	"slices"
	"strconv"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/aws/ami"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

// Facts are what the reading of an EC2NodeClass depends on beside the object itself.
type Facts struct {
	Strict          bool   // turns the leniencies off
	ClusterName     string // replaces ${CLUSTER_NAME}; empty leaves it
	KubernetesMinor int    // 34 for 1.34; 0 when not known yet
	RoleIsProfile   bool   // no IAM role is named like spec.role, but an instance profile is
}

const (
	clusterNamePlacehold = "${CLUSTER_NAME}"
	placeholderImage     = "ami-placeholder"
)

// Effective returns the class as the provider reads it: strict v1 with every default filled in,
// whatever shape was applied. The reasons name what was read into it, and some refuse the class
// (see reason.Refusals). The receiver is not changed.
func (c *EC2NodeClass) Effective(f Facts) (*EC2NodeClass, []reason.Reason) {
	out, list := c.Canonical(f.Strict)
	notes := &reason.Notes{Strict: f.Strict, List: list}
	spec := &out.Spec
	if !f.Strict {
		spec.replaceRetired(ami.Of(out.Family()), f.KubernetesMinor, notes)
		if spec.expandClusterName(f.ClusterName) {
			notes.Note(reason.ShortFormRead, "L-12", "spec", clusterNamePlacehold, f.ClusterName)
		}
		if f.RoleIsProfile && spec.Role != "" {
			notes.Note(reason.ProfileGivenAsRole, "L-11", "spec.role", spec.Role, "instanceProfile: "+spec.Role)
			spec.InstanceProfile, spec.Role = new(spec.Role), ""
		}
	}
	if script := ami.Of(out.Family()).BootstrapScript; script != "" && spec.UserData != nil && strings.Contains(*spec.UserData, script) {
		notes.List = append(notes.List, reason.Reason{Code: reason.UserDataBootstraps, Rule: "L-16", Subject: "spec.userData", Have: script})
	}
	spec.MetadataOptions = spec.MetadataOptions.withDefaults(1)
	return out, notes.List
}

// Canonical returns the class in strict v1 spelling: old names replaced, absent terms derived, and
// no default filled in that strict v1 does not require. `dovetail convert` writes this form.
func (c *EC2NodeClass) Canonical(strict bool) (*EC2NodeClass, []reason.Reason) {
	out := c.DeepCopy()
	notes := &reason.Notes{Strict: strict}
	out.SetGroupVersionKind(GroupVersion().WithKind(Kind))
	out.Spec.canonicalImages(notes)
	out.Spec.canonicalSecurityGroups(notes)
	return out, notes.List
}

// Family is the AMI family in force: the one named, else that of the alias, else Custom.
func (c *EC2NodeClass) Family() AMIFamily {
	if c.Spec.AMIFamily != "" {
		return c.Spec.AMIFamily
	}
	for _, t := range c.Spec.AMISelectorTerms {
		name, _, _ := strings.Cut(t.Alias, "@")
		if family, known := ami.ByAlias(name); known {
			return AMIFamily(family.Name)
		}
	}
	return FamilyCustom // CV-10
}

// canonicalImages gives every alias a version and derives the terms that are absent (L-06, L-07,
// CV-08 to CV-10).
func (s *EC2NodeClassSpec) canonicalImages(notes *reason.Notes) {
	const at = "spec.amiSelectorTerms"
	for i, t := range s.AMISelectorTerms {
		if t.Alias != "" && !strings.Contains(t.Alias, "@") {
			full := t.Alias + "@" + ami.Latest
			notes.Note(reason.ShortFormRead, "L-06", at+"["+strconv.Itoa(i)+"].alias", t.Alias, full)
			s.AMISelectorTerms[i].Alias = full
		}
	}
	if family := ami.Of(s.AMIFamily); family.ReadAs != "" {
		s.replaceOldFamily(family, notes)
		return
	}
	if s.AMIFamily == "" && len(s.AMISelectorTerms) > 0 && !slices.ContainsFunc(s.AMISelectorTerms, func(t AMISelectorTerm) bool { return t.Alias != "" }) {
		notes.Assumed("CV-10", "spec.amiFamily", string(FamilyCustom))
		s.AMIFamily = FamilyCustom
	}
	family := ami.Of(s.AMIFamily)
	if len(s.AMISelectorTerms) > 0 || family.Alias == "" {
		return
	}
	alias := family.Alias + "@" + ami.Latest
	notes.Assumed("L-07", at, "alias: "+alias)
	s.AMISelectorTerms = []AMISelectorTerm{{Alias: alias}}
	s.AMIFamily = ""
}

// replaceOldFamily reads a family of v1beta1 as one of v1, with the disk its images expect (CV-09).
func (s *EC2NodeClassSpec) replaceOldFamily(old ami.Family, notes *reason.Notes) {
	notes.Old("CV-09", "spec.amiFamily", old.Name, old.ReadAs)
	s.AMIFamily = AMIFamily(old.ReadAs)
	if len(s.BlockDeviceMappings) == 0 {
		s.BlockDeviceMappings = FamilyDevices(old)
		s.BlockDeviceMappings[len(s.BlockDeviceMappings)-1].RootVolume = true
	}
	if len(s.AMISelectorTerms) == 0 {
		s.AMISelectorTerms = []AMISelectorTerm{{ID: placeholderImage}}
		notes.List = append(notes.List, reason.Reason{
			Code: reason.FieldRequired, Rule: "CV-09", Subject: "spec.amiSelectorTerms", Want: "terms that select an " + old.Title + " image; none is known by name",
		})
	}
}

// canonicalSecurityGroups derives absent terms from the tags of the subnets (L-08). Subnets picked
// by id alone give no terms, and the cluster's own group is used. It is also used where derived
// terms match nothing; that they were derived shows on the object as stored, which has none.
func (s *EC2NodeClassSpec) canonicalSecurityGroups(notes *reason.Notes) {
	if len(s.SecurityGroupSelectorTerms) > 0 {
		return
	}
	for _, t := range s.SubnetSelectorTerms {
		if t.ID == "" && len(t.Tags) > 0 {
			s.SecurityGroupSelectorTerms = append(s.SecurityGroupSelectorTerms, SecurityGroupSelectorTerm{Tags: t.DeepCopy().Tags})
		}
	}
	const group = "the security group of the cluster"
	want := group
	switch {
	case notes.Strict:
		want = "terms that select the security groups"
	case len(s.SecurityGroupSelectorTerms) > 0:
		want = "the selection by the tags of subnetSelectorTerms (" + group + " where they match none)"
	}
	notes.Assumed("L-08", "spec.securityGroupSelectorTerms", want)
}

// replaceRetired reads the latest image of a family, AL2, as the latest of its successor, AL2023, where
// EKS has no image of it (L-17). A pinned version stays and is refused when it is resolved.
func (s *EC2NodeClassSpec) replaceRetired(family ami.Family, minor int, notes *reason.Notes) {
	if family.Successor == "" || minor <= family.LastMinor {
		return
	}
	successor := ami.Of(family.Successor)
	for i, t := range s.AMISelectorTerms {
		if t.Alias != family.Alias+"@"+ami.Latest {
			continue
		}
		s.AMISelectorTerms[i].Alias = successor.Alias + "@" + ami.Latest
		if s.AMIFamily == AMIFamily(family.Name) {
			s.AMIFamily = AMIFamily(successor.Name)
		}
		notes.List = append(notes.List, reason.Reason{
			Code: reason.ImageFamilyRetired, Rule: "L-17", Subject: "spec.amiSelectorTerms.alias", Have: t.Alias, Want: s.AMISelectorTerms[i].Alias,
		})
	}
}

// expandClusterName replaces the placeholder that users forget to substitute before they apply
// (L-12). User data is left alone: there it is shell text.
func (s *EC2NodeClassSpec) expandClusterName(name string) (expanded bool) {
	if name == "" {
		return false
	}
	expand := func(text string) string {
		expanded = expanded || strings.Contains(text, clusterNamePlacehold)
		return strings.ReplaceAll(text, clusterNamePlacehold, name)
	}
	tags := func(m map[string]string) {
		for k, v := range m {
			m[k] = expand(v)
		}
	}
	for _, t := range s.SubnetSelectorTerms {
		tags(t.Tags)
	}
	for _, t := range s.SecurityGroupSelectorTerms {
		tags(t.Tags)
	}
	for _, t := range s.AMISelectorTerms {
		tags(t.Tags)
	}
	for _, t := range s.CapacityReservationSelectorTerms {
		tags(t.Tags)
	}
	tags(s.Tags)
	s.Role = expand(s.Role)
	if s.InstanceProfile != nil {
		s.InstanceProfile = new(expand(*s.InstanceProfile))
	}
	return expanded
}

// withDefaults fills absent members; the hop limit differs between API versions (CV-11).
func (m *MetadataOptions) withDefaults(hopLimit int64) *MetadataOptions {
	out := MetadataOptions{HTTPEndpoint: new("enabled"), HTTPProtocolIPv6: new("disabled"), HTTPPutResponseHopLimit: &hopLimit, HTTPTokens: new("required")}
	if m == nil {
		return &out
	}
	if m.HTTPEndpoint != nil {
		out.HTTPEndpoint = m.HTTPEndpoint
	}
	if m.HTTPProtocolIPv6 != nil {
		out.HTTPProtocolIPv6 = m.HTTPProtocolIPv6
	}
	if m.HTTPPutResponseHopLimit != nil {
		out.HTTPPutResponseHopLimit = m.HTTPPutResponseHopLimit
	}
	if m.HTTPTokens != nil {
		out.HTTPTokens = m.HTTPTokens
	}
	return &out
}

// DefaultOld fills in what v1beta1 had as defaults and v1 does not, so that a v1beta1 manifest read
// without an API server means the same as one that was applied.
func (c *EC2NodeClass) DefaultOld() {
	c.Spec.MetadataOptions = c.Spec.MetadataOptions.withDefaults(2)
}
