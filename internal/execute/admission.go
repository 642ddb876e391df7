package execute

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// admissionStore is the part of the store that decides which nodes of a batch are created, and that records their
// claims.
type admissionStore interface {
	RecordCreatedClaim(claim *karpv1.NodeClaim, pods []cluster.PodKey)
	RecordAlteredClaim(claim string)
	NeedsPlace(pod cluster.PodKey) bool
	Pools() []*karpv1.NodePool
	Usage(pool string) (corev1.ResourceList, int64)
	Claims(pool string) int64
	Reserve(nodes []solve.NewNode, marks map[string]string, version uint64) (refused map[int]error, give func(i int))
}

// Admission is a batch of which some nodes were refused. Its methods for different nodes may be called at the same time.
type Admission struct {
	batch   Batch
	store   admissionStore
	refused []error // by node
	release func(i int)
	give    func()
}

// Admit decides which nodes of a batch may be created now, and reserves capacity for them in the limits of their
// pools. Release releases the capacity of a node, and End the slots of static pools.
func (s *Slots) Admit(b Batch, store admissionStore) *Admission {
	a := &Admission{batch: b, store: store, refused: make([]error, len(b.Nodes))}
	pools := store.Pools()
	refusals := b.refusals(pools, store.Usage)
	full, give := s.takeSlots(b, pools, store.Claims, refusals)
	late, release := store.Reserve(b.Nodes, b.Marks, b.Version)
	a.give, a.release = give, release
	for i := range b.Nodes {
		a.refused[i] = cmp.Or(refusals[b.Nodes[i].Pool], full[i], outdatedError(late[i]))
	}
	return a
}

// Release releases the capacity of a node once its claim is in the store, or its creation failed.
func (a *Admission) Release(i int) { a.release(i) }

// End gives the slots of static pools back.
func (a *Admission) End() { a.give() }

// Create makes the claim of a node through write, unless the node is refused or no pod needs it any more. write stores a
// claim; if its name is taken, it returns the claim that has it together with an error.
func (a *Admission) Create(i int, words reqs.Vocabulary, write func(*karpv1.NodeClaim) (there *karpv1.NodeClaim, err error)) Created {
	b, n := &a.batch, a.batch.Nodes[i]
	out := Created{Node: n, Err: a.refused[i]}
	if out.Err == nil && b.Reason == Provisioned && !a.stillNeeded(n) {
		out.Err = ErrObsolete
	}
	if out.Err != nil {
		return out
	}
	requested, claim, err := writeOrder(Order{Pool: b.Pools[n.Pool], Node: n, Lanes: b.Lanes, Words: words, Seed: b.seed(i), Marks: b.Marks}, write)
	if err != nil {
		out.Err = err
		return out
	}
	a.store.RecordCreatedClaim(claim, n.Pods)
	if out.Altered = alteredParts(requested, claim); len(out.Altered) > 0 {
		a.store.RecordAlteredClaim(claim.Name)
	}
	out.Claim = claim
	return out
}

// stillNeeded reports whether any pod of the node still needs it: it is pending, or runs on a terminating node.
func (a *Admission) stillNeeded(n solve.NewNode) bool {
	return len(n.Pods) == 0 || slices.ContainsFunc(n.Pods, a.store.NeedsPlace)
}

// sameNames is how often another name is tried when one is taken.
const sameNames = 3

// writeOrder creates the claim of an order. If a claim of this name exists and was requested by the same decision, it
// is the same claim: a response was lost. Otherwise two decisions have the same name, and this one uses another.
func writeOrder(o Order, write func(*karpv1.NodeClaim) (there *karpv1.NodeClaim, err error)) (requested, claim *karpv1.NodeClaim, err error) {
	for range sameNames {
		if claim, err = Claim(o); err != nil {
			return nil, nil, fmt.Errorf("nodepool %s: %w", o.Pool.Name, err)
		}
		requested = claim.DeepCopy()
		there, failed := write(claim)
		switch err = failed; {
		case err == nil:
			return requested, claim, nil
		case there == nil:
			return nil, nil, fmt.Errorf("create nodeclaim for nodepool %s: %w", o.Pool.Name, err)
		case there.DeletionTimestamp == nil && isRequestedClaim(requested, there):
			return requested, there, nil
		}
		o.Try++
	}
	return nil, nil, fmt.Errorf("create nodeclaim for nodepool %s: %w", o.Pool.Name, err)
}

// refusals returns why nothing may be launched from the pools of a batch now. The pools are read again, because
// deciding takes up to a minute. Each pool is read once, because adding up its nodes takes time too.
func (b *Batch) refusals(pools []*karpv1.NodePool, usage func(pool string) (corev1.ResourceList, int64)) map[string]error {
	now := map[string]*karpv1.NodePool{}
	for _, pool := range pools {
		now[pool.Name] = pool
	}
	out := map[string]error{}
	for _, n := range b.Nodes {
		if _, done := out[n.Pool]; done {
			continue
		}
		planned, pool := b.Pools[n.Pool], now[n.Pool]
		if planned == nil || pool == nil || pool.UID != planned.UID || pool.DeletionTimestamp != nil {
			out[n.Pool] = fmt.Errorf("nodepool %s does not exist or is being deleted", n.Pool)
			continue
		}
		out[n.Pool] = withinLimits(pool, usage)
	}
	return out
}

// withinLimits refuses when a pool already has more than it may (API 4.2).
func withinLimits(pool *karpv1.NodePool, usage func(pool string) (corev1.ResourceList, int64)) error {
	if len(pool.Spec.Limits) == 0 {
		return nil
	}
	used, nodes := usage(pool.Name)
	for _, name := range resources.Names(pool.Spec.Limits) {
		limit, have := pool.Spec.Limits[name], used[name]
		if name == karpv1.LimitNodes {
			have.Set(nodes)
		}
		if have.Cmp(limit) > 0 {
			return fmt.Errorf("nodepool %s: limit %s of %s is exceeded, %s are in use", pool.Name, limit.String(), name, have.String())
		}
	}
	return nil
}
