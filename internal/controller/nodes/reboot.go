package nodes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/controller/lookup"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/controller/write"
	"github.com/dovetail-sh/dovetail/internal/execute"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/metric"
	"github.com/dovetail-sh/dovetail/internal/reboot"
)

// rebooter is the part of a cloud that reboots.
type rebooter interface {
	Reboot(ctx context.Context, claim *karpv1.NodeClaim, operation string) error
}

// rebootStore records how often nodes were rebooted.
type rebootStore interface{ Rebooted(claim types.UID) }

// Reboots reboots the nodes of claims that request it, and replaces those that do not come back (V15-34
// to V15-43). It runs whether or not nodes are repaired now: what was begun is brought to its end. It
// must not be copied.
type Reboots struct {
	Client   client.Client
	Provider rebooter
	Queue    evictor
	Store    rebootStore
	Events   write.Announcer
	Metrics  *metric.Set
	Remover  execute.Remover
	Classes  []schema.GroupKind // kinds of node classes this controller manages
	Workers  int
	Now      func() time.Time

	mu      sync.Mutex
	calls   reboot.CallLog
	written write.Versions
}

// Register adds the reconciler to a manager. It needs the indexes of Nodes and NodeClaims by provider id
// and of Pods by spec.nodeName.
func (r *Reboots) Register(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("nodeclaim.reboot").
		For(&karpv1.NodeClaim{}, builder.WithPredicates(predicate.NewPredicateFuncs(func(obj client.Object) bool {
			claim, ok := obj.(*karpv1.NodeClaim)
			return ok && reboot.Pending(claim)
		}))).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(lookup.ClaimsOfNode(r.Client)), builder.WithPredicates(predicate.NewPredicateFuncs(func(obj client.Object) bool {
			n, ok := obj.(*corev1.Node)
			return ok && slices.ContainsFunc(n.Spec.Taints, isRebooting)
		}))).
		WithOptions(loop.Options(r.Workers, reboot.FirstRetry, reboot.LastRetry)).
		Complete(r)
}

func isRebooting(t corev1.Taint) bool { return t.Key == karpv1.TaintKeyRebooting }

// Reconcile advances one reboot.
func (r *Reboots) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	claim, result, err := r.written.Read(ctx, r.Client, req.Name, loop.Soon)
	if claim == nil {
		return result, err
	}
	read, _ := claim.Effective(nil, false)
	if !reboot.Pending(claim) || !lookup.Managed(r.Classes, read.Spec.NodeClassRef) {
		r.recordCalls(claim.UID, reboot.Calls{})
		return ctrl.Result{}, nil
	}
	facts, err := r.observe(ctx, claim)
	if err != nil {
		return ctrl.Result{}, err
	}
	calls := r.callsFor(claim.UID)
	after, err := reboot.Advance(ctx, facts, &calls, rebootShell{r})
	r.recordCalls(claim.UID, calls)
	switch {
	case write.IsStale(err):
		return loop.RequeueAfter(loop.Soon), nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("rebooting the node of nodeclaim %s: %w", claim.Name, err)
	}
	return loop.RequeueAfter(after), nil
}

func (r *Reboots) observe(ctx context.Context, claim *karpv1.NodeClaim) (reboot.Facts, error) {
	facts := reboot.Facts{Claim: claim, Now: r.Now()}
	nodes, err := lookup.NodesOf(ctx, r.Client, claim.Status.ProviderID)
	if err != nil || len(nodes) != 1 {
		return facts, err
	}
	facts.Node = nodes[0]
	facts.Pods, err = lookup.PodsOn(ctx, r.Client, facts.Node.Name)
	return facts, err
}

func (r *Reboots) callsFor(uid types.UID) reboot.Calls {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls.Of(uid)
}

func (r *Reboots) recordCalls(uid types.UID, calls reboot.Calls) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls.Record(uid, calls, r.Now())
}

// rebootShell performs the steps of reboots. It is a reboot.Shell.
type rebootShell struct{ *Reboots }

