package top

import (
	"fmt"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/inspect"
)

// activityRow is a node that is launched or removed, or below one that is removed, a pod that still has to leave it.
type activityRow struct {
	node nodeRow
	pod  string // namespace/name
	most int    // of the node: how many pods had to leave it when it was first seen as removed
}

// activityOf lists the nodes that change: removed ones with their pods first, then those that are launched.
func activityOf(nodes []nodeRow, most map[string]int) []activityRow {
	var removed, launched []activityRow
	for i := range nodes {
		n := &nodes[i]
		switch n.State {
		case inspect.Removing:
			removed = append(removed, activityRow{node: *n, most: most[n.Name]})
			for _, pod := range n.Moving {
				removed = append(removed, activityRow{node: *n, pod: pod})
			}
		case inspect.Launching, inspect.Initializing:
			launched = append(launched, activityRow{node: *n})
		case inspect.Ready, inspect.NotReady: // nothing happens to it
		}
	}
	return slices.Concat(removed, launched)
}

// mostMoving is the largest observed number of pods that had to leave each node.
func mostMoving(before map[string]int, nodes []nodeRow) map[string]int {
	out := map[string]int{}
	for i := range nodes {
		if n := &nodes[i]; n.State == inspect.Removing {
			out[n.Name] = max(before[n.Name], len(n.Moving))
		}
	}
	return out
}

func (r *activityRow) name() string {
	if r.pod != "" {
		return "  " + r.pod
	}
	return r.node.Name
}

func (r *activityRow) brief() string {
	if r.pod != "" {
		return r.name()
	}
	return brief(r.node.Name)
}

func (r *activityRow) what() string {
	if r.pod != "" {
		return "Has to leave"
	}
	return string(r.node.State)
}

// progress says how many pods have left.
func (r *activityRow) progress() string {
	switch {
	case r.pod != "" || r.node.State != inspect.Removing:
		return ""
	case r.most == 0:
		return "no pods to move"
	}
	return fmt.Sprintf("%d of %s moved", r.most-len(r.node.Moving), plural(r.most, "pod"))
}

func newActivity() *table[activityRow] {
	ofNode := func(text func(*nodeRow) string) func(*activityRow) string {
		return func(r *activityRow) string {
			if r.pod != "" {
				return ""
			}
			return text(&r.node)
		}
	}
	columns := []column[activityRow]{
		{key: "name", title: "NODE AND PODS", rank: 0, least: 24, text: (*activityRow).name, brief: (*activityRow).brief},
		{key: "state", title: "STATE", rank: 1, text: (*activityRow).what, rowStyle: func(r *activityRow) style {
			if r.pod != "" {
				return dim
			}
			return r.node.rowStyle()
		}},
		{key: "progress", title: "PROGRESS", rank: 2, text: (*activityRow).progress},
		{key: "type", title: "TYPE", rank: 3, text: ofNode(func(n *nodeRow) string { return orUnknown(n.InstanceType) })},
		{key: "pool", title: "POOL", rank: 4, most: 24, text: ofNode(func(n *nodeRow) string { return orUnknown(n.Pool) })},
		{key: "zone", title: "ZONE", rank: 7, text: ofNode(func(n *nodeRow) string { return orUnknown(n.Zone) })},
		{key: "capacity", title: "CAPACITY", rank: 6, text: ofNode(func(n *nodeRow) string { return orUnknown(n.CapacityType) })},
		{key: "age", title: "AGE", rank: 8, text: ofNode((*nodeRow).age)},
		{key: "price", title: "$/HOUR", rank: 5, least: 8, most: 8, right: true, text: ofNode(func(n *nodeRow) string { return dollars(n.Price) })},
	}
	return &table[activityRow]{
		name: "node or pod", columns: columns, empty: "No node is being launched or removed.",
		id: func(r *activityRow) string { return r.node.Name + "/" + r.pod },
		about: func(r *activityRow) (inspect.Subject, bool) {
			if r.pod != "" {
				return splitPod(r.pod), true
			}
			return r.node.subject()
		},
	}
}
