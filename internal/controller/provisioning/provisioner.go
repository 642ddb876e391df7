package provisioning

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/check"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/controller/write"
	"github.com/dovetail-sh/dovetail/internal/execute"
	"github.com/dovetail-sh/dovetail/internal/metric"
	"github.com/dovetail-sh/dovetail/internal/provision"
	"github.com/dovetail-sh/dovetail/internal/solve"
	"github.com/dovetail-sh/dovetail/internal/store"
)

const (
	provisioner     = "provisioner"    // label and name of the loop
	unsyncedWarning = 30 * time.Second // cluster state that is incomplete for longer is logged as an error
)

// planStore is the cluster state that plans are made on.
type planStore interface {
	Synced() bool
	Unsynced() (time.Duration, []string)
	Len() int
	Waiting() int
	Pools() []*karpv1.NodePool
	Snapshot(types map[string][]catalog.InstanceType) store.View
	Pod(key cluster.PodKey) *corev1.Pod
	ExpectPod(pod cluster.PodKey, node string, until time.Time)
	RecordPlannedNode(pod cluster.PodKey, node string)
	Decided(pods []cluster.PodKey) []time.Duration
}

// typeSource lists the instance types of a pool.
type typeSource interface {
	Types(ctx context.Context, pool *karpv1.NodePool) ([]catalog.InstanceType, error)
}

// planJournal records plans.
type planJournal interface {
	Planned(plan solve.Plan, at time.Time)
}

// Provisioner creates nodes for unschedulable pods. It is one loop: collect, plan, create, repeat.
type Provisioner struct {
	Store         planStore
	Cloud         typeSource
	Claims        *execute.Claims
	Events        write.Emitter
	Metrics       *metric.Set
	Batcher       *Batcher
	Policy        solve.Policy
	Nomination    time.Duration // how long a node is reserved for nominated pods (SC-52)
	LaunchBackoff *LaunchBackoff
	Pulse         loop.Pulse
	Now           func() time.Time

	Journal planJournal // may be nil

	// Planned is called with the pods that a plan places and those that it does not. It may be nil.
	Planned func(placed, refused []cluster.PodKey)

	// BuffersPlanned is called with the plan for the pods of CapacityBuffers, once there are any. It may be nil.
	BuffersPlanned func(view *cluster.Snapshot, plan solve.Plan, invalid []cluster.Pod)

	checkPlan func(solve.Problem, solve.Plan) []check.Violation // nil: check.Plan; tests make it refuse

	refusalsLogged map[cluster.PodKey]loggedReason // of the last plan
	ignoredLogged  map[cluster.PodKey]loggedReason // of the last pass: pods that are not planned for
	lastPods       map[cluster.PodKey]bool         // by the last pass

	warnedPreferences preferenceWarnings
	warnedIgnored     preferenceWarnings // for pods with more preferences than are evaluated

	state provision.State // what it carries from one plan to the next

	buffersShort atomic.Bool // state.BuffersShort, for triggerWhilePending
}

// NeedLeaderElection says that only the leader plans.
func (p *Provisioner) NeedLeaderElection() bool { return true }

// Start plans until the context ends.
func (p *Provisioner) Start(ctx context.Context) error {
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues("controller", provisioner))
	go p.triggerWhilePending(ctx)
	for listed := false; p.Batcher.Wait(ctx); {
		if !p.Store.Synced() {
			continue // triggerWhilePending triggers again soon
		}
		if err := p.listClaims(ctx, &listed); err != nil {
			log.FromContext(ctx).Error(err, "nothing is planned until all nodeclaims are known")
			continue
		}
		p.Pulse.Begin()
		p.passRecovering(loop.WithPulse(ctx, p.Pulse))
		p.Pulse.Done()
	}
	return nil
}

// listClaims reads all claims once.
func (p *Provisioner) listClaims(ctx context.Context, done *bool) error {
	if *done {
		return nil
	}
	err := p.Claims.List(ctx)
	*done = err == nil
	return err
}

// triggerWhilePending triggers a plan at intervals while pods are pending, and reports the sync state of the
// store.
func (p *Provisioner) triggerWhilePending(ctx context.Context) {
	tick := time.NewTicker(provision.ReplanInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			synced := 0.0
			if p.Store.Synced() {
				synced = 1
			}
			p.Metrics.ClusterStateSynced.WithLabelValues().Set(synced)
			late, missing := p.Store.Unsynced()
			p.Metrics.ClusterStateUnsynced.WithLabelValues().Set(late.Seconds())
			if late > unsyncedWarning {
				log.FromContext(ctx).Error(errors.New("no object of these kinds was delivered yet; look at the permissions of the service account and at the API server"),
					"waiting on cluster sync; nothing is planned until then", "missing", missing, "duration", late.Round(time.Second).String())
			}
			p.Metrics.ClusterStateNodes.WithLabelValues().Set(float64(p.Store.Len()))
			if provision.ReplanDue(p.Store.Waiting(), p.buffersShort.Load()) {
				p.Batcher.Trigger(provision.Retrigger)
			}
		}
	}
}

