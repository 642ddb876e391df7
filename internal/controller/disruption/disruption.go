package disruption

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/controller/write"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/disrupt/command"
	"github.com/dovetail-sh/dovetail/internal/execute"
	"github.com/dovetail-sh/dovetail/internal/metric"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

const (
	disruptInterval = command.PassInterval
	unsynced        = time.Second
	afterWake       = command.AfterWake
	afterWrite      = command.AfterWrite
	stalled         = 15 * time.Minute
)

// disruptStore is the cluster state that disruption decides on.
type disruptStore interface {
	Synced() bool
	Changes() uint64
	Pools() []*karpv1.NodePool
	Pod(key cluster.PodKey) *corev1.Pod
	Disruption(types map[string][]catalog.InstanceType) cluster.DisruptionView
	SetCommanded(node string, held bool)
	SetRemoving(node string, going bool)
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

// launchBackoff knows what cannot be launched at present, and is told of more of it.
type launchBackoff interface {
	WithoutBackedOff(pool string, list []catalog.InstanceType, now time.Time) []catalog.InstanceType
	PoolBackedOff(pool string, now time.Time) bool
	RecordDenied(pool string, now time.Time)
}

// journal records decisions and their outcomes.
type journal interface {
	Decided(d disrupt.Decision)
	Outcome(id, text string, at time.Time)
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

	Policy      solve.Policy // that of the provisioner
	Tuning      disrupt.Tuning
	Methods     disrupt.Methods
	Repairs     *disrupt.RepairSet // repair policies for unhealthy nodes; nil: none
	Nomination  time.Duration      // how long a node is reserved for nominated pods (SC-52)
	CostManaged bool               // gate PodDeletionCostManagement
	Seed        uint64             // of the jitter of back-offs

	Decide  func(v disrupt.View, stop func() bool) disrupt.Decision // nil: disrupt.Next
	Reboot  func(context.Context, disrupt.Command) error            // carries out decision reboot; nil: cannot be done
	Journal journal                                                 // nil: none is kept

	setUp sync.Once
	queue *commandQueue
	wake  chan struct{}

	last           time.Time       // when a pass began
	unpriced       map[string]bool // nodes without a known price in the last pass
	invalidBudgets string          // invalid budgets as last logged
	cooldown       command.Cooldown
	answers        disrupt.Answers      // of searches for moves
	blocks         map[string]*block    // by claim: nodes whose disruption is blocked
	lastRuns       map[string]time.Time // by method: when it last ran

	unreached []string // pools that consolidation did not reach in time

	promises  disrupt.OutcomeHistory
	repairLog repairLog
	prices    disrupt.PriceWait
}

// Register adds both loops to a manager.
func (d *Disruption) Register(mgr ctrl.Manager) error {
	d.prepare()
	return errors.Join(
		mgr.Add(&loop.Turns{Name: "disruption", Metrics: d.Metrics, Every: disruptInterval, Wake: d.wake, Soon: afterWake, Turn: d.Turn}),
		mgr.Add(&loop.Turns{Name: "disruption.queue", Metrics: d.Metrics, Every: disruptInterval, Wake: d.queue.wake, Soon: afterWrite, Turn: d.Work}),
		mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { return d.Watch(ctx, mgr.GetCache()) })),
	)
}

func (d *Disruption) prepare() {
	d.setUp.Do(func() {
		d.queue, d.wake = newCommandQueue(d.Seed), make(chan struct{}, 1)
		if d.Decide == nil {
			d.Decide = disrupt.Next
		}
	})
}

// Turn makes one pass and returns when the next one is due.
func (d *Disruption) Turn(ctx context.Context) (time.Duration, error) {
	if !d.Store.Synced() {
		return unsynced, nil
	}
	d.Pulse.Begin()
	defer d.Pulse.Done()
	ctx = loop.WithPulse(ctx, d.Pulse)
	if late := d.Now().Sub(d.last); !d.last.IsZero() && late > stalled {
		log.FromContext(ctx).V(1).Info("abnormal time between runs of disruption", "duration", late.Round(time.Second).String())
		d.lastRuns = nil // no method is to blame
	}
	d.last = d.Now()
	in, others, err := d.pass(ctx)
	switch {
	case err == nil:
		return in, nil
	case onlyConflicts(err):
		return afterWrite, nil
	case others: // failed nodes do not keep others waiting
		return in, err
	}
	return disruptInterval, err
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
	if !d.Store.Synced() {
		return nil
	}
	_, _, err := d.pass(ctx)
	return err
}

