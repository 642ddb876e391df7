package interruption

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/execute"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

// objects finds the objects of an instance, by its name.
type objects interface {
	// Claims are the NodeClaims of an instance. There is more than one only if something went wrong.
	Claims(ctx context.Context, instance string) ([]karpv1.NodeClaim, error)
	// Nodes are its Nodes.
	Nodes(ctx context.Context, instance string) ([]corev1.Node, error)
}

type recorder interface {
	Emit(obj client.Object, events ...event.Event)
}

// Actor does what an announcement asks for. Its exported fields are set once; it is safe for concurrent use.
type Actor struct {
	Directory        objects
	Remover          execute.Remover
	Events           recorder
	Metrics          *metric.Set
	ReservationLabel string // under which claims have their capacity reservation
	Now              func() time.Time

	SpotLost        func(instanceType, zone string) // takes the offering out of the market for a while
	ReservationLost func(id string)                 // nothing is left in the reservation

	mu      sync.Mutex
	deleted map[types.UID]time.Time // what we deleted, which the cache may not show yet (H02)
}

// deletionTTL is how long a deletion is remembered; a cache that lags longer has other problems.
const deletionTTL = 10 * time.Minute

// Act does what a notice asks for. It reports whether the instance has a NodeClaim. A panic
// becomes an error: one odd object must not end the process.
func (a *Actor) Act(ctx context.Context, n Notice) (known bool, err error) {
	kind, instance := n.Kind, n.Instance
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic over %s of %s: %v", kind, instance, cause)
			a.Metrics.Panics.WithLabelValues("interruption").Inc()
		}
	}()
	claims, err := a.Directory.Claims(ctx, instance)
	if err != nil {
		return false, fmt.Errorf("find the NodeClaim of %s: %w", instance, err)
	}
	if len(claims) == 0 {
		return false, nil
	}
	nodes, err := a.Directory.Nodes(ctx, instance)
	if err != nil {
		return true, fmt.Errorf("find the Node of %s: %w", instance, err)
	}
	for i := range claims {
		claim := &claims[i]
		a.emitInterruption(claim, nodes, n.event())
		a.markUnavailable(kind, claim)
		if kind.Action() == NoAction {
			continue
		}
		if !claim.DeletionTimestamp.IsZero() {
			if err := a.forceRunningDrain(ctx, kind, instance, claim); err != nil {
				return true, fmt.Errorf("end the drain of NodeClaim %s after %s of %s: %w", claim.Name, kind, instance, err)
			}
			continue
		}
		if err := a.delete(ctx, kind, instance, claim, nodes); err != nil {
			return true, fmt.Errorf("delete NodeClaim %s after %s of %s: %w", claim.Name, kind, instance, err)
		}
	}
	return true, nil
}

func (a *Actor) emitInterruption(claim *karpv1.NodeClaim, nodes []corev1.Node, e event.Event) {
	if e.Reason == "" {
		return
	}
	a.Events.Emit(claim, e)
	for i := range nodes {
		a.Events.Emit(&nodes[i], e)
	}
}

// markUnavailable takes note of capacity that is gone, so that the replacement is bought elsewhere.
func (a *Actor) markUnavailable(kind Kind, claim *karpv1.NodeClaim) {
	instanceType, zone := claim.Labels[corev1.LabelInstanceTypeStable], claim.Labels[corev1.LabelTopologyZone]
	switch reservation := claim.Labels[a.ReservationLabel]; {
	case kind == SpotInterrupted && a.SpotLost != nil && instanceType != "" && zone != "":
		a.SpotLost(instanceType, zone)
	case kind == ReservationInterrupted && a.ReservationLost != nil && reservation != "":
		a.ReservationLost(reservation)
	}
}

func (a *Actor) delete(ctx context.Context, kind Kind, instance string, claim *karpv1.NodeClaim, nodes []corev1.Node) error {
	if !a.recordDeletion(claim.UID) {
		return nil
	}
	// As a warning (S-172): nothing failed, but the cloud takes a node away.
	logger := log.FromContext(ctx).WithValues("messageKind", kind, "action", kind.Action(), "NodeClaim", klog.KRef("", claim.Name), "instance-id", instance)
	removal := execute.Removal{
		Claim: claim, Reason: string(kind), AnyVersion: true, // the instance ends, whatever was written meanwhile
		Event: event.Event{Reason: event.TerminatingOnInterruption, Text: fmt.Sprintf("The NodeClaim is deleted because of an interruption (%s) of instance %s", kind, instance)},
	}
	for i := range nodes {
		removal.Nodes = append(removal.Nodes, &nodes[i])
	}
	if len(nodes) > 0 {
		logger = logger.WithValues("Node", klog.KRef("", nodes[0].Name))
	}
	if kind.Action() == ForcefulTermination { // the machine is broken: nobody waits for its pods (7.2)
		removal.Deadline = a.Now()
	}
	logger.Error(nil, "initiating delete from interruption message")
	err := a.Remover.Remove(ctx, removal)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // gone, or another claim of that name: not ours to delete
	}
	if err != nil {
		a.dropDeletion(claim.UID)
	}
	return err
}

// forceRunningDrain ends a drain that runs already where the machine is broken: pods are not protected on one that fails
// its status checks, whoever began to remove it and why (disruption 1).
func (a *Actor) forceRunningDrain(ctx context.Context, kind Kind, instance string, claim *karpv1.NodeClaim) error {
	if kind.Action() != ForcefulTermination {
		return nil
	}
	written, err := a.Remover.AdvanceDeadline(ctx, claim, a.Now())
	if err != nil || !written {
		return client.IgnoreNotFound(err)
	}
	log.FromContext(ctx).Info("ending the drain of an instance that fails its status check", "messageKind", kind, "NodeClaim", klog.KRef("", claim.Name), "instance-id", instance)
	return nil
}

// recordDeletion reports whether nobody deleted the claim yet, and takes note that it is being deleted.
func (a *Actor) recordDeletion(claim types.UID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.deleted == nil {
		a.deleted = map[types.UID]time.Time{}
	}
	now := a.Now()
	maps.DeleteFunc(a.deleted, func(_ types.UID, at time.Time) bool { return now.Sub(at) > deletionTTL })
	if _, done := a.deleted[claim]; done {
		return false
	}
	a.deleted[claim] = now
	return true
}

func (a *Actor) dropDeletion(claim types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.deleted, claim)
}
