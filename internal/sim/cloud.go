package sim

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/risk"
)

// unavailableFor is how long an offering with insufficient capacity is left out of plans.
const unavailableFor = 3 * time.Minute

// simCloud is the cloud: its offerings and the instances that run. To the controller it is a cloud.Provider; the
// world around it does the rest.
type simCloud struct {
	w         *World
	mu        sync.Mutex // of calls through the port; a run makes one after the other
	lanes     resources.Table
	machines  []Machine
	instances map[types.UID]*instance // by the claim they were launched for
	byID      map[string]*instance
	order     []string             // of byID; nil: since it was put in order, some came or went
	gone      map[string]time.Time // offerings without capacity, until when
	known     map[string]time.Time // those of them that a launch has tried, until when
	failing   time.Time            // until when every launch fails
	small     time.Time            // until when machines come up with less than their type should have
	mute      time.Time            // until when the cloud does not respond to requests about instances
	refusing  time.Time            // until when it terminates no instance
	refusal   cloud.Error          // what it says instead
	types     []catalog.InstanceType
	reserved  []*reservation
	count     int
	notices   []notice // they wait until a process reads them
}

// instance is a machine.
type instance struct {
	id, claim    string
	pool, class  string // of the claim
	uid          types.UID
	machine      *Machine
	zone         string
	capacityType string
	reservation  string // that it runs in
	price        float64
	widgets      int64 // that the launch took it to have
	launched     time.Time
	ending, dead bool
	mute         bool // never joins
	small        bool // came up with less than its type should have
	hung         bool // its kubelet no longer reports
	boots        int
	node         string
}

func newSimCloud(w *World, machines []Machine) *simCloud {
	return &simCloud{
		w: w, lanes: lanesOf(machines), machines: slices.Clone(machines), reserved: open(w.config.Reserved), instances: map[types.UID]*instance{}, byID: map[string]*instance{},
		gone: map[string]time.Time{}, known: map[string]time.Time{},
	}
}

// lanesOf is a table with a lane for what some machines have.
func lanesOf(machines []Machine) resources.Table {
	if slices.ContainsFunc(machines, func(m Machine) bool { return m.Widgets > 0 }) {
		return resources.NewTable(widget)
	}
	return resources.NewTable()
}

// offers is what every pool could launch, as the controller knows it.
func (m *simCloud) offers() []catalog.InstanceType {
	// any order: each expires by itself
	for name, until := range m.known {
		if !m.w.now.Before(until) {
			delete(m.known, name)
			m.types = nil
		}
	}
	if m.types == nil {
		for i := range m.machines {
			t := m.machines[i].instanceType(m.lanes, func(offering string) bool { return !m.known[offering].IsZero() })
			t.Offerings = append(t.Offerings, m.reservedOffers(&m.machines[i], Zones()...)...)
			m.types = append(m.types, t)
		}
	}
	return m.types
}

// launch launches the instance of a claim, the cheapest that its requirements allow and that has capacity.
// It is idempotent: for the same claim it returns the same instance.
func (m *simCloud) launch(claim *karpv1.NodeClaim) (cloud.Instance, error) {
	if i := m.instances[claim.UID]; i != nil {
		return m.describe(i), nil
	}
	if m.w.now.Before(m.failing) {
		return cloud.Instance{}, outOfOrder("launch")
	}
	needs, _ := reqs.FromEntries(karpv1.Entries(claim.Spec.Requirements), awsv1.Vocabulary())
	allows := func(key, value string) bool { r, found := needs[key]; return !found || r.Has(value) }
	var best *instance
	cheapest, choice := 0.0, m.choiceOf(claim)
	for i := range m.machines {
		machine := &m.machines[i]
		if !allows(corev1.LabelInstanceTypeStable, machine.Name) {
			continue
		}
		for _, zone := range m.zones() {
			for _, o := range slices.Concat(machine.offers(zone), m.reservedOffers(machine, zone)) {
				if !allows(corev1.LabelTopologyZone, zone) || !allows(karpv1.LabelCapacityType, o.CapacityType) {
					continue
				}
				if o.Reservation != "" && !m.takeSlot(&o, allows) {
					continue
				}
				name := offering(machine.Name, zone, o.CapacityType)
				if m.w.now.Before(m.gone[name]) {
					m.runOut(name, machine.Name, zone, o.CapacityType)
					continue
				}
				price, fits := choice.price(machine.Name, &o)
				if fits && (best == nil || price < cheapest) {
					cheapest = price
					best = &instance{machine: machine, zone: zone, capacityType: o.CapacityType, reservation: o.Reservation, price: o.Price, widgets: choice.widgets(machine.Name)}
				}
			}
		}
	}
	if best == nil {
		return cloud.Instance{}, &cloud.Error{Kind: cloud.NoCapacity, Op: "launch", Err: errors.New("none of the offerings has capacity")}
	}
	m.start(best, claim)
	return m.describe(best), nil
}

