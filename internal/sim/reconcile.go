package sim

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/drain"
	"github.com/dovetail-sh/dovetail/internal/drift"
	"github.com/dovetail-sh/dovetail/internal/interruption"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/reboot"
	"github.com/dovetail-sh/dovetail/internal/risk"
)

// batchPoll is how soon a launch that waits for a batch learns that it is written.
const batchPoll = 100 * time.Millisecond

// requeueAfter queues a claim or a node to be reconciled once, after d.
func (p *process) requeueAfter(name string, d time.Duration) {
	if p.idle(name) {
		return
	}
	at := p.w.now.Add(d)
	if have, planned := p.due[name]; planned && !have.After(at) {
		return
	}
	p.due[name] = at
	p.at(at, func() {
		if p.due[name].Equal(at) {
			delete(p.due, name)
			p.reconcile(name)
		}
	})
}

// retry queues what failed to be reconciled again, as the queue of its controller does: the wait doubles with each failure in
// a row.
func (p *process) retry(name string, first, last time.Duration) {
	const doublings = 10 // more than any last wait
	wait := min(first<<min(p.failures[name], doublings), last)
	p.failures[name]++
	p.requeueAfter(name, wait)
}

// idle reports whether there is certainly nothing to reconcile.
func (p *process) idle(name string) bool {
	if of, is := strings.CutPrefix(name, rebooting); is {
		claim := p.w.api.claims[of]
		return claim == nil || !reboot.Pending(claim)
	}
	return strings.HasPrefix(name, health) && p.w.ailments == nil
}

// What else is reconciled, besides claims and nodes: reboots of claims, nodes that may be unhealthy, pools of a fixed size,
// and pods that are evicted.
const (
	rebooting = "reboot/"
	health    = "health/"
	grow      = "grow/"
	shrink    = "shrink/"
	evicting  = "evict/"
)

func (p *process) reconcile(name string) {
	if !p.synced {
		return
	}
	if what, of, other := strings.Cut(name, "/"); other {
		switch what + "/" {
		case rebooting:
			p.reboot(of)
		case health:
			p.forceRepair(of)
		case evicting:
			p.advanceEviction(of)
		default:
			p.scale(of, what+"/" == grow)
		}
		return
	}
	if node := p.w.api.nodes[name]; node != nil {
		if node.DeletionTimestamp != nil {
			p.endNode(node)
		}
		return
	}
	switch claim := p.w.api.claims[name]; {
	case claim == nil:
	case claim.DeletionTimestamp != nil:
		p.endClaim(claim)
	default:
		p.advanceClaim(claim)
	}
}

// effective reads a pool and a claim as decisions do. What is stored never changes, so that it is read once.
func (p *process) effective(claim *karpv1.NodeClaim) (*karpv1.NodePool, *karpv1.NodeClaim) {
	pool := p.w.effectivePool(p.w.api.pools[claim.Labels[karpv1.LabelNodePool]])
	last := p.w.read[claim.Name]
	if last.claim != claim || last.pool != pool {
		last = reading{claim: claim, pool: pool}
		last.effective, _ = claim.Effective(pool, false)
		p.w.read[claim.Name] = last
	}
	return pool, last.effective
}

// reading is a claim as it was last read.
type reading struct {
	claim, effective *karpv1.NodeClaim
	pool             *karpv1.NodePool
}

// effectivePool is a pool as decisions read it, or nil.
func (w *World) effectivePool(stored *karpv1.NodePool) *karpv1.NodePool {
	if stored == nil {
		return nil
	}
	if known := w.readPools[stored]; known != nil {
		return known
	}
	w.readPools[stored], _ = stored.Effective(false)
	return w.readPools[stored]
}

// advanceClaim takes a claim through its life.
func (p *process) advanceClaim(claim *karpv1.NodeClaim) {
	pool, read := p.effective(claim)
	switch expiry := lifecycle.NextExpiry(read, false, p.w.now); {
	case expiry.Delete:
		p.w.logf("controller: claim %s expires", claim.Name)
		p.write(func() { p.w.api.delete(claim, p.w.now) })
		return
	case expiry.After > 0:
		p.requeueAfter(claim.Name, expiry.After)
	}
	facts := lifecycle.Facts{Claim: read, Nodes: p.w.api.nodesOf(claim), Tried: p.launched[claim.UID].First, Launching: p.launching[claim.UID], Now: p.w.now}
	if outcome, result := p.launched[claim.UID].Report(p.w.now); outcome != nil && !facts.Launching {
		facts.Launch, p.launched[claim.UID] = outcome, result
	}
	facts.NodeGone = p.nodeGone(&facts)
	if p.w.devices.class != nil && len(facts.Nodes) == 1 {
		node := facts.Nodes[0].Name
		facts.Drivers = &lifecycle.Drivers{Ready: p.w.config.Steps.CompleteDrivers(p.store.PublishedSlices(node), node)}
	}
	step := lifecycle.Next(facts)
	if step.Launch {
		p.launch(claim)
		return
	}
	for _, e := range step.Events {
		p.recordEvent("claim/"+claim.Name, e.Text)
	}
	if step.Node != nil {
		p.write(func() { p.w.api.put(step.Node) })
	}
	want := step.Claim
	if pool != nil && step.Remove == nil {
		facts := disrupt.MarkFacts{Claim: want, Pool: pool, Now: p.w.now}
		facts.Drift, _ = drift.Evaluate(pool, want, drift.Sources{Words: awsv1.Vocabulary()}) // no error without a cloud
		var after time.Duration
		marked := *want
		want = &marked
		if want.Status.Conditions, after = disrupt.Marks(facts); after > 0 {
			p.requeueAfter(claim.Name, after)
		}
	}
	if !sameClaim(want, claim) {
		p.w.checks.initializes(claim, want)
		p.write(func() { p.w.api.put(want.DeepCopy()) })
	}
	if step.Registered {
		p.recordRegistration(want, nil)
	}
	if step.Remove != nil {
		p.w.logf("controller: claim %s is removed: %s", claim.Name, step.Remove.Reason)
		if now := p.w.api.claims[claim.Name]; now != nil {
			p.write(func() { p.w.api.delete(now, p.w.now) })
		}
		if f := step.Remove.Failure; f != nil {
			p.recordRegistration(claim, f)
		}
		return
	}
	if step.DecideAgain {
		p.requeueAfter(claim.Name, 0)
	} else if step.After > 0 {
		p.requeueAfter(claim.Name, step.After)
	}
}

