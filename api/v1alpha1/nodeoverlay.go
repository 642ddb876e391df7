package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the version this package describes.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: "karpenter.sh", Version: "v1alpha1"}
}

// AddToScheme registers the kinds of this package.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion(), &NodeOverlay{}, &NodeOverlayList{})
	metav1.AddToGroupVersion(s, GroupVersion())
	return nil
}

// NodeOverlay changes what plans assume of matching instance types; real nodes and bills stay.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=nodeoverlays,scope=Cluster,categories=karpenter,shortName=overlays
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status",description="Whether the overlay is applied"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
// +kubebuilder:printcolumn:name="Weight",type="integer",JSONPath=".spec.weight",priority=1,description="Order among overlays, highest first"
type NodeOverlay struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +kubebuilder:validation:XValidation:rule="!has(self.price) || !has(self.priceAdjustment)",message="price and priceAdjustment may not be set together"
	// +required
	Spec   NodeOverlaySpec   `json:"spec"`
	Status NodeOverlayStatus `json:"status,omitempty"`
}

// NodeOverlayList is a list of NodeOverlays.
// +kubebuilder:object:root=true
type NodeOverlayList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeOverlay `json:"items"`
}

// NodeOverlaySpec says which instance types are changed and how.
type NodeOverlaySpec struct {
	// Requirements pick instance types and offerings; an empty list picks all.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +required
	Requirements []Requirement `json:"requirements"`
	// Price per hour that replaces that of matching offerings.
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^\d+(\.\d+)?$')`,message="price must be an amount in USD an hour without sign, for example 0.25"
	// +optional
	Price *string `json:"price,omitempty"`
	// PriceAdjustment is a signed amount or percentage added to the price.
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^([+-]\d*\.?\d+|\+\d*\.?\d+%|-(\d{1,2}(\.\d+)?|100)%)$')`,message="priceAdjustment must be a signed amount or percentage, for example +0.02, -0.02 or -28%, and at least -100%"
	// +optional
	PriceAdjustment *string `json:"priceAdjustment,omitempty"`
	// Capacity adds extended resources to matching instance types.
	// +kubebuilder:validation:XValidation:rule="self.all(k, !(k in ['cpu', 'memory', 'ephemeral-storage', 'pods']))",message="capacity may not contain cpu, memory, ephemeral-storage or pods"
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`
	// Weight orders overlays, highest first; unset counts as 0.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	// +optional
	Weight *int32 `json:"weight,omitempty"`
}

// Requirement limits one label of the instance types.
// +kubebuilder:validation:XValidation:rule="!(self.operator in ['In', 'NotIn']) || (has(self.values) && size(self.values) > 0)",message="operators In and NotIn need at least one value in values"
// +kubebuilder:validation:XValidation:rule="!(self.operator in ['Gt', 'Lt', 'Gte', 'Lte']) || (has(self.values) && size(self.values) == 1 && int(self.values[0]) >= 0)",message="operators Gt, Lt, Gte and Lte need exactly one value, a whole number of zero or more"
type Requirement struct {
	// +kubebuilder:validation:MaxLength=316
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$`
	// +required
	Key string `json:"key"`
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist;Gt;Lt;Gte;Lte
	// +required
	Operator corev1.NodeSelectorOperator `json:"operator"`
	// +listType=atomic
	// +optional
	Values []string `json:"values,omitempty"`
}

// NodeOverlayStatus says whether the overlay is applied.
type NodeOverlayStatus struct {
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
