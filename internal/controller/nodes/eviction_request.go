package nodes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/drain"
	"github.com/dovetail-sh/dovetail/internal/event"
)

// evict calls the eviction API, which enforces the budgets (LC-35).
func (q *Evictions) evict(ctx context.Context, id cluster.PodID, p *corev1.Pod) error {
	err := q.Client.SubResource("eviction").Create(ctx, p.DeepCopy(), &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &id.UID}},
	})
	q.Metrics.PodsEvictionRequests.WithLabelValues(codeOf(err)).Inc()
	return err
}

// reportEviction emits events about the response to an eviction.
func (q *Evictions) reportEviction(ctx context.Context, e *drain.Eviction, p *corev1.Pod, n *corev1.Node, response drain.EvictionResponse, err error) {
	switch response {
	case drain.EvictionAccepted:
		q.Events.Emit(p, event.Event{Reason: event.Evicted, Text: "Evicted from node " + n.Name + ": " + e.Reason, Key: n.Name})
		q.countEvicted(e, n)
	case drain.EvictionObsolete, drain.EvictionNotNeeded:
	case drain.EvictionForbidden:
		q.Events.Emit(n, drain.ForbiddenEviction(p, q.budgets(ctx, p.Namespace), err))
	case drain.EvictionThrottled, drain.EvictionFailed:
		q.Events.Emit(n, drain.FailedEviction(p, err))
	}
}

// delete deletes a pod at the deadline of its node, past its budgets and its annotation (LC-36).
func (q *Evictions) delete(ctx context.Context, id cluster.PodID, p *corev1.Pod, grace time.Duration) error {
	return q.Client.Delete(ctx, p.DeepCopy(), client.GracePeriodSeconds(int64(grace/time.Second)), client.Preconditions{UID: &id.UID})
}

// reportDeletion emits events about the response to a deletion.
func (q *Evictions) reportDeletion(e *drain.Eviction, p *corev1.Pod, n *corev1.Node, grace time.Duration, response drain.EvictionResponse, err error) {
	switch response {
	case drain.EvictionAccepted:
	case drain.EvictionObsolete:
		return
	default:
		q.Events.Emit(n, drain.FailedEviction(p, err))
		return
	}
	requested := "its default"
	if s := p.Spec.TerminationGracePeriodSeconds; s != nil {
		requested = strconv.FormatInt(*s, 10) + " s"
	}
	q.Events.Emit(p, event.Event{Reason: event.Disrupted, Text: fmt.Sprintf(
		"Node %s has to be empty by %s: the pod gets %d s to end, it requested %s", n.Name, e.Limit.At.UTC().Format(time.RFC3339), int64(grace/time.Second), requested)})
	if p.DeletionTimestamp == nil { // else it was counted when it was evicted
		q.countEvicted(e, n)
	}
}

// countEvicted counts a pod that begins to leave its node.
func (q *Evictions) countEvicted(e *drain.Eviction, n *corev1.Node) {
	q.Metrics.PodsDrained.WithLabelValues(e.Reason).Inc()
	if q.Evicted != nil {
		q.Evicted(n.Labels[karpv1.LabelNodePool], e.Pod.Namespace)
	}
}

// budgets lists the budgets of a namespace. They only help the reader of an event: errors are left out.
func (q *Evictions) budgets(ctx context.Context, namespace string) []policyv1.PodDisruptionBudget {
	list := &policyv1.PodDisruptionBudgetList{}
	if err := q.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil
	}
	return list.Items
}

// codeOf is the status code of a response, as a metric has it.
func codeOf(err error) string {
	if err == nil {
		return strconv.Itoa(http.StatusOK)
	}
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok && status.Status().Code != 0 {
		return strconv.Itoa(int(status.Status().Code))
	}
	return "unknown"
}