// Perform writes the node, has pods evicted, and writes the claim.
func (r rebootShell) Perform(ctx context.Context, facts *reboot.Facts, step reboot.Step) error {
	if step.Node != nil {
		want := step.Node.DeepCopy()
		if err := r.Client.Patch(ctx, want, write.WithOptimisticLock(facts.Node)); err != nil {
			return fmt.Errorf("patch node %s: %w", want.Name, err)
		}
		r.logTaint(ctx, facts.Node, want)
		facts.Node = want
	}
	for _, note := range step.Pods.Notes {
		r.Events.Emit(note.Pod, note.Event)
	}
	if facts.Node != nil {
		r.Queue.Add(step.Pods.Evictions(facts.Node.Name, step.Limit, string(karpv1.ReasonUnhealthy))...)
	}
	if step.Claim == nil {
		return nil
	}
	claim, err := r.write(ctx, facts.Claim, step.Claim, true)
	if err == nil {
		facts.Claim = claim
	}
	return err
}

func (r *Reboots) logTaint(ctx context.Context, before, after *corev1.Node) {
	had, has := slices.ContainsFunc(before.Spec.Taints, isRebooting), slices.ContainsFunc(after.Spec.Taints, isRebooting)
	switch logger := log.FromContext(ctx); {
	case has && !had:
		logger.Info("tainted node", "Node", klog.KRef("", after.Name), "taint.Key", karpv1.TaintKeyRebooting, "taint.Effect", corev1.TaintEffectNoSchedule)
	case had && !has:
		logger.Info("untainted node", "Node", klog.KRef("", after.Name), "taint.Key", karpv1.TaintKeyRebooting)
	}
}

// write brings annotations and conditions of a claim to what is wanted, both against the version that
// was seen.
func (r *Reboots) write(ctx context.Context, have, want *karpv1.NodeClaim, statusFirst bool) (*karpv1.NodeClaim, error) {
	status := func(from *karpv1.NodeClaim) (*karpv1.NodeClaim, error) {
		if write.SameStatus(have.Status, want.Status) {
			return from, nil
		}
		next := write.WithoutSpec(from)
		next.Status.Conditions = slices.Clone(want.Status.Conditions)
		if err := r.Client.Status().Patch(ctx, next, write.LeanMergePatch(from)); err != nil {
			return from, fmt.Errorf("patch status of nodeclaim %s: %w", have.Name, err)
		}
		r.Events.Flips(next, condition.Flips(have.Status.Conditions, want.Status.Conditions))
		return next, nil
	}
	metadata := func(from *karpv1.NodeClaim) (*karpv1.NodeClaim, error) {
		if maps.Equal(have.Annotations, want.Annotations) {
			return from, nil
		}
		next := write.WithoutSpec(from)
		next.Annotations = maps.Clone(want.Annotations)
		if err := r.Client.Patch(ctx, next, write.LeanMergePatch(from)); err != nil {
			return from, fmt.Errorf("patch nodeclaim %s: %w", have.Name, err)
		}
		return next, nil
	}
	parts := []func(*karpv1.NodeClaim) (*karpv1.NodeClaim, error){metadata, status}
	if statusFirst {
		slices.Reverse(parts)
	}
	out := have
	for _, part := range parts {
		next, err := part(out)
		if apierrors.IsConflict(err) {
			r.written.RecordConflict(out)
		}
		if err != nil {
			return out, err
		}
		if next != out {
			r.written.RecordWrite(next)
		}
		out = next
	}
	return out, nil
}

// Reboot calls the cloud.
func (r rebootShell) Reboot(ctx context.Context, claim *karpv1.NodeClaim, operation string) error {
	return r.Provider.Reboot(ctx, claim, operation)
}

// End deletes the claim of a reboot that failed, and counts what is over.
func (r rebootShell) End(ctx context.Context, facts reboot.Facts, step reboot.Step) error {
	claim := facts.Claim
	if step.Delete {
		// Its deadline is written, and its event is that of the reboot.
		if err := write.RemoveClaim(ctx, r.Client, r.Remover, execute.Removal{Claim: claim, Reason: lifecycle.RemovedUnhealthy}); err != nil {
			return err
		}
		r.written.RecordDeletion(claim)
	}
	r.Events.Emit(claim, step.Events...)
	if step.End == nil {
		return nil
	}
	r.Metrics.NodesReboots.WithLabelValues(step.End.Result).Inc()
	r.Metrics.NodesRebootDuration.WithLabelValues(step.End.Result).Observe(seconds(step.End.Took))
	if step.End.Result == reboot.Succeeded {
		r.Metrics.NodesRebootRecovery.WithLabelValues().Observe(seconds(step.End.Back))
	}
	if step.Delete {
		log.FromContext(ctx).Error(errors.New(step.Events[len(step.Events)-1].Text), "reboot failed, replacing node", "result", step.End.Result, "Node", lifecycle.Ref{Name: claim.Status.NodeName})
	}
	return nil
}
