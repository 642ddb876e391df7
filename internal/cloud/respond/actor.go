package respond

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/execute"
	"github.com/dovetail-sh/dovetail/internal/interruption"
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

// Actor finds the claims of an instance and performs the effects that interruption.State decides on for a notice. Its
// exported fields are set once; it is safe for concurrent use.
type Actor struct {
	Directory        objects
	Remover          execute.Remover
	Events           recorder
	Metrics          *metric.Set
	ReservationLabel string // under which claims have their capacity reservation
	Now              func() time.Time

	SpotLost        func(instanceType, zone string) // takes the offering out of the market for a while
	SpotAtRisk      func(instanceType, zone string) // counts against the offering when plans are compared
	ReservationLost func(id string)                 // nothing is left in the reservation

	mu    sync.Mutex
	state interruption.State
}

// Act performs the effects of a notice. It reports whether the instance has a NodeClaim. A panic
// becomes an error: one odd object must not end the process.
func (a *Actor) Act(ctx context.Context, n interruption.Notice) (known bool, err error) {
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
		if err := a.actOnClaim(ctx, n, &claims[i], nodes); err != nil {
			return true, err
		}
	}
	return true, nil
}

// actOnClaim performs what a notice requests about one claim.
func (a *Actor) actOnClaim(ctx context.Context, n interruption.Notice, claim *karpv1.NodeClaim, nodes []corev1.Node) error {
	a.mu.Lock()
	effects := a.state.Advance(n, claim, a.ReservationLabel, a.Now())
	a.mu.Unlock()
	for _, effect := range effects {
		switch e := effect.(type) {
		case interruption.EmitEvent:
			a.emitInterruption(claim, nodes, e.Event)
		case interruption.MarkSpotUnavailable:
			if a.SpotLost != nil {
				a.SpotLost(e.InstanceType, e.Zone)
			}
		case interruption.CountRisk:
			if a.SpotAtRisk != nil {
				a.SpotAtRisk(e.InstanceType, e.Zone)
			}
		case interruption.MarkReservationUnavailable:
			if a.ReservationLost != nil {
				a.ReservationLost(e.ID)
			}
		case interruption.AdvanceDeadline:
			if err := a.forceRunningDrain(ctx, n, claim, e.Deadline); err != nil {
				return fmt.Errorf("end the drain of NodeClaim %s after %s of %s: %w", claim.Name, n.Kind, n.Instance, err)
			}
		case interruption.DeleteClaim:
			if err := a.delete(ctx, n, claim, nodes, e); err != nil {
				return fmt.Errorf("delete NodeClaim %s after %s of %s: %w", claim.Name, n.Kind, n.Instance, err)
			}
		}
	}
	return nil
}

func (a *Actor) emitInterruption(claim *karpv1.NodeClaim, nodes []corev1.Node, e event.Event) {
	a.Events.Emit(claim, e)
	for i := range nodes {
		a.Events.Emit(&nodes[i], e)
	}
}

func (a *Actor) delete(ctx context.Context, n interruption.Notice, claim *karpv1.NodeClaim, nodes []corev1.Node, e interruption.DeleteClaim) error {
	// As a warning (S-172): nothing failed, but the cloud takes a node away.
	logger := log.FromContext(ctx).WithValues("messageKind", n.Kind, "action", n.Kind.Action(), "NodeClaim", klog.KRef("", claim.Name), "instance-id", n.Instance)
	removal := execute.Removal{
		Claim: claim, Reason: string(n.Kind), Event: e.Event, Deadline: e.Deadline,
		AnyVersion: true, // the instance terminates whatever was written meanwhile
	}
	for i := range nodes {
		removal.Nodes = append(removal.Nodes, &nodes[i])
	}
	if len(nodes) > 0 {
		logger = logger.WithValues("Node", klog.KRef("", nodes[0].Name))
	}
	logger.Error(nil, "initiating delete from interruption message")
	err := a.Remover.Remove(ctx, removal)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // gone, or another claim of that name: not ours to delete
	}
	if err != nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.state.DeletionFailed(claim.UID)
	}
	return err
}

func (a *Actor) forceRunningDrain(ctx context.Context, n interruption.Notice, claim *karpv1.NodeClaim, deadline time.Time) error {
	written, err := a.Remover.AdvanceDeadline(ctx, claim, deadline)
	if err != nil || !written {
		return client.IgnoreNotFound(err)
	}
	log.FromContext(ctx).Info("ending the drain of an instance that fails its status check", "messageKind", n.Kind, "NodeClaim", klog.KRef("", claim.Name), "instance-id", n.Instance)
	return nil
}
