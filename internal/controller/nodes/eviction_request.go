package nodes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/cluster"
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
	switch {
	case err == nil:
		q.Events.Emit(p, event.Event{Reason: event.Evicted, Text: "Evicted from node " + n.Name + ": " + e.Reason, Key: n.Name})
		q.Metrics.PodsDrained.WithLabelValues(e.Reason).Inc()
		return accepted, nil
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return over, nil
	}
	budget := apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause) ||
		apierrors.IsInternalError(err) && strings.Contains(err.Error(), "more than one PodDisruptionBudget")
	q.recordRefusal(e.Pod, err, budget)
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return refused, nil // the namespace is terminating, and its pods with it
	case budget:
		q.Events.Emit(n, q.blocked(ctx, p, causeOf(err)))
		return refused, nil
	case apierrors.IsTooManyRequests(err):
		q.Events.Emit(n, failed(p, err))
		return refused, nil
	default:
		q.Events.Emit(n, failed(p, err))
		return refused, err
	}
}

// delete deletes a pod at the deadline of its node, past its budgets and its annotation (LC-36).
func (q *Evictions) delete(ctx context.Context, e entry, p *corev1.Pod, n *corev1.Node, grace time.Duration) (evictionResult, error) {
	uid, left := e.Pod.UID, int64(grace/time.Second)
	err := q.Client.Delete(ctx, p.DeepCopy(), client.GracePeriodSeconds(left), client.Preconditions{UID: &uid})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return over, nil
	case err != nil:
		q.recordRefusal(e.Pod, err, false)
		q.Events.Emit(n, failed(p, err))
		return refused, err
	}
	asked := "its default"
	if s := p.Spec.TerminationGracePeriodSeconds; s != nil {
		asked = strconv.FormatInt(*s, 10) + " s"
	}
	q.Events.Emit(p, event.Event{Reason: event.Disrupted, Text: fmt.Sprintf(
		"Node %s has to be empty by %s: the pod gets %d s to end, it asked for %s", n.Name, e.Limit.At.UTC().Format(time.RFC3339), left, asked)})
	if p.DeletionTimestamp == nil { // else it was counted when it was evicted
		q.Metrics.PodsDrained.WithLabelValues(e.Reason).Inc()
	}
	return accepted, nil
}

// blocked says which budgets hold a pod and what would free it.
func (q *Evictions) blocked(ctx context.Context, p *corev1.Pod, cause string) event.Event {
	names, cannot, fix := q.budgets(ctx, p)
	text := "Pod " + p.Namespace + "/" + p.Name + " cannot be evicted: "
	switch {
	case len(names) > 1:
		text += "more than one PodDisruptionBudget selects it (" + strings.Join(names, ", ") + ") and the API refuses then; leave it to one of them"
	case cannot != "":
		text += "PodDisruptionBudget " + names[0] + " " + cannot + "; " + fix + ", delete the pod, or wait for the terminationGracePeriod of the node"
	default:
		text += "PodDisruptionBudget " + strings.Join(names, "") + " allows no disruption now" + cause + "; it goes when another replica is ready, the budget allows more, or the terminationGracePeriod of the node is over"
	}
	return event.Event{Reason: event.FailedDraining, Text: text, Key: p.Namespace + "/" + p.Name}
}

// budgets names the budgets that select a pod, and says why the last of them cannot allow the eviction and what would
// change that. It only helps the reader: errors are left out.
func (q *Evictions) budgets(ctx context.Context, p *corev1.Pod) (names []string, cannot, fix string) {
	list := &policyv1.PodDisruptionBudgetList{}
	if err := q.Client.List(ctx, list, client.InNamespace(p.Namespace)); err != nil {
		return nil, "", ""
	}
	for i := range list.Items {
		b := &list.Items[i]
		if selector, err := cluster.NewSelector(b.Spec.Selector); err == nil && !selector.Inert() && selector.Matches(p.Labels) {
			names = append(names, b.Name)
			cannot, fix = drain.Cannot(b)
		}
	}
	slices.Sort(names)
	return names, cannot, fix
}

func failed(p *corev1.Pod, err error) event.Event {
	return event.Event{
		Reason: event.FailedDraining,
		Text:   "Pod " + p.Namespace + "/" + p.Name + " cannot be evicted: " + err.Error(),
		Key:    p.Namespace + "/" + p.Name,
	}
}

// causeOf is what the API server says about the budget, in brackets.
func causeOf(err error) string {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || status.Status().Details == nil {
		return ""
	}
	for _, c := range status.Status().Details.Causes {
		if c.Type == policyv1.DisruptionBudgetCause && c.Message != "" {
			return " (" + c.Message + ")"
		}
	}
	return ""
}

// evictionResultOf is what the API server says, without what only helps programs.
func evictionResultOf(err error) string {
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok && status.Status().Message != "" {
		return status.Status().Message + causeOf(err)
	}
	return err.Error()
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
