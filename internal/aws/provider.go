package aws

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/awserr"
	"github.com/dovetail-sh/dovetail/internal/aws/classhash"
	"github.com/dovetail-sh/dovetail/internal/aws/inventory"
	"github.com/dovetail-sh/dovetail/internal/aws/kubelet"
	"github.com/dovetail-sh/dovetail/internal/aws/launch"
	"github.com/dovetail-sh/dovetail/internal/aws/offering"
	"github.com/dovetail-sh/dovetail/internal/aws/profile"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/adopt"
	"github.com/dovetail-sh/dovetail/internal/cloud/directory"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

const resourceEFA corev1.ResourceName = "vpc.amazonaws.com/efa"

type (
	typeCatalog interface {
		Types(class *awsv1.EC2NodeClass, kubelet *runtime.RawExtension) ([]catalog.InstanceType, error)
	}
	instanceLauncher interface {
		Launch(ctx context.Context, r launch.Request) (launch.Result, error)
		UseNewToken(claim types.UID)
	}
	lister interface {
		List(ctx context.Context) ([]inventory.Instance, error)
	}
	instanceInventory interface {
		lister
		Find(ctx context.Context, id string) (inventory.Instance, error)
		Fresh(ctx context.Context, id string) (inventory.Instance, error)
		Terminate(ctx context.Context, id string) error
		Reboot(ctx context.Context, id string) error
		RecordLaunched(instance inventory.Instance)
	}
	recorder interface {
		Emit(obj client.Object, events ...event.Event)
	}
	// clusterFacts is where the cluster is, as the packages below know it.
	clusterFacts interface {
		Facts() awsv1.Facts
		CABundle() string
	}
)

// provider is the cloud.Provider, without metrics.
type provider struct {
	reader    client.Reader
	types     typeCatalog
	launcher  instanceLauncher
	inventory instanceInventory
	place     clusterFacts
	events    recorder
	adopter   *adopt.Adopter[inventory.Instance]
	ledger    *adopt.Ledger // claims that are older than its start may have an instance that was not recorded
	lanes     resources.Table

	expressions bool // gate NodeClassCEL

	// overlaid is Options.Overlaid of the driver; nil: there are no NodeOverlays.
	overlaid func(ctx context.Context, claim *karpv1.NodeClaim, types []catalog.InstanceType) ([]catalog.InstanceType, resources.Table, error)

	tags    func(class *awsv1.EC2NodeClass, pool string) map[string]string
	drifted func(ctx context.Context, class *awsv1.EC2NodeClass, claim *karpv1.NodeClaim) (reason.Reason, error)
	holds   func(reservation, claim string) // the claim, by UID, was found to have an instance of the reservation
}

// Types returns all instance types a pool could have.
func (p *provider) Types(ctx context.Context, pool *karpv1.NodePool) ([]catalog.InstanceType, error) {
	class, _, err := p.class(ctx, pool.Spec.Template.Spec.NodeClassRef, pool)
	if err != nil {
		return nil, err
	}
	return p.types.Types(class, pool.Spec.Template.Spec.Kubelet)
}

// refusals are what a pool, in its effective form, requests that nodes of the class cannot be given. Without
// them its claims would be ordered and refused one after the other.
func refusals(class *awsv1.EC2NodeClass, pool *karpv1.NodePool, expressions bool) []reason.Reason {
	_, message := kubelet.CheckOverride(pool.Spec.Template.Spec.Kubelet, class.Family(), expressions)
	if message == "" {
		return nil
	}
	return []reason.Reason{{Code: reason.KubeletRefused, Subject: "spec.template.spec.kubelet", Have: message}}
}

// Launch launches the instance of a claim, or returns the one that was launched for it before.
func (p *provider) Launch(ctx context.Context, claim *karpv1.NodeClaim) (cloud.Instance, error) {
	class, stored, err := p.class(ctx, claim.Spec.NodeClassRef, claim)
	if err != nil {
		return cloud.Instance{}, err
	}
	if err := ready(class); err != nil {
		return cloud.Instance{}, err
	}
	if why, message := kubelet.CheckOverride(claim.Spec.Kubelet, class.Family(), p.expressions); why != "" {
		return cloud.Instance{}, &cloud.Error{Kind: cloud.Invalid, Op: "read spec.kubelet of the NodeClaim", Reason: why, Message: "spec.kubelet of the NodeClaim: " + message}
	}
	all, err := p.types.Types(class, claim.Spec.Kubelet)
	if err != nil {
		return cloud.Instance{}, unresolvedTypesError(err)
	}
	all, lanes, err := p.withOverlays(ctx, claim, all)
	if err != nil {
		return cloud.Instance{}, unresolvedTypesError(err)
	}
	done, err := p.ledger.Turn(ctx, claim.UID)
	if err != nil {
		return cloud.Instance{}, &cloud.Error{Op: "launch", Err: err}
	}
	defer done()
	m, err := p.findOrLaunch(ctx, claim, class, all, lanes)
	if err != nil {
		return cloud.Instance{}, err
	}
	instance, err := p.launchedInstance(claim, class, all, lanes, m)
	if err != nil {
		return cloud.Instance{}, err
	}
	instance.Annotations = p.driftAnnotations(stored)
	return instance, nil
}

