package model

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/solve/bitset"
)

// CertainLanes are the lanes in which a pod always takes its full requests. Of attachments it may take less, if its
// claims are shared and already attached.
func (m *Model) CertainLanes(c *Class) []int {
	if len(c.SharedClaims) == 0 {
		return c.Lanes
	}
	end, _ := slices.BinarySearch(c.Lanes, m.View.Resources.Len())
	return c.Lanes[:end]
}

// EndOfStep returns where the variants of the step of relaxation end that begins at first.
func (c *Class) EndOfStep(first int) int {
	next := first + 1
	for next < len(c.Variants) && c.Variants[next].step == c.Variants[first].step {
		next++
	}
	return next
}

// PodCounts is how many pods of each class are to be placed at first.
func (m *Model) PodCounts() []int {
	left := make([]int, len(m.Classes))
	for k := range left {
		left[k] = len(m.Classes[k].Pods)
	}
	return left
}

// SumCounts adds up counts.
func SumCounts(counts []int) int {
	n := 0
	for _, c := range counts {
		n += c
	}
	return n
}

// Class is a set of pods that are interchangeable. Pods are placed as counts of a class.
type Class struct {
	Shape        *cluster.Shape
	Moved        bool // from a node that would be removed: must not be placed on settling or unready nodes
	labelSet     int  // its labels
	Requests     []int64
	Lanes        []int   // lanes with a request
	Pods         []int32 // into Model.Pods, in queue order
	SharedClaims []int   // claims that other pods use too
	Variants     []Variant
}

// Variant is one step of relaxation (SC-14): the profile in force after it.
type Variant struct {
	Profile int // -1: contradicts itself
	step    int // of relaxation: those of one step are alternatives where volumes can be (SC-38)
}

// readClasses folds the pods into classes, in the order in which they are placed (SC-16).
func (m *Model) readClasses() {
	type id struct {
		shape *cluster.Shape
		moved bool
	}
	at := make(map[id]int32, min(len(m.Pods), 1024))
	of, counts := make([]int32, len(m.Pods)), []int32(nil) // class of each pod, pods of each class
	for i := range m.Pods {
		of[i] = -1
		shape := m.Pods[i].Shape
		if shape == nil {
			continue
		}
		key := id{shape, i >= len(m.Problem.Pods)}
		k, known := at[key]
		if !known {
			k = int32(len(counts))
			at[key] = k
			counts = append(counts, 0)
		}
		of[i] = k
		counts[k]++
	}
	m.Classes = make([]Class, len(counts))
	slab := make([]int32, len(m.Pods))
	for k, n := range counts {
		m.Classes[k].Pods, slab = slab[:0:n], slab[n:]
	}
	for i, k := range of {
		if k >= 0 {
			c := &m.Classes[k]
			c.Shape, c.Moved, c.Pods = m.Pods[i].Shape, i >= len(m.Problem.Pods), append(c.Pods, int32(i))
		}
	}
	for k := range m.Classes {
		if len(m.Classes[k].Pods) == 1 {
			continue
		}
		slices.SortFunc(m.Classes[k].Pods, func(a, b int32) int { return m.comparePods(&m.Pods[a], &m.Pods[b]) })
	}
	m.sortClasses()
}

// sortClasses puts the classes into the order of the queue. It sorts small keys: classes are large.
func (m *Model) sortClasses() {
	type key struct {
		cpu, memory int64
		at          int
	}
	keys := make([]key, len(m.Classes))
	for i := range m.Classes {
		r := &m.Classes[i].Shape.Requests
		keys[i] = key{r.At(0), r.At(1), i}
	}
	slices.SortFunc(keys, func(a, b key) int {
		if a.cpu != b.cpu {
			return cmp.Compare(b.cpu, a.cpu)
		}
		if a.memory != b.memory {
			return cmp.Compare(b.memory, a.memory)
		}
		x, y := &m.Classes[a.at], &m.Classes[b.at]
		return cmp.Or(
			m.Pods[x.Pods[0]].Created.Compare(m.Pods[y.Pods[0]].Created),
			cmp.Compare(x.Shape.Key, y.Shape.Key),
			cmp.Compare(bitset.Bit(x.Moved), bitset.Bit(y.Moved)),
			m.comparePods(&m.Pods[x.Pods[0]], &m.Pods[y.Pods[0]]),
		)
	})
	sorted := make([]Class, len(keys))
	for i, k := range keys {
		sorted[i] = m.Classes[k.at]
	}
	m.Classes = sorted
}

func (m *Model) comparePods(a, b *cluster.Pod) int {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.UID, b.UID),
		cmp.Compare(a.Key.Namespace, b.Key.Namespace), cmp.Compare(a.Key.Name, b.Key.Name))
}

// CountFitting returns how many pods of a class fit into free capacity, at most want.
func CountFitting(c *Class, left []int64, want int) int {
	for _, l := range c.Lanes {
		if left[l] < c.Requests[l] {
			return 0
		}
		if n := left[l] / c.Requests[l]; n < int64(want) {
			want = int(n)
		}
	}
	return want
}

// PortsConflict reports whether two lists of host ports cannot be on one node.
func PortsConflict(a, b []cluster.HostPort) bool {
	for _, x := range a {
		if slices.ContainsFunc(b, x.Conflicts) {
			return true
		}
	}
	return false
}
