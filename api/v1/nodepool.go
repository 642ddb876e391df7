package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// NodePool says which nodes may be launched, what they look like and how they may be disrupted.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=nodepools,scope=Cluster,categories=karpenter
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.nodes
// +kubebuilder:printcolumn:name="NodeClass",type="string",JSONPath=".spec.template.spec.nodeClassRef.name",description="Node class the nodes are launched with"
// +kubebuilder:printcolumn:name="Nodes",type="string",JSONPath=".status.nodes",description="Number of nodes"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status",description="Whether nodes can be launched"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
// +kubebuilder:printcolumn:name="Weight",type="integer",JSONPath=".spec.weight",priority=1,description="Order in which pools are tried, highest first"
// +kubebuilder:printcolumn:name="CPU",type="string",JSONPath=".status.resources.cpu",priority=1,description="CPU of all nodes together"
// +kubebuilder:printcolumn:name="Memory",type="string",JSONPath=".status.resources.memory",priority=1,description="Memory of all nodes together"
type NodePool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec   NodePoolSpec   `json:"spec"`
	Status NodePoolStatus `json:"status,omitempty"`
}

// NodePoolList is a list of NodePools.
// +kubebuilder:object:root=true
type NodePoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodePool `json:"items"`
}

// NodePoolSpec is what the user wants of a pool.
// +kubebuilder:validation:XValidation:rule="has(self.replicas) == has(oldSelf.replicas)",message="a pool cannot switch between static and dynamic; replicas can be neither added nor removed, make a new NodePool"
// +kubebuilder:validation:XValidation:rule="!has(self.replicas) || !has(self.limits) || size(self.limits) == 0 || (size(self.limits) == 1 && 'nodes' in self.limits)",message="with replicas only limits.nodes may be set"
// +kubebuilder:validation:XValidation:rule="!has(self.replicas) || !has(self.weight)",message="weight may not be set together with replicas"
type NodePoolSpec struct {
	// Template is what every NodeClaim of the pool looks like.
	// +required
	Template NodeClaimTemplate `json:"template"`
	// Disruption says when and how fast nodes of this pool may be replaced or removed.
	// +kubebuilder:default={consolidateAfter: "0s"}
	// +optional
	Disruption Disruption `json:"disruption,omitzero"`
	// Limits bounds the sum of the capacity of all nodes of the pool; nodes bounds their number.
	// +optional
	Limits corev1.ResourceList `json:"limits,omitempty"`
	// Weight orders pools, highest first; unset counts as 0.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	Weight *int32 `json:"weight,omitempty"`
	// Replicas keeps this many nodes whatever the pods need (alpha, gate StaticCapacity).
	// +kubebuilder:validation:Minimum=0
	// +optional
	Replicas *int64 `json:"replicas,omitempty"`
}

// NodeClaimTemplate is the form of the NodeClaims of a pool.
type NodeClaimTemplate struct {
	// +optional
	ObjectMeta TemplateMeta `json:"metadata,omitzero"`
	// +required
	Spec NodeClaimTemplateSpec `json:"spec"`
}

