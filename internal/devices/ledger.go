package devices

import (
	"errors"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

// Ledger is which claims a plan in the making has allocated. Places are numbered by its owner. It belongs to one
// goroutine.
type Ledger struct {
	from      *Inventory
	inv       *contents // of it; nil while no claim was examined
	taken     structured.AllocatedState
	made      map[string]allocation // by claim
	templates map[int32][][]string  // claims that the template of a place serves, pod by pod
	refused   map[attempt]bool      // searches that failed: what is free only shrinks, so they fail again
	served    map[string]serving    // results of serves, by the set of templates and the claims
	tooHard   map[string]bool       // claims whose search was cut off, by what they request
	extended  map[string]extended   // claims for extended resources that are not made yet, by key
	history   []*Offer              // what was committed, for Undo
}

// attempt is a search on a node for what some claims request.
type attempt struct{ node, claims string }

// extended is a claim for extended resources, and what it requests.
type extended struct {
	claim *resourcev1.ResourceClaim
	spec  string
}

// allocation is a claim that the plan serves.
type allocation struct {
	place    int32 // the only one where it can be used; anywhere otherwise
	selector *corev1.NodeSelector
	results  []resourcev1.DeviceRequestAllocationResult // published devices; nil for a template
}

// anywhere is the place of an allocation that is not tied to one.
const anywhere int32 = -1

// serving is whether templates serve claims, by which drivers, and with which devices.
type serving struct {
	fits    bool
	drivers []string
	state   structured.AllocatedState
}

// Ledger returns the state before anything is planned. It is nil if the Inventory is.
func (inv *Inventory) Ledger() *Ledger {
	if inv == nil {
		return nil
	}
	return &Ledger{
		from: inv, made: map[string]allocation{}, templates: map[int32][][]string{},
		refused: map[attempt]bool{}, served: map[string]serving{}, tooHard: map[string]bool{},
		extended: map[string]extended{},
	}
}

// read reads the Inventory, unless that was done.
func (l *Ledger) read() {
	if l.inv == nil {
		l.inv = l.from.contents()
		l.taken = cloneState(l.inv.taken)
	}
}

// claim returns the claim of a key; nil if there is none. Pods with extended resources get theirs from kube-scheduler
// once it has found a node (DR-15).
func (l *Ledger) claim(key string) *resourcev1.ResourceClaim {
	if c := l.inv.claims[key]; c != nil {
		return c
	}
	e, known := l.extended[key]
	if !known {
		e.claim, e.spec = cluster.ExtendedClaim(key, l.inv.made)
		l.extended[key] = e
	}
	return e.claim
}

// spec says what the claim of a key requests: equal claims have the same.
func (l *Ledger) spec(key string) string {
	if spec, known := l.inv.specs[key]; known {
		return spec
	}
	l.claim(key)
	return l.extended[key].spec
}

// Clone returns an independent copy without what is planned for places from one on.
func (l *Ledger) Clone(from int32) *Ledger {
	if l == nil {
		return nil
	}
	c := *l
	c.history = nil
	c.taken, c.made, c.refused, c.tooHard = cloneState(l.taken), maps.Clone(l.made), maps.Clone(l.refused), maps.Clone(l.tooHard)
	c.extended = maps.Clone(l.extended)
	c.templates, c.served = maps.Clone(l.templates), maps.Clone(l.served)
	for place, list := range c.templates {
		c.templates[place] = slices.Clip(list)
	}
	maps.DeleteFunc(c.templates, func(place int32, _ [][]string) bool { return place >= from })
	maps.DeleteFunc(c.made, func(_ string, a allocation) bool { return a.place >= from })
	return &c
}

// Offer is a way to serve the claims of a pod at a place. It is valid until the next Commit.
type Offer struct {
	place  int32
	made   map[string]allocation
	wanted []string // claims that a template has to serve, together with those it serves already
}

// Template reports whether the pod needs devices of a node that is not initialized: Serves says which types have them.
func (o *Offer) Template() bool { return len(o.wanted) > 0 }

// OnNode finds devices for the claims of a pod on a node that exists. Of a node that is not initialized, every instance
// type that it can become must have them, besides those for claims of DaemonSets.
func (l *Ledger) OnNode(n *cluster.Node, place int32, daemons [][]string, claims []string, stop func() bool) (*Offer, *reason.Reason) {
	l.read()
	node := &spot{n.Name, n.Labels}
	if n.Pool != "" && !n.Initialized {
		o, why := l.onFutureNode(node, place, claims, stop)
		if why != nil || !o.Template() {
			return o, why
		}
		types := []string{n.InstanceType}
		if r, says := n.Needs[corev1.LabelInstanceTypeStable]; n.InstanceType == "" && says && !r.Not {
			types = r.Values
		}
		held := l.before(n)
		if len(held) > 0 {
			daemons = nil // their pods may be among those that have devices
		}
		for _, name := range types {
			if set, known := l.inv.setOf[typeOfPool{n.Pool, name}]; !known || !l.serves(o, held, daemons, set, stop).fits {
				return nil, l.Missing(claims)
			}
		}
		return o, nil
	}
	open, why := l.open(node, place, claims)
	if why != nil || len(open) == 0 {
		return &Offer{place: place}, why
	}
	local := l.inv.local[n.Name]
	if len(local)+len(l.inv.shared) == 0 {
		return nil, l.Missing(claims)
	}
	key := attempt{n.Name, l.textOf(open)}
	again := !slices.ContainsFunc(open, func(c string) bool { return l.inv.leaving[c] })
	if again && l.refused[key] {
		return nil, l.Missing(claims)
	}
	results, err := l.search(node.node(), open, slices.Concat(local, l.inv.shared), l.stateWithout(open), stop)
	if err != nil {
		return nil, l.failed(open, err)
	}
	if results == nil {
		if again {
			l.refused[key] = true
		}
		return nil, l.Missing(claims)
	}
	o := &Offer{place: place, made: map[string]allocation{}}
	for i, claim := range open {
		o.made[claim] = allocated(results[i], place, n.Name)
	}
	return o, nil
}

// allocated reads a result of the allocator.
func allocated(r resourcev1.AllocationResult, place int32, node string) allocation {
	a := allocation{place: anywhere, selector: r.NodeSelector, results: r.Devices.Results}
	if onlyNode(r.NodeSelector) == node {
		a.place = place
	}
	return a
}

// OnNewNode finds devices for the claims of a pod on a node that is to be launched, as far as they do not depend on its
// instance type. labels are those that it will certainly have.
func (l *Ledger) OnNewNode(place int32, labels map[string]string, claims []string, stop func() bool) (*Offer, *reason.Reason) {
	return l.onFutureNode(&spot{newNode, labels}, place, claims, stop)
}

// onFutureNode serves claims by devices that not only one node can reach, one by one, and leaves the rest to templates.
func (l *Ledger) onFutureNode(node *spot, place int32, claims []string, stop func() bool) (*Offer, *reason.Reason) {
	l.read()
	open, why := l.open(node, place, claims)
	if why != nil {
		return nil, why
	}
	o := &Offer{place: place, made: map[string]allocation{}}
	state := l.stateWithout(open)
	for _, claim := range open {
		var results []resourcev1.AllocationResult
		if len(l.inv.shared) > 0 {
			var err error
			at := &spot{newNode, node.labels} // what it publishes before it is initialized does not count
			if results, err = l.search(at.node(), []string{claim}, l.inv.shared, state, stop); err != nil {
				return nil, l.failed(open, err)
			}
		}
		if results == nil || !selects(results[0].NodeSelector, node) {
			o.made[claim] = allocation{place: place}
			o.wanted = append(o.wanted, claim)
			continue
		}
		o.made[claim] = allocated(results[0], place, newNode)
		take(&state, results[0].Devices.Results)
	}
	return o, nil
}

// Commit records that a pod is placed as an offer says.
func (l *Ledger) Commit(o *Offer) {
	if o == nil {
		return
	}
	// any order: claims are independent
	for claim, a := range o.made {
		if c := l.claim(claim); c.Status.Allocation != nil { // it leaves the devices that it had
			giveBack(&l.taken, c.Status.Allocation.Devices.Results)
		}
		l.made[claim] = a
		take(&l.taken, a.results)
	}
	if len(o.wanted) > 0 {
		l.templates[o.place] = append(l.templates[o.place], o.wanted)
	}
	l.history = append(l.history, o)
}

// Mark returns a point that Undo can go back to. It is no point of a clone.
func (l *Ledger) Mark() int {
	if l == nil {
		return 0
	}
	return len(l.history)
}

// Undo goes back to a point, unless it has done so already.
func (l *Ledger) Undo(mark int) {
	if l == nil || mark >= len(l.history) {
		return
	}
	for _, o := range slices.Backward(l.history[mark:]) {
		// any order: claims are independent
		for claim, a := range o.made {
			delete(l.made, claim)
			giveBack(&l.taken, a.results)
			if c := l.claim(claim); c.Status.Allocation != nil {
				take(&l.taken, c.Status.Allocation.Devices.Results)
			}
		}
		if len(o.wanted) > 0 {
			list := l.templates[o.place]
			l.templates[o.place] = list[: len(list)-1 : len(list)-1]
		}
	}
	l.history = l.history[:mark]
	clear(l.refused) // what was given back may serve now
}

// Seal keeps what is planned for places from one on, and lets the places be used for other nodes.
func (l *Ledger) Seal(from int32) {
	if l == nil {
		return
	}
	const elsewhere int32 = -2 // no place of this plan
	// any order: keys are independent
	for claim, a := range l.made {
		if a.place >= from {
			a.place = elsewhere
			l.made[claim] = a
		}
	}
	maps.DeleteFunc(l.templates, func(place int32, _ [][]string) bool { return place >= from })
	l.history = nil
}

// stateWithout is what is allocated, without what some claims hold that are about to be allocated anew.
func (l *Ledger) stateWithout(open []string) structured.AllocatedState {
	if !slices.ContainsFunc(open, func(c string) bool { return l.inv.leaving[c] }) && len(l.inv.shared) == 0 {
		return l.taken // the allocator only reads it
	}
	state := cloneState(l.taken)
	for _, claim := range open {
		if a := l.claim(claim).Status.Allocation; a != nil {
			giveBack(&state, a.Devices.Results)
		}
	}
	return state
}

// textOf says what claims request: claims that request the same have the same text.
func (l *Ledger) textOf(claims []string) string {
	if len(claims) == 1 {
		return l.spec(claims[0])
	}
	var b strings.Builder
	for _, c := range claims {
		b.WriteByte(0)
		b.WriteString(l.spec(c))
	}
	return b.String()
}

// Missing says that no free devices serve some claims, or that it is not known.
func (l *Ledger) Missing(claims []string) *reason.Reason {
	l.read()
	if l.tooHard[l.textOf(claims)] {
		return l.failed(claims, errTooHard)
	}
	return &reason.Reason{Code: reason.DevicesMissing, Subject: subjectOf(claims[0]), Have: claimsText(claims)}
}

// NoTypeServes says that no instance type of a pool serves some claims, or that their driver is silent there.
func (l *Ledger) NoTypeServes(claims []string, pool string) *reason.Reason {
	l.read()
	var silent []string
	// any order: sorted below
	for at := range l.inv.silent {
		if at.pool == pool {
			silent = append(silent, at.driver)
		}
	}
	if len(silent) == 0 {
		return l.Missing(claims)
	}
	slices.Sort(silent)
	return &reason.Reason{
		Code: reason.DeviceDriverSilent, Subject: subjectOf(claims[0]),
		Have: "driver " + silent[0], Want: "node " + l.inv.silent[driverOfPool{pool, silent[0]}],
	}
}

// claimsText names claims.
func claimsText(claims []string) string {
	if len(claims) == 1 {
		return "claim " + claims[0]
	}
	return "claims " + strings.Join(claims, ", ")
}

// failed says why a search gave no result. Its text is the allocator's: it names the claim and the selector at fault.
func (l *Ledger) failed(claims []string, err error) *reason.Reason {
	subject := subjectOf(claims[0])
	if errors.Is(err, errTooHard) || errors.Is(err, errStopped) {
		return &reason.Reason{Code: reason.DeviceSearchCut, Subject: subject, Have: claimsText(claims)}
	}
	return &reason.Reason{Code: reason.DeviceClaimUnusable, Subject: subject, Have: strings.Join(strings.Fields(err.Error()), " "), Want: "correct the claim or its DeviceClass"}
}

// search runs the allocator. nil without an error means that the devices do not suffice.
func (l *Ledger) search(node *corev1.Node, claims []string, published []*resourcev1.ResourceSlice, state structured.AllocatedState, stop func() bool) ([]resourcev1.AllocationResult, error) {
	text := l.textOf(claims)
	if l.tooHard[text] {
		return nil, errTooHard
	}
	list := make([]*resourcev1.ResourceClaim, len(claims))
	for i, key := range claims {
		list[i] = l.claim(key)
		if list[i].Status.Allocation != nil { // to be allocated anew
			fresh := *list[i]
			fresh.Status = resourcev1.ResourceClaimStatus{}
			list[i] = &fresh
		}
	}
	limit := &searchLimit{left: mostSteps, stop: stop}
	allocator, err := structured.NewAllocator(limit, features, state, l.inv.classes, published, selectors())
	if err != nil {
		return nil, err
	}
	results, err := allocator.Allocate(limit, node, list)
	switch {
	case limit.stopped:
		return nil, errStopped
	case limit.left < 0:
		l.tooHard[text] = true
		return nil, errTooHard
	case errors.Is(err, structured.ErrFailedAllocationOnNode):
		return nil, nil // only here; another node may do
	case err != nil:
		return nil, err
	case len(results) != len(claims):
		return nil, nil
	}
	return results, nil
}
