package sim

import (
	"errors"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/drain"
)

// addEvictions puts pods into the eviction queue.
func (p *process) addEvictions(list ...drain.Eviction) {
	for _, id := range p.w.config.Steps.AddEvictions(&p.evictions, p.w.now, list...) {
		p.requeueAfter(evicting+id.Name+"/"+string(id.UID), 0)
	}
}

// advanceEviction does what can be done now about a pod in the eviction queue.
func (p *process) advanceEviction(key string) {
	name, uid, _ := strings.Cut(key, "/")
	id := cluster.PodID{Namespace: namespace, Name: name, UID: types.UID(uid)}
	e, queued := p.evictions.Eviction(id)
	if !queued {
		return
	}
	pod := p.w.api.pods[name]
	step := p.w.config.Steps.NextEviction(&p.evictions, id, pod, p.w.api.nodes[e.Node], p.w.now)
	var err error
	switch step.Act {
	case drain.Evict:
		p.write(func() { err = p.w.evict(id) })
	case drain.Delete:
		p.w.checks.forces(pod)
		p.w.stats.Forced++
		p.write(func() { p.w.endPod(pod, step.Grace) })
	case drain.Hold, drain.Drop:
		if step.After > 0 {
			p.requeueAfter(evicting+key, step.After)
		}
		return
	}
	out := p.w.config.Steps.RecordEviction(&p.evictions, id, step.Act, err, p.w.now)
	if err != nil && out.Response != drain.EvictionObsolete {
		p.recordEvent("node/"+e.Node, drain.FailedEviction(pod, err).Text)
	}
	if out.After > 0 {
		p.requeueAfter(evicting+key, out.After)
	}
}

// evict is the eviction API: it refuses what a PodDisruptionBudget does not allow.
func (w *World) evict(id cluster.PodID) error {
	pod, resource := w.api.pods[id.Name], schema.GroupResource{Resource: "pods"}
	w.checks.requestsEviction(id)
	switch {
	case pod == nil:
		return apierrors.NewNotFound(resource, id.Name)
	case pod.UID != id.UID:
		return apierrors.NewConflict(resource, id.Name, errors.New("it has another UID"))
	case w.now.Before(w.evictionsFail):
		return apierrors.NewInternalError(errors.New("the API server is out of order"))
	case pod.DeletionTimestamp != nil:
		return nil
	}
	if b := w.api.budgets[pod.Labels["app"]]; b != nil && b.Status.DisruptionsAllowed <= 0 {
		w.checks.refuses(pod)
		err := apierrors.NewTooManyRequests("the budget of the pod is spent", 0)
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: "budget " + b.Name}}
		return err
	}
	w.checks.evicts(pod)
	w.stats.Evicted++
	w.logf("api: pod %s is evicted from %s", pod.Name, pod.Spec.NodeName)
	w.endPod(pod, time.Duration(*pod.Spec.TerminationGracePeriodSeconds)*time.Second)
	return nil
}

// evictionFaults has evictions fail for some time.
func (m *maker) evictionFaults() {
	for range 1 + m.IntN(2) {
		lasts := m.time(5*time.Second, 5*time.Minute)
		m.change("fault: evictions fail", func(w *World) { w.evictionsFail = w.now.Add(lasts) })
	}
}

// evictionChecks are what the rules of evictions need to know.
type evictionChecks struct {
	requests map[types.UID][]time.Time // for a pod, of this process
	refused  map[types.UID]time.Time   // by a budget, last
	allowed  map[string]time.Time      // since when the budget of an app has allowed evictions
	overdue  map[string]time.Time      // since when pods have been left on nodes whose deadline is over
}

func newEvictionChecks() evictionChecks {
	return evictionChecks{requests: map[types.UID][]time.Time{}, refused: map[types.UID]time.Time{}, allowed: map[string]time.Time{}, overdue: map[string]time.Time{}}
}

// What the rules of evictions allow (G12, LC-34, LC-36).
const (
	evictionWindow  = 10 * time.Second
	mostEvictions   = 10               // of one pod in that time
	evictedWithin   = 20 * time.Second // of the budget allowing it
	deletedWithin   = time.Minute      // of the deadline of the node, crashes apart
	drainsGoOnAfter = time.Minute      // of the start of a process
)

// evicts checks that no protected pod is evicted (G6), nor one of a node that stays (V15-63).
func (c *checks) evicts(pod *corev1.Pod) {
	if cluster.DoNotDisrupt(pod, c.w.now) && pod.DeletionTimestamp == nil {
		c.w.broken("G6", "pod %s is evicted although it is protected", pod.Name)
	}
	node := c.w.api.nodes[pod.Spec.NodeName]
	if node != nil && node.DeletionTimestamp == nil && !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == karpv1.TaintKeyRebooting }) {
		c.w.broken("V15-63", "pod %s is evicted although node %s stays", pod.Name, node.Name)
	}
}

// requestsEviction checks that the eviction of one pod is not requested again and again (G12).
func (c *checks) requestsEviction(id cluster.PodID) {
	list := slices.DeleteFunc(c.evictions.requests[id.UID], func(at time.Time) bool { return c.w.now.Sub(at) >= evictionWindow })
	if c.evictions.requests[id.UID] = append(list, c.w.now); len(list) >= mostEvictions {
		c.w.broken("G12", "the eviction of pod %s is requested %d times within %s", id, len(list)+1, evictionWindow)
	}
}

// refuses records that a budget refuses an eviction.
func (c *checks) refuses(pod *corev1.Pod) { c.evictions.refused[pod.UID] = c.w.now }

// allows records how many evictions the budget of an app allows.
func (c *checks) allows(app string, n int32) {
	if n <= 0 {
		delete(c.evictions.allowed, app)
	} else if _, known := c.evictions.allowed[app]; !known {
		c.evictions.allowed[app] = c.w.now
	}
}

// drains checks that pods which a budget refused are evicted soon after it allows that (LC-34), and that no pod is left when
// the deadline of its node is over (LC-36).
func (c *checks) drains() {
	p := c.w.process
	if p == nil || !p.synced || c.w.now.Sub(p.started) < drainsGoOnAfter || c.w.now.Before(c.w.evictionsFail.Add(evictedWithin)) {
		clear(c.evictions.refused)
		clear(c.evictions.overdue)
		return
	}
	for _, name := range c.w.api.nodeNames() {
		node := c.w.api.nodes[name]
		at := c.deadline(node)
		for _, pod := range c.w.api.podsOn(name) {
			drains := node.DeletionTimestamp != nil && pod.DeletionTimestamp == nil
			since, refused := c.evictions.refused[pod.UID]
			if allowed, known := c.evictions.allowed[pod.Labels["app"]]; drains && refused && known {
				if allowed.After(since) {
					since = allowed
				}
				if c.w.now.Sub(since) > evictedWithin {
					c.w.broken("LC-34", "pod %s of node %s is not evicted although its budget has allowed it since %s", pod.Name, name, allowed)
				}
			}
			late := drains && !at.IsZero() && c.w.now.After(at) && cluster.DrainWaits(pod, karpv1.DisruptedTaint(), c.w.now)
			if c.lasts(c.evictions.overdue, pod.Name, late) > deletedWithin {
				c.w.broken("LC-36", "pod %s is left on node %s, whose deadline was %s", pod.Name, name, at)
			}
		}
	}
}
