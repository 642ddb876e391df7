package app

import (
	"context"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/adopt"
	"github.com/dovetail-sh/dovetail/internal/cloud/driver"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/config"
	"github.com/dovetail-sh/dovetail/internal/controller/buffers"
	"github.com/dovetail-sh/dovetail/internal/controller/claims"
	"github.com/dovetail-sh/dovetail/internal/controller/disruption"
	"github.com/dovetail-sh/dovetail/internal/controller/lookup"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/controller/nodes"
	"github.com/dovetail-sh/dovetail/internal/controller/observe"
	"github.com/dovetail-sh/dovetail/internal/controller/overlays"
	"github.com/dovetail-sh/dovetail/internal/controller/pools"
	"github.com/dovetail-sh/dovetail/internal/controller/provisioning"
	"github.com/dovetail-sh/dovetail/internal/devices"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/execute"
	"github.com/dovetail-sh/dovetail/internal/journal"
	"github.com/dovetail-sh/dovetail/internal/ledger/keep"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/metric"
	"github.com/dovetail-sh/dovetail/internal/provision"
	"github.com/dovetail-sh/dovetail/internal/report"
	"github.com/dovetail-sh/dovetail/internal/snapshot"
	"github.com/dovetail-sh/dovetail/internal/solve"
	"github.com/dovetail-sh/dovetail/internal/store"
)

// largestPlan is how many claims are written at once; the rest of a larger plan follows at the rate of the setting.
const largestPlan = 1000

// core is everything that is the same for every cloud.
type core struct {
	mgr     ctrl.Manager
	cfg     config.Config
	events  *report.Recorder
	metrics *metric.Set
	journal *journal.Journal // nil: nothing is kept
	book    *keep.Ledger     // of decisions and costs
	remover execute.Remover  // of claims that are deleted without a command
	writer  client.Client    // for NodeClaims in bulk, with a limiter of its own
	clock   *clock

	driver    driver.Driver
	connected driver.Cloud
	ledger    *adopt.Ledger      // of instances that claims were given
	overlays  *overlays.Overlays // nil: NodeOverlays are ignored
	buffers   *buffers.Buffers   // nil: CapacityBuffers are ignored

	store            *store.Store
	orders           *execute.Claims
	passes           *disruption.Disruption
	batcher          *provisioning.Batcher
	backoff          *provisioning.LaunchBackoff
	health           *pools.Health
	provisionerPulse *Pulse
	disruptionPulse  *Pulse
	queuePulse       *Pulse

	repairs        *disrupt.RepairSet  // nil: unhealthy nodes are not repaired by disruption
	legacyPolicies *lifecycle.Ailments // of legacy repair; nil: it is off
}

type registrant interface{ Register(mgr ctrl.Manager) error }

// add wires the store, the loops and the reconcilers.
func (c *core) add(ctx context.Context) error {
	c.batcher, c.backoff, c.health = provisioning.NewBatcher(c.cfg.Batch.Idle, c.cfg.Batch.Max), provisioning.NewLaunchBackoff(c.driver.ReservationLabel), pools.NewHealth()
	c.provisionerPulse, c.disruptionPulse, c.queuePulse = NewPulse("provisioner", time.Now), NewPulse("disruption", time.Now), NewPulse("disruption.queue", time.Now)
	c.store = store.New(store.Options{
		Words: c.driver.Words, Lanes: c.connected.Lanes(), Classes: c.kinds(), Strict: c.cfg.Compat.Strict,
		CostManaged: c.cfg.Gates.PodDeletionCostManagement, DefaultSpread: snapshot.DefaultSpread(c.cfg.Scheduling.DefaultConstraints),
		Devices: !c.cfg.Scheduling.IgnoreDRARequests,
		Self:    selfPod(c.cfg), ReservationLabel: c.driver.ReservationLabel, Now: c.clock.apiServerTime, Wake: c.batcher.Trigger, OnBound: c.countLanded,
	})
	if err := c.readRepairs(); err != nil {
		return err
	}
	c.orders = &execute.Claims{Client: c.writer, Store: c.store, Metrics: c.metrics, Words: c.driver.Words}
	if err := lookup.Index(c.mgr); err != nil {
		return err
	}
	if err := c.store.Watch(ctx, c.mgr.GetCache()); err != nil {
		return err
	}
	if err := addLateWatch(ctx, c.mgr, c.store, c.cfg); err != nil {
		return err
	}
	if err := c.addOverlays(); err != nil {
		return err
	}
	plans := c.provisioner()
	if c.cfg.Gates.CapacityBuffer {
		if err := c.addBuffers(plans); err != nil {
			return err
		}
	}
	if !c.cfg.Server.ClusterStateDisabled {
		state, err := addObservers(c.mgr, c.driver.Classes(c.cfg), c.optionalKinds(), c.metrics, c.events, c.clock.apiServerTime)
		if err != nil {
			return err
		}
		plans.Planned = state.Planned
	}
	if err := c.mgr.Add(plans); err != nil {
		return err
	}
	for _, r := range slices.Concat(c.lifeCycle(), c.legacyRepair(), c.pools(), c.deletionCosts()) {
		if err := r.Register(c.mgr); err != nil {
			return err
		}
	}
	return nil
}