// passRecovering makes a pass and recovers from a panic, so that one bad object does not end the loop (G9).
func (p *Provisioner) passRecovering(ctx context.Context) {
	defer func() {
		if cause := recover(); cause != nil {
			p.Metrics.Panics.WithLabelValues(provisioner).Inc()
			log.FromContext(ctx).Error(panicked(cause), "planning failed; it is tried again")
		}
	}()
	p.Pass(ctx)
}

// Pass makes one plan and creates its claims.
func (p *Provisioner) Pass(ctx context.Context) {
	start := p.Now()
	p.Claims.Confirm(ctx)
	pools, offers := p.offers(ctx)
	view := p.Store.Snapshot(offers)
	p.reportIgnored(ctx, view.Ignored)
	p.Metrics.SchedulerIgnoredPods.WithLabelValues().Set(float64(len(view.Ignored)))
	if len(view.Pods)+len(view.Virtual) == 0 {
		p.state.RecordNoPods()
		p.setPlanMetrics(view, solve.Plan{})
		p.recordBuffers(view, solve.Plan{})
		return
	}
	if len(view.Pods) > 0 {
		level := 0
		if p.allSeenBefore(view.Pods) {
			level = 1
		}
		log.FromContext(ctx).V(level).Info("found provisionable pod(s)", "Pods", firstPods(view.Pods), "duration", p.Now().Sub(start).Round(time.Microsecond).String())
	}
	p.warnOfPreferences(ctx, view.Snapshot.Pending)
	p.reportIgnoredPreferences(view.Snapshot.Pending)
	plan, round := p.planWithin(ctx, view)
	p.setPlanMetrics(view, plan)
	if p.Journal != nil && len(view.Pods) > 0 {
		p.Journal.Planned(plan, p.Now())
	}
	p.reportUnplaced(ctx, view, plan)
	p.nominatePods(view, plan)
	p.reportUnbound(view, plan.Bind)
	virtual, planned := round.Virtual()
	if planned {
		p.recordBuffers(view, virtual)
		if p.Journal != nil && len(virtual.Create) > 0 {
			p.Journal.Planned(virtual, p.Now())
		}
	}
	plan, forBuffers := round.Launches(plan)
	if len(plan.Create) == 0 {
		return
	}
	logger := log.FromContext(ctx)
	if plan.Bound > 0 { // otherwise none is known
		logger = logger.WithValues("lower-bound", plan.Bound)
	}
	logger.Info("computed new nodeclaim(s) to fit pod(s)", "nodeclaims", len(plan.Create), "pods", podsOf(plan.Create), "price", plan.Cost)
	nodes, small := p.state.Undersized(plan)
	if small > 0 {
		log.FromContext(ctx).Info("node(s) came up smaller than planned, without room for the pod(s) they were launched for; these need others", "pods", small, "nodes", listFew(nodes))
	}
	if n := p.state.Displaced(plan, view.PlannedNodes); n > 0 && !forBuffers { // of a buffer this is what the room is for
		log.FromContext(ctx).Info("other pods were scheduled where pod(s) were expected; these need new nodes", "pods", n)
	}
	created := p.Claims.Create(ctx, execute.Batch{
		Nodes: plan.Create, Pools: pools, Lanes: view.Resources, Version: view.Version, Reason: execute.Provisioned,
	})
	if round.ReplansAfter(p.reportCreated(ctx, view, created)) {
		p.Batcher.Trigger(provision.Retrigger)
	}
	log.FromContext(ctx).V(1).Info("carried out the plan", "duration", p.Now().Sub(start).Round(time.Microsecond).String())
}

// offers returns the instance types of each pool. A pool whose types cannot be listed is left out, and the
// others go on (SC-08).
func (p *Provisioner) offers(ctx context.Context) (map[string]*karpv1.NodePool, map[string][]catalog.InstanceType) {
	pools, offers := map[string]*karpv1.NodePool{}, map[string][]catalog.InstanceType{}
	for _, pool := range p.Store.Pools() {
		pools[pool.Name] = pool
		ready := condition.True(pool.Status.Conditions, karpv1.ConditionReady)
		list, err := p.Cloud.Types(ctx, pool)
		loop.RecordProgress(ctx)
		if err != nil {
			switch {
			case errors.Is(err, cloud.ErrUnevaluated):
				log.FromContext(ctx).V(1).Info("skipping, NodeOverlays are not evaluated yet", "NodePool", klog.KRef("", pool.Name), "reason", err.Error())
			case ready:
				log.FromContext(ctx).Error(err, "skipping, unable to resolve instance types", "NodePool", klog.KRef("", pool.Name))
			}
			continue
		}
		offers[pool.Name] = p.LaunchBackoff.WithoutBackedOff(pool.Name, list, p.Now())
	}
	return pools, offers
}

