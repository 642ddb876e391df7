package sim

import (
	"context"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/drain"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
)

// A drain that makes no progress for longDrain is checked every longDrainCheck.
const (
	longDrainCheck = 30 * time.Second
	longDrain      = 2 * time.Minute
)

// machine is the instance of a node or a claim that is terminated.
type machine struct {
	p  *process
	id string
}

// Find looks the instance up.
func (m machine) Find(ctx context.Context) error {
	_, err := m.p.cloud.Find(ctx, cloud.ID(m.id))
	return err
}

// Terminate requests its termination.
func (m machine) Terminate(ctx context.Context) (err error) {
	m.p.write(func() { err = m.p.cloud.Terminate(ctx, cloud.ID(m.id)) })
	return err
}

// endClaim performs the steps of the deletion of a claim that are possible now.
func (p *process) endClaim(claim *karpv1.NodeClaim) {
	_, read := p.effective(claim)
	list := p.w.api.nodesOf(claim)
	calls := p.claimCalls.Of(claim.UID)
	released := false
	id := p.w.config.Steps.InstanceOf(claim, p.launchedFor(claim.UID))
	shell := &claimEnd{machine: machine{p, string(id)}, name: claim.Name, released: &released}
	facts := drain.ClaimFacts{Claim: read, Launching: p.launching[claim.UID], Launched: id != "", Nodes: list, Now: p.w.now}
	after, err := p.w.config.Steps.AdvanceClaim(context.Background(), facts, &calls, shell)
	p.claimCalls.Record(claim.UID, calls, p.w.now)
	if released {
		return
	}
	if err != nil {
		p.retry(claim.Name, lifecycle.FirstLaunchRetry, lifecycle.LastLaunchRetry)
		return
	}
	delete(p.failures, claim.Name)
	if after > 0 && len(list) > 0 && p.w.now.Sub(claim.DeletionTimestamp.Time) > longDrain {
		after = longDrainCheck // the end of its Node is reported
	}
	if after > 0 {
		p.requeueAfter(claim.Name, after)
	}
}

// launchedFor is the instance that this process has launched for a claim, as far as it still knows; empty: none.
func (p *process) launchedFor(claim types.UID) cloud.ID {
	if outcome := p.launched[claim].Outcome(p.w.now); outcome != nil && outcome.Err == nil {
		return outcome.Instance.ID
	}
	return ""
}

// claimEnd performs the termination of a claim. It is a drain.ClaimShell.
type claimEnd struct {
	machine

	name     string
	released *bool
}

// Perform writes a step.
func (e *claimEnd) Perform(_ context.Context, f *drain.ClaimFacts, step drain.ClaimStep) (said bool, err error) {
	p := e.p
	if step.Stamp != "" || step.Unstamp {
		next := p.w.api.claims[e.name].DeepCopy()
		if next.Annotations == nil {
			next.Annotations = map[string]string{}
		}
		if next.Annotations[karpv1.AnnotationTerminationTimestamp] = step.Stamp; step.Unstamp {
			delete(next.Annotations, karpv1.AnnotationTerminationTimestamp)
		}
		p.write(func() { p.w.api.put(next) })
	}
	for _, event := range step.Events {
		p.recordEvent("claim/"+e.name, event.Text)
	}
	for _, n := range step.DeleteNodes {
		p.write(func() { p.w.api.delete(n, p.w.now) })
	}
	said = p.mark(e.name, step.Marks)
	_, f.Claim = p.effective(p.w.api.claims[e.name])
	return said, nil
}

// Release removes the finalizer.
func (e *claimEnd) Release(context.Context, drain.ClaimFacts) error {
	e.p.w.logf("controller: claim %s is gone", e.name)
	*e.released = true
	e.p.w.checks.releases("claim "+e.name, string(drain.InstanceOf(e.p.w.api.claims[e.name], e.p.launchedFor(e.p.w.api.claims[e.name].UID))))
	e.p.write(func() { e.p.w.api.drop(e.p.w.api.claims[e.name]) })
	return nil
}

// mark sets conditions of a claim, and reports whether that changed one.
func (p *process) mark(name string, marks []drain.Mark) bool {
	claim := p.w.api.claims[name]
	if claim == nil || len(marks) == 0 {
		return false
	}
	object := condition.Object{Generation: claim.Generation, Created: claim.CreationTimestamp, Deleting: true}
	changes := make([]condition.Change, 0, len(marks))
	for _, m := range marks {
		changes = append(changes, condition.Change(m))
	}
	conditions := lifecycle.Conditions().Apply(claim.Status.Conditions, object, metav1.NewTime(p.w.now), changes...)
	if len(condition.Flips(claim.Status.Conditions, conditions)) == 0 {
		return false
	}
	next := claim.DeepCopy()
	next.Status.Conditions = conditions
	p.write(func() { p.w.api.put(next) })
	return true
}

