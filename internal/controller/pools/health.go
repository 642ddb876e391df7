package pools

import (
	"context"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/pool"
)

// countedClaims bounds how many claims of a pool are kept as counted.
const countedClaims = 64

// Health collects the results of the launches of each pool and wakes the reconciler of pools, which decides
// what they mean (LC-53). It is safe for concurrent use.
type Health struct {
	mu    sync.Mutex
	pools map[types.UID]*poolLaunches
	queue workqueue.TypedRateLimitingInterface[reconcile.Request] // nil until the reconciler runs
}

// poolLaunches are the results of one pool object.
type poolLaunches struct {
	pool    string
	known   bool // the ring was decided since the start
	ring    pool.Ring
	results []pool.Result // not decided about yet
	counted []types.UID   // claims; each counts once, however often it is reported
}

// NewHealth returns a Health without results.
func NewHealth() *Health { return &Health{pools: map[types.UID]*poolLaunches{}} }

// Start takes the queue of the reconciler of pools: Health is one of its sources.
func (h *Health) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.queue = queue
	return nil
}

// Registered counts a claim whose node registered.
func (h *Health) Registered(claim *karpv1.NodeClaim) {
	h.recordLaunch(claim, pool.Result{Registered: true})
}

// Failed counts a claim that is given up because its node did not register in time. Without a reason
// it was launched and the node never joined; otherwise the reason is that of its Launched condition.
func (h *Health) Failed(claim *karpv1.NodeClaim, reason, message string) {
	h.recordLaunch(claim, pool.Result{Reason: reason, Message: message})
}

// recordLaunch counts for the pool object that owns the claim; one of the same name made later is another.
func (h *Health) recordLaunch(claim *karpv1.NodeClaim, result pool.Result) {
	i := slices.IndexFunc(claim.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "NodePool" })
	if i < 0 {
		return
	}
	owner := claim.OwnerReferences[i]
	h.mu.Lock()
	defer h.mu.Unlock()
	known := h.pools[owner.UID]
	if known == nil {
		known = &poolLaunches{pool: owner.Name}
		h.pools[owner.UID] = known
	}
	if slices.Contains(known.counted, claim.UID) {
		return
	}
	known.counted = append(known.counted, claim.UID)
	known.counted = known.counted[max(0, len(known.counted)-countedClaims):]
	known.results = append(known.results, result)
	known.results = known.results[max(0, len(known.results)-countedClaims):]
	if h.queue != nil {
		h.queue.Add(reconcile.Request{NamespacedName: client.ObjectKey{Name: owner.Name}})
	}
}

// launches returns what a decision about the pool needs.
func (h *Health) launches(p *karpv1.NodePool) pool.Launches {
	h.mu.Lock()
	defer h.mu.Unlock()
	known := h.pools[p.UID]
	if known == nil {
		return pool.Launches{}
	}
	return pool.Launches{Ring: known.ring, Known: known.known, Results: slices.Clone(known.results)}
}

// recordDecision stores a decision that was written, and drops the results it is based on.
func (h *Health) recordDecision(p *karpv1.NodePool, ring pool.Ring, decided int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for uid, other := range h.pools {
		if other.pool == p.Name && uid != p.UID {
			delete(h.pools, uid)
		}
	}
	known := h.pools[p.UID]
	if known == nil {
		known = &poolLaunches{pool: p.Name}
		h.pools[p.UID] = known
	}
	known.known, known.ring = true, ring
	known.results = slices.Clone(known.results[min(decided, len(known.results)):])
}

// dropPool drops the pool objects of a name, which are gone or not ours.
func (h *Health) dropPool(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for uid, known := range h.pools {
		if known.pool == name {
			delete(h.pools, uid)
		}
	}
}