// TemplateMeta is put on every NodeClaim and Node of a pool.
type TemplateMeta struct {
	// Labels also act as requirements with one value.
	// +mapType=atomic
	// +kubebuilder:validation:MaxProperties=100
	// +kubebuilder:validation:XValidation:rule="self.all(k, k == 'karpenter.sh/capacity-type' || k == 'karpenter.sh/nodepool' || !k.matches('^[^/]*karpenter[.]sh(/|$)'))",message="label domain karpenter.sh is reserved; only karpenter.sh/capacity-type may be used"
	// +kubebuilder:validation:XValidation:rule="!('karpenter.sh/nodepool' in self)",message="label karpenter.sh/nodepool is set by the controller and may not be used here"
	// +kubebuilder:validation:XValidation:rule="!('kubernetes.io/hostname' in self)",message="label kubernetes.io/hostname may not be used; it differs on every node"
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// NodeClaimTemplateSpec becomes the spec of every NodeClaim of a pool.
type NodeClaimTemplateSpec struct {
	// Requirements limit instance type, zone, architecture, capacity type and labels of your own.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:XValidation:rule="self.all(r, r.key != 'karpenter.sh/nodepool')",message="label karpenter.sh/nodepool is set by the controller and may not be used here"
	// +required
	Requirements []Requirement `json:"requirements"`
	// NodeClassRef names the node class. Its group and kind cannot change.
	// +kubebuilder:validation:XValidation:rule="(has(self.apiVersion) && self.group == 'karpenter.k8s.aws' && self.apiVersion.indexOf('/') > 0 ? self.apiVersion.split('/')[0] : self.group) == (has(oldSelf.apiVersion) && oldSelf.group == 'karpenter.k8s.aws' && oldSelf.apiVersion.indexOf('/') > 0 ? oldSelf.apiVersion.split('/')[0] : oldSelf.group)",message="nodeClassRef.group cannot change; make a new NodePool"
	// +kubebuilder:validation:XValidation:rule="self.kind == oldSelf.kind",message="nodeClassRef.kind cannot change; make a new NodePool"
	// +required
	NodeClassRef NodeClassReference `json:"nodeClassRef"`
	// Taints stay on the nodes; pods must tolerate them.
	// +listType=atomic
	// +optional
	Taints []corev1.Taint `json:"taints,omitempty"`
	// StartupTaints are on a node when it starts and are removed by another component; pods need not
	// tolerate them, and the node counts as initialized once they are gone.
	// +listType=atomic
	// +optional
	StartupTaints []corev1.Taint `json:"startupTaints,omitempty"`
	// ExpireAfter is the longest life of a node; absent means 720h.
	// +kubebuilder:validation:Pattern=`^(([0-9]+(s|m|h))+|Never)$`
	// +optional
	ExpireAfter Duration `json:"expireAfter,omitempty"`
	// TerminationGracePeriod is the longest time a node may take to drain; then pods are removed
	// without regard to budgets, annotations and their own grace. Absent means no limit.
	// +kubebuilder:validation:Pattern=`^([0-9]+(s|m|h))+$`
	// +optional
	TerminationGracePeriod Duration `json:"terminationGracePeriod,omitempty"`
	// Kubelet is the v1beta1 place of the kubelet settings; while present they override those of
	// the node class for this pool. Only the fields that v1beta1 had are allowed.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:Schemaless
	// +optional
	Kubelet *runtime.RawExtension `json:"kubelet,omitempty"`
}

// LimitNodes is the limit of a pool that counts nodes instead of a resource.
const LimitNodes corev1.ResourceName = "nodes"

// ConsolidationPolicy says which nodes consolidation may touch.
type ConsolidationPolicy string

// Consolidation policies.
const (
	ConsolidationWhenEmpty                ConsolidationPolicy = "WhenEmpty"
	ConsolidationWhenEmptyOrUnderutilized ConsolidationPolicy = "WhenEmptyOrUnderutilized"
	ConsolidationBalanced                 ConsolidationPolicy = "Balanced"

	// consolidationWhenUnderutilized is the v1beta1 name of WhenEmptyOrUnderutilized (L-03).
	consolidationWhenUnderutilized ConsolidationPolicy = "WhenUnderutilized"
)

// Disruption says when and how fast nodes of a pool may be replaced or removed.
type Disruption struct {
	// ConsolidationPolicy says which nodes may be consolidated. WhenUnderutilized is the old name
	// of WhenEmptyOrUnderutilized.
	// +kubebuilder:default=WhenEmptyOrUnderutilized
	// +kubebuilder:validation:Enum=WhenEmpty;WhenEmptyOrUnderutilized;Balanced;WhenUnderutilized
	// +optional
	ConsolidationPolicy ConsolidationPolicy `json:"consolidationPolicy,omitempty"`
	// ConsolidateAfter is the quiet time after the last pod came or went before a node may be
	// consolidated.
	// +kubebuilder:default="0s"
	// +kubebuilder:validation:Pattern=`^(([0-9]+(s|m|h))+|Never)$`
	// +optional
	ConsolidateAfter Duration `json:"consolidateAfter,omitempty"`
	// Budgets bound how many nodes may be disrupted at a time; the strictest active one counts. An
	// empty list means no bound, which is not the default.
	// +listType=atomic
	// +kubebuilder:default={{nodes: "10%"}}
	// +kubebuilder:validation:MaxItems=50
	// +optional
	Budgets []Budget `json:"budgets,omitzero"`
	// ExpireAfter is the v1beta1 place of template.spec.expireAfter.
	// +kubebuilder:validation:Pattern=`^(([0-9]+(s|m|h))+|Never)$`
	// +optional
	DeprecatedExpireAfter Duration `json:"expireAfter,omitempty"`
}

// DisruptionReason is a reason for voluntary disruption that a budget can name.
// +kubebuilder:validation:Enum=Underutilized;Empty;Drifted;Unhealthy
type DisruptionReason string

// Disruption reasons.
const (
	ReasonUnderutilized DisruptionReason = "Underutilized"
	ReasonEmpty         DisruptionReason = "Empty"
	ReasonDrifted       DisruptionReason = "Drifted"
	ReasonUnhealthy     DisruptionReason = "Unhealthy"
)

// Budget bounds how many nodes of a pool may be disrupted at a time.
// +kubebuilder:validation:XValidation:rule="has(self.schedule) == has(self.duration)",message="schedule and duration must be set together"
type Budget struct {
	// Nodes is a number or a percentage of the pool's nodes, which is rounded up.
	// +kubebuilder:default="10%"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^((100|[0-9]{1,2})%|[0-9]+)$`
	// +required
	Nodes intstr.IntOrString `json:"nodes"`
	// Reasons limits the budget to these reasons; absent means all.
	// +kubebuilder:validation:MaxItems=50
	// +optional
	Reasons []DisruptionReason `json:"reasons,omitempty"`
	// Schedule is a cron line of five fields, or a name such as @daily, in UTC, at which the budget
	// becomes active.
	// +kubebuilder:validation:Pattern=`^\s*(@(annually|yearly|monthly|weekly|daily|midnight|hourly)|(\S+\s+){4}\S+)\s*$`
	// +optional
	Schedule *string `json:"schedule,omitempty"`
	// Duration is how long the budget stays active after each hit of schedule.
	// +kubebuilder:validation:Pattern=`^([0-9]+h[0-9]+m|[0-9]+h|[0-9]+m)(0s)?$`
	// +optional
	Duration *Duration `json:"duration,omitempty"`
}

// NodePoolStatus is what the controller saw of a pool.
type NodePoolStatus struct {
	// Nodes is the number of nodes.
	// +kubebuilder:default=0
	// +optional
	Nodes *int64 `json:"nodes,omitempty"`
	// Resources is the capacity of all nodes together.
	// +optional
	Resources corev1.ResourceList `json:"resources,omitempty"`
	// NodeClassObservedGeneration is the generation of the node class last seen.
	// +optional
	NodeClassObservedGeneration int64 `json:"nodeClassObservedGeneration,omitempty"`
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
