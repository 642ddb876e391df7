package execute

import (
	"errors"
	"fmt"
	"sync"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// ErrAtLimit says that limits.nodes of a static pool leaves no room for another claim.
var ErrAtLimit = errors.New("limits.nodes leaves no room for another node")

// slots are claims of static pools that are being written. A slot is taken before and given back after,
// whether or not the claim was written: two who order at once cannot both have the last one (LC-46, V15-51).
type slots struct {
	mu    sync.Mutex
	taken map[string]int64 // by pool
}

// takeSlots takes a slot for each node of a batch that belongs to a static pool with a limit. Which nodes got
// none is in the answer, by their number; what it returns besides gives all slots back.
func (c *Claims) takeSlots(b Batch, refused map[string]error) (full map[int]error, give func()) {
	limits := map[string]int64{}
	for _, pool := range c.Store.Pools() {
		if limit, limited := pool.Spec.Limits[karpv1.LimitNodes]; limited && pool.Spec.Replicas != nil {
			limits[pool.Name] = limit.Value()
		}
	}
	full = map[int]error{}
	if len(limits) == 0 {
		return full, func() {}
	}
	c.slots.mu.Lock()
	defer c.slots.mu.Unlock()
	mine, have := map[string]int64{}, map[string]int64{}
	for i := range b.Nodes {
		name := b.Nodes[i].Pool
		limit, limited := limits[name]
		if !limited || refused[name] != nil {
			continue
		}
		if _, counted := have[name]; !counted {
			have[name] = c.Store.Claims(name)
		}
		if have[name]+c.slots.taken[name] >= limit {
			full[i] = fmt.Errorf("nodepool %s: %w: %d of %d", name, ErrAtLimit, have[name]+c.slots.taken[name], limit)
			continue
		}
		if c.slots.taken == nil {
			c.slots.taken = map[string]int64{}
		}
		c.slots.taken[name]++
		mine[name]++
	}
	return full, func() {
		c.slots.mu.Lock()
		defer c.slots.mu.Unlock()
		for name, n := range mine {
			if c.slots.taken[name] -= n; c.slots.taken[name] <= 0 {
				delete(c.slots.taken, name)
			}
		}
	}
}

// FromTemplate is a node straight from the template of a pool: the cloud picks type and zone within its
// requirements.
func FromTemplate(pool *karpv1.NodePool, words reqs.Vocabulary, lanes resources.Table) (solve.NewNode, error) {
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
	return solve.NewNode{Pool: pool.Name, Needs: set, Requests: lanes.Zero()}, nil
}
