package sim

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	autoscalingv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	"github.com/dovetail-sh/dovetail/internal/buffer"
	"github.com/dovetail-sh/dovetail/internal/solve"
	"github.com/dovetail-sh/dovetail/internal/store"
)

// Buffer is a CapacityBuffer for pods of one size. Its pods are like those of an app, so that constraints of the app hold
// for them as they would for its own.
type Buffer struct {
	Name       string
	Replicas   int32
	Milli, MiB int64
	Labels     map[string]string
	Constrain  func(*corev1.PodSpec) // nil: nothing
}

// resolveBuffers hands the virtual pods of all buffers to the store.
func (p *process) resolveBuffers() {
	var pods []*corev1.Pod
	for i := range p.w.config.Buffers {
		b := &p.w.config.Buffers[i]
		object := &autoscalingv1beta1.CapacityBuffer{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: b.Name, UID: types.UID("buffer-" + b.Name)},
			Spec:       autoscalingv1beta1.CapacityBufferSpec{PodTemplateRef: &autoscalingv1beta1.LocalObjectRef{Name: b.Name}, Replicas: &b.Replicas},
		}
		target := &buffer.Target{}
		target.Template.Labels = b.Labels
		target.Template.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: *resource.NewMilliQuantity(b.Milli, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(b.MiB<<20, resource.BinarySI),
		}}}}
		if b.Constrain != nil {
			b.Constrain(&target.Template.Spec)
		}
		pods = append(pods, buffer.Resolve(object, target, nil, nil, buffer.MaxTotal-len(pods)).Pods...)
	}
	if p.store.SetVirtualPods(pods) {
		p.planned = look{rev: -1}
		p.requestPlan("buffers")
	}
}

// ResizeBuffer changes the size of a buffer.
func (w *World) ResizeBuffer(name string, replicas int32) {
	for i := range w.config.Buffers {
		if w.config.Buffers[i].Name == name {
			w.config.Buffers[i].Replicas = replicas
		}
	}
	if w.process != nil {
		w.process.resolveBuffers()
	}
}

// recordBuffers is what the controller does with a plan for virtual pods.
func (p *process) recordBuffers(view store.View, plan solve.Plan) {
	p.bufferShort = len(plan.Create)+len(plan.Unplaced) > 0
	p.w.checks.refills(plan)
	for _, b := range plan.Bind {
		p.store.RecordPlannedNode(b.Pod, b.Node)
		if n := view.Node(b.Node); n != nil && !n.Initialized {
			p.bufferShort = true
		}
	}
}

// refills checks that buffers that no pod uses up are not refilled again and again: what removes their nodes, and what
// launches them, have to agree (CB-16). A few may follow from moves of real pods, which may end elsewhere than planned.
func (c *checks) refills(plan solve.Plan) {
	if len(plan.Create) == 0 || !c.w.quiet || c.w.now.Sub(c.w.start) < c.w.config.Active+10*time.Minute || c.w.expires() {
		return
	}
	const few = 3
	if c.refilled++; c.refilled > few {
		c.w.broken("buffer", "room is launched for the time number %d although no pod uses it up: %v", c.refilled, plan.Create[0].Pods)
	}
}

// holdBuffers checks at the end of a run that there is room for all buffers (CB-12). No pod uses it up any more.
func (c *checks) holdBuffers() {
	p := c.w.process
	if len(c.w.config.Buffers) == 0 || p == nil || c.limited() {
		return
	}
	view := p.store.Snapshot(p.types())
	plan, round := p.plan(view)
	virtual, planned := round.Virtual()
	if !planned || len(plan.Create) > 0 {
		return // real pods wait, which other rules judge
	}
	for i := range virtual.Create {
		c.w.broken("buffer", "no node has room for %v at the end", virtual.Create[i].Pods)
	}
	for _, u := range virtual.Unplaced {
		c.w.broken("buffer", "pod %s has no room at the end: %v", u.Pod, u.Why)
	}
}
