package solve

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// model is a Problem compiled: names became ids, requirements bits, quantities flat vectors. It is
// built once and then only read, except for memo tables that fill up as questions are asked; each
// solver therefore asks on its own goroutine only after the tables it needs are filled.
type model struct {
	problem Problem
	view    *cluster.Snapshot
	lanes   int      // of the snapshot, then one for each CSI driver
	drivers []string // sorted

	table    *reqs.Table
	relevant map[string]bool // keys that a pool, a pod or a topology mentions
	needs    []*need
	needIDs  map[string]int
	pins     map[pinKey]int // need that demands one value of a key

	tolerations []tolerations
	tolIDs      map[string]int
	taints      []taintSet
	taintIDs    map[string]int

	catalogues []*catalogue
	pools      []pool
	daemons    []daemon
	rooms      []*rooms

	nodes       []node
	signs       []sign // label signatures of nodes
	signIDs     map[string]int
	classes     []class
	profiles    []*profile
	profIDs     map[string]int
	labelSets   []labelSet // distinct (namespace, labels)
	wearerIDs   map[string]int
	shapeWear   map[*cluster.Shape]int
	groups      []*group
	groupIDs    map[string]int
	index       groupIndex
	hosts       map[hostKey]hostCount        // counts of host groups by bound pods
	claims      map[string]int               // claims that more than one pod uses
	softTaint   bool                         // some pool has a PreferNoSchedule taint (SC-14)
	aliases     map[string][]string          // canonical key → keys as written, sorted
	coming      map[[2]int][]int64           // what DaemonSets take of nodes with a signature and taints
	domains     []domains                    // by key of the table, as far as topologies use it
	reserves    []reserve                    // reservations, by id
	pods        []cluster.Pod                // to be placed: Problem.Pods, then Problem.Moved
	plannedPods map[plannedPlacement][]int32 // into pods, in queue order
}

// class is a set of pods that are interchangeable. Pods are placed as counts of a class.
type class struct {
	shape    *cluster.Shape
	moved    bool // from a node that would be removed: not onto settling or unready nodes
	wearer   int  // its labels
	req      []int64
	asks     []int   // lanes it asks for
	pods     []int32 // into model.pods, in queue order
	shared   []int   // claims that other pods use too
	variants []variant
}

// variant is one step of relaxation (SC-14): the profile in force after it.
type variant struct {
	profile int // -1: contradicts itself
	term    int // of Shape.Required in force
	step    int // of relaxation: those of one step are alternatives where volumes can be (SC-38)
}

// stepsPerLook is after how many steps of reading the clock is looked at.
const stepsPerLook = 512

// compile reads a problem, or returns nil once stop says that time is up: with many pods whose rules are long it
// takes a while. What it has in common with an earlier model, if there is one, is not read again.
func compile(p Problem, earlier *model, stop func() bool) *model {
	view := p.View
	if view == nil {
		view = &cluster.Snapshot{}
	}
	m := &model{
		problem: p, view: view,
		relevant: map[string]bool{}, needIDs: map[string]int{}, pins: map[pinKey]int{},
		tolIDs: map[string]int{}, taintIDs: map[string]int{}, signIDs: map[string]int{},
		profIDs: map[string]int{}, wearerIDs: map[string]int{},
		shapeWear: map[*cluster.Shape]int{}, groupIDs: map[string]int{}, hosts: map[hostKey]hostCount{}, claims: map[string]int{},
		aliases: map[string][]string{}, coming: map[[2]int][]int64{},
	}
	// any order: each list is sorted below
	for alias, canonical := range view.Words.Aliases {
		m.aliases[canonical] = append(m.aliases[canonical], alias)
	}
	// any order: each list is sorted by itself
	for _, list := range m.aliases {
		slices.Sort(list)
	}
	m.pods = p.Pods
	if len(p.Moved) > 0 {
		m.pods = slices.Concat(p.Pods, p.Moved)
	}
	m.readClasses()
	m.readLanes()
	if earlier == nil || !m.reuseModel(earlier) {
		m.readKeys()
		m.readCatalogues()
	}
	m.intern(reqs.Set{}) // need 0 asks for nothing
	m.readDaemons()
	m.readPools()
	m.readNodes()
	steps := 0
	late := func() bool { // problems of ordinary size are read in any case: then it can be said why pods have no place
		steps++
		return steps%stepsPerLook == 0 && stop != nil && stop()
	}
	if !m.readGroups(late) || !m.readProfiles(late) || !m.countBound(late) {
		return nil
	}
	m.readPlannedBinds()
	return m
}

// fork returns a model that can be asked on another goroutine: it has its own memo tables and shares
// the rest.
func (m *model) fork() *model {
	f := *m
	f.needs = make([]*need, len(m.needs))
	for i, n := range m.needs {
		c := *n
		c.masks, c.pools, c.signs = slices.Clone(n.masks), slices.Clone(n.pools), slices.Clone(n.signs)
		f.needs[i] = &c
	}
	f.tolerations = slices.Clone(m.tolerations)
	for i := range f.tolerations {
		f.tolerations[i].known = slices.Clone(m.tolerations[i].known)
	}
	f.catalogues = m.forkCatalogues()
	f.needIDs, f.pins, f.tolIDs = maps.Clone(m.needIDs), maps.Clone(m.pins), maps.Clone(m.tolIDs)
	f.labelSets, f.wearerIDs, f.shapeWear = slices.Clone(m.labelSets), maps.Clone(m.wearerIDs), maps.Clone(m.shapeWear)
	return &f
}

