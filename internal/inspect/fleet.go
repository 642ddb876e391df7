package inspect

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// HoursPerMonth is what prices an hour are multiplied with for prices a month.
const HoursPerMonth = 730

// Fleet is the nodes of a cluster with what they cost, and the pods that wait for one.
type Fleet struct {
	At      time.Time `json:"at"`
	Totals  Totals    `json:"totals"`
	Pools   []Pool    `json:"pools"`            // by name; nodes that belong to none are under the empty name
	Nodes   []Node    `json:"nodes"`            // by name
	Pending []Pending `json:"pending"`          // by namespace and name
	Source  string    `json:"source,omitempty"` // what the response was read from: "leader NAME", "objects", or "snapshot NAME"
	Notes   []string  `json:"notes,omitempty"`  // what could not be read, and what the response lacks because of it
}

// Totals sum up some nodes.
type Totals struct {
	Nodes    int            `json:"nodes"`
	Pods     int            `json:"pods"`               // on them, those of DaemonSets included
	Hourly   float64        `json:"hourly"`             // USD, of those whose price is known
	Unpriced int            `json:"unpriced,omitempty"` // nodes whose price is not known
	Bound    float64        `json:"bound,omitempty"`    // USD an hour: no nodes that hold these pods cost less; 0: not known
	Use      map[string]Use `json:"use"`                // by resource
}

// Use is how much of a resource is requested. CPU is in thousandths of a core, memory in bytes.
type Use struct {
	Requested   int64 `json:"requested"` // by all pods
	Daemons     int64 `json:"daemons"`   // by those of DaemonSets among them
	Allocatable int64 `json:"allocatable"`
}

// Share is how much is requested of what pods can use, from 0 to 1.
func (u Use) Share() float64 {
	if u.Allocatable <= 0 {
		return 0
	}
	return float64(u.Requested) / float64(u.Allocatable)
}

// Pool is a NodePool with what it has.
type Pool struct {
	Name   string  `json:"name"`
	Totals Totals  `json:"totals"`
	Weight int32   `json:"weight,omitempty"`
	Closed string  `json:"closed,omitempty"` // why nothing is launched from it
	Limits []Limit `json:"limits,omitempty"`
}

// Limit is what remains of a limit of a NodePool.
type Limit struct {
	Resource  string `json:"resource"`
	Remaining int64  `json:"remaining"` // in the unit of Use; negative: exceeded
}

// State is how far a node has come.
type State string

// States, in order.
const (
	Launching    State = "Launching"    // only a NodeClaim so far
	Initializing State = "Initializing" // its Node has joined, but is not initialized
	Ready        State = "Ready"
	NotReady     State = "NotReady"
	Removing     State = "Removing" // part of a command, or terminating
)

// Node is a node, or a NodeClaim that will become one.
type Node struct {
	Name         string         `json:"name"`
	Claim        string         `json:"claim,omitempty"`
	Pool         string         `json:"pool,omitempty"` // empty: Dovetail does not manage it
	State        State          `json:"state"`
	InstanceType string         `json:"instanceType,omitempty"`
	Zone         string         `json:"zone,omitempty"`
	CapacityType string         `json:"capacityType,omitempty"`
	Created      *time.Time     `json:"created,omitempty"` // of the NodeClaim, or of a Node that is not managed; absent: not known
	Price        *float64       `json:"price,omitempty"`   // USD an hour; absent: not known
	Use          map[string]Use `json:"use"`               // by resource
	Pods         int            `json:"pods"`
	Moving       []string       `json:"moving,omitempty"`  // of a node that is removed: pods that still have to leave, namespace/name
	Drift        string         `json:"drift,omitempty"`   // why it has drifted
	Blocked      *Finding       `json:"blocked,omitempty"` // what keeps it until a user acts
}

// Pending is a pod without a node.
type Pending struct {
	Pod     string    `json:"pod"` // namespace/name
	Since   time.Time `json:"since"`
	Why     []Finding `json:"why,omitempty"`     // why it is not planned for; empty if that is not known or a node is planned
	Planned string    `json:"planned,omitempty"` // node or NodeClaim that it is expected on
}

