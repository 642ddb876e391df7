package sim

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
)

// controllerApp is the Deployment of the controller, in runs in which its pods are on nodes that it manages itself. As long
// as none of them is ready, the controller runs elsewhere.
const controllerApp = "controller"

// deployController deploys the controller, if it runs on nodes of its own.
func (w *World) deployController() {
	if w.config.Controllers > 0 {
		w.deploy(App{
			Name: controllerApp, Replicas: w.config.Controllers, Milli: 1000, MiB: 1024, Grace: 30, Priority: 2_000_000_000, Apart: true,
			Budget: &policyBudget{max: new(intstr.FromInt32(1))},
		})
	}
}

// selfPod is the pod that a process which starts now is; empty if it runs elsewhere.
func (w *World) selfPod() string {
	d := w.apps[controllerApp]
	if d == nil {
		return ""
	}
	for _, name := range sorted(d.pods) {
		if p := w.api.pods[name]; p != nil && p.DeletionTimestamp == nil && w.checks.works(p) && cluster.NodeReady(w.api.nodes[p.Spec.NodeName]) {
			return name
		}
	}
	return ""
}

func (p *process) selfKey() cluster.PodKey {
	if p.self == "" {
		return cluster.PodKey{}
	}
	return cluster.PodKey{Namespace: namespace, Name: p.self}
}

// controllerChanged ends the process when its pod ends, and has one that runs elsewhere hand over to the first pod that is
// ready.
func (w *World) controllerChanged(pod *corev1.Pod, gone bool) {
	p := w.process
	if p == nil || pod.Labels["app"] != controllerApp {
		return
	}
	ends := pod.Name == p.self && (gone || pod.DeletionTimestamp != nil)
	handsOver := p.self == "" && !gone && pod.DeletionTimestamp == nil && running(pod)
	if ends || handsOver {
		w.endProcess(p)
	}
}

// controllerLost ends the process if its machine is gone.
func (w *World) controllerLost(node string) {
	if p := w.process; p != nil && p.self != "" && w.api.pods[p.self] != nil && w.api.pods[p.self].Spec.NodeName == node {
		w.endProcess(p)
	}
}

// endProcess ends a process soon: it may be what writes right now.
func (w *World) endProcess(p *process) {
	w.after(w.between(0, time.Second), func() {
		if w.process == p {
			w.crash()
		}
	})
}

// controllers puts the controller on nodes of its own.
func (m *maker) controllers() {
	m.c.Controllers = 1 + m.IntN(2)
	for range m.IntN(4) {
		n := 1 + m.IntN(2)
		m.change("user: the controller has another number of replicas", func(w *World) { w.scale(controllerApp, n) })
	}
}

// leavesLeader checks that a command deletes no claim whose node runs the process itself, unless another replica could take
// over: one that is ready, on a node that stays (FM-C17). Repair does not wait for that.
func (c *checks) leavesLeader(p *process, cmd *disrupt.Running, node string) {
	self, _ := p.seen[pods][p.self].(*corev1.Pod)
	if cmd.Reason == karpv1.ReasonUnhealthy || self == nil || self.Spec.NodeName != node {
		return
	}
	for _, obj := range p.seen[pods] {
		if c.takesOver(p, obj.(*corev1.Pod), node) {
			return
		}
	}
	c.w.broken("FM-C17", "%s of node %s, where the leader %s runs, and no other replica could take over", cmd.Reason, node, p.self)
}

// takesOver reports whether a pod is a replica of the controller that could lead, on another node that is not being removed.
func (c *checks) takesOver(p *process, pod *corev1.Pod, not string) bool {
	node, _ := p.seen[nodes][pod.Spec.NodeName].(*corev1.Node)
	if pod.Labels["app"] != controllerApp || !running(pod) || pod.DeletionTimestamp != nil || node == nil || node.Name == not || node.DeletionTimestamp != nil {
		return false
	}
	claim := c.seenClaim(p, node)
	return (claim == nil || claim.DeletionTimestamp == nil) && !p.commanded(node.Name)
}