func (m *model) forkCatalogues() []*catalogue {
	list := make([]*catalogue, len(m.catalogues))
	for i, c := range m.catalogues {
		d := *c
		d.kinds, d.orders = nil, nil
		list[i] = &d
	}
	return list
}

// reuseModel takes over what moves do not change: the instance types, which take most of the time that reading takes, and
// the table of keys. It reports whether it could. Pods and labels are those of the earlier model or fewer.
func (m *model) reuseModel(earlier *model) bool {
	if !slices.Equal(m.drivers, earlier.drivers) || !slices.EqualFunc(m.view.Pools, earlier.view.Pools, func(a, b cluster.Pool) bool {
		return a.Name == b.Name && sameTypes(a.Types, b.Types)
	}) {
		return false
	}
	m.table, m.relevant, m.reserves, m.catalogues = earlier.table, earlier.relevant, earlier.reserves, earlier.forkCatalogues()
	return true
}

// readClasses folds the pods into classes, in the order in which they are placed (SC-16).
func (m *model) readClasses() {
	type id struct {
		shape *cluster.Shape
		moved bool
	}
	at := make(map[id]int32, min(len(m.pods), 1024))
	of, counts := make([]int32, len(m.pods)), []int32(nil) // class of each pod, pods of each class
	for i := range m.pods {
		of[i] = -1
		shape := m.pods[i].Shape
		if shape == nil {
			continue
		}
		key := id{shape, i >= len(m.problem.Pods)}
		k, known := at[key]
		if !known {
			k = int32(len(counts))
			at[key] = k
			counts = append(counts, 0)
		}
		of[i] = k
		counts[k]++
	}
	m.classes = make([]class, len(counts))
	slab := make([]int32, len(m.pods))
	for k, n := range counts {
		m.classes[k].pods, slab = slab[:0:n], slab[n:]
	}
	for i, k := range of {
		if k >= 0 {
			c := &m.classes[k]
			c.shape, c.moved, c.pods = m.pods[i].Shape, i >= len(m.problem.Pods), append(c.pods, int32(i))
		}
	}
	for k := range m.classes {
		if len(m.classes[k].pods) == 1 {
			continue
		}
		slices.SortFunc(m.classes[k].pods, func(a, b int32) int { return m.comparePods(&m.pods[a], &m.pods[b]) })
	}
	m.sortClasses()
}

// sortClasses puts the classes into the order of the queue. It sorts small keys: classes are large.
func (m *model) sortClasses() {
	type key struct {
		cpu, memory int64
		at          int
	}
	keys := make([]key, len(m.classes))
	for i := range m.classes {
		r := &m.classes[i].shape.Requests
		keys[i] = key{r.At(0), r.At(1), i}
	}
	slices.SortFunc(keys, func(a, b key) int {
		if a.cpu != b.cpu {
			return cmp.Compare(b.cpu, a.cpu)
		}
		if a.memory != b.memory {
			return cmp.Compare(b.memory, a.memory)
		}
		x, y := &m.classes[a.at], &m.classes[b.at]
		return cmp.Or(
			m.pods[x.pods[0]].Created.Compare(m.pods[y.pods[0]].Created),
			cmp.Compare(x.shape.Key, y.shape.Key),
			cmp.Compare(boolInt(x.moved), boolInt(y.moved)),
			m.comparePods(&m.pods[x.pods[0]], &m.pods[y.pods[0]]),
		)
	})
	sorted := make([]class, len(keys))
	for i, k := range keys {
		sorted[i] = m.classes[k.at]
	}
	m.classes = sorted
}