// endNode performs the steps of the deletion of a Node that are possible now.
func (p *process) endNode(node *corev1.Node) {
	facts := drain.Facts{Node: node, Pods: p.w.api.podsOn(node.Name), Now: p.w.now}
	if claim := p.w.api.claimOf(node); claim != nil {
		_, facts.Claim = p.effective(claim)
	}
	facts.Attachments, facts.Volumes = p.attachedTo(node.Name, facts.Pods)
	if drain.ReadsGuards(node, p.w.now) {
		facts.Tries = p.evictions.Tries(facts.Pods)
		for _, name := range sorted(p.w.api.budgets) {
			facts.Budgets = append(facts.Budgets, p.w.api.budgets[name])
		}
	}
	calls := p.nodeCalls.Of(node.UID)
	released := false
	shell := &nodeEnd{machine: machine{p, node.Spec.ProviderID}, node: node, released: &released}
	after, err := p.w.config.Steps.AdvanceNode(context.Background(), facts, &calls, shell)
	p.nodeCalls.Record(node.UID, calls, p.w.now)
	if released {
		return
	}
	if err != nil {
		p.retry(node.Name, drain.FirstRetry, drain.LastRetry)
		return
	}
	delete(p.failures, node.Name)
	if after > 0 && p.w.now.Sub(node.DeletionTimestamp.Time) > longDrain {
		after = max(after, longDrainCheck)
	}
	p.requeueAfter(node.Name, max(after, 100*time.Millisecond))
}

// nodeEnd performs the termination of a Node. It is a drain.NodeShell.
type nodeEnd struct {
	machine

	node     *corev1.Node
	released *bool
}

// Terminate requests the termination of the instance of a drained node.
func (e *nodeEnd) Terminate(ctx context.Context) error {
	if i := e.p.w.market.byID[e.id]; i != nil && !i.ending {
		e.p.w.checks.terminates(e.p, e.node)
	}
	return e.machine.Terminate(ctx)
}

// Perform writes a step.
func (e *nodeEnd) Perform(_ context.Context, f *drain.Facts, step drain.Step) (said bool, err error) {
	p := e.p
	if claim := p.w.api.claimOf(f.Node); step.DeleteClaim && f.Instance == drain.NotQueried && claim != nil {
		p.write(func() { p.w.api.delete(claim, p.w.now) })
	}
	if step.Taints != nil || step.Labels != nil {
		next := f.Node.DeepCopy()
		if step.Taints != nil {
			next.Spec.Taints = step.Taints
		}
		maps.Copy(next.Labels, step.Labels)
		p.write(func() { p.w.api.put(next) })
		f.Node, e.node = next, next
	}
	for _, event := range step.Events {
		p.recordEvent("node/"+f.Node.Name, event.Text)
	}
	p.addEvictions(step.Pods.Evictions(f.Node.Name, step.Limit, drain.ReasonOf(f.Claim))...)
	if f.Claim != nil {
		said = p.mark(f.Claim.Name, step.Marks)
		if claim := p.w.api.claims[f.Claim.Name]; claim != nil {
			_, f.Claim = p.effective(claim)
		}
	}
	return said, nil
}

// Release removes the finalizer.
func (e *nodeEnd) Release(context.Context, drain.Facts) error {
	e.p.w.logf("controller: node %s is gone", e.node.Name)
	*e.released = true
	e.p.w.checks.releases("node "+e.node.Name, e.id)
	e.p.write(func() { e.p.w.api.drop(e.p.w.api.nodes[e.node.Name]) })
	return nil
}

// attachedTo reads the attachments of a node, and which volumes stand behind the claims of its pods.
func (p *process) attachedTo(node string, list []*corev1.Pod) (out []*storagev1.VolumeAttachment, behind map[types.NamespacedName]string) {
	if !p.w.stores {
		return nil, nil
	}
	for _, obj := range objects(p.seen[attachments]) {
		if a := obj.(*storagev1.VolumeAttachment); a.Spec.NodeName == node {
			out = append(out, a)
		}
	}
	behind = map[types.NamespacedName]string{}
	for _, pod := range list {
		for _, key := range drain.PodClaims(pod) {
			if claim, known := p.seen[volumeClaims][key.Name].(*corev1.PersistentVolumeClaim); known && claim.Spec.VolumeName != "" {
				behind[key] = claim.Spec.VolumeName
			}
		}
	}
	return out, behind
}
