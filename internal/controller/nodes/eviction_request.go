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
	"github.com/dovetail-sh/dovetail/internal/drain"
	"github.com/dovetail-sh/dovetail/internal/event"
)

// evictionResult is how a request about a pod ended.
type evictionResult int

const (
	refused  evictionResult = iota // not now; try again later
	accepted                       // the pod terminates
	over                           // there is no such pod any more
)

// evict calls the eviction API, which enforces the budgets (LC-35).
func (q *Evictions) evict(ctx context.Context, e entry, p *corev1.Pod, n *corev1.Node) (evictionResult, error) {
	uid := e.Pod.UID
	err := q.Client.SubResource("eviction").Create(ctx, p.DeepCopy(), &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}},
	})
	q.Metrics.PodsEvictionRequests.WithLabelValues(codeOf(err)).Inc()
	response := drain.ReadEvictionResponse(err)
	if response != drain.EvictionAccepted && response != drain.EvictionObsolete {
		q.recordRefusal(e.Pod, err, response == drain.EvictionForbidden)
	}
	switch response {
	case drain.EvictionAccepted:
		q.Events.Emit(p, event.Event{Reason: event.Evicted, Text: "Evicted from node " + n.Name + ": " + e.Reason, Key: n.Name})
		q.countEvicted(e, n)
		return accepted, nil
	case drain.EvictionObsolete:
		return over, nil
	case drain.EvictionNotNeeded:
		return refused, nil
	case drain.EvictionForbidden:
		q.Events.Emit(n, drain.ForbiddenEviction(p, q.budgets(ctx, p.Namespace), err))
		return refused, nil
	case drain.EvictionThrottled:
		q.Events.Emit(n, drain.FailedEviction(p, err))
		return refused, nil
	case drain.EvictionFailed:
	}
	q.Events.Emit(n, drain.FailedEviction(p, err))
	return refused, err
}

// delete deletes a pod at the deadline of its node, past its budgets and its annotation (LC-36).
func (q *Evictions) delete(ctx context.Context, e entry, p *corev1.Pod, n *corev1.Node, grace time.Duration) (evictionResult, error) {
	uid, left := e.Pod.UID, int64(grace/time.Second)
	err := q.Client.Delete(ctx, p.DeepCopy(), client.GracePeriodSeconds(left), client.Preconditions{UID: &uid})
	switch drain.ReadEvictionResponse(err) {
	case drain.EvictionAccepted:
	case drain.EvictionObsolete:
		return over, nil
	default:
		q.recordRefusal(e.Pod, err, false)
		q.Events.Emit(n, drain.FailedEviction(p, err))
		return refused, err
	}
	requested := "its default"
	if s := p.Spec.TerminationGracePeriodSeconds; s != nil {
		requested = strconv.FormatInt(*s, 10) + " s"
	}
	q.Events.Emit(p, event.Event{Reason: event.Disrupted, Text: fmt.Sprintf(
		"Node %s has to be empty by %s: the pod gets %d s to end, it requested %s", n.Name, e.Limit.At.UTC().Format(time.RFC3339), left, requested)})
	if p.DeletionTimestamp == nil { // else it was counted when it was evicted
		q.countEvicted(e, n)
	}
	return accepted, nil
}

// countEvicted counts a pod that begins to leave its node.
func (q *Evictions) countEvicted(e entry, n *corev1.Node) {
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