// planWithin makes the plan of one round, which may take several problems. The plan is for real pods; the round has that
// for virtual ones.
func (p *Provisioner) planWithin(ctx context.Context, view store.View) (solve.Plan, *provision.Round) {
	p.LaunchBackoff.ClosePools(view.Snapshot.Pools, p.Now())
	round := p.state.Begin(provision.Request{View: view.Snapshot, Pods: view.Pods, Virtual: view.Virtual, PlannedNodes: view.PlannedNodes, Policy: p.Policy})
	for {
		result := p.solve(ctx, view, round.Problem())
		if plan, done := round.Take(result, p.Now()); done {
			return plan, round
		}
	}
}

// recordBuffers records a plan for the pods of CapacityBuffers. Nothing is reserved for them against real pods: the record
// only has the next plan look for their room where it was.
func (p *Provisioner) recordBuffers(view store.View, plan solve.Plan) {
	for _, b := range plan.Bind {
		p.Store.RecordPlannedNode(b.Pod, b.Node)
	}
	p.buffersShort.Store(p.state.BuffersShort())
	if p.BuffersPlanned != nil && len(view.Virtual)+len(view.InvalidVirtual) > 0 {
		p.BuffersPlanned(view.Snapshot, plan, view.InvalidVirtual)
	}
}

// solve decides, and has an independent checker verify the decision. A rejected plan is made again without the
// pods that are to blame.
func (p *Provisioner) solve(ctx context.Context, view store.View, problem solve.Problem) check.Verified {
	start := p.Now()
	defer func() {
		p.Metrics.SchedulingDuration.WithLabelValues(provisioner).Observe(p.Now().Sub(start).Seconds())
	}()
	shown, end := p.progress(view)
	defer end()
	stop := func() bool {
		if shown(p.Now().Sub(start)) > provision.PlanTimeout {
			return true
		}
		loop.RecordProgress(ctx)
		return false
	}
	result := check.Sound(problem, func(q solve.Problem) (solve.Problem, solve.Plan) {
		return solve.PlanAwaitingReplacement(q, view.AwaitingReplacement, stop)
	}, p.planChecker())
	for _, found := range result.Rejected {
		p.Metrics.SchedulerRejectedPlans.WithLabelValues(provisioner, string(found[0].Code)).Inc()
		log.FromContext(ctx).Error(errors.New(found[0].String()), "refusing a plan that breaks a rule; it is made again without the pods that are to blame", "violations", len(found))
	}
	return result
}

// planChecker returns the function that checks plans.
func (p *Provisioner) planChecker() func(solve.Problem, solve.Plan) []check.Violation {
	if p.checkPlan != nil {
		return p.checkPlan
	}
	return check.Plan
}

// reportCreated emits events on the pods of created claims, and logs claims that could not be created. It returns what
// became of each order.
func (p *Provisioner) reportCreated(ctx context.Context, view store.View, created []execute.Created) []provision.OrderResult {
	results := make([]provision.OrderResult, len(created))
	for i := range created {
		results[i] = created[i].Result()
	}
	for _, pool := range execute.DeniedPools(created) {
		p.LaunchBackoff.RecordDenied(pool, p.Now())
	}
	if p.state.RecordOrders(results, view.Snapshot, p.Now()) {
		p.Batcher.Trigger(provision.Retrigger)
	}
	for i, c := range created {
		switch results[i].Outcome {
		case provision.Obsolete:
			log.FromContext(ctx).V(1).Info("dropped a planned node", "NodePool", klog.KRef("", c.Node.Pool), "reason", c.Err.Error())
		case provision.Outdated:
			log.FromContext(ctx).Info("dropped a planned node; it is planned again", "NodePool", klog.KRef("", c.Node.Pool), "reason", c.Err.Error())
		case provision.Denied, provision.Failed:
			log.FromContext(ctx).Error(c.Err, "creating nodeclaim failed", "NodePool", klog.KRef("", c.Node.Pool))
		case provision.Created:
			for _, key := range c.Node.Pods {
				p.emitPodEvent(key, execute.NominatedOn("nodeclaim/"+c.Claim.Name))
				if len(c.Altered) > 0 {
					p.emitPodEvent(key, alteredClaim(c.Claim.Name, c.Altered))
				}
			}
		}
	}
	return results
}