func (c *core) provisioner() *provisioning.Provisioner {
	return &provisioning.Provisioner{
		Store: c.store, Cloud: c.meteredCloud("provisioner"), Events: c.events, Metrics: c.metrics, Batcher: c.batcher, LaunchBackoff: c.backoff, Pulse: c.provisionerPulse, Journal: c.journal, Now: c.clock.apiServerTime,
		Claims: c.orders, Nomination: c.nomination(), Policy: c.policy(),
	}
}

// addBuffers keeps room for CapacityBuffers.
func (c *core) addBuffers(plans *provisioning.Provisioner) error {
	b := &buffers.Buffers{
		Client: c.mgr.GetClient(), Live: c.mgr.GetAPIReader(), Cache: c.mgr.GetCache(), Store: c.store, Metrics: c.metrics, Events: c.events, Now: c.clock.apiServerTime,
		Trigger: func() { c.batcher.Trigger(provision.Retrigger) },
	}
	plans.BuffersPlanned = b.Planned
	c.buffers = b
	return b.Register(c.mgr)
}

// optionalKinds are the kinds with conditions that a cluster may not serve.
func (c *core) optionalKinds() (kinds []observe.ConditionKind) {
	if c.overlays != nil {
		kinds = append(kinds, observe.OverlayConditions(c.metrics, c.overlays.Readable()))
	}
	if c.buffers != nil {
		kinds = append(kinds, observe.BufferConditions(c.metrics, c.buffers.Readable()))
	}
	return kinds
}

// countLanded counts whether a pod was bound where it was planned.
func (c *core) countLanded(asPlanned bool) {
	place := "elsewhere"
	if asPlanned {
		place = "planned"
	}
	c.metrics.PodsLanded.WithLabelValues(place).Inc()
}

// nomination is how long a node is reserved for nominated pods.
func (c *core) nomination() time.Duration { return provision.NominationPeriod(c.cfg.Batch.Max) }

// settings are those that decisions depend on.
func (c *core) settings() snapshot.Settings {
	var kinds []metav1.GroupKind
	for _, k := range c.kinds() {
		kinds = append(kinds, metav1.GroupKind(k))
	}
	return snapshot.SettingsOf(c.cfg, kinds)
}

// policy is how all plans are made.
func (c *core) policy() solve.Policy {
	p := c.settings().Policy
	p.Workers = max(1, (c.cfg.Process.CPUMillis+999)/1000)
	return p
}