// pass makes a pass. It returns in what time the next one is due, and whether that is for other nodes.
func (d *Disruption) pass(ctx context.Context) (time.Duration, bool, error) {
	d.prepare()
	offers := d.offers(ctx)
	changes := d.Store.Changes()
	view := disrupt.View{DisruptionView: d.Store.Disruption(offers)}
	d.logInvalidBudgets(ctx, view)
	left, failed := d.leftovers(ctx)
	if failed == nil {
		if d.resume(ctx, view, left) {
			view.DisruptionView = d.Store.Disruption(offers)
		}
		failed = d.cleanUp(ctx, view, left)
	}
	d.setCostMetrics(view)
	d.setBlockedMetrics(view)
	view.Policy, view.Tuning, view.Methods, view.Repairs = d.Policy, d.Tuning, d.Methods, d.Repairs
	d.repairLog.logPolicyChanges(ctx, view)
	view.Unpriced = d.waitForPrices(ctx)
	hidden := d.queue.markBackoffs(&view, d.Now())
	view.Outcomes = d.promises.Observe(&view)
	view.Unchanged, view.Answers = d.cooldown.Covers(changes, d.Now()), &d.answers
	decision := d.decide(ctx, view)
	d.promises.RecordMoves(&decision)
	d.setDecisionMetrics(decision)
	d.logScores(ctx, decision.Scores)
	failed = errors.Join(failed, d.writeBlockedConditions(ctx, view))
	d.emitNodeEvents(ctx, decision.Events)
	if d.Journal != nil && (len(decision.Commands) > 0 || !view.Unchanged) {
		d.Journal.Decided(decision)
	}
	d.cooldown = d.cooldown.After(&decision, &view, changes, hidden, d.Now())
	n, err := d.start(ctx, view, offers, decision)
	in, others := command.NextPass(decision.Commands, n)
	return in, others, errors.Join(failed, err)
}

// offers returns the instance types of each pool. A pool whose types cannot be listed is left out, and none of
// its nodes is disrupted.
func (d *Disruption) offers(ctx context.Context) map[string][]catalog.InstanceType {
	offers := map[string][]catalog.InstanceType{}
	for _, pool := range d.Store.Pools() {
		list, err := d.Cloud.Types(ctx, pool)
		loop.RecordProgress(ctx)
		if err != nil {
			continue
		}
		if d.LaunchBackoff != nil {
			list = d.LaunchBackoff.WithoutBackedOff(pool.Name, list, d.Now())
		}
		offers[pool.Name] = list
	}
	return offers
}

// poolBackedOff reports whether launches of a static pool are backed off.
func (d *Disruption) poolBackedOff(pool string) bool {
	return d.LaunchBackoff != nil && d.LaunchBackoff.PoolBackedOff(pool, d.Now())
}

// forEach calls do for the numbers below n, several at a time. When all are done it returns their errors, by
// number. One that panics fails, and the others go on (G9).
func (d *Disruption) forEach(n int, do func(i int) error) []error {
	const workers = 20
	return d.forEachWith(workers, n, do)
}

// forEachWith is forEach with a number of workers. One worker keeps the order.
func (d *Disruption) forEachWith(workers, n int, do func(i int) error) []error {
	var wait sync.WaitGroup
	slots, failed := make(chan struct{}, workers), make([]error, n)
	for i := range n {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			one := loop.Ticker{Name: "disruption", Metrics: d.Metrics, Pass: func(context.Context) error { return do(i) }}
			failed[i] = one.RunOnce(context.Background())
		})
	}
	wait.Wait()
	return failed
}