// runOut tells the controller that an offering has no capacity.
func (m *simCloud) runOut(offering, machine, zone, capacityType string) {
	if news := m.known[offering].IsZero(); news && m.w.process != nil {
		m.w.process.recordRisk(risk.InsufficientCapacity, machine, zone, capacityType)
	}
	m.markUnavailable(offering)
}

// markUnavailable leaves an offering out of plans for a while.
func (m *simCloud) markUnavailable(offering string) {
	m.known[offering], m.types = m.w.now.Add(unavailableFor), nil
}

// zones are tried in this order. Where pods have volumes each launch begins with another one, so that volumes
// are everywhere.
func (m *simCloud) zones() []string {
	if !m.w.stores {
		return Zones()
	}
	first := m.count % len(Zones())
	return slices.Concat(Zones()[first:], Zones()[:first])
}

// start boots a machine that was launched; it joins later, or never.
func (m *simCloud) start(i *instance, claim *karpv1.NodeClaim) {
	m.count++
	i.id, i.claim, i.uid, i.launched = fmt.Sprintf(scheme+"%s/i-%04d", i.zone, m.count), claim.Name, claim.UID, m.w.now
	i.node, i.mute = fmt.Sprintf("node-%04d", m.count), m.w.faulty(m.w.config.NeverJoins)
	i.pool, i.class = claim.Labels[karpv1.LabelNodePool], claim.Spec.NodeClassRef.Name
	m.instances[claim.UID], m.byID[i.id], m.order = i, i, nil
	m.tookSlot(i)
	m.w.stats.Launched++
	m.w.logf("cloud: %s is launched for claim %s: %s in %s, %s", i.id, claim.Name, i.machine.Name, i.zone, i.capacityType)
	m.w.after(m.w.between(m.w.config.Boot/2, m.w.config.Boot), func() { m.join(i) })
}

func (m *simCloud) describe(i *instance) cloud.Instance {
	labels := i.machine.labels()
	if r := m.reservationOf(i.reservation); r != nil {
		maps.Copy(labels, r.labels())
	}
	capacity, allocatable := i.machine.capacity(), i.machine.allocatable()
	if i.widgets > 0 {
		capacity[widget], allocatable[widget] = widgetsOf(i.widgets), widgetsOf(i.widgets)
	}
	return cloud.Instance{
		ID: cloud.ID(i.id), Type: i.machine.Name, Zone: i.zone, CapacityType: i.capacityType, Labels: labels,
		Capacity: capacity, Allocatable: allocatable, Launched: i.launched, Terminating: i.ending, Pool: i.pool, Class: i.class, Claim: i.claim,
	}
}

// join has the kubelet of a machine make its Node.
func (m *simCloud) join(i *instance) {
	if i.ending || i.dead || i.mute {
		return
	}
	labels := i.machine.labels()
	labels[corev1.LabelHostname], labels[corev1.LabelTopologyZone] = i.node, i.zone
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: i.node, UID: m.w.api.uid("node"), Labels: labels, CreationTimestamp: metav1.NewTime(m.w.now)},
		Spec:       corev1.NodeSpec{ProviderID: i.id, Taints: []corev1.Taint{karpv1.UnregisteredTaint(), notReady()}},
		Status:     corev1.NodeStatus{Capacity: i.machine.capacity(), Allocatable: i.machine.allocatable(), Conditions: readiness(corev1.ConditionFalse, m.w.now)},
	}
	if i.small = m.w.now.Before(m.small); i.small {
		node.Status.Allocatable = amounts((i.machine.Milli-i.machine.CPULow)*2/3, (i.machine.MiB-i.machine.MiBLow)*2/3)
		node.Status.Allocatable[corev1.ResourcePods] = i.machine.allocatable()[corev1.ResourcePods]
	}
	node.Status.NodeInfo.BootID = i.boot()
	m.w.api.put(node)
	m.w.publish(node)
	m.w.runDaemons(i.node)
	m.w.after(m.w.between(time.Second, 10*time.Second), func() { m.w.setReady(i.node, true) })
	m.w.publishDevices(i)
	if i.machine.Widgets > 0 {
		m.w.after(m.w.between(time.Second, 30*time.Second), func() { m.w.publishWidgets(i) })
	}
}

