package disruption

import (
	"context"
	"errors"

	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/disrupt/command"
)

// perform performs the effects of a step. One that fails does not keep the others from being performed (G9). Claims
// are those of the command as they were observed.
func (d *Disruption) perform(ctx context.Context, effects []command.Effect, claims map[string]*karpv1.NodeClaim) error {
	var failed []error
	var undone *disrupt.Running
	for _, effect := range effects {
		switch e := effect.(type) {
		case command.Release:
			failed = append(failed, d.releaseHolds(ctx, e.Nodes))
		case command.CleanNode:
			failed = append(failed, d.releaseHold(ctx, e.Node))
		case command.Forget:
			failed = append(failed, d.removeMarks(ctx, e.Claims))
		case command.DeleteReplacements:
			d.deleteReplacements(ctx, e.Claims)
		case command.Delete:
			failed = append(failed, d.deleteAll(ctx, &e.Command, claims))
		case command.BackOff:
			d.queue.recordBackoff(e.Reason, d.Now(), e.Nodes)
		case command.Commit:
			d.commit(e.Command.Command, e.Claims)
		case command.Nominate:
			for _, name := range e.Claims {
				d.Store.Nominate(name, d.Now().Add(d.Nomination))
			}
		case command.Awaited:
			d.Events.Emit(claims[e.Claim], e.Event)
		case command.Failed:
			undone = &e.Command
			d.reportFailure(ctx, undone, e.Why)
		default:
			d.report(ctx, effect)
		}
	}
	err := errors.Join(failed...)
	if undone == nil {
		return err
	}
	if err != nil {
		log.FromContext(ctx).Error(err, "undoing a command failed; the next pass tries again", "command", undone.ID, "nodes", names(undone.Remove))
	}
	return nil
}

// report logs, counts and records what happened.
func (d *Disruption) report(ctx context.Context, effect command.Effect) {
	switch e := effect.(type) {
	case command.Refused:
		if e.Busy != nil {
			log.FromContext(ctx).V(1).Info("node is part of a running command", "Node", klog.KRef("", e.Busy.Node), "NodeClaim", klog.KRef("", e.Busy.Claim))
		} else {
			log.FromContext(ctx).V(1).Info("nothing is bought from the NodePool for a while", "NodePools", e.Command.Template)
		}
	case command.Objected:
		o := e.Objection
		log.FromContext(ctx).Info("node stays after all", "Node", klog.KRef("", o.Node), "NodeClaim", klog.KRef("", o.Claim), "category", o.Category, "reason", o.Text)
		d.emitNodeEvents(ctx, e.Events)
	case command.Invalid:
		d.Metrics.DisruptionFailedValidations.WithLabelValues(e.Command.Type).Inc()
	case command.DriftBackedOff:
		d.Metrics.DisruptionDriftBackoffs.WithLabelValues(e.Pool).Inc()
	case command.Finished:
		log.FromContext(ctx).V(1).Info("command succeeded", "command", e.Command.ID, "reason", e.Command.Reason)
	case command.Outcome:
		d.recordOutcome(e.Command, e.Text)
	case command.WakePass:
		loop.Wake(d.wake)
	}
}

// reportFailure counts and logs a running command that cannot succeed.
func (d *Disruption) reportFailure(ctx context.Context, r *disrupt.Running, why string) {
	d.Metrics.DisruptionQueueFailures.WithLabelValues(r.Decision, reasonLabel(r.Reason), r.Type).Add(float64(max(1, len(r.ReplacementClaims)-len(r.InitializedClaims))))
	log.FromContext(ctx).Error(errors.New(why), "disruption command failed; its nodes stay", "command", r.ID, "reason", r.Reason, "nodes", names(r.Remove))
}
