package disruption

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/controller/write"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/disrupt/command"
	"github.com/dovetail-sh/dovetail/internal/execute"
	"github.com/dovetail-sh/dovetail/internal/metric"
	"github.com/dovetail-sh/dovetail/internal/solve"
	"github.com/dovetail-sh/dovetail/internal/store"
)

// disruptStore is the cluster state that disruption decides on.
type disruptStore interface {
	Synced() bool
	Changes() uint64
	Pools() []*karpv1.NodePool
	Pod(key cluster.PodKey) *corev1.Pod
	Disruption(types map[string][]catalog.InstanceType) cluster.DisruptionView
	Inspect(types map[string][]catalog.InstanceType) (cluster.DisruptionView, store.View)
	SetCommanded(node string, held bool)
	SetRemoving(node string, removing bool)
	Replace(nodes []string, places map[cluster.PodKey]string)
	Nominate(node string, until time.Time)
	UnreplicatedLeaderNode() string
}

// orderer creates claims.
type orderer interface {
	Create(ctx context.Context, b execute.Batch) []execute.Created
}

// typeSource lists the instance types of a pool.
type typeSource interface {
	Types(ctx context.Context, pool *karpv1.NodePool) ([]catalog.InstanceType, error)
}

// launchBackoff records what cannot be launched at present.
type launchBackoff interface {
	WithoutBackedOff(pool string, list []catalog.InstanceType, now time.Time) []catalog.InstanceType
	PoolBackedOff(pool string, now time.Time) bool
	RecordDenied(pool string, now time.Time)
}

// journal records decisions and their outcomes.
type journal interface {
	Decided(d disrupt.Decision)
	Outcome(id, text string, at time.Time)
	// Observed records what a pass saw and found.
	Observed(v *disrupt.View, d *disrupt.Decision)
	// Deleted records a node whose claim a command has deleted.
	Deleted(r *disrupt.Running, n *disrupt.Candidate)
}

// Disruption makes voluntary disruptions. It writes each step to the objects first: a taint on the Node, a
// condition on the claim, annotations on the replacements. After a crash the next process finds there what to
// finish and what to roll back.
//
// It has two loops. One decides and starts commands, the other waits for replacements and finishes commands.
type Disruption struct {
	Client        client.Client
	Reader        client.Reader // of the API server itself
	Store         disruptStore
	Cloud         typeSource
	Claims        orderer
	Events        write.Emitter
	Metrics       *metric.Set
	Pulse         loop.Pulse
	Ends          loop.Pulse    // of the loop that finishes commands; may be nil
	LaunchBackoff launchBackoff // nil: none
	Priced        func() bool   // whether prices were requested, even if it failed; nil: not needed
	Now           func() time.Time
	ClockOff      func() bool // whether the clock of this machine is too far off to go by ages (FM N06); nil: never

	Policy      solve.Policy // that of the provisioner
	Tuning      disrupt.Tuning
	Methods     disrupt.Methods
	Repairs     *disrupt.RepairSet // repair policies for unhealthy nodes; nil: none
	Nomination  time.Duration      // how long a node is reserved for nominated pods (SC-52)
	CostManaged bool               // gate PodDeletionCostManagement
	Seed        uint64             // of the jitter of back-offs

	Decide  func(v disrupt.View, stop func() bool) disrupt.Decision // what to do: disrupt.Next
	Reboot  func(context.Context, disrupt.Command) error            // carries out decision reboot; nil: cannot be done
	Journal journal                                                 // nil: none is kept

	setUp     sync.Once
	wake      chan struct{}
	reporter  *reporter
	evaluator *evaluator
	blocked   *blockedConditions
	worker    *worker
	starter   *starter

	cooldown    command.Cooldown
	searchCache disrupt.SearchCache // of searches for moves
	outcomes    disrupt.OutcomeHistory
	prices      disrupt.PriceWait
	carried     atomic.Pointer[carried]
}

// Register adds both loops to a manager.
func (d *Disruption) Register(mgr ctrl.Manager) error {
	d.prepare()
	return errors.Join(
		mgr.Add(&loop.Turns{Name: "disruption", Metrics: d.Metrics, Every: command.PassInterval, Wake: d.wake, Soon: command.AfterWake, Turn: d.Turn}),
		mgr.Add(&loop.Turns{Name: "disruption.queue", Metrics: d.Metrics, Every: command.PassInterval, Wake: d.worker.queue.wake, Soon: command.AfterWrite, Turn: d.Work}),
		mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { return d.Watch(ctx, mgr.GetCache()) })),
	)
}

// prepare builds the parts, once. Exported fields are set before.
func (d *Disruption) prepare() {
	d.setUp.Do(func() {
		d.wake = make(chan struct{}, 1)
		written := objects{client: d.Client, reader: d.Reader}
		d.reporter = &reporter{client: d.Client, store: d.Store, events: d.Events, metrics: d.Metrics, journal: d.Journal, now: d.Now}
		d.evaluator = &evaluator{next: d.Decide, metrics: d.Metrics, now: d.Now}
		d.blocked = &blockedConditions{objects: written, metrics: d.Metrics, now: d.Now}
		d.worker = &worker{
			objects: written, queue: newCommandQueue(d.Seed),
			holder:   holder{objects: written, store: d.Store, metrics: d.Metrics, now: d.Now},
			deleter:  deleter{objects: written, store: d.Store, events: d.Events, metrics: d.Metrics, journal: d.Journal, now: d.Now},
			reporter: d.reporter, store: d.Store, events: d.Events, metrics: d.Metrics, backoff: d.LaunchBackoff, pulse: d.Ends, wake: d.wake, nomination: d.Nomination, now: d.Now,
		}
		d.starter = &starter{
			objects: written, worker: d.worker, store: d.Store, claims: d.Claims, backoff: d.LaunchBackoff, policy: d.Policy, costManaged: d.CostManaged,
			rebooter: d.Reboot, metrics: d.Metrics, now: d.Now,
		}
	})
}

