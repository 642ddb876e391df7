package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/dovetail-sh/dovetail/internal/aws/ami"
)

// EC2NodeClass describes the machines of a pool on EC2: network, image, identity, disks.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=ec2nodeclasses,scope=Cluster,categories=karpenter,shortName={ec2nc,ec2ncs}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status",description="Whether nodes can be launched with this class"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
// +kubebuilder:printcolumn:name="Role",type="string",JSONPath=".spec.role",priority=1,description="IAM role of the nodes"
type EC2NodeClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +kubebuilder:validation:XValidation:rule="has(self.role) != has(self.instanceProfile)",message="set exactly one of role and instanceProfile"
	// +kubebuilder:validation:XValidation:rule="has(self.amiFamily) || (has(self.amiSelectorTerms) && self.amiSelectorTerms.exists(t, has(t.alias)))",message="set amiFamily, or an alias in amiSelectorTerms"
	// +kubebuilder:validation:XValidation:rule="has(self.amiSelectorTerms) || (has(self.amiFamily) && self.amiFamily != 'Custom')",message="amiFamily Custom needs amiSelectorTerms"
	// +kubebuilder:validation:XValidation:rule="!has(self.amiFamily) || self.amiFamily == 'Custom' || !has(self.amiSelectorTerms) || self.amiSelectorTerms.all(t, !has(t.alias) || t.alias.split('@')[0] == self.amiFamily.lowerAscii())",message="amiFamily must be the family of the alias, or Custom"
	// +required
	Spec   EC2NodeClassSpec   `json:"spec"`
	Status EC2NodeClassStatus `json:"status,omitempty"`
}

// EC2NodeClassList is a list of EC2NodeClasses.
// +kubebuilder:object:root=true
type EC2NodeClassList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EC2NodeClass `json:"items"`
}

// AMIFamily is the operating system of the nodes, which decides user data and default disks.
type AMIFamily string

// AMI families. What sets them apart is in internal/aws/ami.
const (
	FamilyAL2          AMIFamily = ami.AL2
	FamilyAL2023       AMIFamily = ami.AL2023
	FamilyBottlerocket AMIFamily = ami.Bottlerocket
	FamilyCustom       AMIFamily = ami.Custom
	FamilyWindows2019  AMIFamily = ami.Windows2019
	FamilyWindows2022  AMIFamily = ami.Windows2022
	FamilyWindows2025  AMIFamily = ami.Windows2025
)

