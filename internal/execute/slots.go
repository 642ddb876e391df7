package execute

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// ErrAtLimit says that limits.nodes of a static pool allows no other claim.
var ErrAtLimit = errors.New("limits.nodes leaves no room for another node")

// Slots are claims of static pools that are being written. A slot is taken before and returned after, whether or not
// the claim was written: two concurrent callers cannot both have the last one (LC-46, V15-51).
type Slots struct {
	mu    sync.Mutex
	taken map[string]int64 // by pool
}

// takeSlots takes a slot for each node of a batch that belongs to a static pool with a limit. It returns the nodes that
// got none, by their number, and a function that returns all slots.
func (s *Slots) takeSlots(b Batch, pools []*karpv1.NodePool, claims func(pool string) int64, refused map[string]error) (full map[int]error, give func()) {
	limits := map[string]int64{}
	for _, pool := range pools {
		if limit, limited := pool.Spec.Limits[karpv1.LimitNodes]; limited && pool.Spec.Replicas != nil {
			limits[pool.Name] = limit.Value()
		}
	}
	full = map[int]error{}
	if len(limits) == 0 {
		return full, func() {}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	mine, have := map[string]int64{}, map[string]int64{}
	for i := range b.Nodes {
		name := b.Nodes[i].Pool
		limit, limited := limits[name]
		if !limited || refused[name] != nil {
			continue
		}
		if _, counted := have[name]; !counted {
			have[name] = claims(name)
		}
		if have[name]+s.taken[name] >= limit {
			full[i] = fmt.Errorf("nodepool %s: %w: %d of %d", name, ErrAtLimit, have[name]+s.taken[name], limit)
			continue
		}
		if s.taken == nil {
			s.taken = map[string]int64{}
		}
		s.taken[name]++
		mine[name]++
	}
	return full, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for name, n := range mine {
			if s.taken[name] -= n; s.taken[name] <= 0 {
				delete(s.taken, name)
			}
		}
	}
}

// FromTemplate is a node straight from the template of a pool: the cloud picks type and zone within its
// requirements. types are those of the pool as NodeOverlays make them; there may be none where no overlay counts.
func FromTemplate(pool *karpv1.NodePool, words reqs.Vocabulary, lanes resources.Table, types []catalog.InstanceType) (solve.NewNode, error) {
	template := &pool.Spec.Template
	set, faults := reqs.FromEntries(karpv1.Entries(template.Spec.Requirements), words)
	if len(faults) > 0 {
		return solve.NewNode{}, fmt.Errorf("nodepool %s: requirement %s cannot be read", pool.Name, faults[0].Key)
	}
	labels := reqs.FromLabels(template.ObjectMeta.Labels, words)
	labels[karpv1.LabelNodePool] = reqs.Req{Values: []string{pool.Name}}
	for _, key := range labels.Keys() {
		if !set.Add(key, labels[key]) {
			return solve.NewNode{}, fmt.Errorf("nodepool %s: label %s of the template contradicts its requirements", pool.Name, key)
		}
	}
	node := solve.NewNode{Pool: pool.Name, Needs: set, Requests: lanes.Zero()}
	for i := range types {
		if t := &types[i]; (t.Overlaid || t.CapacityOverlaid) && canBecome(set, t) {
			node.Overlaid, node.CapacityOverlaid = node.Overlaid || t.Overlaid, node.CapacityOverlaid || t.CapacityOverlaid
		}
	}
	return node, nil
}

// canBecome reports whether a node with such needs can be launched as a type now.
func canBecome(needs reqs.Set, t *catalog.InstanceType) bool {
	if _, conflict := needs.Conflict(t.Labels); conflict {
		return false
	}
	return slices.ContainsFunc(t.Offerings, func(o catalog.Offering) bool {
		if !o.Launchable() || !needs.Allows(corev1.LabelTopologyZone, o.Zone) || !needs.Allows(karpv1.LabelCapacityType, o.CapacityType) {
			return false
		}
		for key, value := range o.Labels { // any order: whether all are allowed
			if !needs.Allows(key, value) {
				return false
			}
		}
		return true
	})
}
