package invariant

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu"
)

// Rule names an invariant.
type Rule string

// The rules that are checked.
const (
	G1  Rule = "G1"  // one instance per claim, one claim per instance
	G2  Rule = "G2"  // orphans go, and what is not ours is not touched
	G3  Rule = "G3"  // the finalizer goes after the instance
	G4  Rule = "G4"  // nothing is disrupted by who does not see
	G5  Rule = "G5"  // budgets hold
	G6  Rule = "G6"  // protected pods stay until the deadline
	G7  Rule = "G7"  // no taint is left over
	G8  Rule = "G8"  // no pod has two claims
	G10 Rule = "G10" // limits hold
	G11 Rule = "G11" // a launch may be repeated
	G12 Rule = "G12" // no hot loop (G9 shows the same way)
	G13 Rule = "G13" // what is stuck says so
)

// Options of a checker. Only Cluster is required.
type Options struct {
	Cluster string // whose instances are ours, by their tag
	Role    string // of the controller in AWS; calls with other keys are not its own; empty: all are
	Limits  Limits
}

// Limits are how long things may take. The zero value means those of the specification.
type Limits struct {
	Rest      time.Duration // until the world counts as being at rest: 3 min
	Orphan    time.Duration // that an instance without a claim may live: 30 s and a round of the collector
	Taint     time.Duration // that a leftover taint may stay: a pass of 10 s, twice
	WatchLag  time.Duration // that watches may lag behind each other: 2 s
	Visible   time.Duration // until something stuck must say so: 5 min
	Explained time.Duration // until a drain must name the pods that hold it: 2 min, of which it may need one to say something new
	Rate      float64       // calls per second for one object: 10
}

func (l Limits) withDefaults() Limits {
	set := func(d *time.Duration, byDefault time.Duration) {
		if *d == 0 {
			*d = byDefault
		}
	}
	set(&l.Rest, 3*time.Minute)
	set(&l.Orphan, 160*time.Second)
	set(&l.Taint, 20*time.Second)
	set(&l.WatchLag, 2*time.Second)
	set(&l.Visible, 5*time.Minute)
	set(&l.Explained, 2*time.Minute)
	if l.Rate == 0 {
		l.Rate = 10
	}
	return l
}

// Violation is an invariant that did not hold.
type Violation struct {
	Rule      Rule
	At        time.Time
	Object    string   // kind and name
	Pool      string   // of the object, if it has one
	Namespace string   // of the object, if it has one
	What      string   // in one sentence
	History   []string // of the object, oldest first
}

// Error renders the violation with its history.
func (v *Violation) Error() string {
	text := fmt.Sprintf("%s does not hold at %s: %s: %s", v.Rule, v.At.Format(clockFormat), v.Object, v.What)
	if len(v.History) > 0 {
		text += "\n  " + strings.Join(v.History, "\n  ")
	}
	return text
}

const clockFormat = "15:04:05.000"

// Kind of a change.
type Kind int

// Kinds of changes.
const (
	Set     Kind = iota // added or changed
	Removed             // gone
)

// Checker is safe for use by many goroutines.
type Checker struct {
	options Options

	mu         sync.Mutex
	violations []*Violation
	seen       map[string]bool // of what was reported, so that it is reported once
	excused    []excuse
	faults     int       // in force
	disturbed  time.Time // last fault, or its end
	since      map[string]time.Time
	history    map[string][]string

	claims    map[string]*claim // by name
	nodes     map[string]*corev1.Node
	pods      map[types.UID]*pod
	budgets   map[types.NamespacedName]*policyv1.PodDisruptionBudget
	pools     map[string]*karpv1.NodePool
	buffers   map[types.UID]int32 // for how many pods room was kept at most
	events    map[string]bool     // kind, namespace and name of objects that an event is about
	instances map[string]awsemu.InstanceView
	rates     map[string][]time.Time
	matching  matching
	suspects  []suspect
	holds     []hold

	blind      int       // tests that keep the controller from seeing
	blindSince time.Time // the last one began
}

// claim is a NodeClaim and when it was first seen.
type claim struct {
	*karpv1.NodeClaim

	seen    time.Time
	judged  bool                // by G8
	launch  bool                // its capacity was counted by G10
	atBirth corev1.ResourceList // limits of its pool when it was first seen
}

// pod is a Pod, also for a while after it is gone.
type pod struct {
	*corev1.Pod

	wanted time.Time // last time that it needed a place
	ending time.Time // when it began to go; zero before
	gone   time.Time // zero while it is there
}

// excuse is a violation that a test brings about itself.
type excuse struct {
	rule   Rule
	object string
}

