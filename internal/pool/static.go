package pool

import (
	"cmp"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/condition"
)

// How often a static pool is reconciled without an event.
const (
	staticEvery     = time.Minute
	staticAtLimit   = 30 * time.Second
	staticBackedOff = 10 * time.Second // while launches of the pool fail
)

// StaticFacts are what a decision about the size of a pool rests on.
type StaticFacts struct {
	Pool   *karpv1.NodePool             // effective, with replicas
	Claims []*karpv1.NodeClaim          // of the pool, effective, whatever becomes of them
	Loads  map[string]cluster.ClaimLoad // by claim
	Now    time.Time

	Live      bool // Claims were read from the API server, not from a cache
	BackedOff bool // launches of the pool fail one after another (FM F02)
}

// StaticStep is what a pool of fixed size lacks or has too much of.
type StaticStep struct {
	Confirm bool                // nothing yet: read the claims from the API server and decide again
	Create  int                 // claims to be made from the template
	Delete  []*karpv1.NodeClaim // in the order in which they go
	Order   string              // distinguishes these claims from those of other decisions
	AtLimit bool                // limits.nodes keeps it from growing
	Paused  bool                // it lacks claims, and launches are backed off
	After   time.Duration       // when to reconcile again
}

// Grow decides which claims a static pool lacks. A cache may lag, so the API server is read before a claim is created, and its
// response counts: neither a cache that lags nor a process that died in between makes a second claim (FM M01). The name of
// the order follows from the claims there are, so that the same order given twice makes them once.
func Grow(f StaticFacts) StaticStep {
	step := confirmedStep(&f, Scale(f))
	step.Delete = nil
	switch {
	case step.Create > 0 && f.BackedOff:
		step.Create, step.Paused, step.After = 0, true, staticBackedOff
	case step.Create > 0:
		step.Order = "static/" + fingerprint(f.Claims)
	}
	return step
}

// Shrink decides which claims of a static pool are too many, read from the API server like those of Grow. Budgets do not
// apply; drains are as usual.
func Shrink(f StaticFacts) StaticStep {
	step := confirmedStep(&f, Scale(f))
	step.Create = 0
	return step
}

// confirmedStep is a step that rests on what the API server says, or requests that.
func confirmedStep(f *StaticFacts, step StaticStep) StaticStep {
	if !f.Live && (step.Create > 0 || len(step.Delete) > 0) {
		return StaticStep{Confirm: true}
	}
	return step
}

// fingerprint distinguishes one set of claims from another.
func fingerprint(claims []*karpv1.NodeClaim) string {
	names := make([]string, 0, len(claims))
	for _, c := range claims {
		names = append(names, string(c.UID)+c.Name)
	}
	slices.Sort(names)
	h := fnv.New64a()
	for _, name := range names {
		h.Write([]byte(name))
		h.Write([]byte{0})
	}
	return strconv.FormatUint(h.Sum64(), 36)
}

// Scale decides about the size of a static pool (LC-46, LC-47). The two halves never both have something
// to do. A node of a command whose replacement has not been ordered yet keeps its place: if the pool filled
// that too, it would have one node too many once the command continues, and give up the replacement again.
func Scale(f StaticFacts) StaticStep {
	step := StaticStep{After: staticEvery}
	if f.Pool.Spec.Replicas == nil || f.Pool.DeletionTimestamp != nil {
		return step
	}
	var running []*karpv1.NodeClaim
	held, replaced := map[string]bool{}, map[string]bool{}
	for _, c := range f.Claims {
		switch {
		case c.DeletionTimestamp != nil:
		case condition.True(c.Status.Conditions, karpv1.ConditionRebooting): // it comes back
			running = append(running, c)
		case f.Loads[c.Name].Held || condition.True(c.Status.Conditions, karpv1.ConditionDisruptionReason):
			held[c.Name] = true
		default:
			running = append(running, c)
			for name := range strings.SplitSeq(c.Annotations[karpv1.AnnotationReplaces], ",") {
				replaced[name] = true
			}
		}
	}
	want := int(*f.Pool.Spec.Replicas)
	switch {
	case len(running) > want:
		step.Delete = f.removalOrder(running)[:len(running)-want]
	case len(running)+len(held) < want && condition.True(f.Pool.Status.Conditions, karpv1.ConditionReady):
		maps.DeleteFunc(held, func(name string, _ bool) bool { return replaced[name] })
		lacks := want - len(running) - len(held) // a command orders the replacements of its nodes itself
		step.Create = min(lacks, f.freeSlots())
		if step.AtLimit = step.Create < lacks; step.AtLimit {
			step.After = staticAtLimit
		}
	}
	return step
}

// freeSlots is how many claims the limit of the pool leaves room for. Everything that exists counts.
func (f *StaticFacts) freeSlots() int {
	limit, limited := f.Pool.Spec.Limits[karpv1.LimitNodes]
	if !limited {
		return int(^uint(0) >> 1)
	}
	return int(max(0, limit.Value()-int64(len(f.Claims))))
}

// removalOrder sorts claims by how little is lost with them (LC-47): not launched, empty, without protected pods,
// with them; among equals what moving their pods costs, less the nearer they are to their expiry.
func (f *StaticFacts) removalOrder(claims []*karpv1.NodeClaim) []*karpv1.NodeClaim {
	out := slices.Clone(claims)
	slices.SortFunc(out, func(a, b *karpv1.NodeClaim) int {
		return cmp.Or(cmp.Compare(f.rank(a), f.rank(b)), cmp.Compare(f.evictionCost(a), f.evictionCost(b)), cmp.Compare(a.Name, b.Name))
	})
	return out
}

func (f *StaticFacts) rank(c *karpv1.NodeClaim) int {
	load := f.Loads[c.Name]
	switch {
	case c.Status.ProviderID == "":
		return 0
	case !load.Pods && !load.Protected:
		return 1
	case !load.Protected:
		return 2
	default:
		return 3
	}
}

// evictionCost is what evicting the pods of a node costs, weighted with the part of its life that is left (LC-48).
func (f *StaticFacts) evictionCost(c *karpv1.NodeClaim) float64 {
	left := 1.0
	if life, never, err := c.Spec.ExpireAfter.ParseOrNever(); err == nil && !never && life > 0 {
		left = min(max(1-f.Now.Sub(c.CreationTimestamp.Time).Seconds()/life.Seconds(), 0), 1)
	}
	return f.Loads[c.Name].Cost * left
}
