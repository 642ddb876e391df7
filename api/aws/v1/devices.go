package v1

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/aws/ami"
)

// BlockDeviceMapping is one disk.
type BlockDeviceMapping struct {
	// +optional
	DeviceName *string `json:"deviceName,omitempty"`
	// RootVolume marks the disk whose size counts as ephemeral storage.
	// +optional
	RootVolume bool `json:"rootVolume,omitempty"`
	// +optional
	EBS *BlockDevice `json:"ebs,omitempty"`
}

// BlockDevice is an EBS volume. What is not set is left to EC2 and the image.
// +kubebuilder:validation:XValidation:rule="has(self.snapshotID) || has(self.volumeSize)",message="set snapshotID or volumeSize"
// +kubebuilder:validation:XValidation:rule="!has(self.volumeInitializationRate) || (has(self.snapshotID) && size(self.snapshotID) > 0)",message="volumeInitializationRate needs a snapshotID"
type BlockDevice struct {
	// +optional
	DeleteOnTermination *bool `json:"deleteOnTermination,omitempty"`
	// +optional
	Encrypted *bool `json:"encrypted,omitempty"`
	// +optional
	IOPS *int64 `json:"iops,omitempty"`
	// +optional
	KMSKeyID *string `json:"kmsKeyID,omitempty"`
	// +optional
	SnapshotID *string `json:"snapshotID,omitempty"`
	// Throughput in MiB/s, gp3 only.
	// +optional
	Throughput *int64 `json:"throughput,omitempty"`
	// VolumeInitializationRate in MiB/s at which a snapshot is loaded.
	// +kubebuilder:validation:Minimum=100
	// +kubebuilder:validation:Maximum=300
	// +optional
	VolumeInitializationRate *int32 `json:"volumeInitializationRate,omitempty"`
	// VolumeSize with suffix Gi, G, Ti or T.
	// +optional
	VolumeSize *resource.Quantity `json:"volumeSize,omitempty"`
	// +kubebuilder:validation:Enum=standard;io1;io2;gp2;sc1;st1;gp3
	// +optional
	VolumeType *string `json:"volumeType,omitempty"`
}

// FamilyDevices are the disks that the images of a family expect; none: the image decides (EC2NodeClass 9).
func FamilyDevices(family ami.Family) []BlockDeviceMapping {
	var list []BlockDeviceMapping
	for _, disk := range family.Disks {
		list = append(list, BlockDeviceMapping{DeviceName: new(disk.Device), EBS: &BlockDevice{
			VolumeSize: new(resource.MustParse(strconv.FormatInt(disk.GiB, 10) + "Gi")), VolumeType: new("gp3"), Encrypted: new(true),
		}})
	}
	return list
}

// NetworkInterface is one interface of the instance.
type NetworkInterface struct {
	// +kubebuilder:validation:Minimum=0
	// +required
	NetworkCardIndex int32 `json:"networkCardIndex"`
	// +kubebuilder:validation:Minimum=0
	// +required
	DeviceIndex int32 `json:"deviceIndex"`
	// +kubebuilder:validation:Enum=interface;efa-only
	// +required
	InterfaceType string `json:"interfaceType"`
}

// MetadataOptions is the instance metadata service.
type MetadataOptions struct {
	// +kubebuilder:default=enabled
	// +kubebuilder:validation:Enum=enabled;disabled
	// +optional
	HTTPEndpoint *string `json:"httpEndpoint,omitempty"`
	// +kubebuilder:default=disabled
	// +kubebuilder:validation:Enum=enabled;disabled
	// +optional
	HTTPProtocolIPv6 *string `json:"httpProtocolIPv6,omitempty"`
	// HTTPPutResponseHopLimit is 1 by default, which keeps pods off the service; 2 was the default
	// of v1beta1.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	// +optional
	HTTPPutResponseHopLimit *int64 `json:"httpPutResponseHopLimit,omitempty"`
	// +kubebuilder:default=required
	// +kubebuilder:validation:Enum=required;optional
	// +optional
	HTTPTokens *string `json:"httpTokens,omitempty"`
}

// ConnectionTracking holds idle timeouts in seconds; what is not set is left to EC2.
// +kubebuilder:validation:XValidation:rule="has(self.tcpEstablishedTimeout) || has(self.udpStreamTimeout) || has(self.udpTimeout)",message="set at least one timeout"
type ConnectionTracking struct {
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=432000
	// +optional
	TCPEstablishedTimeout *int32 `json:"tcpEstablishedTimeout,omitempty"`
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=180
	// +optional
	UDPStreamTimeout *int32 `json:"udpStreamTimeout,omitempty"`
	// +kubebuilder:validation:Minimum=30
	// +kubebuilder:validation:Maximum=60
	// +optional
	UDPTimeout *int32 `json:"udpTimeout,omitempty"`
}

// CPUOptions of the instances.
type CPUOptions struct {
	// +kubebuilder:validation:Enum=enabled;disabled
	// +optional
	NestedVirtualization *string `json:"nestedVirtualization,omitempty"`
}

// Subnet is one subnet a selector resolved to.
type Subnet struct {
	// +required
	ID string `json:"id"`
	// +required
	Zone string `json:"zone"`
	// +optional
	ZoneID string `json:"zoneID,omitempty"`
}

// SecurityGroup is one security group a selector resolved to.
type SecurityGroup struct {
	// +required
	ID string `json:"id"`
	// +optional
	Name string `json:"name,omitempty"`
}

// AMI is one machine image a selector resolved to, and the instance types it suits.
type AMI struct {
	// +required
	ID string `json:"id"`
	// +optional
	Deprecated bool `json:"deprecated,omitempty"`
	// +optional
	Name string `json:"name,omitempty"`
	// +required
	Requirements []corev1.NodeSelectorRequirement `json:"requirements"`
}

// CapacityReservation is one reservation a selector resolved to.
type CapacityReservation struct {
	// +required
	AvailabilityZone string `json:"availabilityZone"`
	// +optional
	EndTime *metav1.Time `json:"endTime,omitempty"`
	// +kubebuilder:validation:Pattern=`^cr-[0-9a-z]+$`
	// +required
	ID string `json:"id"`
	// +kubebuilder:validation:Enum=open;targeted
	// +required
	InstanceMatchCriteria string `json:"instanceMatchCriteria"`
	// +required
	InstanceType string `json:"instanceType"`
	// +optional
	Interruptible bool `json:"interruptible,omitempty"`
	// +kubebuilder:validation:Pattern=`^[0-9]{12}$`
	// +required
	OwnerID string `json:"ownerID"`
	// +kubebuilder:default=default
	// +kubebuilder:validation:Enum=default;capacity-block
	// +optional
	ReservationType string `json:"reservationType,omitempty"`
	// +kubebuilder:default=active
	// +kubebuilder:validation:Enum=active;expiring
	// +optional
	State string `json:"state,omitempty"`
}
