package cli

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/scenario"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// explanation is a plan folded for people: nodes of one kind together, pods refused for one reason
// together.
type explanation struct {
	Nodes           []nodeKind    `json:"nodes"`
	NodesLeftOut    *leftOut      `json:"nodesLeftOut,omitempty"`
	Unplaced        []refusedPods `json:"unplaced,omitempty"`
	UnplacedLeftOut *leftOut      `json:"unplacedLeftOut,omitempty"`
	Advice          advice        `json:"advice,omitempty"`
}

// nodeKind is the new nodes launched from one pool as one type in one zone.
type nodeKind struct {
	Pool         string  `json:"nodePool"`
	Type         string  `json:"instanceType"`
	Zone         string  `json:"zone"`
	CapacityType string  `json:"capacityType"`
	Count        int     `json:"count"`
	Price        float64 `json:"price"` // of one, USD an hour
	Pods         int     `json:"pods"`
	CPUUse       float64 `json:"cpuUse"` // share of what pods can use, DaemonSets included
	MemoryUse    float64 `json:"memoryUse"`
	Types        int     `json:"typesOpen"`        // instance types that the launch may choose from, at most
	Needs        string  `json:"needs"`            // of the first of them
	Spread       string  `json:"spread,omitempty"` // of the first of them: how far it is spread over spot pools
	For          string  `json:"for"`              // groups of the scenario whose pods are there

	requests, room [2]float64
	groups         map[int]int
}

// refusedPods are the pods without a place for the same first reason.
type refusedPods struct {
	Count int           `json:"count"`
	Why   []string      `json:"why"`
	Codes []reason.Code `json:"codes,omitempty"` // of the reasons and their causes, each once
	For   string        `json:"for"`

	groups map[int]int
}

func explain(c *scenario.Compiled, plan *solve.Plan) *explanation {
	allocatable := map[string]resources.Vec{}
	for i := range c.World.Types {
		allocatable[c.World.Types[i].Name] = c.World.Types[i].Allocatable()
	}
	type identity struct{ pool, offer, zone, capacityType string }
	at := map[identity]int{}
	e := &explanation{Nodes: []nodeKind{}, Advice: advice{}}
	for i := range plan.Create {
		n := &plan.Create[i]
		id := identity{n.Pool, n.Offer.Type, n.Offer.Zone, n.Offer.CapacityType}
		k, found := at[id]
		if !found {
			k = len(e.Nodes)
			at[id] = k
			e.Nodes = append(e.Nodes, nodeKind{
				Pool: id.pool, Type: id.offer, Zone: id.zone, CapacityType: id.capacityType,
				Price: n.Offer.Price, Needs: n.Needs.String(), Spread: reason.Join(n.Spread, 0), groups: map[int]int{},
			})
		}
		e.Nodes[k].add(n, allocatable[n.Offer.Type])
	}
	for i := range e.Nodes {
		k := &e.Nodes[i]
		k.CPUUse, k.MemoryUse = share(k.requests[0], k.room[0]), share(k.requests[1], k.room[1])
	}
	slices.SortStableFunc(e.Nodes, func(a, b nodeKind) int {
		return cmp.Or(cmp.Compare(float64(b.Count)*b.Price, float64(a.Count)*a.Price), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Zone, b.Zone))
	})
	e.Nodes, e.NodesLeftOut = keepFirst(e.Nodes, shownNodes, func(k *nodeKind) int { return k.Count })
	for i := range e.Nodes {
		e.Nodes[i].For = scenario.GroupText(e.Nodes[i].groups, shownGroups)
	}
	e.Unplaced, e.UnplacedLeftOut = keepFirst(refused(plan.Unplaced), shownRefused, func(r *refusedPods) int { return r.Count })
	for i := range e.Unplaced {
		e.Unplaced[i].For = scenario.GroupText(e.Unplaced[i].groups, shownGroups)
		e.Advice.add(e.Unplaced[i].Codes)
	}
	return e
}

func (k *nodeKind) add(n *solve.NewNode, room resources.Vec) {
	k.Count++
	k.Pods += len(n.Pods)
	k.Types = max(k.Types, len(n.Types))
	for i, lane := range []int{resources.CPU, resources.Memory} {
		k.requests[i] += float64(n.Requests.At(lane))
		k.room[i] += float64(room.At(lane))
	}
	addGroups(k.groups, n.Pods)
}

func share(part, whole float64) float64 {
	if whole == 0 {
		return 0
	}
	return part / whole
}

func addGroups(counts map[int]int, pods []cluster.PodKey) {
	for group, n := range scenario.Groups(pods) {
		counts[group] += n
	}
}

// refused folds pods by their first reason, the most common first.
func refused(unplaced []solve.Unplaced) []refusedPods {
	var all []refusedPods
	at := map[string]int{}
	for i := range unplaced {
		u := &unplaced[i]
		first := "no reason given"
		if len(u.Why) > 0 {
			first = u.Why[0].Text()
		}
		k, found := at[first]
		if !found {
			k = len(all)
			at[first] = k
			all = append(all, refusedPods{Why: texts(u.Why, first), Codes: codes(u.Why), groups: map[int]int{}})
		}
		all[k].Count++
		addGroups(all[k].groups, []cluster.PodKey{u.Pod})
	}
	slices.SortStableFunc(all, func(a, b refusedPods) int { return cmp.Compare(b.Count, a.Count) })
	return all
}

func texts(why []reason.Reason, first string) []string {
	if len(why) == 0 {
		return []string{first}
	}
	list := make([]string, 0, len(why))
	for _, r := range why {
		list = append(list, r.Text())
	}
	return list
}
