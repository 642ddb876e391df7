package buffer

import (
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// shownReasons is how many reasons a condition shows at most.
const shownReasons = 3

// Placement is where the latest plan has room for a virtual pod.
type Placement struct {
	Fits    bool   // on a node that is initialized
	Ordered bool   // on a node that is being launched
	Why     string // it has no room at all
}

// Placements returns what a plan means for the virtual pods it was made for. invalid are those that cannot be planned for.
func Placements(view *cluster.Snapshot, plan solve.Plan, invalid []cluster.Pod) map[cluster.PodKey]Placement {
	out := make(map[cluster.PodKey]Placement, len(plan.Bind)+len(plan.Unplaced)+len(invalid))
	for _, b := range plan.Bind {
		if n := view.Node(b.Node); n != nil {
			out[b.Pod] = Placement{Fits: n.Initialized, Ordered: !n.Initialized}
		}
	}
	for i := range plan.Create {
		for _, key := range plan.Create[i].Pods {
			out[key] = Placement{Ordered: true}
		}
	}
	for _, u := range plan.Unplaced {
		out[u.Pod] = Placement{Why: reason.Join(u.Why, shownReasons)}
	}
	for i := range invalid {
		why := reason.Join(invalid[i].Shape.Invalid, shownReasons)
		if invalid[i].Shape.Refuses {
			why = "its template refuses every node of a NodePool (requirement karpenter.sh/nodepool DoesNotExist)"
		}
		out[invalid[i].Key] = Placement{Why: why}
	}
	return out
}
