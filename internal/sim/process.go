package sim

import (
	"cmp"
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/buffer"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/disrupt/command"
	"github.com/dovetail-sh/dovetail/internal/drain"
	"github.com/dovetail-sh/dovetail/internal/execute"
	"github.com/dovetail-sh/dovetail/internal/interruption"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/pool"
	"github.com/dovetail-sh/dovetail/internal/provision"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/reboot"
	"github.com/dovetail-sh/dovetail/internal/store"
)

const (
	batchIdle = time.Second
	batchMax  = 10 * time.Second
	restart   = 20 * time.Second // of a process that died, at most
)

// nomination is how long a node is reserved for the pods that are planned onto it.
func nomination() time.Duration { return provision.NominationPeriod(batchMax) }

// process is the controller: all that it knows dies with it.
type process struct {
	w                *World
	cloud            cloud.Provider // all that it sees of the market
	number           int
	self             string // its pod; empty: it runs elsewhere
	synced           bool
	started          time.Time
	writesUntilCrash int // writes until the process crashes; 0: it does not crash

	store    *store.Store
	handlers [kinds]toolscache.ResourceEventHandler
	listed   [kinds]bool
	last     [kinds]time.Time // when the last change that is on its way arrives
	stalled  [kinds]time.Time // until when a watch delivers nothing
	seen     [kinds]map[string]client.Object

	launched     map[types.UID]lifecycle.LaunchResult // by claim
	launching    map[types.UID]bool
	nodeCalls    drain.CallLog
	evictions    drain.EvictionQueue
	interrupted  interruption.State
	claimCalls   drain.CallLog
	rebootCalls  reboot.CallLog
	podEvents    lifecycle.PodEvents
	due          map[string]time.Time // when a claim or node is reconciled next
	failures     map[string]int       // to reconcile it, in a row
	commands     Protocol
	held         []disrupt.Command // whose nodes are held, and that are not committed
	undone       []disrupt.Running // that were given up
	worksAt      time.Time         // when the queue of commands is worked on; zero: it is not
	starting     bool              // a start is not complete
	cooldown     command.Cooldown
	prices       disrupt.PriceWait
	searchCache  disrupt.SearchCache
	launches     provision.LaunchBackoff
	state        provision.State
	bufferPasses buffer.Passes
	buffersDue   time.Time // the next of them
	buffersRead  bool      // at least once
	buffersKnown bool      // they were read, or are not waited for any more
	slots        execute.Slots
	batches      provision.Batches
	moveOutcomes disrupt.OutcomeHistory
	overlays     overlaid

	deviceHandlers map[string]toolscache.ResourceEventHandler

	registered pool.Registrations

	risks   observed
	window  provision.Window // of triggers of a plan
	passed  look             // the last pass of disruption
	planned look             // the last plan

	said   map[string]lastEvent // last events about objects
	logged map[string]bool
}

// checkCluster is a look at the cluster that led to nothing new.
type look struct {
	rev int // how many writes there had been
	at  time.Time
}

// same reports whether a look would see what the last one saw, not too long ago. The controller looks
// all the same; what it decides depends on nothing else.
func (p *process) same(l *look) bool {
	if l.rev == p.w.api.rev && p.w.now.Sub(l.at) < p.w.config.Pass {
		return true
	}
	*l = look{p.w.api.rev, p.w.now}
	return false
}

// lastEvent is the last event about an object.
type lastEvent struct {
	at   time.Time
	text string
}

// crashed is thrown by a process that dies between two writes.
type crashed struct{}

