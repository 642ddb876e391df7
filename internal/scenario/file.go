package scenario

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// File is a plan in terms of its scenario: how many pods of which group go to which node.
type File struct {
	Scenario string     `json:"scenario"`
	Tool     string     `json:"tool"`
	Nodes    []FileNode `json:"nodes"`
}

// FileNode is a new node, or an existing one that took pods.
type FileNode struct {
	Existing     string      `json:"existing,omitempty"`
	NodePool     string      `json:"nodePool,omitempty"`
	InstanceType string      `json:"instanceType,omitempty"`
	Zone         string      `json:"zone,omitempty"`
	CapacityType string      `json:"capacityType,omitempty"`
	Price        float64     `json:"price,omitempty"`
	Pods         map[int]int `json:"pods"` // how many of which entry of the scenario's pods
}

// File writes a plan down: new nodes as planned, then existing ones by name.
func (s *Scenario) File(tool string, plan *solve.Plan) File {
	f := File{Scenario: s.Name, Tool: tool, Nodes: make([]FileNode, 0, len(plan.Create))}
	for i := range plan.Create {
		n := &plan.Create[i]
		f.Nodes = append(f.Nodes, FileNode{
			NodePool: n.Pool, InstanceType: n.Offer.Type, Zone: n.Offer.Zone, CapacityType: n.Offer.CapacityType,
			Price: n.Offer.Price, Pods: Groups(n.Pods),
		})
	}
	existing := map[string][]cluster.PodKey{}
	for _, b := range plan.Bind {
		existing[b.Node] = append(existing[b.Node], b.Pod)
	}
	for _, name := range slices.Sorted(maps.Keys(existing)) {
		f.Nodes = append(f.Nodes, FileNode{Existing: name, Pods: Groups(existing[name])})
	}
	return f
}

const pendingPrefix = "pods-"

// pendingName is what the names of a group's pods begin with; the rest is the number of the copy.
func pendingName(group int) string { return pendingPrefix + strconv.Itoa(group) + "-" }

// Group returns which entry of the scenario's pods a pending pod is a copy of.
func Group(pod cluster.PodKey) (group int, found bool) {
	rest, pending := strings.CutPrefix(pod.Name, pendingPrefix)
	number, _, numbered := strings.Cut(rest, "-")
	group, err := strconv.Atoi(number)
	return group, pending && numbered && err == nil
}

// Groups counts pods by the group they are copies of.
func Groups(pods []cluster.PodKey) map[int]int {
	counts := map[int]int{}
	for _, p := range pods {
		if g, found := Group(p); found {
			counts[g]++
		}
	}
	return counts
}

// GroupText renders counts of groups for people, the largest first: "$.pods[3] ×190, $.pods[7]".
func GroupText(counts map[int]int, limit int) string {
	groups := slices.SortedFunc(maps.Keys(counts), func(a, b int) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	var parts []string
	for i, g := range groups {
		if i == limit {
			parts = append(parts, "and "+strconv.Itoa(len(groups)-i)+" more")
			break
		}
		text := index("$.pods", g)
		if counts[g] > 1 {
			text += " ×" + strconv.Itoa(counts[g])
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}
