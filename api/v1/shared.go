package v1

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/duration"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// Duration is a length of time as the user wrote it: groups of digits and s, m or h, or "Never" where
// a field allows it. It stays text so that writing an object back never changes its spelling.
type Duration string

// Never switches the feature of an ExpireAfter or ConsolidateAfter off.
const Never Duration = "Never"

// Parse reads a duration that may not be Never.
func (d Duration) Parse() (time.Duration, error) { return duration.Parse(string(d)) }

// ParseOrNever reads a duration that may be Never.
func (d Duration) ParseOrNever() (length time.Duration, never bool, err error) {
	return duration.ParseOrNever(string(d))
}

// NodeClassReference names the object that describes the machines of a cloud.
type NodeClassReference struct {
	// Group of the node class, without a version.
	// +kubebuilder:default=karpenter.k8s.aws
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:Pattern=`^[^/]*$`
	// +optional
	Group string `json:"group,omitempty"`
	// Kind of the node class.
	// +kubebuilder:default=EC2NodeClass
	// +kubebuilder:validation:MinLength=1
	// +optional
	Kind string `json:"kind,omitempty"`
	// Name of the node class.
	// +kubebuilder:validation:MinLength=1
	// +required
	Name string `json:"name"`
	// APIVersion is the v1beta1 form of group; the version behind the slash is ignored.
	// +kubebuilder:validation:MaxLength=316
	// +optional
	DeprecatedAPIVersion string `json:"apiVersion,omitempty"`
}

// LabelKey is the key of the label that names the node class of a NodeClaim or Node.
func (r NodeClassReference) LabelKey() string { return r.Group + "/" + strings.ToLower(r.Kind) }

// Requirement limits one label of the nodes.
// +kubebuilder:validation:XValidation:rule="self.operator != 'In' || (has(self.values) && size(self.values) > 0)",message="operator In needs at least one value in values"
// +kubebuilder:validation:XValidation:rule="!(self.operator in ['Gt', 'Lt', 'Gte', 'Lte']) || (has(self.values) && size(self.values) == 1 && int(self.values[0]) >= 0)",message="operators Gt, Lt, Gte and Lte need exactly one value, a whole number of zero or more"
// +kubebuilder:validation:XValidation:rule="self.operator != 'In' || !has(self.minValues) || (has(self.values) && size(self.values) >= self.minValues)",message="operator In needs at least minValues values"
type Requirement struct {
	// Key is the label.
	// +kubebuilder:validation:MaxLength=316
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$`
	// +kubebuilder:validation:XValidation:rule="self in ['karpenter.sh/capacity-type', 'karpenter.sh/nodepool'] || !self.matches('^[^/]*karpenter[.]sh(/|$)')",message="label domain karpenter.sh is reserved; only karpenter.sh/capacity-type may be used"
	// +kubebuilder:validation:XValidation:rule="self != 'kubernetes.io/hostname'",message="label kubernetes.io/hostname may not be used; it differs on every node"
	// +required
	Key string `json:"key"`
	// Operator says how values limit the label.
	// +kubebuilder:default=In
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist;Gt;Lt;Gte;Lte
	// +optional
	Operator corev1.NodeSelectorOperator `json:"operator,omitempty"`
	// Values the operator works on.
	// +listType=atomic
	// +optional
	Values []string `json:"values,omitempty"`
	// MinValues is the least number of distinct values that the instance types of one node must
	// leave open (alpha).
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=50
	// +optional
	MinValues *int `json:"minValues,omitempty"`
}

// Entries returns requirements in the form that the algebra reads.
func Entries(list []Requirement) []reqs.Entry {
	out := make([]reqs.Entry, 0, len(list))
	for _, r := range list {
		entry := reqs.Entry{Key: r.Key, Operator: r.Operator, Values: r.Values}
		if r.MinValues != nil {
			entry.MinValues = *r.MinValues
		}
		out = append(out, entry)
	}
	return out
}
