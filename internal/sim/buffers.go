package sim

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	autoscalingv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	"github.com/dovetail-sh/dovetail/internal/buffer"
	"github.com/dovetail-sh/dovetail/internal/solve"
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

// resolveBuffers resolves the buffers, and again when the next pass is due.
func (p *process) resolveBuffers() {
	poll := p.bufferPasses.Begin(p.w.now)
	failed := p.w.now.Sub(p.started) < p.w.config.BuffersAfter
	if !failed {
		p.readBuffers(poll)
	}
	next, goOn := p.w.config.Steps.EndBufferPass(&p.bufferPasses, failed, p.w.now)
	if goOn {
		p.buffersKnown = true
	}
	due := p.w.now.Add(next)
	p.buffersDue = due
	p.at(due, func() {
		if p.buffersDue.Equal(due) {
			p.resolveBuffers()
		}
	})
}

// readBuffers hands the virtual pods of all buffers to the store.
func (p *process) readBuffers(poll bool) {
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
	p.buffersRead = true
	changed := p.store.SetVirtualPods(pods)
	if changed {
		p.planned = look{rev: -1}
	}
	if changed || poll {
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
func (p *process) recordBuffers(plan solve.Plan) {
	p.w.checks.refills(plan)
	for _, b := range plan.Bind {
		p.store.RecordPlannedNode(b.Pod, b.Node)
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

// For how long plans wait for buffers after a start at least, and at most (CB-17).
const (
	bufferPatience    = 30 * time.Second
	longestBufferWait = 40 * time.Second
)

// knowsBuffers checks that a process which has just started knows the buffers before it decides anything: nodes would seem to
// be empty that are kept for them.
func (c *checks) knowsBuffers(p *process) {
	if since := c.w.now.Sub(p.started); len(c.w.config.Buffers) > 0 && !p.buffersRead && since < bufferPatience {
		c.w.broken("CB-17", "decides %s after the start without the buffers", since)
	}
}

// replansBuffers is how often virtual pods without room are planned at least: the interval and a window.
const replansBuffers = 10*time.Second + batchMax + time.Second

// plans checks that virtual pods without room are planned again and again (CB-12).
func (c *checks) plans(p *process) {
	if since := c.w.now.Sub(c.planned); p.state.BuffersShort() && since > replansBuffers {
		c.w.broken("CB-12", "some buffers have no room, and the last plan was %s ago", since)
	}
	c.planned = c.w.now
}

// buffersWait checks that nothing waits for buffers for long.
func (c *checks) buffersWait() {
	if p := c.w.process; p != nil && p.synced && !p.store.Synced() && c.w.now.Sub(p.started) > longestBufferWait {
		c.w.broken("CB-17", "nothing is decided %s after the start", c.w.now.Sub(p.started))
	}
}

// holdBuffers checks at the end of a run that there is room for all buffers (CB-12). No pod uses it up any more.
func (c *checks) holdBuffers() {
	p := c.w.process
	if len(c.w.config.Buffers) == 0 || p == nil || c.limited() || c.w.expires() { // a node may just have expired
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

// buffers keeps room for some pods. In some runs processes cannot read them at first.
func (m *maker) buffers() {
	for i := range 1 + m.IntN(3) {
		milli := pick(m, int64(250), 500, 1000, 1900)
		b := Buffer{Name: fmt.Sprintf("buffer%d", i), Replicas: int32(m.IntN(5)), Milli: milli, MiB: milli * int64(1+m.IntN(4))}
		m.c.Buffers = append(m.c.Buffers, b)
		if m.chance(0.5) {
			size := int32(m.IntN(6))
			m.change("user: "+b.Name+" has another size", func(w *World) { w.ResizeBuffer(b.Name, size) })
		}
	}
	if m.chance(0.5) {
		m.c.BuffersAfter = m.time(time.Second, 2*time.Minute)
	}
}
