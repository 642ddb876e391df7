package nodeclass

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/discover"
	"github.com/dovetail-sh/dovetail/internal/aws/kubelet"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

// Lookup is the result of a lookup. With an error, the previous result still holds.
type Lookup[T any] struct {
	Value T
	Err   error
}

// Settings are the parts of the configuration that decide.
type Settings struct {
	ReservedCapacity bool // gate
	NodeClassCEL     bool // gate
	DryRunDisabled   bool
}

// Facts are what a decision about one class rests on.
type Facts struct {
	Class      *awsv1.EC2NodeClass // as stored
	Cluster    awsv1.Facts         // RoleIsProfile is not read: the instance profile shows it
	Kubernetes string              // such as 1.34; empty: not known yet
	Settings   Settings
	Claims     []string // names of the NodeClaims that use the class; needed only when it is being deleted
	Now        metav1.Time

	Subnets        Lookup[[]discover.Subnet]
	SecurityGroups Lookup[[]awsv1.SecurityGroup]
	Images         Lookup[[]awsv1.AMI]
	Reservations   Lookup[[]discover.Reservation] // with the gate ReservedCapacity
	PlacementGroup Lookup[*discover.PlacementGroup]
	Profile        Lookup[string]
	ServiceCIDR    Lookup[string]            // for families that need it
	Machines       Lookup[[]kubelet.Machine] // for documents with expressions

	DryRun *Verdict // nil: not run yet, see Step.DryRun
}

// Verdict is what a dry run said.
type Verdict struct {
	Reason  string // empty: it would work
	Message string
	Retry   bool  // reconcile again soon: the verdict may change by itself
	Err     error // no verdict: too many requests, or the service failed
}

// Step is what to write and to do. Writing it again changes nothing.
type Step struct {
	Clean bool // delete what was made for the class, then drop the finalizer
	Keep  bool // leave the status as it is

	Status    awsv1.EC2NodeClassStatus // the whole status
	Effective *awsv1.EC2NodeClass      // the class as the provider reads it, with this status
	DryRun    bool                     // request a dry run of Effective, then decide anew

	Events  []event.Event
	Assumed []reason.Reason // what was read into the class; reported once per generation
	After   time.Duration   // when to reconcile again; 0: when something changes
	Err     error           // what failed; retry with back-off
}