// lifeCycle is what happens to a claim and its node.
func (c *core) lifeCycle() []registrant {
	k, strict, cl, millis := c.kinds(), c.cfg.Compat.Strict, c.mgr.GetClient(), c.cfg.Process.CPUMillis
	many, some := loop.Workers(100, 5000, millis), loop.Workers(10, 1000, millis)
	drains := &nodes.Drains{Metrics: c.metrics, Journal: c.journal, Now: c.clock.apiServerTime}
	queue := &nodes.Evictions{Client: cl, Events: c.events, Metrics: c.metrics, Workers: many, Now: c.clock.apiServerTime, Evicted: c.book.Evicted}
	life := &claims.Claims{
		Client: cl, Provider: &backoffProvider{Provider: c.meteredCloud("nodeclaim.lifecycle"), backoff: c.backoff, orders: c.orders, launched: c.book.Launched, now: c.clock.apiServerTime}, Gates: c.connected.Gates(), Events: c.events, Metrics: c.metrics, Remover: c.remover,
		Health: c.health, Classes: k, Strict: strict, Workers: many, Now: c.clock.apiServerTime, PlannedPods: c.plannedPods, Live: c.mgr.GetAPIReader(),
	}
	if !c.cfg.Scheduling.IgnoreDRARequests {
		life.Drivers = func(_ context.Context, node string) ([]string, error) {
			return devices.CompleteDrivers(c.store.PublishedSlices(node), node), nil
		}
	}
	if c.cfg.Scheduling.NominatePods {
		life.Nominate = (&claims.Nominator{Client: c.writer, Pods: c.store.Nominees, Metrics: c.metrics, Now: c.clock.apiServerTime}).Nominate
	}
	reboots := c.reboots(queue)
	life.Terminate = (&nodes.ClaimTermination{Client: cl, Provider: c.meteredCloud("nodeclaim.lifecycle"), Launching: life.Launching, Launched: life.Launched, Events: c.events, Metrics: c.metrics, Drains: drains, Now: c.clock.apiServerTime}).Terminate
	return []registrant{
		life, queue,
		&nodes.NodeTermination{Client: cl, Provider: c.meteredCloud("node.termination"), Queue: queue, Events: c.events, Metrics: c.metrics, Classes: k, Workers: many, Drains: drains, Now: c.clock.apiServerTime},
		drains, &nodes.ImpossibleBudgets{Client: cl, Events: c.events, Metrics: c.metrics}, &observe.AnnotationDeprecations{Client: cl, Events: c.events, Metrics: c.metrics},
		&claims.Expiration{Client: cl, Remover: c.remover, Classes: k, Strict: strict, Workers: some, Now: c.clock.apiServerTime, ClockOff: c.clock.isSkewed},
		&claims.Collector{Client: cl, Provider: c.meteredCloud("nodeclaim.garbagecollection"), Remover: c.remover, Classes: k, Strict: strict, Now: c.clock.apiServerTime},
		&claims.Consistency{Client: cl, Events: c.events, Classes: k, Strict: strict, Workers: some, Now: c.clock.apiServerTime},
		&claims.ClaimHydration{Client: cl, Classes: k, Strict: strict, Workers: many},
		&claims.NodeHydration{Client: cl, Classes: k, Strict: strict, Workers: many},
		&claims.PodEvents{Client: cl, Workers: some, Now: c.clock.apiServerTime},
		&disruption.Conditions{Client: cl, Cloud: c.meteredCloud("nodeclaim.disruption"), Events: c.events, Words: c.driver.Words, Classes: c.classes(), Strict: strict, Workers: some, Now: c.clock.apiServerTime},
		reboots, c.disruption(reboots.Commit),
	}
}

// disruption makes voluntary disruptions.
func (c *core) disruption(reboot func(context.Context, disrupt.Command) error) *disruption.Disruption {
	settings := c.settings()
	c.passes = &disruption.Disruption{
		Client: c.mgr.GetClient(), Reader: c.mgr.GetAPIReader(), Store: c.store, Cloud: c.meteredCloud("disruption"), Claims: c.orders, Events: c.events, Metrics: c.metrics,
		Pulse: c.disruptionPulse, Ends: c.queuePulse, LaunchBackoff: c.backoff, Priced: c.connected.Priced, Now: c.clock.apiServerTime, ClockOff: c.clock.isSkewed, Policy: c.policy(), Nomination: c.nomination(), CostManaged: settings.CostManaged, Seed: rand.Uint64(), Journal: decisionRecord{c.journal, c.book},
		Tuning: settings.Tuning, Repairs: c.repairs, Decide: disrupt.Next, Reboot: reboot, Methods: settings.Methods,
	}
	return c.passes
}