// sameClaim is equality.Semantic.DeepEqual. What is most of a claim is compared without reflection first: nearly all reconciles
// of claims change nothing, and would spend most of their time on finding that out.
func sameClaim(a, b *karpv1.NodeClaim) bool {
	x, y := *a, *b
	if maps.Equal(x.Labels, y.Labels) && maps.Equal(x.Annotations, y.Annotations) {
		x.Labels, y.Labels, x.Annotations, y.Annotations = nil, nil, nil, nil
	}
	if slices.EqualFunc(x.Spec.Requirements, y.Spec.Requirements, func(r, s karpv1.Requirement) bool {
		return r.Key == s.Key && r.Operator == s.Operator && r.MinValues == nil && s.MinValues == nil && slices.Equal(r.Values, s.Values)
	}) {
		x.Spec.Requirements, y.Spec.Requirements = nil, nil
	}
	if slices.Equal(x.Status.Conditions, y.Status.Conditions) {
		x.Status.Conditions, y.Status.Conditions = nil, nil
	}
	if maps.Equal(x.Status.Capacity, y.Status.Capacity) && maps.Equal(x.Status.Allocatable, y.Status.Allocatable) {
		x.Status.Capacity, y.Status.Capacity, x.Status.Allocatable, y.Status.Allocatable = nil, nil, nil, nil
	}
	return equality.Semantic.DeepEqual(x, y)
}

// launch calls the cloud once the claim may be launched. The response takes a while.
func (p *process) launch(claim *karpv1.NodeClaim) {
	p.launching[claim.UID] = true
	p.launchAfter(claim, p.batches.Last(), p.w.now)
}

// launchAfter launches a claim that was requested when a batch was the last one.
func (p *process) launchAfter(claim *karpv1.NodeClaim, batch int, requested time.Time) {
	if wait := p.w.config.Steps.LaunchWait(&p.batches, batch, p.w.now.Sub(requested)); wait > 0 {
		p.after(min(wait, batchPoll), func() { p.launchAfter(claim, batch, requested) })
		return
	}
	p.w.checks.launches(claim, batch, requested)
	p.after(p.w.between(500*time.Millisecond, 3*time.Second), func() {
		delete(p.launching, claim.UID)
		p.w.checks.launchEnds(claim)
		var outcome lifecycle.Outcome
		p.write(func() { outcome.Instance, outcome.Err = p.cloud.Launch(context.Background(), claim) })
		p.w.config.Steps.RecordLaunch(&p.launches, claim, outcome.Instance, outcome.Err, p.w.now)
		p.launched[claim.UID] = p.launched[claim.UID].Next(outcome, requested, p.w.now)
		p.requeueAfter(claim.Name, 0)
	})
}

// podEvent notes on a claim when a pod last came or went.
func (p *process) podEvent(pod *corev1.Pod, gone bool) {
	at := lifecycle.PodEvent(pod)
	if gone {
		at = lifecycle.PodRemoved(pod, p.w.now)
	}
	if !p.podEvents.Record(pod.Spec.NodeName, at) {
		return
	}
	node := p.w.api.nodes[pod.Spec.NodeName]
	if node == nil {
		return
	}
	claim := p.w.api.claimOf(node)
	if claim == nil {
		return
	}
	if event, due := p.podEvents.Due(node.Name, claim, p.w.now); due {
		next := claim.DeepCopy()
		next.Status.LastPodEventTime = metav1.NewTime(event)
		p.write(func() { p.w.api.put(next) })
		p.podEvents.Written(node.Name, event)
	}
}