// EC2NodeClassSpec is what the user wants of the machines.
type EC2NodeClassSpec struct {
	// SubnetSelectorTerms pick the subnets; terms are alternatives.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=30
	// +kubebuilder:validation:XValidation:rule="self.all(t, has(t.tags) || has(t.id))",message="every subnet term needs tags or id"
	// +kubebuilder:validation:XValidation:rule="!self.all(t, has(t.tags) && has(t.id))",message="id may not be combined with tags in a subnet term"
	// +required
	SubnetSelectorTerms []SubnetSelectorTerm `json:"subnetSelectorTerms"`
	// SecurityGroupSelectorTerms pick the security groups; terms are alternatives. Absent means the
	// tags of subnetSelectorTerms, or the cluster's security group when those match none.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=30
	// +kubebuilder:validation:XValidation:rule="self.all(t, has(t.tags) || has(t.id) || has(t.name))",message="every security group term needs tags, id or name"
	// +kubebuilder:validation:XValidation:rule="!self.all(t, has(t.id) && (has(t.tags) || has(t.name)))",message="id may not be combined with tags or name in a security group term"
	// +kubebuilder:validation:XValidation:rule="!self.all(t, has(t.name) && (has(t.tags) || has(t.id)))",message="name may not be combined with tags or id in a security group term"
	// +optional
	SecurityGroupSelectorTerms []SecurityGroupSelectorTerm `json:"securityGroupSelectorTerms,omitempty"`
	// AMISelectorTerms pick the machine images; terms are alternatives. Absent means the latest
	// image of amiFamily.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=30
	// +kubebuilder:validation:XValidation:rule="self.all(t, has(t.tags) || has(t.id) || has(t.name) || has(t.alias) || has(t.ssmParameter))",message="every AMI term needs tags, id, name, alias or ssmParameter"
	// +kubebuilder:validation:XValidation:rule="!self.exists(t, has(t.id) && (has(t.alias) || has(t.tags) || has(t.name) || has(t.owner)))",message="id may not be combined with alias, tags, name or owner in an AMI term"
	// +kubebuilder:validation:XValidation:rule="!self.exists(t, has(t.alias) && (has(t.id) || has(t.tags) || has(t.name) || has(t.owner)))",message="alias may not be combined with id, tags, name or owner in an AMI term"
	// +kubebuilder:validation:XValidation:rule="size(self) == 1 || !self.exists(t, has(t.alias))",message="an AMI term with alias must be the only term"
	// +optional
	AMISelectorTerms []AMISelectorTerm `json:"amiSelectorTerms,omitempty"`
	// CapacityReservationSelectorTerms pick the capacity reservations to use; terms are alternatives.
	// +kubebuilder:validation:MaxItems=30
	// +kubebuilder:validation:XValidation:rule="self.all(t, has(t.tags) || has(t.id) || has(t.instanceMatchCriteria))",message="every capacity reservation term needs tags, id or instanceMatchCriteria"
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || !self.all(t, has(t.id) && (has(t.tags) || has(t.ownerID) || has(t.instanceMatchCriteria)))",message="id may not be combined with other members in a capacity reservation term"
	// +optional
	CapacityReservationSelectorTerms []CapacityReservationSelectorTerm `json:"capacityReservationSelectorTerms,omitempty"`
	// PlacementGroupSelector picks the placement group the instances are launched into.
	// +optional
	PlacementGroupSelector *PlacementGroupSelector `json:"placementGroupSelector,omitempty"`
	// AMIFamily is the operating system; absent means that of the alias. Ubuntu is the v1beta1 name
	// of AL2 with an Ubuntu image.
	// +kubebuilder:validation:Enum=AL2;AL2023;Bottlerocket;Custom;Windows2019;Windows2022;Windows2025;Ubuntu
	// +optional
	AMIFamily AMIFamily `json:"amiFamily,omitempty"`
	// UserData is merged with the generated bootstrap document, in the format of the family.
	// +optional
	UserData *string `json:"userData,omitempty"`
	// Role is the IAM role of the nodes; an instance profile is made for it.
	// +kubebuilder:validation:MinLength=1
	// +optional
	Role string `json:"role,omitempty"`
	// InstanceProfile is an existing IAM instance profile.
	// +kubebuilder:validation:MinLength=1
	// +optional
	InstanceProfile *string `json:"instanceProfile,omitempty"`
	// Tags are put on instances, volumes, network interfaces and launch templates.
	// +kubebuilder:validation:XValidation:rule="!('' in self)",message="a tag needs a key"
	// +kubebuilder:validation:XValidation:rule="!('eks:eks-cluster-name' in self)",message="tag eks:eks-cluster-name is set by the controller"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('kubernetes.io/cluster'))",message="tags that start with kubernetes.io/cluster are set by the controller"
	// +kubebuilder:validation:XValidation:rule="!('karpenter.sh/nodepool' in self)",message="tag karpenter.sh/nodepool is set by the controller"
	// +kubebuilder:validation:XValidation:rule="!('karpenter.sh/nodeclaim' in self)",message="tag karpenter.sh/nodeclaim is set by the controller"
	// +kubebuilder:validation:XValidation:rule="!('karpenter.k8s.aws/ec2nodeclass' in self)",message="tag karpenter.k8s.aws/ec2nodeclass is set by the controller"
	// +optional
	Tags map[string]string `json:"tags,omitempty"`
	// Kubelet is a KubeletConfiguration of kubelet.config.k8s.io/v1beta1.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:Schemaless
	// +optional
	Kubelet *runtime.RawExtension `json:"kubelet,omitempty"`
	// BlockDeviceMappings are the disks; absent means those of the family.
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:XValidation:rule="self.filter(m, has(m.rootVolume) && m.rootVolume).size() <= 1",message="at most one block device may be the rootVolume"
	// +optional
	BlockDeviceMappings []BlockDeviceMapping `json:"blockDeviceMappings,omitempty"`
	// InstanceStorePolicy says what to do with local disks; RAID0 makes them the ephemeral storage.
	// +kubebuilder:validation:Enum=RAID0
	// +optional
	InstanceStorePolicy *string `json:"instanceStorePolicy,omitempty"`
	// NetworkInterfaces replaces the default network interface.
	// +kubebuilder:validation:MaxItems=150
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || self.exists(n, n.networkCardIndex == 0 && n.deviceIndex == 0 && n.interfaceType == 'interface')",message="networkInterfaces needs an entry with networkCardIndex 0, deviceIndex 0 and interfaceType interface"
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, a.networkCardIndex == b.networkCardIndex && a.deviceIndex == b.deviceIndex))",message="networkCardIndex and deviceIndex together must differ between entries"
	// +kubebuilder:validation:XValidation:rule="self.all(a, a.interfaceType != 'efa-only' || self.exists_one(b, b.interfaceType == 'efa-only' && a.networkCardIndex == b.networkCardIndex))",message="at most one efa-only interface per network card"
	// +optional
	NetworkInterfaces []NetworkInterface `json:"networkInterfaces,omitempty"`
	// DetailedMonitoring turns the one-minute metrics of EC2 on.
	// +optional
	DetailedMonitoring *bool `json:"detailedMonitoring,omitempty"`
	// AssociatePublicIPAddress decides over a public address; absent leaves it to the subnet.
	// +optional
	AssociatePublicIPAddress *bool `json:"associatePublicIPAddress,omitempty"`
	// IPPrefixCount is the number of address prefixes assigned to the primary interface.
	// +kubebuilder:validation:Minimum=0
	// +optional
	IPPrefixCount *int32 `json:"ipPrefixCount,omitempty"`
	// MetadataOptions is the instance metadata service.
	// +kubebuilder:default={httpEndpoint: "enabled", httpProtocolIPv6: "disabled", httpPutResponseHopLimit: 1, httpTokens: "required"}
	// +optional
	MetadataOptions *MetadataOptions `json:"metadataOptions,omitempty"`
	// ConnectionTracking sets idle timeouts of tracked connections.
	// +optional
	ConnectionTracking *ConnectionTracking `json:"connectionTracking,omitempty"`
	// Context is passed to EC2 as the fleet context, opaque to the controller.
	// +optional
	Context *string `json:"context,omitempty"`
	// CPUOptions of the instances.
	// +optional
	CPUOptions *CPUOptions `json:"cpuOptions,omitempty"`
}

// EC2NodeClassStatus is what the selectors resolved to.
type EC2NodeClassStatus struct {
	// +optional
	Subnets []Subnet `json:"subnets,omitempty"`
	// +optional
	SecurityGroups []SecurityGroup `json:"securityGroups,omitempty"`
	// +optional
	AMIs []AMI `json:"amis,omitempty"`
	// +optional
	CapacityReservations []CapacityReservation `json:"capacityReservations,omitempty"`
	// +optional
	InstanceProfile string `json:"instanceProfile,omitempty"`
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
