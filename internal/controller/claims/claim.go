package claims

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/controller/lookup"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/controller/write"
	"github.com/dovetail-sh/dovetail/internal/execute"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

// launcher is the part of the cloud that launches instances.
type launcher interface {
	Launch(ctx context.Context, claim *karpv1.NodeClaim) (cloud.Instance, error)
}

// registrations receives the results of the launches of a pool (LC-53).
type registrations interface {
	Registered(claim *karpv1.NodeClaim)
	Failed(claim *karpv1.NodeClaim, reason, message string)
}

// Claims takes NodeClaims from creation to a node that runs pods. It hands claims that are being deleted to
// Terminate.
type Claims struct {
	Client   client.Client
	Provider launcher
	Gates    []cloud.Gate
	Events   write.Announcer
	Metrics  *metric.Set
	Remover  execute.Remover
	Health   registrations
	Classes  []schema.GroupKind // kinds of node classes this controller manages
	Strict   bool
	Workers  int
	Now      func() time.Time

	// Terminate is called with each claim, as stored, that is being deleted.
	Terminate func(ctx context.Context, claim *karpv1.NodeClaim) (ctrl.Result, error)
	// PlannedPods names the pods that were planned onto a claim. It may be nil.
	PlannedPods func(claim string) []types.NamespacedName
	// Nominate has the pods that were planned onto a claim tried on its node first. It may be nil.
	Nominate func(ctx context.Context, claim, node string)
	// Live reads from the API server itself. Nil: a claim is kept even if its node vanished.
	Live client.Reader
	// Drivers names the DRA drivers with a complete pool for a node. Nil: the feature is off.
	Drivers func(ctx context.Context, node string) ([]string, error)
	// Wake requeues a claim. Register sets it. Without it launches are waited for.
	Wake func(claim string)

	launches launchCache
	written  write.Versions
}

// Register adds the reconciler to a manager.
func (r *Claims) Register(mgr ctrl.Manager) error {
	wake := source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		r.Wake = func(claim string) { queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: claim}}) }
		return nil
	})
	// The manager waits for what it started: the next leader must not launch while this one still does.
	wait := manager.RunnableFunc(func(ctx context.Context) error {
		<-ctx.Done()
		r.Close()
		return nil
	})
	if err := mgr.Add(wait); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).Named("nodeclaim.lifecycle").
		For(&karpv1.NodeClaim{}).WatchesRawSource(wake).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(lookup.ClaimsOfNode(r.Client))).
		Watches(&corev1.Pod{}, handler.Funcs{UpdateFunc: r.unnominated}).
		WithOptions(loop.Options(r.Workers, lifecycle.FirstLaunchRetry, lifecycle.LastLaunchRetry)).
		Complete(r)
}

// unnominated requeues the claim of a node when a pod loses its nomination for the node without being bound:
// the scheduler tried it before the node accepts pods.
func (r *Claims) unnominated(ctx context.Context, e event.UpdateEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	before, known := e.ObjectOld.(*corev1.Pod)
	after, same := e.ObjectNew.(*corev1.Pod)
	if r.Nominate == nil || !known || !same || !lifecycle.LosesNomination(before, after) {
		return
	}
	node := &corev1.Node{}
	if r.Client.Get(ctx, client.ObjectKey{Name: before.Status.NominatedNodeName}, node) != nil || node.Labels[karpv1.LabelInitialized] == "true" {
		return // gone, or the scheduler has seen the node ready
	}
	for _, request := range lookup.ClaimsOfNode(r.Client)(ctx, node) {
		queue.Add(request)
	}
}

// Launched returns the instance that was launched for a claim in the last hour, even if its status does not
// show it yet (drain.InstanceOf).
func (r *Claims) Launched(uid types.UID) (cloud.Instance, bool) {
	outcome := r.launches.cachedOutcome(uid, r.Now())
	if outcome == nil || outcome.Err != nil {
		return cloud.Instance{}, false
	}
	return outcome.Instance, true
}

// Launching reports whether a request to launch the instance of a claim is under way.
func (r *Claims) Launching(uid types.UID) bool { return r.launches.isLaunching(uid) }

