package v1

import (
	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// Labels of instance types and of the resources an instance was launched into.
const (
	LabelNodeClass = Group + "/ec2nodeclass"

	LabelInstanceCategory               = Group + "/instance-category"
	LabelInstanceFamily                 = Group + "/instance-family"
	LabelInstanceGeneration             = Group + "/instance-generation"
	LabelInstanceSize                   = Group + "/instance-size"
	LabelInstanceCapabilityFlex         = Group + "/instance-capability-flex"
	LabelInstanceCPU                    = Group + "/instance-cpu"
	LabelInstanceCPUManufacturer        = Group + "/instance-cpu-manufacturer"
	LabelInstanceCPUSustainedClockSpeed = Group + "/instance-cpu-sustained-clock-speed-mhz"
	LabelInstanceMemory                 = Group + "/instance-memory"
	LabelInstanceEBSBandwidth           = Group + "/instance-ebs-bandwidth"
	LabelInstanceNetworkBandwidth       = Group + "/instance-network-bandwidth"
	LabelInstanceHypervisor             = Group + "/instance-hypervisor"
	LabelInstanceEncryptionInTransit    = Group + "/instance-encryption-in-transit-supported"
	LabelNitroSandbox                   = Group + "/nitro-sandbox"
	LabelInstanceLocalNVMe              = Group + "/instance-local-nvme"
	LabelInstanceGPUName                = Group + "/instance-gpu-name"
	LabelInstanceGPUManufacturer        = Group + "/instance-gpu-manufacturer"
	LabelInstanceGPUCount               = Group + "/instance-gpu-count"
	LabelInstanceGPUMemory              = Group + "/instance-gpu-memory"
	LabelInstanceAcceleratorName        = Group + "/instance-accelerator-name"
	LabelInstanceAcceleratorMaker       = Group + "/instance-accelerator-manufacturer"
	LabelInstanceAcceleratorCount       = Group + "/instance-accelerator-count"
	LabelInstanceTenancy                = Group + "/instance-tenancy"
	LabelCapacityReservationID          = Group + "/capacity-reservation-id"
	LabelCapacityReservationType        = Group + "/capacity-reservation-type"
	LabelCapacityReservationInterrupt   = Group + "/capacity-reservation-interruptible"
	LabelPlacementGroupID               = Group + "/placement-group-id"
	LabelPlacementGroupPartition        = Group + "/placement-group-partition"

	LabelZoneID = "topology.k8s.aws/zone-id"

	// LabelEBSZone is the zone label of the EBS CSI driver, read as the standard one.
	LabelEBSZone = "topology.ebs.csi.aws.com/zone"

	labelEKSCapacityType = "eks.amazonaws.com/capacityType" // of managed node groups
)

// Annotations on EC2NodeClasses and NodeClaims.
const (
	AnnotationNodeClassHash        = Group + "/ec2nodeclass-hash"
	AnnotationNodeClassHashVersion = Group + "/ec2nodeclass-hash-version"
	AnnotationNodeClassFields      = karpv1.OwnGroup + "/ec2nodeclass-fields" // beside the hash: digests of the single fields
	AnnotationInstanceProfileName  = Group + "/instance-profile-name"
	AnnotationTagged               = Group + "/tagged"
	AnnotationClusterNameTagged    = "compatibility." + Group + "/cluster-name-tagged"
)

// FinalizerTermination holds an EC2NodeClass until no NodeClaim uses it.
const FinalizerTermination = Group + "/termination"

// WellKnownLabels lists the labels that the provider gives every instance type, beyond the
// Kubernetes ones. Pools and pods may use them without a pool defining them.
func WellKnownLabels() []string {
	return []string{
		LabelInstanceCategory, LabelInstanceFamily, LabelInstanceGeneration, LabelInstanceSize,
		LabelInstanceCapabilityFlex, LabelInstanceCPU, LabelInstanceCPUManufacturer,
		LabelInstanceCPUSustainedClockSpeed, LabelInstanceMemory, LabelInstanceEBSBandwidth,
		LabelInstanceNetworkBandwidth, LabelInstanceHypervisor, LabelInstanceEncryptionInTransit,
		LabelNitroSandbox, LabelInstanceLocalNVMe, LabelInstanceGPUName, LabelInstanceGPUManufacturer,
		LabelInstanceGPUCount, LabelInstanceGPUMemory, LabelInstanceAcceleratorName,
		LabelInstanceAcceleratorMaker, LabelInstanceAcceleratorCount, LabelInstanceTenancy,
		LabelCapacityReservationID, LabelCapacityReservationType, LabelCapacityReservationInterrupt,
		LabelPlacementGroupID, LabelPlacementGroupPartition, LabelZoneID,
	}
}

// Vocabulary returns the labels of the core together with those of AWS.
func Vocabulary() reqs.Vocabulary {
	wellKnown := map[string]bool{}
	for _, label := range WellKnownLabels() {
		wellKnown[label] = true
	}
	return reqs.CoreVocabulary().With(reqs.Vocabulary{
		WellKnownKeys:     wellKnown,
		Aliases:           map[string]string{LabelEBSZone: corev1.LabelTopologyZone},
		RestrictedDomains: []string{Group},
		ClosedValues: map[string][]string{
			LabelInstanceTenancy:   {"dedicated", "default"},
			corev1.LabelArchStable: {"amd64", "arm64"},
			corev1.LabelOSStable:   {"linux", "windows"},
		},
		PublicDomains: []string{Group, "k8s.aws", "amazonaws.com", "aws.com", "eksctl.io"},
		PublicKeys:    map[string]bool{labelEKSCapacityType: true, LabelZoneID: true, LabelEBSZone: true},
		NameKeys:      map[string]bool{LabelNodeClass: true, LabelCapacityReservationID: true, LabelPlacementGroupID: true},
		// Storage classes of EKS Auto Mode, whose driver runs on its own nodes alone.
		UnsupportedDrivers:  map[string]bool{"ebs.csi.eks.amazonaws.com": true},
		UnsupportedTopology: map[string]bool{"eks.amazonaws.com/compute-type": true},
	})
}
