package sim

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/api/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/overlay"
	"github.com/dovetail-sh/dovetail/internal/provision"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// widget is an extended resource that some machines have. The cloud does not say which: only NodeOverlays do.
const widget corev1.ResourceName = "example.com/widget"

// Overlay is a NodeOverlay of a run. Its requirements have operator In.
type Overlay struct {
	Object      v1alpha1.NodeOverlay
	From, Until time.Duration // when there is one, since the start; Until 0: for ever
}

// openOverlays has overlays come and go.
func (w *World) openOverlays() {
	set := func(o *Overlay, there bool) {
		name := o.Object.Name
		if w.logf("user: NodeOverlay %s is there: %v", name, there); there {
			w.overlays[name] = o.Object
		} else {
			delete(w.overlays, name)
		}
		if w.process != nil {
			w.process.overlaysChanged()
		}
	}
	for i := range w.config.Overlays {
		o := &w.config.Overlays[i]
		o.Object.UID = types.UID("overlay-" + o.Object.Name)
		if w.at(w.start.Add(o.From), func() { set(o, true) }); o.Until > 0 {
			w.at(w.start.Add(o.Until), func() { set(o, false) })
		}
	}
}

// overlaid is what a process knows of overlays.
type overlaid struct {
	state   overlay.State
	applied []v1alpha1.NodeOverlay           // by the rules, without the code of the controller
	pools   map[string]map[string]string     // labels of each
	checked map[string]*catalog.InstanceType // the last result of each pool
}

// overlaysChanged has the process evaluate overlays once nothing changes any more.
func (p *process) overlaysChanged() {
	if len(p.w.config.Overlays) == 0 {
		return
	}
	p.after(overlay.CollectFor+p.w.config.Lag[pools], func() {
		if p.synced {
			p.evaluateOverlays()
		}
	})
}

// evaluateOverlays makes the overlays that there are the ones that count.
func (p *process) evaluateOverlays() {
	var objects []v1alpha1.NodeOverlay
	for _, name := range sorted(p.w.overlays) {
		objects = append(objects, p.w.overlays[name])
	}
	e, known := overlay.Evaluation{Objects: objects}, map[string]map[string]string{}
	offers := p.w.market.offers() // not through the port: a launch may have called it
	for _, pool := range p.store.Pools() {
		if len(objects) > 0 {
			e.Pools = append(e.Pools, overlay.Pool{Name: pool.Name, Labels: pool.Spec.Template.ObjectMeta.Labels, Types: offers})
		}
		known[pool.Name] = pool.Spec.Template.ObjectMeta.Labels
	}
	e.Set, e.Verdicts = p.w.config.Steps.EvaluateOverlays(objects, e.Pools, p.store.Lanes(overlay.ResourceNames(objects)...), awsv1.Vocabulary())
	for _, v := range e.Verdicts {
		p.w.logf("controller: NodeOverlay %s is evaluated: %s%s", v.Name, v.Reason, v.Message)
	}
	swapped, replan := p.overlays.state.Swap(e)
	if p.overlays.pools = known; swapped {
		p.overlays.applied, p.overlays.checked = p.w.checks.acceptedOverlays(objects, sorted(known)), map[string]*catalog.InstanceType{}
	}
	if replan {
		p.store.RecordPriceChange()
		p.passed, p.planned = look{rev: -1}, look{rev: -1}
		p.requestPlan(provision.Retrigger)
	}
}

// overlay returns instance types as overlays make them for a pool.
func (p *process) overlay(pool *karpv1.NodePool, list []catalog.InstanceType) []catalog.InstanceType {
	if len(p.w.config.Overlays) == 0 {
		return list
	}
	if !p.overlays.state.Covers(pool.Name) {
		p.evaluateOverlays()
	}
	of := overlay.Pool{Name: pool.Name, Labels: pool.Spec.Template.ObjectMeta.Labels, Types: list}
	if p.overlays.state.Outdated(of) {
		p.overlaysChanged()
	}
	out := p.w.config.Steps.ApplyOverlays(&p.overlays.state, of)
	if p.overlays.checked[pool.Name] != &out[0] {
		p.overlays.checked[pool.Name] = &out[0]
		p.w.checks.overlaid(p, of, out)
	}
	return out
}

