package sim

import (
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/api/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Config is one run: a cluster, what happens to it, and how the controller is set.
type Config struct {
	Seed     uint64
	Machines []Machine
	Pools    []*karpv1.NodePool
	Apps     []App
	Buffers  []Buffer
	Overlays []Overlay
	Daemons  bool
	Changes  []Change // what people and the world do, and when

	Active time.Duration // how long things happen
	Quiet  time.Duration // how long nothing does afterwards

	Policy   solve.Policy
	Tuning   disrupt.Tuning
	Methods  disrupt.Methods
	Decide   func(disrupt.View) disrupt.Decision // nil: disrupt.Next
	Steps    Steps
	Protocol func(Shipped) Protocol // nil: that of the controller

	Reserved     []Reservation        // capacity that the account has reserved
	Risks        bool                 // what was observed of offerings counts when plans are compared
	Controllers  int                  // replicas of the controller on nodes that it manages; 0: it runs elsewhere
	Repairs      []cloud.Repair       // repair policies; none: nothing is repaired
	OldRepair    bool                 // repair as it was before it became a method of disruption
	RebootsHelp  float64              // share of reboots that make the node healthy
	NeverBack    float64              // share of machines that do not come back from one
	Detach       time.Duration        // of a volume at most
	Attachable   int32                // volumes of a machine at most
	Lag          [kinds]time.Duration // of the watch of each kind
	SlowWrites   time.Duration        // of a batch of claims at most
	PricesAfter  time.Duration        // after the start of a process they are read
	BuffersAfter time.Duration        // after the start of a process they can be read
	Boot         time.Duration        // of a machine at most
	PodStart     time.Duration        // of a pod at most
	Packs        bool                 // the scheduler prefers full nodes, which it does only if told to
	NeverJoins   float64              // share of machines that never do
	Health       bool                 // pools say whether their nodes register (LC-53), and are backed off if not
	Every        time.Duration        // between two passes of disruption; 0: ten seconds, as the controller has it
	Pass         time.Duration        // between two passes over an unchanged cluster

	FirstOnly bool              // a run ends with its first violation
	Log       func(line string) // nil: not logged
}

// Change is something that happens.
type Change struct {
	At   time.Duration // since the start
	What string
	Do   func(*World)
}

// Violation is a rule that was broken.
type Violation struct {
	Rule string // such as G5
	At   time.Duration
	Text string
}

// Result is how a run went.
type Result struct {
	Violations []Violation
	Stats      Stats
}

// Stats counts what happened.
type Stats struct {
	Passes    int // of disruption
	Commands  map[karpv1.DisruptionReason]int
	Removed   int // nodes that commands removed
	Rollbacks int
	Abandoned int // commands that validation stopped
	Launched  int
	Evicted   int // pods that drains ended
	Forced    int // pods that a deadline ended
	Crashes   int
	Sized     int       // claims for pools of fixed size
	Emptied   int       // nodes that went before their replacement came
	Reboots   int       // that the cloud accepted
	Unhealthy int       // unhealthy conditions of nodes
	Detached  int       // volumes that came off
	Nodes     int       // at the end
	Cost      float64   // at the end, USD an hour
	Spent     float64   // in all, USD
	Moves     []int     // voluntary commands by hour
	Costs     []float64 // at the end of each hour, USD an hour
	Fresh     float64   // what a new cluster for the same pods would cost, USD an hour
	Voluntary int       // pods that commands set out to move
}

// World is a run in progress.
type World struct {
	clock
	config Config
	rnd    *rand.Rand
	users  *rand.Rand // which pods users replace
	start  time.Time
	api    *api
	market *simCloud
	apps   map[string]*deployment

	overlays map[string]v1alpha1.NodeOverlay
	devices  deviceObjects

	pending    map[string]bool // pods without a node
	scheduling bool
	process    *process
	processes  int
	repairs    *disrupt.RepairSet
	ailments   *lifecycle.Ailments
	stores     bool                 // some pods have volumes
	denied     map[string]time.Time // pools whose claims admission denies, until when
	sticking   map[string]time.Time // volumes that do not come off, until when

	evictionsFail time.Time // until when the API server fails all evictions

	read      map[string]reading // claims, as decisions read them
	readPools map[*karpv1.NodePool]*karpv1.NodePool
	quiet     bool // nothing is done to the cluster any more
	replacing bool // a pod ends so that another one of its own size follows

	checks     checks
	stats      Stats
	violations []Violation
	lastCost   time.Time
}

// most is how many violations are kept: what follows the first is mostly its consequence.
const most = 5

// newWorld is a world in which nothing has happened yet.
func newWorld(c Config) *World {
	w := &World{
		config: c, rnd: rand.New(rand.NewPCG(c.Seed, 0x51b)), users: rand.New(rand.NewPCG(c.Seed, 0x05e7)), start: time.Date(2026, 11, 2, 6, 0, 0, 0, time.UTC),
		apps: map[string]*deployment{}, overlays: map[string]v1alpha1.NodeOverlay{}, pending: map[string]bool{}, stats: Stats{Commands: map[karpv1.DisruptionReason]int{}},
		denied: map[string]time.Time{}, sticking: map[string]time.Time{}, read: map[string]reading{}, readPools: map[*karpv1.NodePool]*karpv1.NodePool{},
		stores: slices.ContainsFunc(c.Apps, func(a App) bool { return a.Volumes > 0 }),
	}
	w.now, w.lastCost = w.start, w.start
	w.checks = newChecks(w)
	w.api, w.market = newAPI(w.changed), newSimCloud(w, c.Machines)
	return w
}

// Run lets a run happen.
func Run(c Config) Result {
	c.Steps = c.Steps.complete()
	w := newWorld(c)
	w.readRepairs()
	if c.Daemons {
		w.api.put(daemonSet(w))
	}
	if w.stores {
		w.api.put(storageClass())
	}
	for _, p := range c.Pools {
		w.putPool(p.DeepCopy())
	}
	w.openReservations()
	w.openOverlays()
	w.openDevices()
	w.boot()
	for _, a := range c.Apps {
		w.deploy(a)
	}
	w.deployController()
	for _, change := range c.Changes {
		w.after(change.At, func() {
			w.logf("%s", change.What)
			change.Do(w)
		})
	}
	w.every(30*time.Second, w.checks.checkCluster)
	w.every(time.Hour, func() { w.stats.Costs = append(w.stats.Costs, w.market.cost()) })
	w.play()
	w.spend()
	w.stats.Cost, w.stats.Nodes, w.stats.Fresh = w.market.cost(), len(w.market.running()), w.fresh()
	return Result{Violations: w.violations, Stats: w.stats}
}

// play lets things happen, then comes to rest. Code that panics has broken a rule too.
func (w *World) play() {
	defer func() {
		if cause := recover(); cause != nil {
			w.broken("no panic", "%v\n%s", cause, debug.Stack())
		}
	}()
	stop := func() bool { return len(w.violations) >= most || w.config.FirstOnly && len(w.violations) > 0 }
	w.runUntil(w.start.Add(w.config.Active), stop)
	w.endFaults()
	w.runUntil(w.start.Add(w.config.Active+w.config.Quiet), stop)
	if !stop() {
		w.checks.end()
	}
}

// endFaults ends all faults: from now on nothing is done to the cluster, and it comes to rest.
func (w *World) endFaults() {
	w.quiet = true
	w.logf("-- from now on nothing happens from outside --")
	clear(w.market.gone)
	w.market.failing, w.market.mute, w.market.small, w.market.refusing = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	clear(w.sticking)
	clear(w.denied)
	w.evictionsFail = time.Time{}
	for _, name := range w.api.nodeNames() {
		w.makeHealthy(name)
	}
	if w.process == nil {
		w.boot()
	}
	w.process.writesUntilCrash = 0
	w.process.stalled = [kinds]time.Time{}
}

func (w *World) every(d time.Duration, do func()) {
	w.after(d, func() {
		do()
		w.every(d, do)
	})
}

// changed is called with every write, and passes it on to the watches; those of the controller have a lag.
func (w *World) changed(obj, before client.Object, gone bool) {
	switch o := obj.(type) {
	case *corev1.Pod:
		w.podChanged(o, before, gone)
	case *corev1.Node:
		w.wakeScheduler()
		if gone {
			w.collect(o.Name)
			if slice := w.devices.slices[o.Name]; slice != nil {
				w.dropDevices(slice)
			}
			if csi := stored[*storagev1.CSINode](w.api, o.Name); csi != nil {
				w.api.drop(csi)
			}
		}
	}
	if w.process != nil {
		w.process.watch(obj, gone)
	}
	w.checks.changed(obj, before, gone)
}

func (w *World) podChanged(p *corev1.Pod, before client.Object, gone bool) {
	if delete(w.pending, p.Name); !gone && p.Spec.NodeName == "" {
		w.pending[p.Name] = true
	}
	w.wakeScheduler()
	w.controllerChanged(p, gone)
	d := w.apps[p.Labels["app"]]
	if d == nil {
		return
	}
	if d.Volumes > 0 {
		w.mount(p, before, gone)
	}
	w.claimsChange(d, p, before, gone)
	if old, was := before.(*corev1.Pod); d.Sizes != nil && was && old.DeletionTimestamp == nil && (gone || p.DeletionTimestamp != nil) && !w.replacing {
		d.like = append(d.like, p.Spec.Containers[0].Resources.Requests)
	}
	if gone {
		delete(d.pods, p.Name)
		d.left = w.now
	}
	if gone || p.DeletionTimestamp != nil {
		w.after(100*time.Millisecond, func() { w.fill(d) })
	}
	w.allow(d)
}

// collect removes the pods of a Node that is gone, as Kubernetes does.
func (w *World) collect(node string) {
	for _, p := range w.api.podsOn(node) {
		w.api.drop(p)
	}
}

// between is a time drawn from a range.
func (w *World) between(low, high time.Duration) time.Duration {
	if high <= low {
		return low
	}
	return low + time.Duration(w.rnd.Int64N(int64(high-low)))
}

// faulty draws whether a fault happens; none does once the run is quiet.
func (w *World) faulty(share float64) bool {
	return !w.quiet && share > 0 && w.rnd.Float64() < share
}

// logf writes a line of the log of a run.
func (w *World) logf(format string, args ...any) {
	if w.config.Log != nil {
		w.config.Log(fmt.Sprintf("%s  ", w.clockText()) + fmt.Sprintf(format, args...))
	}
}

// clockText is the time since the start.
func (w *World) clockText() string {
	d := w.now.Sub(w.start)
	return fmt.Sprintf("%02d:%02d:%06.3f", int(d.Hours()), int(d.Minutes())%60, (d % time.Minute).Seconds())
}

// broken notes that a rule was broken.
func (w *World) broken(rule, format string, args ...any) {
	v := Violation{Rule: rule, At: w.now.Sub(w.start), Text: fmt.Sprintf(format, args...)}
	w.violations = append(w.violations, v)
	w.logf("VIOLATION of %s: %s", rule, v.Text)
}

// spend adds up what machines cost since the last time.
func (w *World) spend() {
	w.stats.Spent += w.market.cost() * w.now.Sub(w.lastCost).Hours()
	w.lastCost = w.now
}
