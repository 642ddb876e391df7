package aws

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/awserr"
	"github.com/dovetail-sh/dovetail/internal/aws/inventory"
	"github.com/dovetail-sh/dovetail/internal/cloud"
)

const (
	tagEvery  = time.Second      // at most one CreateTags in this time
	tagDenied = 10 * time.Minute // until the next try after a denial (E18)
)

type tagAPI interface {
	CreateTags(context.Context, *ec2.CreateTagsInput, ...func(*ec2.Options)) (*ec2.CreateTagsOutput, error)
}

// tagger puts the tags on instances that are known only after the node has joined. Users' policies allow
// no others (13.1).
type tagger struct {
	client    client.Client
	ec2       tagAPI
	inventory instanceInventory
	shifted   func(zoneID string) bool
	cluster   string
	now       func() time.Time

	mu     sync.Mutex
	next   time.Time            // the first moment that no claim was given
	turns  map[string]time.Time // by claim: when it may call CreateTags
	denied map[string]time.Time // instances that may not be tagged, and until when that is not tried
}

func (t *tagger) register(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("nodeclaim.tagging").For(&karpv1.NodeClaim{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).Complete(t)
}

// Reconcile tags the instance of one claim.
func (t *tagger) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	claim := &karpv1.NodeClaim{}
	if err := t.client.Get(ctx, req.NamespacedName, claim); err != nil {
		t.dropTurn(req.Name)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !needsTags(claim) {
		t.dropTurn(req.Name)
		return ctrl.Result{}, nil
	}
	if wait := t.retryIn(inventory.InstanceID(claim.Status.ProviderID)); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	if wait := t.waitForTurn(claim.Name); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	instance, err := t.inventory.Fresh(ctx, inventory.InstanceID(claim.Status.ProviderID))
	switch {
	case cloud.Is(err, cloud.NotFound):
		return ctrl.Result{}, nil // it has ended; nothing is left to tag
	case err != nil:
		return ctrl.Result{}, err
	case t.shifted(instance.ZoneID):
		return ctrl.Result{}, fmt.Errorf("instance %s is not tagged for now: zone %s is shifted away", instance.ID, instance.Zone)
	}
	if missing := missingTags(instance, claim, t.cluster); len(missing) > 0 {
		if err := t.createTags(ctx, instance.ID, missing); err != nil {
			return t.requeueAfterFailure(ctx, instance.ID, err)
		}
	}
	return ctrl.Result{}, client.IgnoreNotFound(t.annotateTagged(ctx, claim))
}

// needsTags reports whether a claim's node is known and not all tags are there.
func needsTags(claim *karpv1.NodeClaim) bool {
	tagged := claim.Annotations[awsv1.AnnotationTagged] == "true" && claim.Annotations[awsv1.AnnotationClusterNameTagged] == "true"
	return !tagged && claim.DeletionTimestamp.IsZero() && claim.Status.NodeName != "" && inventory.InstanceID(claim.Status.ProviderID) != ""
}

// missingTags are the tags that are not there at all. A value that is there is the user's.
func missingTags(i inventory.Instance, claim *karpv1.NodeClaim, cluster string) map[string]string {
	missing := map[string]string{
		inventory.TagName:      claim.Status.NodeName,
		inventory.TagNodeClaim: claim.Name,
		inventory.TagCluster:   cluster,
	}
	maps.DeleteFunc(missing, func(key, _ string) bool { _, has := i.Tags[key]; return has })
	return missing
}

// waitForTurn returns zero if it is the claim's turn to call, else how long to wait. Each claim gets a moment of
// its own, before anything is queried about it: a thousand that all come back for the next free one would
// keep us and EC2 busy.
func (t *tagger) waitForTurn(claim string) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	at, given := t.turns[claim]
	if !given {
		if at = t.next; at.Before(now) {
			at = now
		}
		t.next = at.Add(tagEvery)
	}
	if wait := at.Sub(now); wait > 0 {
		if t.turns == nil {
			t.turns = map[string]time.Time{}
		}
		t.turns[claim] = at
		return wait
	}
	delete(t.turns, claim)
	return 0
}

// dropTurn drops the turn of a claim that needs none any more.
func (t *tagger) dropTurn(claim string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.turns, claim)
}

// retryIn is how long an instance is not to be tried again: claims change often, denials do not.
func (t *tagger) retryIn(id string) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.denied[id].Sub(t.now())
}

func (t *tagger) delayRetry(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.denied == nil {
		t.denied = map[string]time.Time{}
	}
	now := t.now()
	maps.DeleteFunc(t.denied, func(_ string, until time.Time) bool { return now.After(until) })
	t.denied[id] = now.Add(tagDenied)
}

func (t *tagger) createTags(ctx context.Context, id string, tags map[string]string) error {
	input := &ec2.CreateTagsInput{Resources: []string{id}}
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		input.Tags = append(input.Tags, ec2types.Tag{Key: new(key), Value: new(tags[key])})
	}
	_, err := t.ec2.CreateTags(ctx, input)
	return err
}

// requeueAfterFailure says when to try again. Tags are for people: a node without them works.
func (t *tagger) requeueAfterFailure(ctx context.Context, id string, err error) (ctrl.Result, error) {
	switch {
	case awserr.NotFound(err):
		return ctrl.Result{}, nil
	case awserr.Unauthorized(err):
		t.delayRetry(id)
		log.FromContext(ctx).Error(err, "the role of the controller may not tag instances; the node works, but its instance has no Name", "instance-id", id)
		return ctrl.Result{RequeueAfter: tagDenied}, nil
	default:
		return ctrl.Result{}, fmt.Errorf("tag instance %s: %w", id, err)
	}
}

// annotateTagged takes note on the claim.
func (t *tagger) annotateTagged(ctx context.Context, claim *karpv1.NodeClaim) error {
	before := claim.DeepCopy()
	if claim.Annotations == nil {
		claim.Annotations = map[string]string{}
	}
	claim.Annotations[awsv1.AnnotationTagged] = "true"
	claim.Annotations[awsv1.AnnotationClusterNameTagged] = "true"
	return t.client.Patch(ctx, claim, client.MergeFrom(before))
}