// withOverlays returns the instance types of a launch as NodeOverlays make them, and the table that their resources are
// written with.
func (p *provider) withOverlays(ctx context.Context, claim *karpv1.NodeClaim, all []catalog.InstanceType) ([]catalog.InstanceType, resources.Table, error) {
	if p.overlaid == nil {
		return all, p.lanes, nil
	}
	all, lanes, err := p.overlaid(ctx, claim, all)
	if lanes.Len() < p.lanes.Len() {
		lanes = p.lanes
	}
	return all, lanes, err
}

// findOrLaunch finds the machine of a claim, or launches one.
func (p *provider) findOrLaunch(ctx context.Context, claim *karpv1.NodeClaim, class *awsv1.EC2NodeClass, all []catalog.InstanceType, lanes resources.Table) (machine, error) {
	found, err := p.existingInstance(ctx, claim, all)
	if err != nil || found != nil {
		return p.machineOfClaim(claim, found, class), err
	}
	launched, err := p.launchAndAssign(ctx, launch.Request{Claim: claim, Class: class, Types: all, Lanes: lanes})
	if errors.Is(err, launch.ErrTokenUsed) {
		found, lookup := p.adopter.Adopt(ctx, claim, all)
		if lookup == nil && found != nil {
			return p.machineOfClaim(claim, found, class), nil
		}
	}
	if err != nil {
		if failure, ok := errors.AsType[*cloud.Error](err); ok && failure.Reason == "SpotSLRCreationFailed" {
			p.emitSpotRoleMissing(claim)
		}
		return machine{}, err
	}
	if launched.SpotRoleMissing {
		p.emitSpotRoleMissing(claim)
	}
	m := machine(launched)
	p.inventory.RecordLaunched(m.inventoryInstance(class, p.tags(class, claim.Labels[karpv1.LabelNodePool])))
	return m, nil
}

// launchAndAssign launches and notes whose the instance is. For a token that it knows EC2 returns the instance it
// launched then; by now that may be another claim's, which found it first after a restart. Then the
// launch is repeated with another token: two claims never share an instance (G1).
func (p *provider) launchAndAssign(ctx context.Context, r launch.Request) (launch.Result, error) {
	for range 3 {
		launched, err := p.launcher.Launch(ctx, r)
		if err != nil {
			return launched, err
		}
		others, err := directory.Cache{Reader: p.reader}.Claims(ctx, launched.ID)
		if err != nil {
			return launch.Result{}, &cloud.Error{Op: "find the owner of instance " + launched.ID, Err: err}
		}
		taken := slices.ContainsFunc(others, func(c karpv1.NodeClaim) bool { return c.UID != r.Claim.UID })
		if !taken && p.ledger.Assign(r.Claim.UID, launched.ID) {
			return launched, nil
		}
		p.launcher.UseNewToken(r.Claim.UID)
	}
	return launch.Result{}, &cloud.Error{Op: "launch", Message: "EC2 keeps returning instances of other NodeClaims"}
}

// emitSpotRoleMissing emits an event about what only a user can change (F05).
func (p *provider) emitSpotRoleMissing(claim *karpv1.NodeClaim) {
	p.events.Emit(claim, event.Event{
		Reason: event.SpotServiceLinkedRoleMissing,
		Text:   awserr.CodeSpotRoleMissing + ": the account has no service-linked role AWSServiceRoleForEC2Spot; run `aws iam create-service-linked-role --aws-service-name spot.amazonaws.com`. Spot is not used for a while",
	})
}

// machineOfClaim is the machine that was found for a claim.
func (p *provider) machineOfClaim(claim *karpv1.NodeClaim, found *inventory.Instance, class *awsv1.EC2NodeClass) machine {
	if found == nil {
		return machine{}
	}
	m := machineOf(*found)
	m.completeReservation(class)
	if m.Reservation != "" {
		p.holds(m.Reservation, string(claim.UID))
	}
	return m
}

