package execute

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/metric"
	"github.com/dovetail-sh/dovetail/internal/provision"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// claimStore is the part of the store that creating claims needs.
type claimStore interface {
	admissionStore
	RecordListedClaim(claim *karpv1.NodeClaim)
	UnwatchedClaims() []string
	ConfirmClaim(name string, now *karpv1.NodeClaim)
}

// writers is how many claims are written at a time. The API server decides how fast that goes.
const writers = 50

// Claims writes NodeClaims.
type Claims struct {
	Client  client.Client // of the API server itself: what it reads is not from a cache
	Store   claimStore
	Metrics *metric.Set
	Words   reqs.Vocabulary

	slots   Slots
	mu      sync.Mutex
	batches provision.Batches
	written chan struct{} // closed when the batch that was begun last is written
}

// Batch is the new nodes of one plan.
type Batch struct {
	Nodes   []solve.NewNode
	Pools   map[string]*karpv1.NodePool // effective, by name
	Lanes   resources.Table
	Version uint64 // of the snapshot that the nodes were planned on
	Reason  string // why they are launched: provisioned, drifted, underutilized, unhealthy

	Command string            // that creates them, if any; it distinguishes the decision from others
	Marks   map[string]string // annotations that say so on each claim
}

// Created is one node of a batch with the claim that was written, or what kept it from being written.
type Created struct {
	Node  solve.NewNode
	Claim *karpv1.NodeClaim
	Err   error

	// Altered names what of the claim the API server stored in another form than requested.
	Altered []string
}

// ErrObsolete says that a node is no longer needed: none of its pods waits any more.
var ErrObsolete = errors.New("no pod waits for it any more")

// ErrOutdated says that others were faster: since the node was planned they took what the limits of its pool
// had left (G10), the last slot of its capacity reservation (SC-45), or ordered a node for one of its pods (G8). The next
// plan sees it.
var ErrOutdated = errors.New("others were faster than the plan")

// Create writes the claims of a batch in parallel; one that fails does not stop the others (SC-51). Room in
// the limits of pools is taken before, and given back when the claim is in memory.
func (c *Claims) Create(ctx context.Context, b Batch) []Created {
	defer c.beginBatch()()
	admission := c.slots.Admit(b, c.Store)
	defer admission.End()
	out := make([]Created, len(b.Nodes))
	var wait sync.WaitGroup
	slots := make(chan struct{}, writers)
	for i := range b.Nodes {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			defer admission.Release(i)
			out[i] = c.create(ctx, b, admission, i)
		})
	}
	wait.Wait()
	return out
}

func outdatedError(why error) error {
	if why == nil {
		return nil
	}
	return fmt.Errorf("%w; %w", why, ErrOutdated)
}

// beginBatch notes that a batch is being written; what it returns ends that.
func (c *Claims) beginBatch() func() {
	written := make(chan struct{})
	c.mu.Lock()
	defer c.mu.Unlock()
	batch := c.batches.Begin()
	c.written = written
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.batches.End(batch)
		close(written)
	}
}

// Written waits until a claim may be launched (provision.Batches).
func (c *Claims) Written(ctx context.Context) {
	c.mu.Lock()
	wait, written := c.batches.LaunchWait(c.batches.Last(), 0), c.written
	c.mu.Unlock()
	if wait == 0 {
		return
	}
	limit := time.NewTimer(wait)
	defer limit.Stop()
	select {
	case <-written:
	case <-limit.C:
	case <-ctx.Done():
	}
}

func (c *Claims) create(ctx context.Context, b Batch, admission *Admission, i int) Created {
	out := admission.Create(i, c.Words, func(claim *karpv1.NodeClaim) (*karpv1.NodeClaim, error) { return c.write(ctx, claim) })
	if out.Err != nil {
		return out
	}
	n, claim := out.Node, out.Claim
	c.Metrics.NodeClaimsCreated.WithLabelValues(b.Reason, n.Pool, claim.Annotations[karpv1.AnnotationMinValuesRelaxed]).Inc()
	log.FromContext(ctx).Info("created nodeclaim", "NodePool", klog.KRef("", n.Pool), "NodeClaim", klog.KRef("", claim.Name),
		"requests", claim.Spec.Resources.Requests, "instance-types", Few(n.Types), "price", n.Offer.Price)
	return out
}

// write stores a claim. If its name is taken, it returns what is there, and the error.
func (c *Claims) write(ctx context.Context, claim *karpv1.NodeClaim) (there *karpv1.NodeClaim, err error) {
	key := client.ObjectKeyFromObject(claim)
	if err = c.Client.Create(ctx, claim); !apierrors.IsAlreadyExists(err) {
		return nil, err
	}
	there = &karpv1.NodeClaim{}
	if got := c.Client.Get(ctx, key, there); got != nil {
		return nil, errors.Join(err, got)
	}
	return there, err
}