// boot starts a process. It lists all objects first, which takes a moment for each kind.
func (w *World) boot() {
	w.processes++
	p := &process{
		w: w, cloud: w.market, number: w.processes, self: w.selfPod(), started: w.now,
		launched: map[types.UID]lifecycle.LaunchResult{}, launching: map[types.UID]bool{},
		due: map[string]time.Time{}, failures: map[string]int{}, commands: w.newProtocol(), launches: provision.LaunchBackoff{ReservationLabel: awsv1.LabelCapacityReservationID},
		said: map[string]lastEvent{}, logged: map[string]bool{}, passed: look{rev: -1}, planned: look{rev: -1}, window: provision.Window{Idle: batchIdle, Max: batchMax},
	}
	p.store = store.New(store.Options{
		Words: awsv1.Vocabulary(), Lanes: w.market.lanes, Classes: []schema.GroupKind{{Group: awsv1.Group, Kind: awsv1.Kind}}, ReservationLabel: awsv1.LabelCapacityReservationID,
		Self: p.selfKey(), Now: func() time.Time { return w.now }, Wake: p.requestPlan, Devices: w.devices.class != nil,
	})
	_ = p.store.Watch(context.Background(), informers{p}) // ours never fail
	p.watchDevices()
	w.process = p
	if len(w.config.Buffers) > 0 {
		p.store.AddFeed("CapacityBuffer", func() bool { return p.buffersKnown })
		p.resolveBuffers()
	}
	for k := range kinds {
		p.seen[k] = map[string]client.Object{}
		if k >= volumeClaims && !w.stores {
			p.listed[k] = true // there is nothing
			continue
		}
		p.after(w.between(100*time.Millisecond, 2*time.Second), func() { p.list(k) })
	}
	p.every(cmp.Or(w.config.Every, command.PassInterval), p.runDisruptionPass)
	p.every(provision.ReplanInterval, func() {
		if p.synced && p.w.config.Steps.ReplanDue(p.store.Waiting(), p.state.BuffersShort()) {
			p.requestPlan(provision.Retrigger)
		}
	})
	p.after(lifecycle.CollectInterval, p.collect)
	p.after(lifecycle.OrphanInterval(0), func() { p.collectOrphans(0) })
	p.every(5*time.Second, p.interruptions)
	if len(w.config.Reserved) > 0 {
		p.every(reservationsEvery, p.leaveReservations)
	}
	w.logf("controller: process %d starts as %q", p.number, p.self)
}

// crash ends the process; another one starts later.
func (w *World) crash() {
	if w.process == nil {
		return
	}
	w.logf("controller: process %d dies", w.process.number)
	w.stats.Crashes++
	w.checks.processEnded(w.process)
	w.process = nil
	w.after(w.between(time.Second, restart), func() {
		if w.process == nil {
			w.boot()
		}
	})
}

// at has the process do something at a time, if it still lives then.
func (p *process) at(t time.Time, do func()) {
	p.w.at(t, func() { p.alive(do) })
}

func (p *process) after(d time.Duration, do func()) { p.at(p.w.now.Add(d), do) }

func (p *process) every(d time.Duration, do func()) {
	p.after(d, func() {
		p.every(d, do)
		do()
	})
}

func (p *process) alive(do func()) {
	if p.w.process != p {
		return
	}
	defer func() {
		if cause := recover(); cause != nil {
			if _, expected := cause.(crashed); !expected {
				panic(cause)
			}
			p.w.crash()
		}
	}()
	do()
}

// write changes something outside of the process. It may die just before or just after.
func (p *process) write(do func()) {
	if p.writesUntilCrash > 0 {
		if p.writesUntilCrash--; p.writesUntilCrash == 0 {
			if p.w.rnd.IntN(2) == 0 {
				do()
			}
			panic(crashed{})
		}
	}
	do()
}

// list stores all objects of a kind.
func (p *process) list(k kind) {
	p.listed[k] = true
	for _, obj := range p.w.api.all(k) {
		p.deliver(obj, false)
	}
	for _, listed := range p.listed {
		if !listed {
			return
		}
	}
	p.synced = true
	for _, name := range p.w.api.claimNames() {
		p.requeueAfter(name, 0)
		p.requeueAfter(rebooting+name, 0)
	}
	for _, name := range p.w.api.nodeNames() {
		p.requeueAfter(name, 0)
		p.requeueAfter(health+name, 0)
	}
	for _, name := range sorted(p.w.api.pools) {
		p.resize(name)
	}
	p.requestPlan(provision.Retrigger)
}