// publishWidgets has a device plugin say what a machine has.
func (w *World) publishWidgets(i *instance) {
	if old := w.api.nodes[i.node]; old != nil {
		next := old.DeepCopy()
		next.Status.Capacity[widget], next.Status.Allocatable[widget] = widgetsOf(i.machine.Widgets), widgetsOf(i.machine.Widgets)
		w.api.put(next)
	}
}

// find returns an instance, unless the cloud does not respond.
func (m *simCloud) find(id string) (i *instance, sure bool) {
	if m.w.now.Before(m.mute) {
		return nil, false
	}
	return m.byID[id], true
}

// terminate ends an instance, which takes a while.
func (m *simCloud) terminate(i *instance) {
	if i.ending {
		return
	}
	i.ending = true
	m.w.logf("cloud: %s ends", i.id)
	m.w.after(m.w.between(5*time.Second, 30*time.Second), func() { m.removeInstance(i) })
}

// removeInstance removes an instance that was terminated, by any client.
func (m *simCloud) removeInstance(i *instance) {
	if i.dead {
		return
	}
	i.ending, i.dead = true, true
	delete(m.instances, i.uid)
	delete(m.byID, i.id)
	m.order = nil
	if i.reservation != "" {
		m.types = nil
	}
	m.w.setReady(i.node, false)
	m.w.controllerLost(i.node)
}

// interrupt takes a machine back: a notice now, the machine two minutes later.
func (m *simCloud) interrupt(i *instance) {
	m.w.logf("cloud: %s will be interrupted", i.id)
	m.notices = append(m.notices, notice{id: i.id})
	m.w.after(2*time.Minute, func() {
		m.w.checks.interrupted(i)
		m.removeInstance(i)
	})
}

// running lists the instances that run, in the order of their names.
func (m *simCloud) running() []*instance {
	var out []*instance
	if m.order == nil {
		m.order = sorted(m.byID)
	}
	for _, id := range m.order {
		if i := m.byID[id]; !i.ending {
			out = append(out, i)
		}
	}
	return out
}

// cost is what all machines come to an hour.
func (m *simCloud) cost() float64 {
	sum := 0.0
	for _, i := range m.running() {
		sum += i.price
	}
	return sum
}

func notReady() corev1.Taint {
	return corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}
}

func readiness(status corev1.ConditionStatus, now time.Time) []corev1.NodeCondition {
	return []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, Reason: "Kubelet", LastTransitionTime: metav1.NewTime(now)}}
}

// setReady has a kubelet report that its node is ready, or stop reporting.
func (w *World) setReady(name string, ready bool) {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	w.setStatus(name, status)
	if !ready {
		w.after(5*time.Minute, func() { w.abandon(name) })
	}
}

// setStatus sets condition Ready of a node, and the taint that belongs to it.
func (w *World) setStatus(name string, status corev1.ConditionStatus) {
	old, ready := w.api.nodes[name], status == corev1.ConditionTrue
	if old == nil {
		return
	}
	if i := w.market.byID[old.Spec.ProviderID]; ready && (i == nil || i.dead || i.hung) {
		return
	}
	n := old.DeepCopy()
	n.Status.Conditions = withCondition(n.Status.Conditions, readiness(status, w.now)[0])
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeNotReady })
	if !ready {
		n.Spec.Taints = append(n.Spec.Taints, notReady())
	}
	w.api.put(n)
}
