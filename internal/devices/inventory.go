package devices

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// features are those that kube-scheduler has on by default.
var features = structured.Features{
	AdminAccess: true, ConsumableCapacity: true, DeviceBindingAndStatus: true, DeviceTaints: true,
	FractionalCapacityRange: true, PartitionableDevices: true, PrioritizedList: true,
}

// Inventory is the devices, classes and claims of a snapshot. It never changes, and several goroutines may use it. It is
// read when the first claim is examined: most plans have no pods with claims.
type Inventory struct {
	contents func() *contents
}

// contents is what an Inventory holds.
type contents struct {
	claims  map[string]*resourcev1.ResourceClaim // by namespace/name
	made    map[string]*resourcev1.ResourceClaim // for extended resources, of pods that are being bound
	specs   map[string]string                    // what a claim requests, by number: equal claims are interchangeable
	classes classLister
	local   map[string][]*resourcev1.ResourceSlice // of pools that an initialized node has devices of, by node
	shared  []*resourcev1.ResourceSlice            // of pools that several nodes can reach
	byLabel []reqs.Set                             // labels of nodes that can reach some of the shared ones
	leaving map[string]bool                        // claims that only pods use that leave their node
	at      map[string][]string                    // claims whose devices belong to a node that is not initialized, by node
	taken   structured.AllocatedState
	sets    []templateSet
	setOf   map[typeOfPool]int      // nothing for types without devices
	silent  map[driverOfPool]string // node that waits for a driver that does not publish, and no node of the pool has its devices
}

// driverOfPool is a driver on the nodes of a NodePool.
type driverOfPool struct{ pool, driver string }

// typeOfPool is an instance type of a NodePool.
type typeOfPool struct{ pool, name string }

// templateSet is what a node is expected to publish. Instance types with the same devices share one.
type templateSet struct {
	slices []*resourcev1.ResourceSlice
}

// newNode is the name under which the devices of a node that does not exist yet are looked at.
const newNode = "new-node"

// New reads what a snapshot knows of devices. moved are the pods that leave their nodes in a what-if. It returns nil if
// dynamic resource allocation is off.
func New(view *cluster.Snapshot, moved []cluster.Pod) *Inventory {
	if view == nil || view.Devices == nil {
		return nil
	}
	return &Inventory{contents: sync.OnceValue(func() *contents { return read(view, moved) })}
}

func read(view *cluster.Snapshot, moved []cluster.Pod) *contents {
	d := view.Devices
	inv := &contents{
		claims: make(map[string]*resourcev1.ResourceClaim, len(d.Claims)), specs: make(map[string]string, len(d.Claims)),
		classes: make(classLister, len(d.Classes)), local: map[string][]*resourcev1.ResourceSlice{},
		at: map[string][]string{}, setOf: map[typeOfPool]int{},
		taken: emptyState(),
	}
	for _, c := range d.Classes {
		inv.classes[c.Name] = c
	}
	initialized := map[string]bool{}
	for i := range view.Nodes {
		initialized[view.Nodes[i].Name] = view.Nodes[i].Initialized
	}
	inv.readSlices(d.Slices, initialized)
	inv.readClaims(d.Claims, initialized)
	inv.made = cluster.ExtendedClaims(d.Claims)
	inv.leaving = leavingClaims(view, moved, inv.claims)
	inv.readTemplates(view)
	inv.readSilent(view, d.Slices)
	inv.readLabels()
	return inv
}

// selectors are those that were compiled, for all plans: a selector means the same in each. The size bounds memory, not
// what can be evaluated.
var selectors = sync.OnceValue(func() *cel.Cache {
	const most = 1024
	return cel.NewCache(most, cel.Features{EnableConsumableCapacity: true})
})

// classLister finds classes for the allocator.
type classLister map[string]*resourcev1.DeviceClass

