package convert

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/ami"
)

// nodeTemplate is the part of karpenter.k8s.aws/v1alpha1 AWSNodeTemplate that has a meaning today.
type nodeTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              nodeTemplateSpec      `json:"spec"`
	Status            *runtime.RawExtension `json:"status"`
}

// nodeTemplateSpec is also the inline provider of a Provisioner, which may carry its own kind.
type nodeTemplateSpec struct {
	APIVersion               string                 `json:"apiVersion"`
	Kind                     string                 `json:"kind"`
	AMIFamily                string                 `json:"amiFamily"`
	SubnetSelector           map[string]string      `json:"subnetSelector"`
	SecurityGroupSelector    map[string]string      `json:"securityGroupSelector"`
	AMISelector              map[string]string      `json:"amiSelector"`
	InstanceProfile          *string                `json:"instanceProfile"`
	LaunchTemplate           *string                `json:"launchTemplate"`
	UserData                 *string                `json:"userData"`
	Tags                     map[string]string      `json:"tags"`
	Context                  *string                `json:"context"`
	DetailedMonitoring       *bool                  `json:"detailedMonitoring"`
	AssociatePublicIPAddress *bool                  `json:"associatePublicIpAddress"`
	BlockDeviceMappings      []oldDevice            `json:"blockDeviceMappings"`
	MetadataOptions          *awsv1.MetadataOptions `json:"metadataOptions"`
}

type oldDevice struct {
	DeviceName  *string            `json:"deviceName"`
	VirtualName *string            `json:"virtualName"`
	EBS         *awsv1.BlockDevice `json:"ebs"`
}

// addNodeTemplate makes an EC2NodeClass of an AWSNodeTemplate (API 12.2).
func (b *batch) addNodeTemplate(d *document) {
	old := &nodeTemplate{}
	if !b.versionKnown(d, "v1alpha1") || !b.decode(d, old) || !b.checkName(d, &old.ObjectMeta) {
		return
	}
	b.entries = append(b.entries, &entry{doc: d, class: b.class(d, "spec", old.ObjectMeta, &old.Spec), spelling: volumeSpelling(d)})
}

// inlineClass makes an EC2NodeClass of the provider block of a Provisioner.
func (b *batch) inlineClass(d *document, name string, raw []byte) *entry {
	spec := &nodeTemplateSpec{}
	if !b.decodePart(d, "spec.provider", raw, spec) {
		return nil
	}
	e := &entry{doc: d, class: b.class(d, "spec.provider", metav1.ObjectMeta{Name: name}, spec)}
	var provider map[string]any
	if json.Unmarshal(raw, &provider) == nil {
		e.spelling = volumeSpelling(&document{tree: map[string]any{"spec": provider}})
	}
	return e
}

func (b *batch) class(d *document, at string, meta metav1.ObjectMeta, old *nodeTemplateSpec) *awsv1.EC2NodeClass {
	class := &awsv1.EC2NodeClass{ObjectMeta: meta}
	spec := &class.Spec
	spec.AMIFamily = awsv1.AMIFamily(old.AMIFamily)
	if spec.AMIFamily == "" {
		spec.AMIFamily = awsv1.FamilyAL2
	}
	if old.LaunchTemplate != nil {
		b.fail(d, at+".launchTemplate", "launch templates of your own are not supported; describe the machine in the EC2NodeClass instead")
	}
	b.selectors(d, at, old, spec)
	spec.InstanceProfile = old.InstanceProfile
	if old.InstanceProfile == nil {
		spec.Role = b.opts.NodeRole
		if b.opts.NodeRole == DefaultNodeRole {
			b.warn(d, at+".instanceProfile", "is not set; role is written as "+DefaultNodeRole+", replace it or use --node-role")
		}
	}
	spec.UserData, spec.Tags, spec.Context = old.UserData, old.Tags, old.Context
	spec.DetailedMonitoring, spec.AssociatePublicIPAddress = old.DetailedMonitoring, old.AssociatePublicIPAddress
	for i, m := range old.BlockDeviceMappings {
		if m.VirtualName != nil {
			b.warn(d, fmt.Sprintf("%s.blockDeviceMappings[%d].virtualName", at, i), "has no equivalent and is left out")
		}
		spec.BlockDeviceMappings = append(spec.BlockDeviceMappings, awsv1.BlockDeviceMapping{DeviceName: m.DeviceName, EBS: m.EBS})
	}
	spec.MetadataOptions = old.MetadataOptions
	class.DefaultOld()
	return b.canonicalClass(d, class)
}

