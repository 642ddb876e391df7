package fakenode

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"
	schedulinghelper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// refusal is why a kubelet does not take a pod, in the words of a real one.
type refusal struct{ reason, message string }

// room is what the pods of each node hold, as its kubelet counts.
type room struct {
	mu       sync.Mutex
	held     map[string]map[types.UID]corev1.ResourceList // by node and pod
	reported map[types.UID]bool                           // pods whose refusal was reported, until they are seen to have ended
}

func newRoom() *room {
	return &room{held: map[string]map[types.UID]corev1.ResourceList{}, reported: map[types.UID]bool{}}
}

// markRefused reports whether a pod is refused for the first time. The write of that is seen later, and until then the pod
// looks as if it were still to be judged.
func (r *room) markRefused(p *corev1.Pod) (first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first = !r.reported[p.UID]
	r.reported[p.UID] = true
	return first
}

// podRequests counts for a container that is being resized the larger of what it requests and has.
func podRequests(p *corev1.Pod) corev1.ResourceList {
	requests := resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{UseStatusResources: true})
	requests[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	return requests
}

// holdPlace keeps the place of a pod that runs, whether there is room or not.
func (r *room) holdPlace(p *corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.holdLocked(p.Spec.NodeName, p.UID, podRequests(p))
}

func (r *room) holdLocked(node string, pod types.UID, requests corev1.ResourceList) {
	if r.held[node] == nil {
		r.held[node] = map[types.UID]corev1.ResourceList{}
	}
	r.held[node][pod] = requests
}

// release gives up the place of a pod that ended.
func (r *room) release(p *corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.reported, p.UID)
	delete(r.held[p.Spec.NodeName], p.UID)
	if len(r.held[p.Spec.NodeName]) == 0 {
		delete(r.held, p.Spec.NodeName)
	}
}

// takePlace gives a pod its place, or says for want of what it has none. A pod that has a place keeps it
// unless more is wanted for it.
func (r *room) takePlace(p *corev1.Pod, requests, allocatable corev1.ResourceList) *shortage {
	r.mu.Lock()
	defer r.mu.Unlock()
	used := corev1.ResourceList{}
	for pod, list := range r.held[p.Spec.NodeName] {
		if pod == p.UID {
			continue
		}
		for name, q := range list {
			sum := used[name]
			sum.Add(q)
			used[name] = sum
		}
	}
	if short := findShortage(requests, used, allocatable); short != nil {
		return short
	}
	r.holdLocked(p.Spec.NodeName, p.UID, requests)
	return nil
}

func (r *room) has(p *corev1.Pod) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, there := r.held[p.Spec.NodeName][p.UID]
	return there
}

// shortage is a resource of which there is not enough.
type shortage struct {
	name                      corev1.ResourceName
	requested, used, capacity int64
}

func (s shortage) String() string {
	return fmt.Sprintf("Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d", s.name, s.requested, s.used, s.capacity)
}

// findShortage looks in the order of the real one. Extended resources that the node does not have at
// all are passed over, as there: they may be of the cluster instead of the node.
func findShortage(requests, used, allocatable corev1.ResourceList) *shortage {
	order := []corev1.ResourceName{corev1.ResourcePods, corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		if _, known := allocatable[name]; known && !slices.Contains(order, name) {
			order = append(order, name)
		}
	}
	for _, name := range order {
		want, there := requests[name]
		if !there || want.IsZero() {
			continue
		}
		have, full := used[name], allocatable[name]
		short := shortage{name: name, requested: want.Value(), used: have.Value(), capacity: full.Value()}
		if name == corev1.ResourceCPU {
			short = shortage{name: name, requested: want.MilliValue(), used: have.MilliValue(), capacity: full.MilliValue()}
		}
		if short.requested > short.capacity-short.used {
			return &short
		}
	}
	return nil
}

// admitPod does what a kubelet does when it first sees a pod that was bound to its node.
func (s *Simulator) admitPod(ctx context.Context, p *corev1.Pod, m machine) (*refusal, error) {
	if s.room.has(p) {
		return nil, nil
	}
	n, err := s.nodes.Get(p.Spec.NodeName)
	if err == nil && whyMisplaced(p, n) != nil {
		// The scheduler may have seen a newer Node than the one here: read it before saying no.
		n, err = s.Client.CoreV1().Nodes().Get(ctx, p.Spec.NodeName, metav1.GetOptions{})
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil // the pod goes with its Node
	case err != nil:
		return nil, err
	}
	if r := whyMisplaced(p, n); r != nil {
		return r, nil
	}
	if short := s.room.takePlace(p, podRequests(p), m.allocatable); short != nil {
		return &refusal{reason: "OutOf" + string(short.name), message: short.String()}, nil
	}
	return nil, nil
}

