package check

// Code names one kind of broken rule.
type Code string

// Violations about which pod is placed where.
const (
	PodLost       Code = "PodLost"       // a pod of the problem is nowhere in the plan
	PodTwice      Code = "PodTwice"      // a pod is placed more than once
	PodUnknown    Code = "PodUnknown"    // the plan names a pod that the problem does not have
	PodInvalid    Code = "PodInvalid"    // a pod that must not be planned for is placed (scheduling 3.4)
	ReasonMissing Code = "ReasonMissing" // an unplaced pod or a kept node without a reason
	DeferredWrong Code = "DeferredWrong" // deferred for reserved capacity where that cannot be (SC-46, V15-46)
	NodeUnknown   Code = "NodeUnknown"   // the plan names a node that does not exist
	NodeLeaving   Code = "NodeLeaving"   // a pod is put on a terminating node (scheduling 3.2)
	NodeSettling  Code = "NodeSettling"  // a moved pod is put on a node inside consolidateAfter, or one that is not ready yet (scheduling 6.1)
	Disordered    Code = "Disordered"    // a list that has a documented order does not follow it
	VersionWrong  Code = "VersionWrong"  // the plan was made for another snapshot
)

// What can be wrong with a pod on its node.
const (
	TaintNotTolerated Code = "TaintNotTolerated" // scheduling 6.1, 6.2
	RequiredUnmet     Code = "RequiredUnmet"     // no required alternative is sure to hold (SC-12)
	VolumeZoneUnmet   Code = "VolumeZoneUnmet"   // no zone of the volumes is certain to be reached (SC-38)
	TooSmall          Code = "TooSmall"          // requests exceed the capacity (SC-11, SC-19)
	PortConflict      Code = "PortConflict"      // SC-25
	VolumeLimit       Code = "VolumeLimit"       // SC-41, V15-57
	SpreadUnmet       Code = "SpreadUnmet"       // SC-32
	AffinityUnmet     Code = "AffinityUnmet"     // SC-33
	AntiAffinityUnmet Code = "AntiAffinityUnmet" // SC-34, SC-35
	ClaimApart        Code = "ClaimApart"        // DR-09: a ResourceClaim is used in two places
	DevicesElsewhere  Code = "DevicesElsewhere"  // DR-06: the devices of a ResourceClaim are elsewhere
	DevicesShort      Code = "DevicesShort"      // DR-05, DR-07: fewer devices than the claims request
)

// Violations of a node to be launched.
const (
	PoolUnknown         Code = "PoolUnknown"
	PoolClosed          Code = "PoolClosed"          // SC-06
	NodeEmpty           Code = "NodeEmpty"           // a node is launched for no pod
	NeedsTooWide        Code = "NeedsTooWide"        // the node could become one that the pool forbids
	TypeUnknown         Code = "TypeUnknown"         // the pool has no such type, or the node lists none
	TypeTwice           Code = "TypeTwice"           // a type is listed more than once
	TypeMismatch        Code = "TypeMismatch"        // a listed type contradicts the node's needs (SC-19)
	OfferingMissing     Code = "OfferingMissing"     // a listed type cannot be launched this way (SC-19, V15-44)
	TooManyTypes        Code = "TooManyTypes"        // SC-48
	TypesDisordered     Code = "TypesDisordered"     // SC-48: not cheapest first
	OfferWrong          Code = "OfferWrong"          // the offer is none of those left open, or not the cheapest
	PriceWrong          Code = "PriceWrong"          // the offer has another price in the catalogue
	RequestsWrong       Code = "RequestsWrong"       // SC-49
	MinValuesUnmet      Code = "MinValuesUnmet"      // SC-42, SC-44, V15-60
	RelaxedWrong        Code = "RelaxedWrong"        // SC-43
	OverlaidWrong       Code = "OverlaidWrong"       // SC-50
	LimitExceeded       Code = "LimitExceeded"       // SC-20, limits of the pool
	ReservationExceeded Code = "ReservationExceeded" // SC-45
	ReservedMixed       Code = "ReservedMixed"       // SC-47
	ReservedPassedOver  Code = "ReservedPassedOver"  // SC-46, V15-45
	CostWrong           Code = "CostWrong"
	BoundWrong          Code = "BoundWrong"
)

// What can be wrong with a consolidation.
const (
	NotCandidate   Code = "NotCandidate"   // a node is removed that is not a candidate
	RemovedTwice   Code = "RemovedTwice"   // a node is removed more than once, or a move removes none
	SavesWrong     Code = "SavesWrong"     // not the price removed less the price created, or not above zero
	MovedWrong     Code = "MovedWrong"     // not the number of pods moved
	TotalsWrong    Code = "TotalsWrong"    // before and after do not add up
	VerdictMissing Code = "VerdictMissing" // a candidate is neither removed nor kept, or both
)

// Violation is one broken rule.
type Violation struct {
	Code    Code   `json:"code"`
	Rule    string `json:"rule,omitempty"` // of the specification, such as "SC-32"
	Subject string `json:"subject"`        // "pod/default/web-1", "node/a", "create[0]", "nodepool/default"
	Want    string `json:"want,omitempty"`
	Have    string `json:"have,omitempty"`
}

// String is the violation in one line.
func (v Violation) String() string {
	rule := ""
	if v.Rule != "" {
		rule = " (" + v.Rule + ")"
	}
	return v.Subject + ": " + string(v.Code) + rule + ": want " + v.Want + ", have " + v.Have
}
