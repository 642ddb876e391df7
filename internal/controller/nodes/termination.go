package nodes

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/controller/lookup"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/controller/write"
	"github.com/dovetail-sh/dovetail/internal/drain"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

// evictor queues pods for eviction.
type evictor interface {
	Add(evictions ...drain.Eviction)
	Tries(pods []*corev1.Pod) map[types.UID]drain.Try
}

// NodeTermination drains Nodes that are being deleted, terminates their instances and removes their finalizers. It must
// not be copied.
type NodeTermination struct {
	Client   client.Client
	Provider instanceTerminator
	Queue    evictor
	Events   write.Announcer
	Metrics  *metric.Set
	Classes  []schema.GroupKind // kinds of node classes this controller manages; empty: all
	Workers  int
	Drains   *Drains // may be nil
	Now      func() time.Time

	calls callLog
}

// Register adds the reconciler to a manager. It needs the indexes of Pods and VolumeAttachments by
// spec.nodeName and of NodeClaims by status.providerID.
func (r *NodeTermination) Register(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("node.termination").
		For(&corev1.Node{}, builder.WithPredicates(predicate.NewPredicateFuncs(isTerminating))).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.terminatingNodeOf), builder.WithPredicates(podLeft())).
		WithOptions(loop.Options(r.Workers, drain.FirstRetry, drain.LastRetry)).
		Complete(r)
}

// isTerminating reports whether an object is being deleted and has our finalizer.
func isTerminating(obj client.Object) bool {
	return obj.GetDeletionTimestamp() != nil && controllerutil.ContainsFinalizer(obj, karpv1.FinalizerTermination)
}

// terminatingNodeOf is the node of a pod, if it is terminating.
func (r *NodeTermination) terminatingNodeOf(ctx context.Context, obj client.Object) []reconcile.Request {
	p, ok := obj.(*corev1.Pod)
	if !ok || p.Spec.NodeName == "" {
		return nil
	}
	n, key := &corev1.Node{}, types.NamespacedName{Name: p.Spec.NodeName}
	if err := r.Client.Get(ctx, key, n); err != nil || !isTerminating(n) {
		return nil
	}
	return []reconcile.Request{{NamespacedName: key}}
}

// Reconcile advances the termination of one node.
func (r *NodeTermination) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	n := &corev1.Node{}
	if err := r.Client.Get(ctx, req.NamespacedName, n); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !isTerminating(n) {
		return ctrl.Result{}, nil
	}
	after, err := r.terminateNode(ctx, n)
	switch {
	case write.IsStale(err):
		return loop.RequeueAfter(loop.Soon), nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("terminate node %s: %w", req.Name, err)
	}
	return loop.RequeueAfter(after), nil
}

func (r *NodeTermination) terminateNode(ctx context.Context, n *corev1.Node) (time.Duration, error) {
	facts, ours, err := r.observe(ctx, n)
	if err != nil || !ours {
		return 0, err
	}
	return r.calls.update(n.UID, facts.Now, func(calls *drain.Calls) (time.Duration, error) {
		return drain.AdvanceNode(ctx, facts, calls, nodeShell{instance{r.Provider, cloud.ID(n.Spec.ProviderID)}, r})
	})
}

// nodeShell performs the steps of one pass.
type nodeShell struct {
	instance

	r *NodeTermination
}