// whyMisplaced says whether a node is not for a pod: by its labels, or by a taint that would evict.
func whyMisplaced(p *corev1.Pod, n *corev1.Node) *refusal {
	if matches, err := nodeaffinity.GetRequiredNodeAffinity(p).Match(n); err == nil && !matches {
		return &refusal{reason: "NodeAffinity", message: "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"}
	}
	evicts := func(t *corev1.Taint) bool { return t.Effect == corev1.TaintEffectNoExecute }
	if _, untolerated := schedulinghelper.FindMatchingUntoleratedTaint(klog.Background(), n.Spec.Taints, p.Spec.Tolerations, evicts, true); untolerated {
		return &refusal{reason: "TaintToleration", message: "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"}
	}
	return nil
}

func (r refusal) status() map[string]any {
	return map[string]any{"phase": corev1.PodFailed, "reason": r.reason, "message": "Pod was rejected: " + r.message}
}

// resizePod does what a kubelet does about a running pod whose requests were changed: it gives what it
// has room for, else it says that it will not, or not yet.
func (s *Simulator) resizePod(ctx context.Context, p *corev1.Pod, m machine, now metav1.Time) (changed bool, err error) {
	alone := p.DeepCopy()
	alone.Status.ContainerStatuses = nil
	requests := podRequests(alone)
	pending := corev1.PodCondition{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, LastTransitionTime: now}
	short := findShortage(requests, nil, m.allocatable)
	if short != nil {
		pending.Reason, pending.Message = corev1.PodReasonInfeasible, strings.Replace(short.String(), "resource:", "capacity:", 1)
	} else if short = s.room.takePlace(p, requests, m.allocatable); short != nil {
		pending.Reason, pending.Message = corev1.PodReasonDeferred, short.String()
	}
	if short == nil {
		return true, s.patchPod(ctx, p, map[string]any{
			"containerStatuses": resizedStatuses(p),
			"conditions":        []any{map[string]any{"$patch": "delete", "type": corev1.PodResizePending}},
		})
	}
	for _, c := range p.Status.Conditions {
		if c.Type == pending.Type && c.Reason == pending.Reason {
			return false, nil
		}
	}
	return true, s.patchPod(ctx, p, map[string]any{"conditions": []any{pending}})
}

// resizedStatuses are the container statuses of a pod with what its specification now says.
func resizedStatuses(p *corev1.Pod) []corev1.ContainerStatus {
	list := slices.Clone(p.Status.ContainerStatuses)
	for i := range list {
		for _, c := range p.Spec.Containers {
			if c.Name == list[i].Name {
				setAllocated(&list[i], c, nil)
			}
		}
	}
	return list
}

// setAllocated writes down what a container was given: what it had before, else what it requests.
func setAllocated(status *corev1.ContainerStatus, c corev1.Container, before []corev1.ContainerStatus) {
	for _, b := range before {
		if b.Name == c.Name {
			status.AllocatedResources, status.Resources = b.AllocatedResources, b.Resources
			return
		}
	}
	status.AllocatedResources, status.Resources = nil, nil
	if len(c.Resources.Requests) > 0 || len(c.Resources.Limits) > 0 {
		status.AllocatedResources = c.Resources.Requests
		status.Resources = &corev1.ResourceRequirements{Requests: c.Resources.Requests, Limits: c.Resources.Limits}
	}
}

// wantsResize says whether a running pod requests something else than it was given.
func wantsResize(p *corev1.Pod) bool {
	for _, c := range p.Spec.Containers {
		for _, status := range p.Status.ContainerStatuses {
			if status.Name == c.Name && status.Resources != nil && !sameResources(*status.Resources, c.Resources) {
				return true
			}
		}
	}
	return false
}

func sameResources(a, b corev1.ResourceRequirements) bool {
	same := func(a, b corev1.ResourceList) bool {
		return maps.EqualFunc(a, b, resource.Quantity.Equal)
	}
	return same(a.Requests, b.Requests) && same(a.Limits, b.Limits)
}
