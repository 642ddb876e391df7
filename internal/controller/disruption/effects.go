package disruption

import (
	"context"
	"errors"
	"maps"
	"slices"

	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/disrupt/command"
	"github.com/dovetail-sh/dovetail/internal/execute"
)

// perform performs the effects of a step. One that fails does not keep the others from being performed (G9). Claims
// are those of the command as they were observed.
func (w *worker) perform(ctx context.Context, effects []command.Effect, claims map[string]*karpv1.NodeClaim) error {
	var failed []error
	var undone *disrupt.Running
	for _, effect := range effects {
		switch e := effect.(type) {
		case command.Release:
			failed = append(failed, w.holder.releaseHolds(ctx, e.Nodes))
		case command.CleanNode:
			failed = append(failed, w.holder.releaseHold(ctx, e.Node))
		case command.UnmarkReplacements:
			failed = append(failed, w.holder.removeMarks(ctx, e.Claims))
		case command.DeleteReplacements:
			w.deleter.deleteReplacements(ctx, e.Claims)
		case command.Delete:
			failed = append(failed, w.deleteAll(ctx, &e.Command, claims))
		case command.BackOff:
			w.queue.recordBackoff(e.Reason, w.now(), e.Nodes)
		case command.Commit:
			w.commit(e)
		case command.LaunchDenied:
			if w.backoff != nil {
				w.backoff.RecordDenied(e.Pool, w.now())
			}
		case command.Nominate:
			for _, name := range e.Claims {
				w.store.Nominate(name, w.now().Add(w.nomination))
			}
		case command.Awaited:
			w.events.Emit(claims[e.Claim], e.Event)
		case command.WakePass:
			loop.Wake(w.wake)
		case command.Failed:
			undone = &e.Command
			w.reporter.reportFailure(ctx, undone, e.Why)
		default:
			w.reporter.report(ctx, effect)
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
func (r *reporter) report(ctx context.Context, effect command.Effect) {
	switch e := effect.(type) {
	case command.Refused:
		if e.Busy != nil {
			log.FromContext(ctx).V(1).Info("node is part of a running command", "Node", klog.KRef("", e.Busy.Node), "NodeClaim", klog.KRef("", e.Busy.Claim))
		} else {
			log.FromContext(ctx).V(1).Info("nothing is launched from the NodePool for a while", "NodePools", e.Command.Template)
		}
	case command.Objected:
		o := e.Objection
		log.FromContext(ctx).Info("node stays after all", "Node", klog.KRef("", o.Node), "NodeClaim", klog.KRef("", o.Claim), "category", o.Category, "reason", o.Text)
		r.emitNodeEvents(ctx, e.Events)
	case command.Invalid:
		r.metrics.DisruptionFailedValidations.WithLabelValues(e.Command.Type).Inc()
	case command.DriftBackedOff:
		r.metrics.DisruptionDriftBackoffs.WithLabelValues(e.Pool).Inc()
	case command.Finished:
		log.FromContext(ctx).V(1).Info("command succeeded", "command", e.Command.ID, "reason", e.Command.Reason)
	case command.Outcome:
		r.recordOutcome(e.Command, e.Text)
	}
}

// reportFailure counts and logs a running command that cannot succeed.
func (r *reporter) reportFailure(ctx context.Context, c *disrupt.Running, why string) {
	r.metrics.DisruptionQueueFailures.WithLabelValues(c.Decision, reasonLabel(c.Reason), c.Type).Add(float64(max(1, len(c.ReplacementClaims)-len(c.InitializedClaims))))
	log.FromContext(ctx).Error(errors.New(why), "disruption command failed; its nodes stay", "command", c.ID, "reason", c.Reason, "nodes", names(c.Remove))
}

// commit marks the nodes of a command as being removed. That is not done before the order: pods would get a second
// place (disruption 17).
func (w *worker) commit(e command.Commit) {
	w.nominate(e.Command.Command, e.Claims)
	w.store.Replace(nodesIn(e.Command.Command), e.Places())
	w.reporter.countDecision(e.Command.Command)
}

// nominate reserves the nodes that pods are planned onto, and emits events on the pods.
func (w *worker) nominate(c disrupt.Command, planned map[cluster.PodKey]string) {
	until := w.now().Add(w.nomination)
	say := func(key cluster.PodKey, place string) {
		if pod := w.store.Pod(key); pod != nil {
			w.events.Emit(pod, execute.NominatedOn(place))
		}
	}
	done := map[string]bool{}
	for _, b := range c.Bind {
		if !done[b.Node] {
			done[b.Node] = true
			w.store.Nominate(b.Node, until)
		}
		say(b.Pod, "node/"+b.Node)
	}
	for _, key := range slices.SortedFunc(maps.Keys(planned), cluster.PodKey.Compare) {
		say(key, "nodeclaim/"+planned[key])
	}
}