// launchable returns what a launch chooses from (OV-22), with the table of its resources.
func (p *process) launchable(claim *karpv1.NodeClaim, list []catalog.InstanceType) ([]catalog.InstanceType, resources.Table) {
	pool := p.w.api.pools[claim.Labels[karpv1.LabelNodePool]]
	if pool == nil || !p.synced {
		return list, p.w.market.lanes
	}
	if !p.overlays.state.Covers(pool.Name) {
		p.evaluateOverlays()
	}
	pool = p.w.effectivePool(pool)
	return p.w.config.Steps.LaunchTypes(&p.overlays.state, overlay.Pool{Name: pool.Name, Labels: pool.Spec.Template.ObjectMeta.Labels, Types: list}), p.overlays.state.Table()
}

// choice is a list of instance types that a launch chooses from.
type choice struct {
	types    []catalog.InstanceType // nil: without overlays
	table    resources.Table
	requests resources.Vec
}

// choiceOf is what the launch of a claim chooses from.
func (m *simCloud) choiceOf(claim *karpv1.NodeClaim) (c choice) {
	if len(m.w.config.Overlays) > 0 && m.w.process != nil {
		c.types, c.table = m.w.process.launchable(claim, m.offers())
		c.requests = c.table.Requests(claim.Spec.Resources.Requests)
	}
	return c
}

// price is that of an offering when a launch chooses; false: the machine does not have what the claim requests.
func (c *choice) price(machine string, o *catalog.Offering) (usd float64, fits bool) {
	for i := range c.types {
		t := &c.types[i]
		if t.Name != machine {
			continue
		}
		if has := t.Allocatable(); !resources.Fits(&c.requests, &has) {
			return 0, false
		}
		return priceOf(t, o.Zone, o.CapacityType, o.Reservation, o.Price), true
	}
	return o.Price, true
}

// widgets is how many widgets a launch takes a machine to have.
func (c *choice) widgets(machine string) int64 {
	lane, known := c.table.Lane(widget)
	for i := range c.types {
		if c.types[i].Name == machine && known {
			return c.types[i].Capacity.At(lane)
		}
	}
	return 0
}

// priceOf is the price of an offering of a type.
func priceOf(t *catalog.InstanceType, zone, capacityType, reservation string, unknown float64) float64 {
	for i := range t.Offerings {
		if o := &t.Offerings[i]; o.Zone == zone && o.CapacityType == capacityType && o.Reservation == reservation {
			return o.Price
		}
	}
	return unknown
}

// planCost is what all machines come to an hour for who plans: overlays change no bill, but what is worth a move.
func (w *World) planCost() float64 {
	if len(w.config.Overlays) == 0 || w.process == nil || !w.process.synced {
		return w.market.cost()
	}
	sum := 0.0
	for _, i := range w.market.running() {
		usd := i.price
		if pool := w.api.pools[i.pool]; pool != nil {
			for _, t := range w.process.overlay(w.effectivePool(pool), w.process.withRisk(w.market.offers())) {
				if t.Name == i.machine.Name {
					usd = priceOf(&t, i.zone, i.capacityType, i.reservation, i.price)
				}
			}
		}
		sum += usd
	}
	return sum
}

// overlays gives a run overlays of all manners, and pods that need one.
func (m *maker) overlays() {
	for i := range 1 + m.IntN(4) {
		o := Overlay{Object: v1alpha1.NodeOverlay{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("price%d", i)}}}
		in := func(key string, values ...string) {
			o.Object.Spec.Requirements = append(o.Object.Spec.Requirements, v1alpha1.Requirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values})
		}
		first := m.IntN(len(m.c.Machines))
		machine := m.c.Machines[first]
		switch m.IntN(4) {
		case 0:
			o.Object.Spec.Price = new(strconv.FormatFloat(machine.Price*pick(m, 0.3, 0.7, 1.5), 'f', 5, 64))
			in(corev1.LabelInstanceTypeStable, machine.Name)
		case 1:
			o.Object.Spec.PriceAdjustment = pick(m, new("+0.05"), new("-0.02"), new("+0.4"))
		default:
			o.Object.Spec.PriceAdjustment = pick(m, new("-30%"), new("+50%"), new("+7.5%"), new("-90%"))
		}
		if o.Object.Spec.Price == nil && m.chance(0.6) {
			var names []string
			for _, other := range m.c.Machines[first:min(first+4, len(m.c.Machines))] {
				names = append(names, other.Name)
			}
			in(corev1.LabelInstanceTypeStable, names...)
		}
		if m.chance(0.3) {
			in(corev1.LabelTopologyZone, pick(m, Zones()...))
		}
		if m.chance(0.4) {
			in(karpv1.LabelCapacityType, pick(m, karpv1.CapacityTypeSpot, karpv1.CapacityTypeOnDemand))
		}
		if m.chance(0.3) {
			in(karpv1.LabelNodePool, m.c.Pools[m.IntN(len(m.c.Pools))].Name)
		}
		o.Object.Spec.Weight = pick(m, nil, new(int32(10)), new(int32(10)), new(int32(20)))
		m.addOverlay(&o)
		m.c.Overlays = append(m.c.Overlays, o)
	}
	if m.chance(0.6) {
		m.widgets()
	}
}

