package sim

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/resources"
)

// nodeHeadroom is what is left of a node for the scheduler.
type nodeHeadroom struct {
	node       *corev1.Node
	free, size resources.Vec
	apps       map[string]int // pods by app
}

// wakeScheduler has the scheduler look at pods without a node, soon.
func (w *World) wakeScheduler() {
	if w.scheduling || len(w.pending) == 0 {
		return
	}
	w.scheduling = true
	w.after(w.between(50*time.Millisecond, 300*time.Millisecond), func() {
		w.scheduling = false
		w.schedule()
	})
}

// schedule binds the pods that fit somewhere, each to the node with most room, as kube-scheduler does
// unless told otherwise.
func (w *World) schedule() {
	waiting := make([]*corev1.Pod, 0, len(w.pending))
	for _, name := range sorted(w.pending) {
		waiting = append(waiting, w.api.pods[name])
	}
	slices.SortStableFunc(waiting, func(a, b *corev1.Pod) int {
		if x, y := priority(a), priority(b); x != y {
			return int(y) - int(x)
		}
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(len(a.UID), len(b.UID)), cmp.Compare(a.UID, b.UID))
	})
	var rooms []*nodeHeadroom
	for _, name := range w.api.nodeNames() {
		if n := w.api.nodes[name]; !n.Spec.Unschedulable { // a terminating node is kept free by its taint alone
			rooms = append(rooms, w.roomOf(n))
		}
	}
	for _, p := range waiting {
		if _, created := claimName(p); !created {
			continue
		}
		requests := w.market.lanes.PodRequests(p)
		if at := w.choose(p, requests, rooms); at != nil {
			at.free = resources.Sub(at.free, requests)
			at.apps[p.Labels["app"]]++
			w.bind(p, at.node.Name)
		} else if !gaveUp(p) {
			next := p.DeepCopy()
			next.Status.Conditions = []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: metav1.NewTime(w.now),
			}}
			w.api.put(next)
		}
	}
}

func priority(p *corev1.Pod) int32 {
	if p.Spec.Priority == nil {
		return 0
	}
	return *p.Spec.Priority
}

func gaveUp(p *corev1.Pod) bool {
	return len(p.Status.Conditions) > 0 && p.Status.Conditions[0].Status == corev1.ConditionFalse
}

func (w *World) roomOf(n *corev1.Node) *nodeHeadroom {
	if known := w.api.rooms[n.Name]; known != nil {
		return known
	}
	r := &nodeHeadroom{node: n, size: w.market.lanes.Capacity(n.Status.Allocatable), apps: map[string]int{}}
	r.free = r.size
	// any order: integers are added up
	for name := range w.api.onNode[n.Name] {
		p := w.api.pods[name]
		r.free = resources.Sub(r.free, w.market.lanes.PodRequests(p))
		if p.DeletionTimestamp == nil {
			r.apps[p.Labels["app"]]++
		}
	}
	w.api.rooms[n.Name] = r
	return r
}

// choose returns the node with most room of those that may have a pod, or nil.
func (w *World) choose(p *corev1.Pod, requests resources.Vec, rooms []*nodeHeadroom) *nodeHeadroom {
	var best *nodeHeadroom
	most := -1.0
	zones, least := w.zoneCounts(p, rooms)
	for _, r := range rooms {
		if !tolerated(p, r.node) || !selected(p, r.node) || !resources.Fits(&requests, &r.free) || !w.reachable(p, r.node) {
			continue
		}
		if _, fits := w.allocation(p, r.node); !fits {
			continue
		}
		app := p.Labels["app"]
		if p.Spec.Affinity != nil && w.holds(r.node.Name, app) {
			continue
		}
		if len(p.Spec.TopologySpreadConstraints) > 0 && zones[r.node.Labels[corev1.LabelTopologyZone]]+1-least > 1 {
			continue
		}
		score := 0.0
		for lane := range 2 {
			score += float64(r.free.At(lane)) / float64(max(1, r.size.At(lane)))
		}
		if w.config.Packs {
			score = 2 - score
		}
		if score > most {
			best, most = r, score
		}
	}
	return best
}

// holds reports whether a pod of an app is on a node, even a terminating one.
func (w *World) holds(node, app string) bool {
	for name := range w.api.onNode[node] {
		if w.api.pods[name].Labels["app"] == app {
			return true
		}
	}
	return false
}

// zoneCounts counts the pods of the app of a pod that has to spread, by zones that have a node for it.
func (w *World) zoneCounts(p *corev1.Pod, rooms []*nodeHeadroom) (counts map[string]int, least int) {
	if len(p.Spec.TopologySpreadConstraints) == 0 {
		return nil, 0
	}
	counts = map[string]int{}
	for _, r := range rooms {
		if selected(p, r.node) {
			counts[r.node.Labels[corev1.LabelTopologyZone]] += r.apps[p.Labels["app"]]
		}
	}
	least = -1
	// any order: the least is kept
	for _, n := range counts {
		if least < 0 || n < least {
			least = n
		}
	}
	return counts, max(0, least)
}

func tolerated(p *corev1.Pod, n *corev1.Node) bool {
	for i := range n.Spec.Taints {
		t := &n.Spec.Taints[i]
		if t.Effect != corev1.TaintEffectPreferNoSchedule && !slices.ContainsFunc(p.Spec.Tolerations, func(o corev1.Toleration) bool {
			return (o.Key == "" || o.Key == t.Key) && (o.Operator == corev1.TolerationOpExists || o.Value == t.Value)
		}) {
			return false
		}
	}
	return true
}

func selected(p *corev1.Pod, n *corev1.Node) bool {
	for key, value := range p.Spec.NodeSelector {
		if n.Labels[key] != value {
			return false
		}
	}
	return true
}

// bind puts a pod on a node, where it starts some seconds later.
func (w *World) bind(p *corev1.Pod, node string) {
	w.provide(p, node)
	w.reserveDevices(p, node)
	next := p.DeepCopy()
	next.Spec.NodeName = node
	next.Status.StartTime = new(metav1.NewTime(w.now))
	next.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(w.now)}}
	w.api.put(next)
	w.startPod(next)
}

// startPod has the kubelet of a node start a pod, as soon as it can.
func (w *World) startPod(pod *corev1.Pod) {
	w.after(w.between(time.Second, w.config.PodStart), func() {
		p := w.api.pods[pod.Name]
		if p == nil || p.UID != pod.UID || p.DeletionTimestamp != nil {
			return
		}
		if !w.kubelet(p) {
			w.startPod(p)
			return
		}
		up := p.DeepCopy()
		up.Status.Phase = corev1.PodRunning
		up.Status.Conditions = append(up.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(w.now)})
		w.api.put(up)
	})
}