// collect deletes claims whose instance is gone.
func (p *process) collect() {
	next := lifecycle.CollectInterval
	defer func() { p.after(next, p.collect) }()
	if !p.synced {
		return
	}
	all := make([]*karpv1.NodeClaim, 0, len(p.w.api.claims))
	for _, name := range p.w.api.claimNames() {
		all = append(all, p.w.api.claims[name])
	}
	list, err := p.cloud.List(context.Background())
	if err != nil {
		return // the next round knows more
	}
	missing, later := lifecycle.Missing(all, list, func(id string) []*corev1.Node {
		return p.w.api.nodesOf(&karpv1.NodeClaim{Status: karpv1.NodeClaimStatus{ProviderID: id}})
	}, p.w.now)
	unsure := false
	for _, claim := range missing {
		gone, unknown := lifecycle.InstanceGone(p.cloud.Find(context.Background(), cloud.ID(claim.Status.ProviderID)))
		if unsure = unsure || unknown; gone {
			p.w.logf("controller: the instance of claim %s is gone", claim.Name)
			p.write(func() { p.w.api.delete(claim, p.w.now) })
		}
	}
	next = lifecycle.NextCollection(later, unsure)
}

// collectOrphans terminates instances that no claim has, after so many rounds that worked.
func (p *process) collectOrphans(rounds int) {
	list, err := p.cloud.List(context.Background())
	if p.synced && err == nil {
		rounds++
		for _, i := range lifecycle.Orphans(p.orphanFacts(list)) {
			p.terminateOrphan(i.ID)
		}
	}
	p.after(lifecycle.OrphanInterval(rounds), func() { p.collectOrphans(rounds) })
}

// terminateOrphan terminates an instance without a claim, and deletes its Node, which would else stay behind. What fails is
// listed again in the next round.
func (p *process) terminateOrphan(id cloud.ID) {
	var err error
	p.write(func() { err = p.cloud.Terminate(context.Background(), id) })
	if err != nil && !cloud.Is(err, cloud.NotFound) {
		return
	}
	p.w.logf("controller: no claim has instance %s", id)
	for _, node := range p.w.api.nodesOf(&karpv1.NodeClaim{Status: karpv1.NodeClaimStatus{ProviderID: string(id)}}) {
		p.write(func() { p.w.api.delete(node, p.w.now) })
	}
}

// orphanFacts is what a process knows about instances. Provider ids of the simulated cloud are names.
func (p *process) orphanFacts(list []cloud.Instance) lifecycle.OrphanFacts {
	f := lifecycle.OrphanFacts{Instances: list, Name: func(id string) string { return id }, Owners: map[string]types.UID{}, Started: p.started, Now: p.w.now}
	for _, name := range p.w.api.claimNames() {
		f.Claims = append(f.Claims, *p.w.api.claims[name])
	}
	// any order: each instance has one owner
	for uid, result := range p.launched {
		if outcome := result.Outcome(p.w.now); outcome != nil && outcome.Err == nil {
			f.Owners[string(outcome.Instance.ID)] = uid
		}
	}
	return f
}

// interruptions handles the notices of the cloud. One is removed once it was handled, so that a crash repeats it.
func (p *process) interruptions() {
	for len(p.w.market.notices) > 0 && p.synced {
		notice := p.w.market.noticeOf(p.w.market.notices[0])
		for _, name := range p.w.api.claimNames() {
			if claim := p.w.api.claims[name]; claim != nil && claim.Status.ProviderID == notice.Instance {
				p.w.checks.checkNotice(notice)
				p.performInterruption(notice, claim, p.w.config.Steps.Interrupt(&p.interrupted, notice, claim, awsv1.LabelCapacityReservationID, p.w.now))
			}
		}
		p.w.market.notices = p.w.market.notices[1:]
	}
}

// performInterruption performs the effects of a notice on a claim.
func (p *process) performInterruption(n interruption.Notice, claim *karpv1.NodeClaim, effects []interruption.Effect) {
	for _, effect := range effects {
		switch e := effect.(type) {
		case interruption.EmitEvent:
			p.recordEvent("claim/"+claim.Name, e.Event.Text)
		case interruption.MarkSpotUnavailable:
			p.recordRisk(risk.Interrupted, e.InstanceType, e.Zone, karpv1.CapacityTypeSpot)
			p.w.market.markUnavailable(offering(e.InstanceType, e.Zone, karpv1.CapacityTypeSpot))
		case interruption.CountRisk:
			p.recordRisk(risk.RebalanceRecommended, e.InstanceType, e.Zone, karpv1.CapacityTypeSpot)
		case interruption.MarkReservationUnavailable:
			p.w.market.reservationOut(e.ID)
		case interruption.AdvanceDeadline:
			if next := claim.DeepCopy(); drain.AdvanceDeadline(next, e.Deadline) {
				p.write(func() { p.w.api.put(next) })
			}
		case interruption.DeleteClaim:
			if next := claim.DeepCopy(); !e.Deadline.IsZero() && drain.AdvanceDeadline(next, e.Deadline) {
				p.write(func() { p.w.api.put(next) })
			}
			p.w.checks.checkNoticeDeletion(n, claim)
			p.recordEvent("claim/"+claim.Name, e.Event.Text)
			p.write(func() { p.w.api.delete(p.w.api.claims[claim.Name], p.w.now) })
		}
	}
}
