package resources

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Lanes of the resources every pod and node has, the same in every Table. CPU counts thousandths of
// a core, Memory and EphemeralStorage bytes, Pods pods. Unknown sums the requests for names that a
// Table does not know; no capacity is ever put there, so such a request fits nowhere.
const (
	CPU = iota
	Memory
	EphemeralStorage
	Pods
	Unknown

	named = Unknown + 1 // first lane of a Table's own names
)

// Table gives each resource name a lane. It is a value that never changes, so it may be shared
// freely; Extend returns a larger one. The zero Table knows the four fixed names.
type Table struct {
	names []corev1.ResourceName // of the lanes from named on
	lanes map[corev1.ResourceName]int
}

// NewTable returns a table of the fixed names and the given ones, which may repeat and come in any
// order: the same set gives the same lanes.
func NewTable(names ...corev1.ResourceName) Table {
	return Table{}.Extend(names...)
}

// Extend returns a table that also knows the given names, appended in alphabetical order. Lanes that
// exist keep their place, so a Vec made with t stays valid with the result. Without new names it
// returns t itself and allocates nothing.
func (t Table) Extend(names ...corev1.ResourceName) Table {
	var added []corev1.ResourceName
	for _, name := range names {
		if _, known := t.Lane(name); !known {
			added = append(added, name)
		}
	}
	if len(added) == 0 {
		return t
	}
	slices.Sort(added)
	added = slices.Compact(added)
	larger := Table{
		names: slices.Concat(t.names, added),
		lanes: make(map[corev1.ResourceName]int, len(t.names)+len(added)),
	}
	maps.Copy(larger.lanes, t.lanes)
	for i, name := range added {
		larger.lanes[name] = named + len(t.names) + i
	}
	return larger
}

// Len is the number of lanes.
func (t Table) Len() int {
	return named + len(t.names)
}

// Lane returns the lane of a name, Unknown if the table does not have it.
func (t Table) Lane(name corev1.ResourceName) (lane int, known bool) {
	switch name {
	case corev1.ResourceCPU:
		return CPU, true
	case corev1.ResourceMemory:
		return Memory, true
	case corev1.ResourceEphemeralStorage:
		return EphemeralStorage, true
	case corev1.ResourcePods:
		return Pods, true
	}
	if lane, known = t.lanes[name]; known {
		return lane, true
	}
	return Unknown, false
}

// Name returns the name of a lane: "unknown" for Unknown, "#7" for a lane the table does not have.
func (t Table) Name(lane int) corev1.ResourceName {
	switch lane {
	case CPU:
		return corev1.ResourceCPU
	case Memory:
		return corev1.ResourceMemory
	case EphemeralStorage:
		return corev1.ResourceEphemeralStorage
	case Pods:
		return corev1.ResourcePods
	case Unknown:
		return "unknown"
	}
	if lane >= named && lane < t.Len() {
		return t.names[lane-named]
	}
	return corev1.ResourceName("#" + strconv.Itoa(lane))
}

// Zero returns a vector of zeros with room for every lane, so that AddTo, SubFrom and MaxTo into it
// never allocate.
func (t Table) Zero() Vec {
	if len(t.names) == 0 {
		return Vec{}
	}
	return Vec{rest: make([]int64, t.Len()-fixed)}
}

// Requests converts what someone requests. Fractions of a unit round up, so that a request is never
// taken for less than it is. Names unknown to the table are summed in the Unknown lane.
func (t Table) Requests(list corev1.ResourceList) Vec {
	var v Vec
	t.requests(&v, list)
	return v
}

// requests puts a list into a vector of zeros. The names that nearly every list has are looked up:
// that takes a fraction of the time of ranging over a map.
func (t Table) requests(v *Vec, list corev1.ResourceList) {
	left := len(list)
	for lane := CPU; lane < fixed && left > 0; lane++ {
		if quantity, found := list[t.Name(lane)]; found {
			v.base[lane] = units(quantity, lane, up)
			left--
		}
	}
	if left == 0 {
		return
	}
	// any order: each name has a lane of its own, and integers are added up
	for name, quantity := range list {
		if lane, _ := t.Lane(name); lane >= fixed {
			t.request(v, name, quantity)
		}
	}
}

// Capacity converts what someone offers. Fractions of a unit round down, so that an offer is never
// taken for more than it is. Names unknown to the table are left out: no pod can have requested them.
func (t Table) Capacity(list corev1.ResourceList) Vec {
	var v Vec
	// any order: each name has a lane of its own, and integers are added up
	for name, quantity := range list {
		if lane, known := t.Lane(name); known {
			v.set(lane, units(quantity, lane, down))
		}
	}
	return v
}

// List converts back. Lanes that are zero or have no name are left out.
func (t Table) List(v Vec) corev1.ResourceList {
	list := corev1.ResourceList{}
	for lane := range min(v.len(), t.Len()) {
		if n := v.At(lane); n != 0 && lane != Unknown {
			list[t.Name(lane)] = t.quantity(lane, n)
		}
	}
	return list
}

// Format renders the lanes that are not zero, such as "cpu:1500m,memory:2Gi,nvidia.com/gpu:1": the
// fixed names first, then the others by name. A zero vector is "none".
func (t Table) Format(v Vec) string {
	var parts, rest []string
	for lane := range v.len() {
		n := v.At(lane)
		if n == 0 {
			continue
		}
		quantity := t.quantity(lane, n)
		part := string(t.Name(lane)) + ":" + quantity.String()
		if lane < fixed {
			parts = append(parts, part)
		} else {
			rest = append(rest, part)
		}
	}
	slices.Sort(rest)
	if parts = append(parts, rest...); len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ",")
}

// MarshalJSON writes the table's own names in lane order.
func (t Table) MarshalJSON() ([]byte, error) {
	if t.names == nil {
		return []byte("[]"), nil
	}
	return json.Marshal(t.names)
}

// UnmarshalJSON reads names in lane order. A repeated or fixed name keeps its first lane.
func (t *Table) UnmarshalJSON(data []byte) error {
	var names []corev1.ResourceName
	if err := json.Unmarshal(data, &names); err != nil {
		return err
	}
	read := Table{lanes: make(map[corev1.ResourceName]int, len(names))}
	for _, name := range names {
		if _, known := read.Lane(name); !known {
			read.lanes[name] = read.Len()
		}
		read.names = append(read.names, name) // kept even when repeated: a recorded Vec counts lanes
	}
	*t = read
	return nil
}

// Names returns the names of all the given lists, for Extend.
func Names(lists ...corev1.ResourceList) []corev1.ResourceName {
	var names []corev1.ResourceName
	for _, list := range lists {
		for name := range list {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// request puts one requested quantity in its place.
func (t Table) request(v *Vec, name corev1.ResourceName, quantity resource.Quantity) {
	lane, known := t.Lane(name)
	n := units(quantity, lane, up)
	switch {
	case known:
		v.set(lane, n)
	case n > 0: // a zero request is no request, whatever its name
		v.set(Unknown, add(v.At(Unknown), n))
	}
}

// quantity is one lane's number in the notation users know.
func (t Table) quantity(lane int, n int64) resource.Quantity {
	if lane == CPU {
		return *resource.NewMilliQuantity(n, resource.DecimalSI)
	}
	return *resource.NewQuantity(n, FormatOf(t.Name(lane)))
}

// FormatOf is the notation that users know for amounts of a resource: 8Gi of memory, 4 cores.
func FormatOf(name corev1.ResourceName) resource.Format {
	if name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage || isHugePages(name) {
		return resource.BinarySI
	}
	return resource.DecimalSI
}

func isHugePages(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}
