package pools

import (
	"context"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/pool"
)

// Health collects the results of the launches of each pool and wakes the reconciler of pools, which decides
// what they mean (LC-53). It is safe for concurrent use.
type Health struct {
	mu      sync.Mutex
	results pool.Registrations
	queue   workqueue.TypedRateLimitingInterface[reconcile.Request] // nil until the reconciler runs
}

// NewHealth returns a Health without results.
func NewHealth() *Health { return &Health{} }

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

func (h *Health) recordLaunch(claim *karpv1.NodeClaim, result pool.Result) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if decide := h.results.Record(claim, result); decide != "" && h.queue != nil {
		h.queue.Add(reconcile.Request{NamespacedName: client.ObjectKey{Name: decide}})
	}
}

// launches returns what a decision about the pool needs.
func (h *Health) launches(p *karpv1.NodePool) pool.Launches {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.results.Launches(p)
}

// recordDecision stores a decision that was written, and drops the results it is based on.
func (h *Health) recordDecision(p *karpv1.NodePool, ring pool.Ring, decided int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.results.Decided(p, ring, decided)
}

// dropPool drops the pool objects of a name, which are gone or not ours.
func (h *Health) dropPool(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.results.Drop(name)
}