// List returns all classes, by name.
func (l classLister) List() ([]*resourcev1.DeviceClass, error) {
	list := make([]*resourcev1.DeviceClass, 0, len(l))
	// any order: sorted below
	for _, c := range l {
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b *resourcev1.DeviceClass) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// Get returns a class.
func (l classLister) Get(name string) (*resourcev1.DeviceClass, error) {
	if c, found := l[name]; found {
		return c, nil
	}
	return nil, apierrors.NewNotFound(resourcev1.Resource("deviceclasses"), name)
}

// poolID names a pool of devices.
type poolID struct{ driver, name string }

func poolOf(s *resourcev1.ResourceSlice) poolID { return poolID{s.Spec.Driver, s.Spec.Pool.Name} }

// readSlices sorts the published slices by who can reach them. All slices of a pool stay together: the allocator must
// see whether a pool is complete.
func (inv *contents) readSlices(list []*resourcev1.ResourceSlice, initialized map[string]bool) {
	var order []poolID
	pools := map[poolID][]*resourcev1.ResourceSlice{}
	for _, s := range list {
		id := poolOf(s)
		if pools[id] == nil {
			order = append(order, id)
		}
		pools[id] = append(pools[id], s)
	}
	for _, id := range order {
		var nodes []string
		wide := false
		for _, s := range pools[id] {
			switch name := s.Spec.NodeName; {
			case name == nil || *name == "":
				wide = wide || len(s.Spec.SharedCounters) == 0
			case initialized[*name] && !slices.Contains(nodes, *name):
				nodes = append(nodes, *name)
			}
		}
		if wide {
			inv.shared = append(inv.shared, pools[id]...)
		} else {
			for _, name := range nodes {
				inv.local[name] = append(inv.local[name], pools[id]...)
			}
		}
	}
}

// readClaims reads the claims, and which devices they hold.
func (inv *contents) readClaims(list []*resourcev1.ResourceClaim, initialized map[string]bool) {
	numbers := map[string]string{}
	for _, c := range list {
		key := c.Namespace + "/" + c.Name
		inv.claims[key] = c
		text, err := json.Marshal(c.Spec)
		if err != nil { // cannot happen: it was decoded
			text = []byte(key)
		}
		number, known := numbers[string(text)]
		if !known {
			number = strconv.Itoa(len(numbers))
			numbers[string(text)] = number
		}
		inv.specs[key] = number
		if c.Status.Allocation == nil {
			continue
		}
		take(&inv.taken, c.Status.Allocation.Devices.Results)
		if node := onlyNode(c.Status.Allocation.NodeSelector); node != "" {
			if ready, known := initialized[node]; known && !ready {
				inv.at[node] = append(inv.at[node], key)
			}
		}
	}
}

// onlyNode returns the node that a selector names; empty if it selects by labels.
func onlyNode(s *corev1.NodeSelector) string {
	if s == nil || len(s.NodeSelectorTerms) != 1 {
		return ""
	}
	for _, f := range s.NodeSelectorTerms[0].MatchFields {
		if f.Key == "metadata.name" && f.Operator == corev1.NodeSelectorOpIn && len(f.Values) == 1 {
			return f.Values[0]
		}
	}
	return ""
}

// leavingClaims returns the claims that are allocated and used only by pods that leave one node: pods of nodes that are
// being deleted, and moved ones. A claim whose users run on several nodes stays: not all of them may leave.
func leavingClaims(view *cluster.Snapshot, moved []cluster.Pod, claims map[string]*resourcev1.ResourceClaim) map[string]bool {
	from := map[string]string{} // node, by UID of a pod that leaves it
	moves := make(map[cluster.PodKey]bool, len(moved))
	for i := range moved {
		moves[moved[i].Key] = true
	}
	for i := range view.Nodes {
		n := &view.Nodes[i]
		for j := range n.Pods {
			if p := &n.Pods[j]; p.Shape != nil && len(p.Shape.Devices) > 0 && (p.Terminating || moves[p.Key] || n.Deleting && !p.Stays) {
				from[p.UID] = n.Name
			}
		}
	}
	for i := range moved { // their node is not in the view
		if p := &moved[i]; from[p.UID] == "" {
			from[p.UID] = "-"
		}
	}
	out := map[string]bool{}
	// any order: each is independent of the others
	for key, c := range claims {
		if c.Status.Allocation == nil || len(c.Status.ReservedFor) == 0 {
			continue
		}
		first := from[string(c.Status.ReservedFor[0].UID)]
		one := func(r resourcev1.ResourceClaimConsumerReference) bool { return from[string(r.UID)] == first }
		if first != "" && !slices.ContainsFunc(c.Status.ReservedFor, func(r resourcev1.ResourceClaimConsumerReference) bool { return !one(r) }) {
			out[key] = true
		}
	}
	return out
}

// take adds devices to those that are allocated.
func take(s *structured.AllocatedState, results []resourcev1.DeviceRequestAllocationResult) {
	for i := range results {
		r := &results[i]
		if r.AdminAccess != nil && *r.AdminAccess { // it takes nothing from others
			continue
		}
		id := structured.MakeDeviceID(r.Driver, r.Pool, r.Device)
		if r.ShareID == nil {
			s.AllocatedDevices.Insert(id)
			continue
		}
		s.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, r.ShareID))
		s.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, r.ConsumedCapacity))
	}
}

// giveBack is the reverse of take.
func giveBack(s *structured.AllocatedState, results []resourcev1.DeviceRequestAllocationResult) {
	for i := range results {
		r := &results[i]
		if r.AdminAccess != nil && *r.AdminAccess {
			continue
		}
		id := structured.MakeDeviceID(r.Driver, r.Pool, r.Device)
		if r.ShareID == nil {
			s.AllocatedDevices.Delete(id)
			continue
		}
		s.AllocatedSharedDeviceIDs.Delete(structured.MakeSharedDeviceID(id, r.ShareID))
		s.AggregatedCapacity.Remove(structured.NewDeviceConsumedCapacity(id, r.ConsumedCapacity))
	}
}