func (m *model) comparePods(a, b *cluster.Pod) int {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.UID, b.UID),
		cmp.Compare(a.Key.Namespace, b.Key.Namespace), cmp.Compare(a.Key.Name, b.Key.Name))
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// readLanes gives every CSI driver a lane of its own: attachments are a resource like any other, as
// long as no claim is shared.
func (m *model) readLanes() {
	seen, uses := map[string]bool{}, map[string]int{}
	note := func(s *cluster.Shape, times int) {
		if s == nil {
			return
		}
		for _, v := range s.Volumes {
			seen[v.Driver] = true
			uses[v.Claim] += times
		}
	}
	for _, c := range m.classes {
		note(c.shape, len(c.pods))
	}
	if len(seen) > 0 {
		placing := map[cluster.PodKey]bool{} // a pod on a node that goes does not share with itself
		for i := range m.pods {
			if s := m.pods[i].Shape; s != nil && len(s.Volumes) > 0 {
				placing[m.pods[i].Key] = true
			}
		}
		for i := range m.view.Nodes {
			for j := range m.view.Nodes[i].Pods {
				if p := &m.view.Nodes[i].Pods[j]; p.Shape != nil && len(p.Shape.Volumes) > 0 && !placing[p.Key] {
					note(p.Shape, 1)
				}
			}
		}
	}
	for d := range seen {
		m.drivers = append(m.drivers, d)
	}
	slices.Sort(m.drivers)
	m.lanes = m.view.Resources.Len() + len(m.drivers)
	shared := make([]string, 0, len(uses))
	for claim, n := range uses {
		if n > 1 {
			shared = append(shared, claim)
		}
	}
	slices.Sort(shared)
	for i, claim := range shared {
		m.claims[claim] = i
	}
	slab, asks := make([]int64, len(m.classes)*m.lanes), make([]int, 0, len(m.classes)*4)
	for k := range m.classes {
		c := &m.classes[k]
		c.req = slab[k*m.lanes : (k+1)*m.lanes : (k+1)*m.lanes]
		m.requests(c.req, c.shape)
		first := len(asks)
		for l, v := range c.req {
			if v != 0 {
				asks = append(asks, l)
			}
		}
		c.asks = asks[first:len(asks):len(asks)]
		for _, v := range c.shape.Volumes {
			if id, found := m.claims[v.Claim]; found {
				c.shared = append(c.shared, id)
			}
		}
	}
}

// requests flattens what a pod asks for, attachments included.
func (m *model) requests(req []int64, s *cluster.Shape) {
	base := m.view.Resources.Len()
	for l := range base {
		req[l] = max(0, s.Requests.At(l))
	}
	for _, v := range s.Volumes {
		req[base+m.driver(v.Driver)]++
	}
}

// driver returns the position of a driver, or -1 if no pod to be placed uses it.
func (m *model) driver(name string) int {
	at, found := slices.BinarySearch(m.drivers, name)
	if !found {
		return -1
	}
	return at
}

// readKeys builds the table of every key and value that matters to someone here.
func (m *model) readKeys() {
	b := reqs.NewBuilder(m.view.Words)
	add := func(s reqs.Set) {
		if len(s) == 0 {
			return
		}
		b.AddSet(s)
		for key := range s {
			m.relevant[key] = true
		}
	}
	for i := range m.view.Pools {
		add(m.view.Pools[i].Requirements)
	}
	shapes := make(map[*cluster.Shape]bool, len(m.classes))
	for _, c := range m.classes {
		m.addShape(c.shape, shapes, add)
	}
	for _, d := range m.view.Daemons {
		if d.Shape != nil {
			m.addShape(d.Shape, shapes, add)
		}
	}
	for i := range m.view.Nodes { // their anti-affinity binds others (SC-35)
		add(m.view.Nodes[i].Needs)
		for _, p := range m.view.Nodes[i].Pods {
			if p.Shape != nil && len(p.Shape.AntiAffinity) > 0 {
				for _, t := range p.Shape.AntiAffinity {
					m.relevant[t.Key] = true
				}
			}
		}
	}
	delete(m.relevant, corev1.LabelHostname) // its domains are the nodes themselves
	m.addValues(b)
	m.table = b.Build()
}

func (m *model) addShape(s *cluster.Shape, seen map[*cluster.Shape]bool, add func(reqs.Set)) {
	if seen[s] {
		return
	}
	seen[s] = true
	for _, r := range s.Required {
		add(r)
	}
	for _, p := range s.Preferred {
		add(p.Needs)
	}
	for _, z := range s.Zones {
		add(z)
	}
	for _, t := range s.Spread {
		m.relevant[t.Key] = true
	}
	for _, t := range s.Affinity {
		m.relevant[t.Key] = true
	}
	for _, t := range s.AntiAffinity {
		m.relevant[t.Key] = true
	}
}

// addValues adds what types, offerings and nodes have of the keys that matter.
func (m *model) addValues(b *reqs.Builder) {
	// any order: the builder sorts keys and values
	for key := range m.relevant {
		b.AddValues(key)
	}
	for i := range m.view.Pools {
		if i > 0 && sameTypes(m.view.Pools[i].Types, m.view.Pools[i-1].Types) {
			continue
		}
		for t := range m.view.Pools[i].Types {
			it := &m.view.Pools[i].Types[t]
			// any order: the builder sorts keys and values
			for key, r := range it.Labels {
				if m.relevant[key] {
					b.AddValues(key, r.Values...)
				}
			}
			for o := range it.Offerings {
				for _, l := range offeringLabels(&it.Offerings[o]) {
					if m.relevant[l.key] {
						b.AddValues(l.key, l.value)
					}
				}
			}
		}
	}
	for i := range m.view.Nodes {
		// any order: the builder sorts keys and values
		for key, value := range m.view.Nodes[i].Labels {
			if canonical := m.view.Words.Canonical(key); m.relevant[canonical] {
				b.AddValues(canonical, m.view.Words.Value(canonical, value))
			}
		}
	}
}

// appendKey writes text with a separator that no label contains.
func appendKey(b *strings.Builder, parts ...string) {
	size := len(parts)
	for _, p := range parts {
		size += len(p)
	}
	b.Grow(size)
	for _, p := range parts {
		b.WriteString(p)
		b.WriteByte(0)
	}
}