func (b *batch) selectors(d *document, at string, old *nodeTemplateSpec, spec *awsv1.EC2NodeClassSpec) {
	if len(old.SubnetSelector) == 0 {
		b.fail(d, at+".subnetSelector", "is required; select the subnets of the nodes by tag or id")
	}
	for _, t := range b.terms(d, at+".subnetSelector", old.SubnetSelector) {
		spec.SubnetSelectorTerms = append(spec.SubnetSelectorTerms, awsv1.SubnetSelectorTerm{ID: t.id, Tags: t.tags})
	}
	for _, t := range b.terms(d, at+".securityGroupSelector", old.SecurityGroupSelector) {
		spec.SecurityGroupSelectorTerms = append(spec.SecurityGroupSelectorTerms, awsv1.SecurityGroupSelectorTerm{ID: t.id, Tags: t.tags, Name: t.name})
	}
	for _, t := range b.terms(d, at+".amiSelector", old.AMISelector) {
		spec.AMISelectorTerms = append(spec.AMISelectorTerms, awsv1.AMISelectorTerm{ID: t.id, Tags: t.tags, Name: t.name, Owner: t.owner})
	}
	if family := ami.Of(spec.AMIFamily); family.Alias == "" && family.ReadAs == "" && len(spec.AMISelectorTerms) == 0 {
		b.fail(d, at+".amiSelector", "is required with amiFamily "+family.Name)
	}
}

// term is one alternative of a selector.
type term struct {
	id, name, owner string
	tags            awsv1.Tags
}

// maxTerms is what an EC2NodeClass takes.
const maxTerms = 30

// terms turns an old selector map into alternatives. Ids win over everything else; comma lists in
// names, owners and tag values become one alternative per combination.
func (b *batch) terms(d *document, at string, selector map[string]string) []term {
	var terms []term
	others := 0
	for _, key := range slices.Sorted(maps.Keys(selector)) {
		if key != "aws-ids" && key != "aws::ids" {
			others++
			continue
		}
		ids := slices.DeleteFunc(list(selector[key]), func(id string) bool { return id == "*" })
		if len(ids) == 0 {
			b.fail(d, at, "key "+key+" is empty; name the ids or remove it")
		}
		for _, id := range ids {
			terms = append(terms, term{id: id})
		}
	}
	if len(terms) > 0 {
		if others > 0 {
			b.warn(d, at, "selects by ids; its other keys are left out")
		}
		return b.limitTerms(d, at, terms)
	}
	if others == 0 {
		return nil
	}
	terms = []term{{}}
	for _, key := range slices.Sorted(maps.Keys(selector)) {
		if key == "aws-ids" || key == "aws::ids" {
			continue
		}
		var next []term
		for _, t := range terms {
			for _, value := range list(selector[key]) {
				next = append(next, t.with(key, value))
			}
		}
		if terms = b.limitTerms(d, at, next); terms == nil {
			return nil
		}
	}
	return terms
}

func (b *batch) limitTerms(d *document, at string, terms []term) []term {
	if len(terms) > maxTerms {
		b.fail(d, at, fmt.Sprintf("stands for more than %d alternatives, the most an EC2NodeClass takes; select by fewer values", maxTerms))
		return nil
	}
	return terms
}

// with returns the term narrowed by one more key.
func (t term) with(key, value string) term {
	switch key {
	case "aws::name":
		t.name = value
	case "aws::owners":
		t.owner = value
	default:
		tags := maps.Clone(t.tags)
		if tags == nil {
			tags = awsv1.Tags{}
		}
		tags[key] = value
		t.tags = tags
	}
	return t
}

// list splits at commas and trims. Nothing at all means any value.
func list(text string) []string {
	var values []string
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			values = append(values, part)
		}
	}
	if len(values) == 0 {
		return []string{"*"}
	}
	return values
}