// addOverlay draws when there is an overlay.
func (m *maker) addOverlay(o *Overlay) {
	if m.chance(0.5) {
		o.From = m.time(0, m.c.Active)
	}
	if m.chance(0.4) {
		o.Until = m.time(o.From, m.c.Active)
	}
}

func widgetsOf(n int64) resource.Quantity { return *resource.NewQuantity(n, resource.DecimalSI) }

// widgets gives machines of a family widgets, and an app that needs them. A while before things come to rest the overlay
// that says so is there for good.
func (m *maker) widgets() {
	family, _, _ := strings.Cut(pick(m, m.c.Machines...).Name, ".")
	o := Overlay{Object: v1alpha1.NodeOverlay{ObjectMeta: metav1.ObjectMeta{Name: "widgets"}}}
	need := v1alpha1.Requirement{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn}
	for i := range m.c.Machines {
		if name, _, _ := strings.Cut(m.c.Machines[i].Name, "."); name == family {
			m.c.Machines[i].Widgets = 4
			need.Values = append(need.Values, m.c.Machines[i].Name)
		}
	}
	o.Object.Spec.Requirements, o.Object.Spec.Capacity = []v1alpha1.Requirement{need}, corev1.ResourceList{widget: widgetsOf(4)}
	again := o
	o.Until = m.time(10*time.Minute, m.c.Active)
	again.From = o.Until
	if m.chance(0.5) {
		again.From = m.time(o.Until, m.c.Active)
	}
	again.Object.Name = "widgets-again"
	m.c.Overlays = append(m.c.Overlays, o, again)
	m.c.Apps = append(m.c.Apps, App{Name: "widgets", Replicas: 1 + m.IntN(6), Milli: pick(m, int64(100), 500), MiB: 512, Grace: 30, Widgets: 1 + int64(m.IntN(3))})
}

// ordersOverlaid checks that a claim for pending pods says whether overlays changed a type that it may be launched as
// (SC-50).
func (c *checks) ordersOverlaid(p *process, claim *karpv1.NodeClaim, n solve.NewNode) {
	if len(c.w.config.Overlays) == 0 || len(n.Types) == 0 {
		return
	}
	price, capacity := false, false
	for i := range c.w.market.machines {
		machine := &c.w.market.machines[i]
		if !slices.Contains(n.Types, machine.Name) {
			continue
		}
		for _, o := range c.offeringsOf(machine) {
			_, set := p.overlays.price(n.Pool, machine, &o)
			price = price || set
		}
		_, set := p.overlays.widgets(n.Pool, machine, c)
		capacity = capacity || set
	}
	said := func(key string) bool { return claim.Annotations[key] == "true" }
	if said(karpv1.AnnotationPriceOverlayApplied) != price || said(karpv1.AnnotationCapacityOverlayApplied) != capacity {
		c.w.broken("SC-50", "claim %s for types %v: overlays changed prices %v, capacity %v, its annotations: %v", claim.Name, n.Types, price, capacity, claim.Annotations)
	}
}

// overlaid checks the instance types of a pool against what the rules of overlays say (OV-11 to OV-16). It does not use
// the code of the controller.
func (c *checks) overlaid(p *process, pool overlay.Pool, out []catalog.InstanceType) {
	for i := range c.w.market.machines {
		machine, t := &c.w.market.machines[i], &out[i]
		for j := range t.Offerings {
			o := &pool.Types[i].Offerings[j]
			if want, _ := p.overlays.price(pool.Name, machine, o); math.Abs(want-t.Offerings[j].Price) > rounding {
				c.w.broken("overlay", "%s in %s, %s, costs $%.5f an hour in pool %s, with overlays $%.5f and not $%.5f", t.Name, o.Zone, o.CapacityType, o.Price, pool.Name, want, t.Offerings[j].Price)
			}
		}
		have := int64(0)
		if lane, known := p.overlays.state.Table().Lane(widget); known {
			have = t.Capacity.At(lane)
		}
		if want, _ := p.overlays.widgets(pool.Name, machine, c); want != have {
			c.w.broken("overlay", "%s has %d widgets in pool %s, with overlays %d", t.Name, have, pool.Name, want)
		}
	}
}

