package condition

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reasons that the mechanics themselves give.
const (
	AwaitingReconciliation = "AwaitingReconciliation"
	UnhealthyDependents    = "UnhealthyDependents"
	ReconcilingDependents  = "ReconcilingDependents"
)

// Kind says which conditions decide the root condition of a kind.
type Kind struct {
	Root       string
	Dependents []string
}

// Object is what the mechanics need to know of the object that carries the list.
type Object struct {
	Generation int64
	Created    metav1.Time
	Deleting   bool
}

// Change sets one condition. A true condition without a reason gets its type as reason.
type Change struct {
	Type    string
	Status  metav1.ConditionStatus
	Reason  string
	Message string
}

// Apply returns the list after the changes: dependents that were never set are there as Unknown, the
// root follows from them, and everything is in order. The list given is not changed.
func (k Kind) Apply(list []metav1.Condition, obj Object, now metav1.Time, changes ...Change) []metav1.Condition {
	out := slices.Clone(list)
	for _, name := range append(slices.Clone(k.Dependents), k.Root) {
		if Find(out, name) == nil {
			out = append(out, metav1.Condition{
				Type: name, Status: metav1.ConditionUnknown, Reason: AwaitingReconciliation,
				LastTransitionTime: obj.Created, ObservedGeneration: obj.Generation,
			})
		}
	}
	for _, c := range changes {
		out = set(out, obj, now, c)
	}
	out = set(out, obj, now, k.root(out, obj.Generation))
	if obj.Deleting && len(changes) > 0 {
		for i := range out {
			out[i].ObservedGeneration = obj.Generation
		}
	}
	slices.SortStableFunc(out, func(a, b metav1.Condition) int {
		return cmp.Or(
			compareBool(a.Type == k.Root, b.Type == k.Root),
			a.LastTransitionTime.Compare(b.LastTransitionTime.Time),
			cmp.Compare(a.Type, b.Type),
		)
	})
	return out
}

// Remove returns the list without a condition.
func Remove(list []metav1.Condition, name string) []metav1.Condition {
	return slices.DeleteFunc(slices.Clone(list), func(c metav1.Condition) bool { return c.Type == name })
}

// Find returns the condition of a type, or nil.
func Find(list []metav1.Condition, name string) *metav1.Condition {
	for i := range list {
		if list[i].Type == name {
			return &list[i]
		}
	}
	return nil
}

// True reports whether a condition is there and true.
func True(list []metav1.Condition, name string) bool {
	c := Find(list, name)
	return c != nil && c.Status == metav1.ConditionTrue
}

func set(list []metav1.Condition, obj Object, now metav1.Time, change Change) []metav1.Condition {
	if change.Status == metav1.ConditionTrue && change.Reason == "" {
		change.Reason = change.Type
	}
	next := metav1.Condition{
		Type: change.Type, Status: change.Status, Reason: change.Reason, Message: change.Message,
		LastTransitionTime: now, ObservedGeneration: obj.Generation,
	}
	old := Find(list, change.Type)
	if old == nil {
		return append(list, next)
	}
	if old.Status == next.Status {
		next.LastTransitionTime = old.LastTransitionTime
	}
	*old = next
	return list
}

// root derives the root condition: a dependent counts only if it was observed at this generation.
func (k Kind) root(list []metav1.Condition, generation int64) Change {
	change := Change{Type: k.Root, Status: metav1.ConditionTrue}
	var offenders []string
	for _, name := range k.Dependents {
		c := Find(list, name)
		current := c != nil && c.ObservedGeneration == generation
		if current && c.Status == metav1.ConditionTrue {
			continue
		}
		if current && c.Status == metav1.ConditionFalse {
			change.Status = metav1.ConditionFalse
		}
		if c != nil {
			offenders = append(offenders, name+"="+string(c.Status))
		}
	}
	switch {
	case len(offenders) == 0:
	case change.Status == metav1.ConditionFalse:
		change.Reason = UnhealthyDependents
	default:
		change.Status, change.Reason = metav1.ConditionUnknown, ReconcilingDependents
	}
	change.Message = strings.Join(offenders, ", ")
	return change
}

// Flip is a condition whose status changed.
type Flip struct {
	Type     string
	From, To metav1.ConditionStatus // From is empty for a condition that is new
	Reason   string
	Message  string
}

// Flips lists what changed from one list to the next, in the order of the next.
func Flips(before, after []metav1.Condition) []Flip {
	var flips []Flip
	for _, c := range after {
		old := Find(before, c.Type)
		switch {
		case old == nil:
			flips = append(flips, Flip{Type: c.Type, To: c.Status, Reason: c.Reason, Message: c.Message})
		case old.Status != c.Status:
			flips = append(flips, Flip{Type: c.Type, From: old.Status, To: c.Status, Reason: c.Reason, Message: c.Message})
		}
	}
	return flips
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	default:
		return -1
	}
}
