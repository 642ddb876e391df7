package nodeclass

import (
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/awserr"
	"github.com/dovetail-sh/dovetail/internal/aws/profile"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

// How long what was found is good for (EC2NodeClass 6).
const (
	subnetsAgain      = time.Minute
	imagesAgain       = 5 * time.Minute
	groupsAgain       = 5 * time.Minute
	reservationsAgain = time.Minute
	notFoundAgain     = time.Minute
	validationAgain   = 10 * time.Minute
	deletionAgain     = 10 * time.Minute
	soon              = 5 * time.Second
)

// namedClaims is how many claims an event names before it counts.
const namedClaims = 5

// Conditions says which conditions decide whether a class is ready.
func Conditions(s Settings) condition.Kind {
	kind := condition.Kind{Root: karpv1.ConditionReady, Dependents: []string{
		awsv1.ConditionAMIsReady, awsv1.ConditionSubnetsReady, awsv1.ConditionSecurityGroupsReady, awsv1.ConditionInstanceProfileReady,
		awsv1.ConditionValidationSucceeded, awsv1.ConditionPlacementGroupReady,
	}}
	if s.ReservedCapacity {
		kind.Dependents = append(kind.Dependents, awsv1.ConditionCapacityReservationsReady)
	}
	return kind
}

// Next decides what is written on a class (EC2NodeClass 5 and 6).
func Next(f Facts) Step {
	if !f.Class.DeletionTimestamp.IsZero() {
		return decideDeletion(f)
	}
	effective, notes := f.Class.Effective(awsv1.Facts{
		Strict: f.Cluster.Strict, ClusterName: f.Cluster.ClusterName, KubernetesMinor: f.Cluster.KubernetesMinor,
		RoleIsProfile: f.Class.Spec.Role != "" && f.Profile.Value == profile.RoleName(f.Class.Spec.Role),
	})
	d := &decision{facts: f, class: effective, kind: Conditions(f.Settings), step: Step{Status: *f.Class.Status.DeepCopy()}}
	if d.firstObservation() {
		d.step.Assumed = notes
	}
	if !f.Settings.ReservedCapacity {
		d.step.Status.CapacityReservations = nil
		d.step.Status.Conditions = condition.Remove(d.step.Status.Conditions, awsv1.ConditionCapacityReservationsReady)
	}
	d.apply()
	d.images()
	d.reservations()
	d.placementGroup()
	d.subnets()
	d.securityGroups()
	d.instanceProfile()
	d.validation(reason.Refusals(notes))
	d.step.Effective = effective
	d.step.Effective.Status = *d.step.Status.DeepCopy()
	return d.step
}

// decideDeletion decides about a class that is being deleted.
func decideDeletion(f Facts) Step {
	step := Step{Keep: true, Status: f.Class.Status}
	switch {
	case !controllerutil.ContainsFinalizer(f.Class, awsv1.FinalizerTermination):
	case len(f.Claims) > 0:
		step.Events = []event.Event{{
			Reason: event.WaitingOnNodeClaimTermination,
			Text:   "The class is being deleted and waits for the NodeClaims that use it: " + listFirst(f.Claims, namedClaims),
		}}
		step.After = deletionAgain
	default:
		step.Clean = true
	}
	return step
}

// listFirst names the first of some names and counts the rest.
func listFirst(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// decision is a step in the making.
type decision struct {
	facts Facts
	class *awsv1.EC2NodeClass // effective
	kind  condition.Kind
	step  Step
}

// firstObservation reports whether this generation of the class was never reconciled before.
func (d *decision) firstObservation() bool {
	seen := condition.Find(d.facts.Class.Status.Conditions, karpv1.ConditionReady)
	return seen == nil || seen.ObservedGeneration != d.facts.Class.Generation || seen.Reason == condition.AwaitingReconciliation
}

func (d *decision) apply(changes ...condition.Change) {
	object := condition.Object{Generation: d.facts.Class.Generation, Created: d.facts.Class.CreationTimestamp}
	d.step.Status.Conditions = d.kind.Apply(d.step.Status.Conditions, object, d.facts.Now, changes...)
}

func (d *decision) set(name string, status metav1.ConditionStatus, reason, message string) {
	d.apply(condition.Change{Type: name, Status: status, Reason: reason, Message: message})
}

func (d *decision) setTrue(name string) { d.set(name, metav1.ConditionTrue, "", "") }

func (d *decision) setFalse(name, reason, message string) {
	d.set(name, metav1.ConditionFalse, reason, message)
}

// recordError notes an error. A condition that this generation already has a result for keeps it; else it
// says why there is none yet.
func (d *decision) recordError(name, reason string, err error) {
	d.step.Err = errors.Join(d.step.Err, err)
	if !d.isDecided(name) {
		d.set(name, metav1.ConditionUnknown, reason, stableError(err))
	}
}

// stableError is an error without what differs from call to call, such as the id of the request: a condition
// must not change with every try.
func stableError(err error) string {
	text := err.Error()
	if code := awserr.Code(err); code != "" {
		text = "AWS returned " + code + ": " + awserr.Text(err)
	}
	if awserr.Unauthorized(err) {
		text = strings.TrimSuffix(text, ".") + "; allow it to the role of the controller, see the policies of the installation guide (docs/reference/iam.md)"
	}
	return text
}

// isDecided reports whether a condition is true or false for this generation.
func (d *decision) isDecided(name string) bool {
	return d.conditionStatus(name) != metav1.ConditionUnknown
}

// conditionStatus is what a condition says about this generation.
func (d *decision) conditionStatus(name string) metav1.ConditionStatus {
	c := condition.Find(d.step.Status.Conditions, name)
	if c == nil || c.ObservedGeneration != d.facts.Class.Generation {
		return metav1.ConditionUnknown
	}
	return c.Status
}

// requeueAfter requeues the class after at most this time.
func (d *decision) requeueAfter(after time.Duration) {
	if d.step.After == 0 || after < d.step.After {
		d.step.After = after
	}
}