// observe reads what the decision needs. The node of a claim with a node class of others is not ours.
func (r *NodeTermination) observe(ctx context.Context, n *corev1.Node) (facts drain.Facts, ours bool, err error) {
	facts = drain.Facts{Node: n, Now: r.Now()}
	if facts.Claim, err = r.claim(ctx, n); err != nil {
		return facts, false, err
	}
	if facts.Claim != nil && len(r.Classes) > 0 {
		effective, _ := facts.Claim.Effective(nil, false)
		if !lookup.Managed(r.Classes, effective.Spec.NodeClassRef) {
			return facts, false, nil
		}
	}
	// Nothing of what is listed here is ever written to.
	pods, attachments := &corev1.PodList{}, &storagev1.VolumeAttachmentList{}
	if err := r.Client.List(ctx, pods, client.MatchingFields{lookup.PodNodeName: n.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return facts, false, fmt.Errorf("list pods: %w", err)
	}
	if err := r.Client.List(ctx, attachments, client.MatchingFields{lookup.AttachmentOfNodeName: n.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return facts, false, fmt.Errorf("list volume attachments: %w", err)
	}
	facts.Pods, facts.Attachments = lookup.ByName(pods.Items), lookup.ByName(attachments.Items)
	if err = r.readGuards(ctx, &facts); err != nil {
		return facts, false, err
	}
	if len(facts.Attachments) > 0 {
		facts.Volumes, err = r.volumes(ctx, facts.Pods)
	}
	return facts, true, err
}

// readGuards reads what may hold the pods on a node that has been terminating for a while.
func (r *NodeTermination) readGuards(ctx context.Context, facts *drain.Facts) error {
	if !drain.ReadsGuards(facts.Node, facts.Now) {
		return nil
	}
	facts.Tries = r.Queue.Tries(facts.Pods)
	read := map[string]bool{}
	for _, p := range facts.Pods {
		if read[p.Namespace] {
			continue
		}
		read[p.Namespace] = true
		budgets := &policyv1.PodDisruptionBudgetList{}
		if err := r.Client.List(ctx, budgets, client.InNamespace(p.Namespace), client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("list poddisruptionbudgets of namespace %s: %w", p.Namespace, err)
		}
		facts.Budgets = append(facts.Budgets, lookup.ByName(budgets.Items)...)
	}
	return nil
}

// claim is the one claim of a node; nil if there is none or several.
func (r *NodeTermination) claim(ctx context.Context, n *corev1.Node) (*karpv1.NodeClaim, error) {
	claims, err := lookup.ClaimsOf(ctx, r.Client, n.Spec.ProviderID)
	if err != nil || len(claims) != 1 {
		return nil, err
	}
	return claims[0], nil
}

// volumes finds the PersistentVolumes of pods.
func (r *NodeTermination) volumes(ctx context.Context, pods []*corev1.Pod) (map[types.NamespacedName]string, error) {
	out := map[types.NamespacedName]string{}
	for _, p := range pods {
		for _, key := range drain.PodClaims(p) {
			claim := &corev1.PersistentVolumeClaim{}
			if err := r.Client.Get(ctx, key, claim); client.IgnoreNotFound(err) != nil {
				return nil, fmt.Errorf("reading persistentvolumeclaim %s: %w", key, err)
			}
			if claim.Spec.VolumeName != "" {
				out[key] = claim.Spec.VolumeName
			}
		}
	}
	return out, nil
}

// Perform does a step up to the call of the cloud, and brings the facts up to date.
func (s nodeShell) Perform(ctx context.Context, facts *drain.Facts, step drain.Step) (said bool, err error) {
	r := s.r
	if step.DeleteClaim && facts.Instance == drain.NotQueried {
		// Not write.RemoveClaim: the claim follows its Node, whose deletion is no disruption by the controller to count or record.
		if err := deleteExactly(ctx, r.Client, facts.Claim); err != nil {
			return false, fmt.Errorf("deleting nodeclaim %s: %w", facts.Claim.Name, err)
		}
	}
	if err := r.writeNodeMarks(ctx, facts, step); err != nil {
		return false, err
	}
	r.Events.Emit(facts.Node, step.Events...)
	for _, note := range step.Pods.Notes {
		r.Events.Emit(note.Pod, note.Event)
	}
	r.Queue.Add(step.Pods.Evictions(facts.Node.Name, step.Limit, drain.ReasonOf(facts.Claim))...)
	if !step.Query && !step.Terminate { // else it is not known yet
		r.Drains.recordWaits(facts.Node, facts.Claim, step.Waits, facts.Now)
	}
	if facts.Claim != nil {
		r.Events.Emit(facts.Claim, step.ClaimEvents...)
		claim, err := writeClaimConditions(ctx, r.Client, r.Events, facts.Claim, facts.Now, step.Marks)
		if err != nil {
			return false, err
		}
		said, facts.Claim = claim != facts.Claim, claim
	}
	if step.Drained {
		r.Metrics.NodesDrained.WithLabelValues(facts.Node.Labels[karpv1.LabelNodePool]).Inc()
	}
	return said, nil
}

// writeNodeMarks puts taint and label on the node.
func (r *NodeTermination) writeNodeMarks(ctx context.Context, facts *drain.Facts, step drain.Step) error {
	if step.Taints == nil && step.Labels == nil {
		return nil
	}
	before := facts.Node
	after := before.DeepCopy()
	if step.Taints != nil {
		after.Spec.Taints = step.Taints
	}
	if after.Labels == nil {
		after.Labels = map[string]string{}
	}
	maps.Copy(after.Labels, step.Labels)
	if err := r.Client.Patch(ctx, after, write.WithOptimisticLock(before)); err != nil {
		return err
	}
	facts.Node = after
	if step.Taints != nil {
		taint := karpv1.DisruptedTaint()
		log.FromContext(ctx).Info("tainted node", "taint.Key", taint.Key, "taint.Value", taint.Value, "taint.Effect", taint.Effect)
	}
	return nil
}

// Release removes the finalizer and measures how long the termination took.
func (s nodeShell) Release(ctx context.Context, facts drain.Facts) error {
	r, n := s.r, facts.Node
	after := n.DeepCopy()
	controllerutil.RemoveFinalizer(after, karpv1.FinalizerTermination)
	if err := r.Client.Patch(ctx, after, write.WithOptimisticLock(n)); err != nil {
		return err
	}
	now, pool := r.Now(), n.Labels[karpv1.LabelNodePool]
	log.FromContext(ctx).Info("deleted node", "provider-id", n.Spec.ProviderID)
	r.Events.Emit(n, finalized())
	r.Metrics.NodesTerminated.WithLabelValues(pool, n.Labels[corev1.LabelTopologyZone]).Inc()
	r.Metrics.NodesTerminationDuration.WithLabelValues(pool).Observe(seconds(now.Sub(n.DeletionTimestamp.Time)))
	r.Metrics.NodesLifetimeDuration.WithLabelValues(pool).Observe(seconds(now.Sub(n.CreationTimestamp.Time)))
	return nil
}