// watch delivers a change to the process, after the lag of the watch.
func (p *process) watch(obj client.Object, gone bool) {
	k := kindOf(obj)
	if !p.listed[k] {
		return // it will be in the list
	}
	at := p.w.now.Add(p.w.config.Lag[k])
	if at.Before(p.stalled[k]) {
		at = p.stalled[k]
	}
	if at.Before(p.last[k]) {
		at = p.last[k]
	}
	p.last[k] = at
	p.at(at, func() { p.deliver(obj, gone) })
}

// deliver handles a change that a watch delivered.
func (p *process) deliver(obj client.Object, gone bool) {
	k := kindOf(obj)
	before := p.seen[k][obj.GetName()]
	if gone {
		delete(p.seen[k], obj.GetName())
	} else {
		p.seen[k][obj.GetName()] = obj
	}
	switch handler := p.handlers[k]; {
	case handler == nil: // attachments are read from the cache only
	case gone:
		handler.OnDelete(obj)
	default:
		handler.OnUpdate(nil, obj)
	}
	if !p.synced {
		return
	}
	switch o := obj.(type) {
	case *karpv1.NodeClaim:
		p.requeueAfter(o.Name, 0)
		p.requeueAfter(rebooting+o.Name, 0)
		if gone || o.DeletionTimestamp != nil {
			p.w.checks.losesReplacement(p, o.Name)
			p.recheckCommandOf(o.Name)
		}
		if before == nil || gone || (before.GetDeletionTimestamp() == nil) != (o.DeletionTimestamp == nil) {
			p.resize(o.Labels[karpv1.LabelNodePool])
		}
	case *corev1.Node:
		if gone {
			p.podEvents.Drop(o.Name)
		}
		p.requeueAfter(o.Name, 0)
		p.requeueAfter(health+o.Name, 0)
		if c := p.w.api.claimOf(o); c != nil {
			p.requeueAfter(c.Name, 0)
			p.requeueAfter(rebooting+c.Name, 0)
		}
		if i := p.w.market.byID[o.Spec.ProviderID]; i != nil {
			p.requeueAfter(i.claim, 0)
		}
	case *corev1.Pod:
		p.podEvent(o, gone)
	case *karpv1.NodePool:
		p.resize(o.Name)
		p.overlaysChanged()
		for _, name := range p.w.api.claimNames() {
			p.requeueAfter(name, time.Second)
		}
	}
}

// recordEvent records an event about an object.
func (p *process) recordEvent(object, text string) {
	if p.w.config.Log != nil && !p.logged[object+text] {
		p.logged[object+text] = true
		p.w.logf("event: %s: %s", object, text)
	}
	p.said[object] = lastEvent{p.w.now, text}
}

// recordReason is recordEvent for a reason, whose text is only made if it is used.
func (p *process) recordReason(object string, why reason.Reason) {
	if p.w.config.Log != nil {
		p.recordEvent(object, why.Text())
		return
	}
	p.said[object] = lastEvent{p.w.now, string(why.Code)}
}

// informers hand the handlers of the store to the process.
type informers struct{ p *process }

// GetInformer returns the watch of a kind.
func (i informers) GetInformer(_ context.Context, obj client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	return informer{p: i.p, kind: kindOf(obj)}, nil
}

type informer struct {
	cache.Informer
	p    *process
	kind kind
}

// AddEventHandler registers a handler.
func (i informer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	if i.kind < kinds {
		i.p.handlers[i.kind] = h
	}
	return registration{p: i.p}, nil
}

type registration struct {
	toolscache.ResourceEventHandlerRegistration
	p *process
}

// HasSynced reports whether everything was listed.
func (r registration) HasSynced() bool { return r.p.synced }