// Work advances the commands that are due and returns when the next one is.
func (d *Disruption) Work(ctx context.Context) (time.Duration, error) {
	d.prepare()
	return d.worker.work(ctx)
}

// Watch checks commands as soon as a replacement that they wait for is terminating.
func (d *Disruption) Watch(ctx context.Context, informers cache.Informers) error {
	d.prepare()
	return d.worker.watch(ctx, informers)
}

// Turn makes one pass and returns when the next one is due.
func (d *Disruption) Turn(ctx context.Context) (time.Duration, error) {
	if in, may := d.mayPass(); !may {
		return in, nil
	}
	d.prepare()
	d.Pulse.Begin()
	defer d.Pulse.Done()
	ctx = loop.WithPulse(ctx, d.Pulse)
	d.evaluator.beginPass(ctx)
	in, others, err := d.pass(ctx)
	failure := failureOf(err)
	if failure == command.OnlyConflicts {
		err = nil
	}
	return command.AfterFailure(failure, in, others), err
}

func failureOf(err error) command.Failure {
	switch {
	case err == nil:
		return command.NoFailure
	case onlyConflicts(err):
		return command.OnlyConflicts
	}
	return command.OtherFailure
}

// onlyConflicts reports whether all errors are write conflicts.
func onlyConflicts(err error) bool {
	if list, joined := err.(interface{ Unwrap() []error }); joined {
		return !slices.ContainsFunc(list.Unwrap(), func(e error) bool { return !onlyConflicts(e) })
	}
	return apierrors.IsConflict(err)
}

// Pass takes over or cleans up what an earlier process left, decides, and starts what was decided
// (disruption 3).
func (d *Disruption) Pass(ctx context.Context) error {
	if _, may := d.mayPass(); !may {
		return nil
	}
	_, _, err := d.pass(ctx)
	return err
}

func (d *Disruption) mayPass() (retryIn time.Duration, may bool) {
	return command.MayPass(d.Store.Synced(), d.ClockOff != nil && d.ClockOff())
}

// pass makes a pass. It returns in what time the next one is due, and whether that is for other nodes.
func (d *Disruption) pass(ctx context.Context) (time.Duration, bool, error) {
	d.prepare()
	offers, _ := d.offers(ctx)
	changes := d.Store.Changes()
	view := disrupt.View{DisruptionView: d.Store.Disruption(offers)}
	d.reporter.logInvalidBudgets(ctx, view)
	left, failed := d.worker.leftovers(ctx)
	if failed == nil {
		if d.worker.resume(ctx, view, left) {
			view.DisruptionView = d.Store.Disruption(offers)
		}
		failed = d.worker.cleanUp(ctx, view, left)
	}
	d.reporter.setCostMetrics(view)
	d.reporter.setBlockedMetrics(view)
	d.applySettings(&view)
	d.reporter.repairs.logPolicyChanges(ctx, view)
	view.Unpriced = d.waitForPrices(ctx)
	hidden := d.worker.queue.markBackoffs(&view, d.Now())
	view.Outcomes = d.outcomes.Observe(&view)
	d.carried.Store(&carried{outcomes: view.Outcomes, unpriced: view.Unpriced})
	view.Unchanged, view.SearchCache = d.cooldown.Covers(changes, d.Now()), &d.searchCache
	decision := d.evaluator.decide(ctx, view)
	d.outcomes.RecordMoves(&decision)
	d.reporter.setDecisionMetrics(decision)
	d.reporter.logScores(ctx, decision.Scores)
	failed = errors.Join(failed, d.blocked.write(ctx, view))
	d.reporter.emitNodeEvents(ctx, decision.Events)
	if d.Journal != nil {
		d.Journal.Observed(&view, &decision)
		if len(decision.Commands) > 0 || !view.Unchanged {
			d.Journal.Decided(decision)
		}
	}
	d.cooldown = d.cooldown.After(&decision, &view, changes, hidden, d.Now())
	n, err := d.starter.start(ctx, view, offers, decision)
	in, others := command.NextPass(decision.Commands, n)
	return in, others, errors.Join(failed, err)
}

// offers returns the instance types of each pool. A pool whose types cannot be listed is left out, and none of
// its nodes is disrupted; untyped says why.
func (d *Disruption) offers(ctx context.Context) (offers map[string][]catalog.InstanceType, untyped map[string]string) {
	offers, untyped = map[string][]catalog.InstanceType{}, map[string]string{}
	for _, pool := range d.Store.Pools() {
		list, err := d.Cloud.Types(ctx, pool)
		loop.RecordProgress(ctx)
		if err != nil {
			if errors.Is(err, cloud.ErrUnevaluated) {
				log.FromContext(ctx).Error(err, "skipping, NodeOverlays are not evaluated yet", "NodePool", pool.Name)
			}
			untyped[pool.Name] = err.Error()
			continue
		}
		if d.LaunchBackoff != nil {
			list = d.LaunchBackoff.WithoutBackedOff(pool.Name, list, d.Now())
		}
		offers[pool.Name] = list
	}
	return offers, untyped
}