// New returns a checker that has seen nothing.
func New(o Options) *Checker {
	o.Limits = o.Limits.withDefaults()
	return &Checker{
		options: o, seen: map[string]bool{}, since: map[string]time.Time{}, history: map[string][]string{},
		claims: map[string]*claim{}, nodes: map[string]*corev1.Node{}, pods: map[types.UID]*pod{},
		budgets: map[types.NamespacedName]*policyv1.PodDisruptionBudget{}, pools: map[string]*karpv1.NodePool{}, buffers: map[types.UID]int32{}, events: map[string]bool{},
		instances: map[string]awsemu.InstanceView{}, rates: map[string][]time.Time{}, matching: newMatching(),
	}
}

// Violations returns what did not hold so far, oldest first.
func (c *Checker) Violations() []*Violation {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.violations)
}

// Of returns the violations that concern a pool or a namespace, and those that concern no pool at all.
func (c *Checker) Of(pool, namespace string) []*Violation {
	return slices.DeleteFunc(c.Violations(), func(v *Violation) bool {
		mine := v.Pool == pool && pool != "" || v.Namespace == namespace && namespace != ""
		return !mine && (v.Pool != "" || v.Namespace != "")
	})
}

// Knows reports whether a pod was seen: what happens to one before that is not judged.
func (c *Checker) Knows(pod types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pods[pod] != nil
}

// Excuse keeps a rule from being reported for objects whose kind and name hold a text: the test breaks
// it on purpose, such as with a finalizer that it removes by hand.
func (c *Checker) Excuse(rule Rule, object string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.excused = append(c.excused, excuse{rule, object})
}

// Disturb says that a fault is in force, or a controller is down, until the function that it returns is
// called. Rules about what must have happened by now begin to count anew when all is well again.
func (c *Checker) Disturb(at time.Time) (calm func(time.Time)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults++
	c.disturbed = at
	var once sync.Once
	return func(at time.Time) {
		once.Do(func() { c.endDisturbance(at) })
	}
}

func (c *Checker) endDisturbance(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults--
	c.disturbed = at
}

// Object processes an object that changed or was deleted.
func (c *Checker) Object(at time.Time, kind Kind, obj client.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch o := obj.(type) {
	case *karpv1.NodeClaim:
		c.claimChanged(at, kind, o)
	case *karpv1.NodePool:
		if kind == Removed {
			delete(c.pools, o.Name)
		} else {
			c.pools[o.Name] = o
		}
	case *corev1.Node:
		c.nodeChanged(at, kind, o)
	case *corev1.Pod:
		c.podChanged(at, kind, o)
	case *policyv1.PodDisruptionBudget:
		key := client.ObjectKeyFromObject(o)
		if kind == Removed {
			delete(c.budgets, key)
		} else {
			c.budgets[key] = o
		}
	case *autoscalingv1beta1.CapacityBuffer:
		if n := o.Status.Replicas; n != nil {
			c.buffers[o.UID] = max(c.buffers[o.UID], *n)
		}
	case *eventsv1.Event:
		c.eventSeen(at, kind, o)
	}
}

// Advance judges what only time shows. Call it every second or so.
func (c *Checker) Advance(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.checkInstances(at)
	c.checkDuplicateInstances(at)
	c.checkTaints(at)
	c.checkBudgets(at)
	c.checkDemand(at)
	c.checkSuspects(at)
	c.checkVisible(at)
	c.dropOldState(at)
}

// reportViolation keeps a violation, once for a rule and an object.
func (c *Checker) reportViolation(v Violation) {
	for _, e := range c.excused {
		if e.rule == v.Rule && strings.Contains(v.Object, e.object) {
			return
		}
	}
	key := string(v.Rule) + " " + v.Object
	if c.seen[key] {
		return
	}
	c.seen[key] = true
	v.History = slices.Clone(c.history[v.Object])
	c.violations = append(c.violations, &v)
}

// recordHistory adds a line to the history of an object, unless it says what the last one said.
func (c *Checker) recordHistory(at time.Time, object, text string) {
	const longest = 40
	lines := c.history[object]
	if n := len(lines); n > 0 && strings.HasSuffix(lines[n-1], " "+text) {
		return
	}
	lines = append(lines, at.Format(clockFormat)+" "+text)
	c.history[object] = lines[max(0, len(lines)-longest):]
}

// heldFor says for how long something has held without a break and without a disturbance.
func (c *Checker) heldFor(at time.Time, what string, holds bool) time.Duration {
	if !holds {
		delete(c.since, what)
		return 0
	}
	began, known := c.since[what]
	if !known {
		began = at
		c.since[what] = at
	}
	if c.faults > 0 {
		return 0
	}
	if c.disturbed.After(began) {
		began = c.disturbed
	}
	return at.Sub(began)
}
