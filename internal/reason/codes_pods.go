package reason

// Codes of pods that are not planned for: what a pod requests that no node can give it.
const (
	RequirementsContradict Code = "RequirementsContradict"
	ClaimMissing           Code = "ClaimMissing"
	ClaimUnusable          Code = "ClaimUnusable"
	ClaimUnbound           Code = "ClaimUnbound"
	VolumeMissing          Code = "VolumeMissing"
	StorageClassMissing    Code = "StorageClassMissing"
	VolumeUnsupported      Code = "VolumeUnsupported"
	VolumesApart           Code = "VolumesApart"
	DevicesUnsupported     Code = "DevicesUnsupported"
	DeviceClaimPending     Code = "DeviceClaimPending"
	DeviceClaimUnusable    Code = "DeviceClaimUnusable"
	DevicesElsewhere       Code = "DevicesElsewhere"
	DevicesMissing         Code = "DevicesMissing"
	DeviceSearchCut        Code = "DeviceSearchCut"
	DeviceDriverSilent     Code = "DeviceDriverSilent" // have: the driver; want: the node that waits for it
	PreferencesIgnored     Code = "PreferencesIgnored" // have: how many there are; want: how many count
)

func podCodes(yield func(Doc) bool) bool {
	return yield(Doc{RequirementsContradict, "no node can have {have}; {want}", "What a pod requires of one label cannot hold together, so kube-scheduler would never bind it either.", "Change or remove one of the entries for the label."}) &&
		yield(Doc{ClaimMissing, "claim {have} does not exist", "A pod mounts a PersistentVolumeClaim that is not there.", "Create the claim, or wait: the claim of an ephemeral volume appears shortly after its pod."}) &&
		yield(Doc{ClaimUnusable, "claim {have} cannot be mounted: {want}", "A pod mounts a PersistentVolumeClaim that is lost, being deleted or not completely bound.", "Wait for the binding to complete, or replace the claim."}) &&
		yield(Doc{ClaimUnbound, "claim {have} is bound before its pod is scheduled and has no volume yet", "The claim's storage class binds immediately, so where the volume will be is not known.", "Wait for the volume, or use a class with volumeBindingMode WaitForFirstConsumer."}) &&
		yield(Doc{VolumeMissing, "claim {have} names a volume that is missing or being deleted", "A claim is bound to a PersistentVolume that cannot be used.", "Restore the volume, or replace the claim."}) &&
		yield(Doc{StorageClassMissing, "claim {have} has no volume and {want}", "An unbound claim names no storage class, or one that does not exist.", "Set storageClassName to a class that exists."}) &&
		yield(Doc{VolumeUnsupported, "claim {have} cannot be provisioned on nodes of this cloud: {want}", "The storage class uses a driver or a topology key that no node of this cloud supports.", "Use another storage class."}) &&
		yield(Doc{VolumesApart, "the volumes are in different places: {have}", "No node can reach all volumes of the pod at once.", "Move the volumes to one zone, or split the pod."}) &&
		yield(Doc{DevicesUnsupported, "{have} requests devices by ResourceClaim; {want}", "Pods with dynamic resource allocation are not planned for.", "Request devices as extended resources, such as nvidia.com/gpu, or set --ignore-dra-requests=false."}) &&
		yield(Doc{DeviceClaimPending, "the ResourceClaim of {have} is not created yet", "The resource claim controller creates the claim of a ResourceClaimTemplate shortly after its pod.", "Wait. If it stays, check that the ResourceClaimTemplate exists."}) &&
		yield(Doc{DeviceClaimUnusable, "{have}; {want}", "A pod uses a ResourceClaim that cannot be allocated: it, or a DeviceClass it names, does not exist, or one of its selectors is faulty.", "Do what the text says; kube-scheduler cannot allocate the claim either."}) &&
		yield(Doc{DevicesElsewhere, "the devices of {want} are on {have}", "The ResourceClaim is allocated, or another pod of the plan has it: its pods can run only where its devices are.", "Free room there, or give the pod a claim of its own with a ResourceClaimTemplate."}) &&
		yield(Doc{DevicesMissing, "no devices are free that serve {have}", "The devices that a node has, or that its instance type is expected to have, do not serve the ResourceClaims of the pod.", "Check the selectors and the count of the claim. A new node is planned with the devices that nodes of its instance type publish, or that the cloud knows of."}) &&
		yield(Doc{DeviceSearchCut, "the search for devices for {have} took too many steps", "There are too many ways to serve a ResourceClaim, and none was found in time.", "Split the claim, or make its selectors narrower."}) &&
		yield(Doc{DeviceDriverSilent, "{have} has published no devices for {want}, which waits for them", "A node that was launched for devices of the driver has none 15 minutes after it registered, and no other node of the NodePool has any. Further nodes would wait too, so none is launched.", "See why the pods of the driver do not run on the node. To have another node tried, delete the NodeClaim of that one."}) &&
		yield(Doc{PreferencesIgnored, "has {have} entries; planning considers {want} of them, the heaviest", "A pod has more preferences than are considered when nodes are planned; kube-scheduler still scores by all of them.", "Nothing has to be done. Remove preferences that do not matter."})
}