// pools is what happens to a NodePool.
func (c *core) pools() []registrant {
	list := []registrant{
		&pools.Pools{
			Client: c.mgr.GetClient(), Events: c.events, Health: c.health, Words: c.driver.Words, Classes: c.classes(), Strict: c.cfg.Compat.Strict,
			Workers: loop.Workers(10, 1000, c.cfg.Process.CPUMillis), Now: c.clock.apiServerTime, LaunchBackoff: c.backoff,
		},
		&pools.Counter{Client: c.mgr.GetClient(), Usage: c.store, Metrics: c.metrics, Classes: c.classes()},
	}
	if c.cfg.Gates.StaticCapacity {
		static := &pools.Static{
			Client: c.mgr.GetClient(), Live: c.mgr.GetAPIReader(), Store: c.store, Claims: c.orders, LaunchBackoff: c.backoff, Remover: c.remover, Words: c.driver.Words,
			Classes: c.classes(), Strict: c.cfg.Compat.Strict, Workers: loop.Workers(10, 1000, c.cfg.Process.CPUMillis), Now: c.clock.apiServerTime,
		}
		if c.overlays != nil {
			static.Types = c.meteredCloud("static.provisioning").Types
		}
		list = append(list, static)
	}
	return list
}

// deletionCosts determines which of their pods ReplicaSets should delete first.
func (c *core) deletionCosts() []registrant {
	if !c.cfg.Gates.PodDeletionCostManagement {
		return nil
	}
	queue := &disruption.CostWrites{Client: c.mgr.GetClient(), Metrics: c.metrics, Workers: loop.Workers(100, 5000, c.cfg.Process.CPUMillis)}
	return []registrant{queue, &disruption.DeletionCosts{
		Client: c.mgr.GetClient(), Store: c.store, Cloud: c.meteredCloud("pod.deletioncost"), Queue: queue, Metrics: c.metrics, Now: c.clock.apiServerTime,
	}}
}

// plannedPods returns the pods that a claim is reserved for and that are still pending (V15-61).
func (c *core) plannedPods(claim string) []types.NamespacedName {
	var out []types.NamespacedName
	for _, p := range c.store.Planned(claim) {
		out = append(out, client.ObjectKeyFromObject(p))
	}
	return out
}

// backoffProvider records the results of launches in the launch back-off.
type backoffProvider struct {
	cloud.Provider
	backoff  *provisioning.LaunchBackoff
	orders   *execute.Claims
	launched func(claim string) // for pods that have no node
	now      func() time.Time
}

// Launch waits until the claim may be launched, launches it, and records the result.
func (w *backoffProvider) Launch(ctx context.Context, claim *karpv1.NodeClaim) (cloud.Instance, error) {
	w.orders.Written(ctx)
	instance, err := w.Provider.Launch(ctx, claim)
	w.backoff.RecordLaunch(claim, instance, err, w.now())
	if err == nil && isForPods(claim) {
		w.launched(claim.Name)
	}
	return instance, err
}

// bulkWriter returns a client for NodeClaims. A plan may have a thousand: what happens to the first of
// them must not hold up the last.
func bulkWriter(kube *rest.Config, mgr ctrl.Manager) (client.Client, error) {
	bulk := rest.CopyConfig(kube)
	bulk.Burst = max(bulk.Burst, largestPlan)
	return client.New(bulk, client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
}

// selfPod is the pod of this process. Its name is the hostname, and its namespace is a setting that the chart
// fills. With host networking the hostname is that of the Node, and no pod has that name.
func selfPod(cfg config.Config) cluster.PodKey {
	name, err := os.Hostname()
	if err != nil {
		return cluster.PodKey{}
	}
	return cluster.PodKey{Namespace: cfg.Namespace, Name: name}
}
