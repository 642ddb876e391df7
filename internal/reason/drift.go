package reason

// Codes of drift: why a node is not what its NodePool and its node class request now. They are the
// reasons of the condition Drifted, whose message is the text.
const (
	NodePoolDrifted          Code = "NodePoolDrifted"      // have: the fields
	RequirementsDrifted      Code = "RequirementsDrifted"  // want: the requirement; have: the label of the node
	InstanceTypeNotFound     Code = "InstanceTypeNotFound" // have: capacity type and zone
	NodeClassDrift           Code = "NodeClassDrift"       // have: the fields
	AMIDrift                 Code = "AMIDrift"             // have: the image of the node; want: what it would get
	SecurityGroupDrift       Code = "SecurityGroupDrift"
	SubnetDrift              Code = "SubnetDrift"
	CapacityReservationDrift Code = "CapacityReservationDrift"
	PlacementGroupDrift      Code = "PlacementGroupDrift"
)

// driftCodes documents them.
func driftCodes(yield func(Doc) bool) bool {
	const replaced = "Nothing has to be done: the node is replaced within the disruption budgets of its NodePool."
	return yield(Doc{NodePoolDrifted, "{have} changed since the node was launched", "A field of the NodePool changed that a running node cannot take over.", replaced}) &&
		yield(Doc{RequirementsDrifted, "spec.template.spec.requirements require {want}, the node has {have}", "The labels of the node do not meet the requirements of the NodePool any more.", replaced}) &&
		yield(Doc{InstanceTypeNotFound, "is not offered {have} any more", "The cloud no longer offers the instance type, zone or capacity type of the node.", replaced}) &&
		yield(Doc{NodeClassDrift, "{have} changed since the node was launched", "A field of the EC2NodeClass changed that a running node cannot take over, or the certificates by which nodes trust the API server.", replaced}) &&
		yield(Doc{AMIDrift, "the node runs image {have}; a new one gets {want}", "The AMI terms of the EC2NodeClass resolve to another image for the instance type of the node, or to none that suits it.", replaced + " If no image suits its architecture, add one to amiSelectorTerms."}) &&
		yield(Doc{SecurityGroupDrift, "the node has security groups {have}; a new one gets {want}", "The security group terms of the EC2NodeClass resolve to other groups than those of the node.", replaced}) &&
		yield(Doc{SubnetDrift, "the node is in subnet {have}; new ones go to {want}", "The subnet of the node is not among those that the EC2NodeClass selects.", replaced}) &&
		yield(Doc{CapacityReservationDrift, "the node runs in capacity reservation {have}, which is not selected any more", "The capacity reservation of the node is not among those that the EC2NodeClass selects.", replaced}) &&
		yield(Doc{PlacementGroupDrift, "the node is in placement group {have}; a new one goes to {want}", "The EC2NodeClass selects another placement group than that of the node.", replaced})
}