// existingInstance returns the instance that the claim already has: from this process, or from an earlier one.
func (p *provider) existingInstance(ctx context.Context, claim *karpv1.NodeClaim, all []catalog.InstanceType) (*inventory.Instance, error) {
	if id, given := p.ledger.Instance(claim.UID); given {
		found, err := p.inventory.Find(ctx, id)
		if err == nil && !found.Terminating() {
			return &found, nil
		}
		if err != nil && !cloud.Is(err, cloud.NotFound) {
			return nil, err
		}
		p.ledger.Drop(claim.UID)
	}
	if !claim.CreationTimestamp.Time.Before(p.ledger.Started()) {
		return nil, nil
	}
	return p.adopter.Adopt(ctx, claim, all)
}

// launchedInstance is what a claim gets to know about its machine.
func (p *provider) launchedInstance(claim *karpv1.NodeClaim, class *awsv1.EC2NodeClass, all []catalog.InstanceType, lanes resources.Table, m machine) (cloud.Instance, error) {
	n := slices.IndexFunc(all, func(t catalog.InstanceType) bool { return t.Name == m.Type })
	if n < 0 {
		return cloud.Instance{}, &cloud.Error{Op: "launch", Reason: "InstanceTypeResolutionFailed", Message: fmt.Sprintf("instance %s is of type %s, which is not in the catalogue", m.ID, m.Type)}
	}
	t := &all[n]
	pool := claim.Labels[karpv1.LabelNodePool]
	labels := machineLabels(t, m)
	labels[awsv1.LabelNodeClass] = class.Name
	if pool != "" {
		labels[karpv1.LabelNodePool] = pool
	}
	capacity, allocatable := offering.Resources(t, lanes, wantsEFA(claim, class))
	return cloud.Instance{
		ID: inventory.ProviderID(m.Zone, m.ID), Type: m.Type, Zone: m.Zone, CapacityType: m.CapacityType, Image: m.Image,
		Labels: labels, Capacity: capacity, Allocatable: allocatable,
		Launched: m.Launched, Pool: pool,
	}, nil
}

// driftAnnotations are the annotations by which drift is found later. The hash is that of the class, as stored,
// with which the instance was launched, even if the annotation of the class lags.
func (p *provider) driftAnnotations(class *awsv1.EC2NodeClass) map[string]string {
	stamps := map[string]string{}
	if hash, err := classhash.Of(class, p.place.Facts(), p.place.CABundle()); err == nil {
		stamps = classhash.Annotations(hash)
	}
	if class.Status.InstanceProfile != "" {
		stamps[awsv1.AnnotationInstanceProfileName] = class.Status.InstanceProfile
	}
	return stamps
}

func wantsEFA(claim *karpv1.NodeClaim, class *awsv1.EC2NodeClass) bool {
	_, usesEFA := claim.Spec.Resources.Requests[resourceEFA]
	return usesEFA || slices.ContainsFunc(class.Spec.NetworkInterfaces, func(n awsv1.NetworkInterface) bool { return n.InterfaceType == "efa-only" })
}

// Find returns an instance that exists; NotFound once it is gone. The caller wants to know whether a node
// that does not respond is still there, so the cache is not enough (FM L15).
func (p *provider) Find(ctx context.Context, id cloud.ID) (cloud.Instance, error) {
	instance, err := instanceOf(id)
	if err != nil {
		return cloud.Instance{}, err
	}
	found, err := p.inventory.Fresh(ctx, instance)
	if err != nil {
		return cloud.Instance{}, err
	}
	return cloudInstance(found), nil
}

// List returns every instance of this cluster that exists.
func (p *provider) List(ctx context.Context) ([]cloud.Instance, error) {
	list, err := p.inventory.List(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]cloud.Instance, 0, len(list))
	for _, i := range list {
		out = append(out, cloudInstance(i))
	}
	return out, nil
}

// Terminate requests the end of an instance; NotFound once it is gone.
func (p *provider) Terminate(ctx context.Context, id cloud.ID) error {
	instance, err := instanceOf(id)
	if err != nil {
		return err
	}
	return p.inventory.Terminate(ctx, instance)
}