// FleetOf lists the nodes of a cluster. It makes no plan, so that it is quick: why pods are pending, and the bound, are for
// the caller to add.
func FleetOf(c *Cluster) Fleet {
	v, snapshot := &c.View, c.View.Cluster
	f := Fleet{At: v.Now, Pools: []Pool{}, Nodes: make([]Node, 0, len(snapshot.Nodes)), Pending: []Pending{}}
	managed := make(map[string]*cluster.ManagedNode, len(v.Nodes))
	for i := range v.Nodes {
		managed[v.Nodes[i].Claim] = &v.Nodes[i]
	}
	blocked := disrupt.PersistentBlocks(*v)
	pools := map[string]*Pool{}
	for i := range snapshot.Pools {
		p := &snapshot.Pools[i]
		pools[p.Name] = &Pool{Name: p.Name, Weight: p.Weight, Closed: p.ClosedBy, Limits: limitsOf(p)}
	}
	for i := range snapshot.Nodes {
		n := nodeOf(&snapshot.Nodes[i], managed, snapshot.Resources)
		if why, held := blocked[n.Claim]; held && n.State != Removing {
			n.Blocked = &findings([]reason.Reason{why}, why.Subject)[0]
		}
		f.Nodes = append(f.Nodes, n)
		f.Totals.add(&n)
		if pools[n.Pool] == nil {
			pools[n.Pool] = &Pool{Name: n.Pool}
		}
		pools[n.Pool].Totals.add(&n)
	}
	for _, name := range slices.Sorted(maps.Keys(pools)) {
		f.Pools = append(f.Pools, *pools[name])
	}
	planned := map[cluster.PodKey]string{}
	for _, b := range v.PlannedBinds {
		planned[b.Pod] = b.Node
	}
	for i := range snapshot.Pending {
		p := &snapshot.Pending[i]
		f.Pending = append(f.Pending, Pending{Pod: p.Key.String(), Since: p.Created, Planned: planned[p.Key]})
	}
	for i := range c.Ignored {
		p, why := &c.Ignored[i], []Finding{}
		for _, r := range p.Shape.Invalid {
			why = append(why, FindingOf(r))
		}
		f.Pending = append(f.Pending, Pending{Pod: p.Key.String(), Since: p.Created, Why: why})
	}
	slices.SortFunc(f.Pending, func(a, b Pending) int { return cmp.Compare(a.Pod, b.Pod) })
	return f
}

func limitsOf(p *cluster.Pool) []Limit {
	var out []Limit
	for _, l := range p.Limits {
		out = append(out, Limit{Resource: string(l.Resource), Remaining: l.Remaining})
	}
	if p.NodeLimit != nil {
		out = append(out, Limit{Resource: "nodes", Remaining: *p.NodeLimit})
	}
	return out
}

// Subjects lists what can be explained of a Fleet: of pods, it has those that are pending.
func (f *Fleet) Subjects() []Subject {
	var out []Subject
	for i := range f.Pending {
		namespace, name, _ := strings.Cut(f.Pending[i].Pod, "/")
		out = append(out, Subject{Kind: KindPod, Namespace: namespace, Name: name})
	}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if n.State != Launching {
			out = append(out, Subject{Kind: KindNode, Name: n.Name})
		}
		if n.Claim != "" {
			out = append(out, Subject{Kind: KindNodeClaim, Name: n.Claim})
		}
	}
	for i := range f.Pools {
		if name := f.Pools[i].Name; name != "" {
			out = append(out, Subject{Kind: KindNodePool, Name: name})
		}
	}
	return out
}

// add adds a node.
func (t *Totals) add(n *Node) {
	t.Nodes++
	t.Pods += n.Pods
	if n.Price == nil {
		t.Unpriced++
	} else {
		t.Hourly += *n.Price
	}
	if t.Use == nil {
		t.Use = map[string]Use{}
	}
	// any order: integers are added up
	for name, u := range n.Use {
		sum := t.Use[name]
		t.Use[name] = Use{sum.Requested + u.Requested, sum.Daemons + u.Daemons, sum.Allocatable + u.Allocatable}
	}
}

func nodeOf(n *cluster.Node, managed map[string]*cluster.ManagedNode, table resources.Table) Node {
	out := Node{
		Name: n.Name, Claim: n.Claim, Pool: n.Pool, State: Ready, InstanceType: n.InstanceType, Zone: n.Zone, CapacityType: n.CapacityType,
		Use: map[string]Use{}, Pods: len(n.Pods),
	}
	if n.Price > 0 || n.Free {
		out.Price = &n.Price
	}
	var requested, daemons resources.Vec
	for i := range n.Pods {
		resources.AddTo(&requested, &n.Pods[i].Shape.Requests)
		if n.Pods[i].Daemon {
			resources.AddTo(&daemons, &n.Pods[i].Shape.Requests)
		}
	}
	for lane := range table.Len() {
		u := Use{requested.At(lane), daemons.At(lane), n.Allocatable.At(lane)}
		if u.Allocatable > 0 && lane != resources.Unknown {
			out.Use[string(table.Name(lane))] = u
		}
	}
	m := managed[n.Claim]
	switch {
	case n.Claim != "" && m == nil:
		out.State = Launching
	case n.Claim != "" && !n.Initialized:
		out.State = Initializing
	case m != nil && !m.Ready:
		out.State = NotReady
	}
	if !n.Since.IsZero() {
		out.Created = new(n.Since)
	}
	if m != nil {
		out.Drift = m.Drift
	}
	if n.Deleting || m != nil && (m.BeingRemoved || m.Commanded) {
		out.State = Removing
		if m != nil {
			for i := range m.Pods {
				if m.Pods[i].Moves {
					out.Moving = append(out.Moving, m.Pods[i].Key.String())
				}
			}
		}
	}
	return out
}