// annotated checks at the end of a run that a Node says of overlays what its claim says.
func (c *checks) annotated() {
	for _, name := range c.w.api.claimNames() {
		claim := c.w.api.claims[name]
		for _, node := range c.w.api.nodesOf(claim) {
			for _, key := range []string{karpv1.AnnotationPriceOverlayApplied, karpv1.AnnotationCapacityOverlayApplied} {
				if node.Labels[karpv1.LabelRegistered] == "true" && claim.Annotations[key] != node.Annotations[key] {
					c.w.broken("SC-50", "annotation %s of claim %s is %q, that of node %s %q", key, name, claim.Annotations[key], node.Name, node.Annotations[key])
				}
			}
		}
	}
}

// offeringsOf is all offerings of a machine.
func (c *checks) offeringsOf(machine *Machine) []catalog.Offering {
	list := c.w.market.reservedOffers(machine, Zones()...)
	for _, zone := range Zones() {
		list = append(list, machine.offers(zone)...)
	}
	return list
}

// acceptedOverlays are the overlays that are applied, in the order in which they win: an overlay that sets what an earlier one of
// the same weight sets is left out.
func (c *checks) acceptedOverlays(list []v1alpha1.NodeOverlay, pools []string) (out []v1alpha1.NodeOverlay) {
	weight := func(n *v1alpha1.NodeOverlay) int32 {
		if n.Spec.Weight == nil {
			return 0
		}
		return *n.Spec.Weight
	}
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b v1alpha1.NodeOverlay) int {
		return cmp.Or(cmp.Compare(weight(&b), weight(&a)), cmp.Compare(b.Name, a.Name))
	})
	for i := range list {
		if !slices.ContainsFunc(out, func(n v1alpha1.NodeOverlay) bool {
			return weight(&n) == weight(&list[i]) && c.conflict(&n, &list[i], pools)
		}) {
			out = append(out, list[i])
		}
	}
	return out
}

func (c *checks) conflict(a, b *v1alpha1.NodeOverlay, pools []string) bool {
	for _, pool := range pools {
		for i := range c.w.market.machines {
			machine := &c.w.market.machines[i]
			if len(a.Spec.Capacity) > 0 && len(b.Spec.Capacity) > 0 && overlayMatchesType(a, pool, machine, c) && overlayMatchesType(b, pool, machine, c) {
				return true
			}
			for _, s := range c.offeringsOf(machine) {
				if prices(a) && prices(b) && overlayMatches(a, pool, machine, &s) && overlayMatches(b, pool, machine, &s) {
					return true
				}
			}
		}
	}
	return false
}

func prices(n *v1alpha1.NodeOverlay) bool {
	return n.Spec.Price != nil || n.Spec.PriceAdjustment != nil
}

// overlayMatches reports whether an overlay is about an offering.
func overlayMatches(n *v1alpha1.NodeOverlay, pool string, machine *Machine, s *catalog.Offering) bool {
	is := map[string]string{corev1.LabelInstanceTypeStable: machine.Name, corev1.LabelTopologyZone: s.Zone, karpv1.LabelCapacityType: s.CapacityType, karpv1.LabelNodePool: pool}
	return !slices.ContainsFunc(n.Spec.Requirements, func(r v1alpha1.Requirement) bool { return !slices.Contains(r.Values, is[r.Key]) })
}

func overlayMatchesType(n *v1alpha1.NodeOverlay, pool string, machine *Machine, c *checks) bool {
	return slices.ContainsFunc(c.offeringsOf(machine), func(s catalog.Offering) bool { return overlayMatches(n, pool, machine, &s) })
}

// price is what overlays make of the price of an offering; set says whether one does.
func (o *overlaid) price(pool string, machine *Machine, s *catalog.Offering) (usd float64, set bool) {
	for _, n := range o.applied {
		if !prices(&n) || !overlayMatches(&n, pool, machine, s) {
			continue
		}
		if n.Spec.Price != nil {
			usd, _ = strconv.ParseFloat(*n.Spec.Price, 64)
			return usd, true
		}
		text, percent := strings.CutSuffix(*n.Spec.PriceAdjustment, "%")
		amount, _ := strconv.ParseFloat(text, 64)
		if percent {
			amount *= s.Price / 100
		}
		return max(0, s.Price+amount), true
	}
	return s.Price, false
}

// widgets is what overlays say of the widgets of a machine; set says whether one does.
func (o *overlaid) widgets(pool string, machine *Machine, c *checks) (n int64, set bool) {
	for _, of := range o.applied {
		if amount, has := of.Spec.Capacity[widget]; has && overlayMatchesType(&of, pool, machine, c) {
			return amount.Value(), true
		}
	}
	return 0, false
}