func emptyState() structured.AllocatedState {
	return structured.AllocatedState{
		AllocatedDevices: sets.New[structured.DeviceID](), AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity: structured.NewConsumedCapacityCollection(),
	}
}

func cloneState(s structured.AllocatedState) structured.AllocatedState {
	return structured.AllocatedState{
		AllocatedDevices: s.AllocatedDevices.Clone(), AllocatedSharedDeviceIDs: s.AllocatedSharedDeviceIDs.Clone(),
		AggregatedCapacity: s.AggregatedCapacity.Clone(),
	}
}

// readTemplates decides what each instance type of each pool is expected to publish: what a node of the same pool and
// type publishes, else a node of the type in any pool, else what the cloud says. It is decided driver by driver.
func (inv *contents) readTemplates(view *cluster.Snapshot) {
	seen := map[typeOfPool]map[string]catalog.DevicePool{}
	for i := range view.Nodes { // by name: the first of several counts
		n := &view.Nodes[i]
		if !n.Initialized || n.Deleting || n.InstanceType == "" {
			continue
		}
		pools := observed(inv.local[n.Name], n.Name)
		for _, at := range []typeOfPool{{n.Pool, n.InstanceType}, {"", n.InstanceType}} {
			for _, pool := range pools {
				if seen[at] == nil {
					seen[at] = map[string]catalog.DevicePool{}
				}
				if _, known := seen[at][pool.Driver]; !known {
					seen[at][pool.Driver] = pool
				}
			}
		}
	}
	ids := map[string]int{}
	for i := range view.Pools {
		p := &view.Pools[i]
		for j := range p.Types {
			t := &p.Types[j]
			everywhere, here := seen[typeOfPool{"", t.Name}], seen[typeOfPool{p.Name, t.Name}]
			if len(t.Devices)+len(everywhere)+len(here) == 0 {
				continue
			}
			drivers := map[string]catalog.DevicePool{}
			for _, pool := range t.Devices {
				drivers[pool.Driver] = pool
			}
			maps.Copy(drivers, everywhere)
			maps.Copy(drivers, here)
			inv.setOf[typeOfPool{p.Name, t.Name}] = inv.intern(drivers, ids)
		}
	}
}

// readSilent finds the drivers that are late on a node of a pool and have published devices for none of its initialized
// nodes. Further nodes would wait for them too.
func (inv *contents) readSilent(view *cluster.Snapshot, published []*resourcev1.ResourceSlice) {
	inv.silent = map[driverOfPool]string{}
	for i := range view.Nodes {
		n := &view.Nodes[i]
		if len(n.LateDrivers) == 0 || n.Deleting {
			continue
		}
		ready := CompleteDrivers(published, n.Name)
		for _, driver := range n.LateDrivers {
			at := driverOfPool{n.Pool, driver}
			if inv.silent[at] == "" && !slices.Contains(ready, driver) {
				inv.silent[at] = n.Name
			}
		}
	}
	if len(inv.silent) == 0 {
		return
	}
	for i := range view.Nodes {
		n := &view.Nodes[i]
		for _, s := range inv.local[n.Name] {
			delete(inv.silent, driverOfPool{n.Pool, s.Spec.Driver})
		}
	}
}

// intern returns the number of a set of templates.
func (inv *contents) intern(drivers map[string]catalog.DevicePool, ids map[string]int) int {
	text, err := json.Marshal(drivers) // keys are sorted
	if err != nil {                    // cannot happen: they were decoded, or written by us
		text = nil
	}
	if id, known := ids[string(text)]; known {
		return id
	}
	names := make([]string, 0, len(drivers))
	// any order: sorted below
	for name := range drivers {
		names = append(names, name)
	}
	slices.Sort(names)
	var s templateSet
	for _, name := range names {
		s.slices = append(s.slices, slicesOf(drivers[name])...)
	}
	ids[string(text)] = len(inv.sets)
	inv.sets = append(inv.sets, s)
	return len(inv.sets) - 1
}

// slicesOf writes a template as a driver would publish it.
func slicesOf(p catalog.DevicePool) []*resourcev1.ResourceSlice {
	var out []*resourcev1.ResourceSlice
	add := func(suffix string, fill func(*resourcev1.ResourceSliceSpec)) {
		name := newNode
		s := &resourcev1.ResourceSlice{}
		s.Name = newNode + "-" + p.Driver + suffix
		s.Spec = resourcev1.ResourceSliceSpec{Driver: p.Driver, NodeName: &name, Pool: resourcev1.ResourcePool{Name: newNode, Generation: 1}}
		fill(&s.Spec)
		out = append(out, s)
	}
	if len(p.Devices) > 0 {
		add("", func(s *resourcev1.ResourceSliceSpec) { s.Devices = p.Devices })
	}
	if len(p.Counters) > 0 {
		add("-counters", func(s *resourcev1.ResourceSliceSpec) { s.SharedCounters = p.Counters })
	}
	for _, s := range out {
		s.Spec.Pool.ResourceSliceCount = int64(len(out))
	}
	return out
}