// Drift says why an instance is not what its class requests now. A class that is not there, or not
// ready, says nothing: its nodes are left alone.
func (p *provider) Drift(ctx context.Context, claim *karpv1.NodeClaim) (reason.Reason, error) {
	class, _, err := p.class(ctx, claim.Spec.NodeClassRef, nil)
	if err != nil {
		if cloud.Is(err, cloud.NoCapacity) {
			return reason.Reason{}, nil
		}
		return reason.Reason{}, err
	}
	if claim.Status.ProviderID == "" || !condition.True(class.Status.Conditions, karpv1.ConditionReady) {
		return reason.Reason{}, nil
	}
	return p.drifted(ctx, class, claim)
}

// instanceOf reads a provider id. One of another cloud cannot be looked up; that is no "not found".
func instanceOf(id cloud.ID) (string, error) {
	if instance := inventory.InstanceID(string(id)); instance != "" {
		return instance, nil
	}
	return "", &cloud.Error{Kind: cloud.Invalid, Op: "read provider id", Message: fmt.Sprintf("%q is not the id of an EC2 instance, such as aws:///us-east-1a/i-0abc", id)}
}

// class returns a node class in its effective form, and as it is stored, which is what is hashed. An
// event on owner reports that it does not exist.
func (p *provider) class(ctx context.Context, ref karpv1.NodeClassReference, owner client.Object) (effective, stored *awsv1.EC2NodeClass, err error) {
	const op = "resolve node class"
	if ref.Group != awsv1.Group || ref.Kind != awsv1.Kind {
		return nil, nil, &cloud.Error{Kind: cloud.NoCapacity, Op: op, Message: fmt.Sprintf("%s %s.%s is no node class of this cloud; use %s.%s", ref.Name, ref.Kind, ref.Group, awsv1.Kind, awsv1.Group)}
	}
	stored = &awsv1.EC2NodeClass{}
	err = p.reader.Get(ctx, client.ObjectKey{Name: ref.Name}, stored)
	why, key := "", ""
	switch {
	case apierrors.IsNotFound(err):
		why, key = fmt.Sprintf("EC2NodeClass %s does not exist; create it, or name another one in spec.template.spec.nodeClassRef", ref.Name), ""
	case err != nil:
		return nil, nil, &cloud.Error{Op: op, Err: err}
	case !stored.DeletionTimestamp.IsZero():
		why, key = fmt.Sprintf("EC2NodeClass %s is being deleted; name another one in spec.template.spec.nodeClassRef, or create it again once it is deleted", ref.Name), " deleting"
	}
	if why != "" {
		if _, pool := owner.(*karpv1.NodePool); owner != nil && !pool { // the controller of pools emits the event of a pool: it knows whether it is time to
			p.events.Emit(owner, event.Event{Reason: event.NodeClassNotFound, Text: why, Key: ref.Kind + " " + ref.Name + key})
		}
		return nil, nil, &cloud.Error{Kind: cloud.NoCapacity, Op: op, Reason: string(event.NodeClassNotFound), Message: why}
	}
	facts := p.place.Facts()
	facts.RoleIsProfile = profile.RoleIsProfile(stored)
	effective, _ = stored.Effective(facts)
	return effective, stored, nil
}

// ready says why a class cannot be launched with. A status that is not known yet is waited for; one that
// is bad, or older than the spec, is not (LC-04).
func ready(class *awsv1.EC2NodeClass) error {
	const op = "check node class"
	c := condition.Find(class.Status.Conditions, karpv1.ConditionReady)
	switch {
	case c == nil || c.Status == metav1.ConditionUnknown:
		return &cloud.Error{Op: op, Reason: "NodeClassReadinessUnknown", Message: fmt.Sprintf("it is not known yet whether EC2NodeClass %s is ready%s", class.Name, conditionText(c))}
	case c.Status == metav1.ConditionFalse:
		return &cloud.Error{Kind: cloud.NotReady, Op: op, Message: fmt.Sprintf("EC2NodeClass %s is not ready%s", class.Name, conditionText(c))}
	case c.ObservedGeneration != class.Generation:
		return &cloud.Error{Kind: cloud.NotReady, Op: op, Message: fmt.Sprintf("the status of EC2NodeClass %s is of generation %d, its spec of generation %d", class.Name, c.ObservedGeneration, class.Generation)}
	}
	return nil
}

func conditionText(c *metav1.Condition) string {
	if c == nil || c.Message == "" {
		return ""
	}
	return ": " + c.Message
}

// unresolvedTypesError makes a launch wait that cannot know its instance types, instead of giving the claim up.
func unresolvedTypesError(err error) error {
	return &cloud.Error{Op: "list instance types", Reason: "InstanceTypeResolutionFailed", Err: err}
}