// isRequestedClaim reports whether a stored claim is the requested one: written by the same decision, of the same pool, for
// the same command, and with the same requests. Its name is not enough: names are short.
func isRequestedClaim(requested, stored *karpv1.NodeClaim) bool {
	return requested.Annotations[karpv1.AnnotationOrder] == stored.Annotations[karpv1.AnnotationOrder] &&
		requested.Labels[karpv1.LabelNodePool] == stored.Labels[karpv1.LabelNodePool] &&
		requested.Annotations[karpv1.AnnotationCommand] == stored.Annotations[karpv1.AnnotationCommand] &&
		requested.Annotations[karpv1.AnnotationReplaces] == stored.Annotations[karpv1.AnnotationReplaces] &&
		equality.Semantic.DeepEqual(requested.Spec.Resources.Requests, stored.Spec.Resources.Requests) &&
		equality.Semantic.DeepEqual(requested.Spec.NodeClassRef, stored.Spec.NodeClassRef)
}

// alteredParts names the parts of a claim that were stored in another form than requested, of those that decide which pods
// its node takes.
func alteredParts(requested, stored *karpv1.NodeClaim) []string {
	var parts []string
	// any order: whether there is one
	for key, value := range requested.Labels {
		if stored.Labels[key] != value {
			parts = append(parts, "metadata.labels")
			break
		}
	}
	if !equality.Semantic.DeepEqual(requested.Spec.Taints, stored.Spec.Taints) {
		parts = append(parts, "spec.taints")
	}
	if !equality.Semantic.DeepEqual(requested.Spec.Requirements, stored.Spec.Requirements) {
		parts = append(parts, "spec.requirements")
	}
	return parts
}

// Denied reports whether the API server, or admission on its behalf, denied a claim for good: the same claim would be
// denied again.
func (c Created) Denied() bool {
	return apierrors.IsForbidden(c.Err) || apierrors.IsInvalid(c.Err) || apierrors.IsBadRequest(c.Err)
}

// Result is what became of the node, as provisioning records it.
func (c Created) Result() provision.OrderResult {
	out := provision.OrderResult{Node: c.Node}
	switch {
	case c.Err == nil:
		out.Claim = c.Claim.Name
	case errors.Is(c.Err, ErrObsolete):
		out.Outcome = provision.Obsolete
	case errors.Is(c.Err, ErrOutdated):
		out.Outcome = provision.Outdated
	case c.Denied():
		out.Outcome = provision.Denied
	default:
		out.Outcome = provision.Failed
	}
	return out
}

// List reads all claims from the API server. A new leader does it before its first plan: the watch may not have
// delivered yet what the leader before it created (G8, FM C03).
func (c *Claims) List(ctx context.Context) error {
	list := &karpv1.NodeClaimList{}
	if err := c.Client.List(ctx, list); err != nil {
		return fmt.Errorf("list nodeclaims: %w", err)
	}
	for i := range list.Items {
		c.Store.RecordListedClaim(&list.Items[i])
	}
	return nil
}

// Confirm reads created claims from the API server that no watch has delivered, so that they are counted for as long
// as they exist. A failed read does not mean that they are deleted.
func (c *Claims) Confirm(ctx context.Context) {
	var wait sync.WaitGroup
	slots := make(chan struct{}, writers)
	for _, name := range c.Store.UnwatchedClaims() {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			claim := &karpv1.NodeClaim{}
			switch err := c.Client.Get(ctx, client.ObjectKey{Name: name}, claim); {
			case err == nil:
				c.Store.ConfirmClaim(name, claim)
			case !apierrors.IsNotFound(err):
				c.Store.ConfirmClaim(name, nil)
			}
		})
	}
	wait.Wait()
}

// Provisioned is the reason of claims for pods that wait.
const Provisioned = "provisioned"

// Few shows the first five of a list and counts the rest, for the log.
func Few(list []string) string {
	const shown = 5
	text := strings.Join(list[:min(len(list), shown)], ", ")
	if rest := len(list) - shown; rest > 0 {
		text += fmt.Sprintf(" and %d other(s)", rest)
	}
	return text
}

// NominatedOn is the event of a pod that is planned onto a node or a claim.
func NominatedOn(place string) event.Event {
	return event.Event{Reason: event.Nominated, Text: "Pod should schedule on: " + place}
}
