package disruption

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/controller/write"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/disrupt/command"
	"github.com/dovetail-sh/dovetail/internal/execute"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

// deleter deletes the claims of commands.
type deleter struct {
	objects

	store   pools
	events  write.Emitter
	metrics *metric.Set
	journal journal // nil: none is kept
	now     func() time.Time
}

// delete deletes exactly this claim, after it has written the deadline of its drain. If another client writes
// the claim meanwhile, it is read again: a process that was paused for long must not delete a node that its
// successor released (FM C03).
func (x deleter) delete(ctx context.Context, r *disrupt.Running, n disrupt.Candidate, known *karpv1.NodeClaim) error {
	remover := write.NewRemover(x.client, x.events, x.metrics, nil) // commands have a record of their own
	var claim *karpv1.NodeClaim
	var err error
	for range maxWriteTries {
		if claim, err = x.rereadHeldClaim(ctx, r, n, known); err != nil {
			err = fmt.Errorf("delete nodeclaim %s: %w", n.Claim, err)
		} else if claim != nil {
			err = remover.Remove(ctx, x.removalOf(ctx, r, n, claim))
		}
		if !apierrors.IsConflict(err) {
			break
		}
	}
	switch {
	case apierrors.IsNotFound(err), err == nil && claim == nil:
		return nil
	case err != nil:
		return err
	}
	if x.journal != nil {
		x.journal.Deleted(r, &n)
	}
	if repaired := r.UnhealthyCondition(); repaired != "" {
		write.CountUnhealthy(x.metrics, claim, repaired, lifecycle.BoundedMode(claim, command.DrainBound(r, claim)))
	}
	return nil
}

// removalOf is the removal of a claim by a command. A command that bounds the drain writes its token next to the
// deadline: a claim that stays loses the deadline again (V15-29).
func (x deleter) removalOf(ctx context.Context, r *disrupt.Running, n disrupt.Candidate, claim *karpv1.NodeClaim) execute.Removal {
	removal := execute.Removal{Claim: claim, Reason: reasonLabel(r.Reason), Event: execute.Terminating(string(r.Reason) + ": " + r.Why(&n)), Command: r.Token(), Deadline: command.DrainDeadline(r, claim, x.now())}
	if pool := poolNamed(x.store, n.Pool); pool != nil && r.Type != "" {
		removal.Policy = metric.SnakeCase(string(pool.Spec.Disruption.ConsolidationPolicy))
	}
	node := &corev1.Node{}
	if x.client.Get(ctx, client.ObjectKey{Name: n.Node}, node) == nil {
		removal.Nodes = []*corev1.Node{node}
	}
	return removal
}

// rereadHeldClaim reads a claim from the API server and confirms that the command still deletes it. It returns nil if
// there is nothing to delete.
func (x deleter) rereadHeldClaim(ctx context.Context, r *disrupt.Running, n disrupt.Candidate, known *karpv1.NodeClaim) (*karpv1.NodeClaim, error) {
	claim, node := &karpv1.NodeClaim{}, &corev1.Node{}
	if err := x.reader.Get(ctx, client.ObjectKey{Name: n.Claim}, claim); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	held := command.HeldObjects{Claim: claim, UID: known.UID, Node: node}
	if err := x.reader.Get(ctx, client.ObjectKey{Name: n.Node}, node); apierrors.IsNotFound(err) {
		held.Node = nil
	} else if err != nil {
		return nil, err
	}
	held.ProtectedBy = cluster.NodeProtectedBy(held.Node, poolNamed(x.store, n.Pool))
	if remove, err := command.CheckDelete(r, held); !remove {
		return nil, err
	}
	return claim, nil
}

// deleteReplacements deletes the replacements of a command that did not get all of them.
func (x deleter) deleteReplacements(ctx context.Context, list []command.Replacement) {
	failed := forEach(x.metrics, len(list), func(i int) error {
		claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: list[i].Name}}
		// Not write.RemoveClaim: the replacement was never used, so it does not count as a disrupted NodeClaim.
		return client.IgnoreNotFound(x.client.Delete(ctx, claim, client.Preconditions{UID: &list[i].UID}))
	})
	if err := errors.Join(failed...); err != nil {
		log.FromContext(ctx).Error(err, "deleting replacements failed; they stay as ordinary nodes")
	}
}