// Reconcile brings one claim forward.
func (r *Claims) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	stored, result, err := r.written.Read(ctx, r.Client, req.Name, loop.Soon)
	if stored == nil {
		return result, err
	}
	claim, err := effective(ctx, r.Client, stored, r.Strict)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !lookup.Managed(r.Classes, claim.Spec.NodeClassRef) {
		return ctrl.Result{}, nil
	}
	if stored.DeletionTimestamp != nil {
		return r.Terminate(ctx, stored)
	}
	after, err := r.advance(ctx, stored, claim)
	if apierrors.IsConflict(err) {
		return loop.RequeueAfter(loop.Soon), nil // another client wrote; retry once the cache has it
	}
	return loop.RequeueAfter(after), client.IgnoreNotFound(err)
}

// advance observes, decides and performs until there is nothing more to do now.
func (r *Claims) advance(ctx context.Context, stored, claim *karpv1.NodeClaim) (time.Duration, error) {
	const enough = 3 // the finalizer, then everything else, and one more
	for range enough {
		facts, err := r.observe(ctx, claim)
		if err != nil {
			return 0, err
		}
		step := lifecycle.Next(facts)
		for step.Launch || step.CallGates {
			if step.Launch {
				facts.Launch = r.launch(ctx, claim)
				facts.Launching, facts.Tried = facts.Launch == nil, r.launches.firstAttemptAt(claim.UID)
			} else {
				facts.Gates = r.openGates(ctx, claim)
			}
			facts.Now = r.Now()
			step = lifecycle.Next(facts)
		}
		if stored, err = r.perform(ctx, stored, facts, step); err != nil {
			return 0, err
		}
		if !step.DecideAgain {
			return step.After, nil
		}
		if claim, err = effective(ctx, r.Client, stored, r.Strict); err != nil {
			return 0, err
		}
	}
	return loop.Soon, nil
}

func (r *Claims) observe(ctx context.Context, claim *karpv1.NodeClaim) (lifecycle.Facts, error) {
	now := r.Now()
	facts := lifecycle.Facts{
		Claim: claim, Gated: len(r.Gates) > 0, Now: now,
		Launching: r.launches.isLaunching(claim.UID), Tried: r.launches.firstAttemptAt(claim.UID),
	}
	if !facts.Launching { // otherwise there is no result yet, and only this reconciler starts a launch
		facts.Launch = r.launches.takeOutcome(claim.UID, now)
	}
	nodes, err := lookup.NodesOf(ctx, r.Client, claim.Status.ProviderID)
	if err != nil {
		return facts, err
	}
	facts.Nodes = nodes
	if facts.NodeGone, err = r.nodeIsGone(ctx, facts); err != nil {
		return facts, err
	}
	if r.Drivers != nil && len(nodes) == 1 {
		ready, err := r.Drivers(ctx, nodes[0].Name)
		if err != nil {
			return facts, err
		}
		facts.Drivers = &lifecycle.Drivers{Ready: ready}
	}
	return facts, nil
}

// nodeIsGone reports whether the node of a claim was deleted.
func (r *Claims) nodeIsGone(ctx context.Context, facts lifecycle.Facts) (bool, error) {
	claim := facts.Claim
	if r.Live == nil || !lifecycle.NodeMissing(claim, facts.Nodes) {
		return false, nil
	}
	node := &corev1.Node{}
	err := r.Live.Get(ctx, client.ObjectKey{Name: claim.Status.NodeName}, node)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read node %s: %w", claim.Status.NodeName, err)
	}
	return lifecycle.NodeReplaced(claim, node), nil
}

// openGates calls the registration gates in parallel (LC-09).
func (r *Claims) openGates(ctx context.Context, claim *karpv1.NodeClaim) []lifecycle.GateState {
	states := make([]lifecycle.GateState, len(r.Gates))
	var wait sync.WaitGroup
	for i, gate := range r.Gates {
		wait.Go(func() {
			labels, after, err := gate.Open(ctx, claim)
			states[i] = lifecycle.GateState{Name: gate.Name(), Labels: labels, Wait: after, Err: err}
		})
	}
	wait.Wait()
	return states
}
