package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	disruption "github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/disrupt/command"
	"github.com/dovetail-sh/dovetail/internal/event"
)

const (
	firstQueueDelay = time.Second     // until a new command is checked again
	maxQueueDelay   = 5 * time.Second // a failed replacement is noticed within this time (FM K07)
	idleQueue       = time.Hour       // an empty queue waits for a wake-up
	endedTTL        = 10 * time.Minute
)

// commandQueue holds the running commands. Both loops use it.
type commandQueue struct {
	wake chan struct{}

	mu       sync.Mutex
	list     map[string]*runningCommand // by token
	claims   map[string]string          // tokens, by the claims that are removed
	waits    map[string]string          // tokens, by the pending replacements
	urgent   map[string]bool            // tokens of commands that lost a replacement
	ended    map[string]time.Time       // tokens of finished commands: the cache may still show them as running
	backoffs command.Backoffs
}

// runningCommand is a command and when to check it next.
type runningCommand struct {
	mu         sync.Mutex
	run        disruption.Running
	over       bool
	due        time.Time
	wait       time.Duration
	lastEvents map[string]event.Reason // by replacement: the last event
}

func (e *runningCommand) isDue(now time.Time) bool { return e.dueIn(now) == 0 }

func (e *runningCommand) dueIn(now time.Time) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return max(e.due.Sub(now), 0)
}

func newCommandQueue(seed uint64) *commandQueue {
	return &commandQueue{
		wake: make(chan struct{}, 1), list: map[string]*runningCommand{}, claims: map[string]string{}, waits: map[string]string{}, urgent: map[string]bool{}, ended: map[string]time.Time{},
		backoffs: command.NewBackoffs(seed),
	}
}

func (q *commandQueue) addCommand(r disruption.Running) *runningCommand {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := &runningCommand{run: r, lastEvents: map[string]event.Reason{}}
	q.list[r.Token()] = e
	for _, n := range r.Remove {
		q.claims[n.Claim] = r.Token()
	}
	for _, name := range r.ReplacementClaims {
		q.waits[name] = r.Token()
	}
	return e
}

// isRemoving reports whether a claim is part of a running command.
func (q *commandQueue) isRemoving(claim string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, found := q.claims[claim]
	return found
}

func (q *commandQueue) all() []*runningCommand {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := make([]*runningCommand, 0, len(q.list))
	for _, token := range slices.Sorted(maps.Keys(q.list)) {
		out = append(out, q.list[token])
	}
	return out
}

// ranHere reports whether a command runs or has ended in this process.
func (q *commandQueue) ranHere(token string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, ended := q.ended[token]
	return ended || q.list[token] != nil
}

// isRunning reports whether a command runs.
func (q *commandQueue) isRunning(token string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.list[token] != nil
}

func (q *commandQueue) endCommand(token string, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.list, token)
	delete(q.urgent, token)
	for _, list := range []map[string]string{q.claims, q.waits} {
		maps.DeleteFunc(list, func(_, of string) bool { return of == token })
	}
	maps.DeleteFunc(q.ended, func(_ string, at time.Time) bool { return now.Sub(at) > endedTTL })
	q.ended[token] = now
}

// recordLostReplacement records that a replacement is terminating. The command that waits for it is checked at
// once: its nodes stay, so its pods need no other place (G8).
func (q *commandQueue) recordLostReplacement(claim string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if token, waited := q.waits[claim]; waited {
		q.urgent[token] = true
		wakeLoop(q.wake)
	}
}

// takeUrgent reports, once, whether a command lost a replacement.
func (q *commandQueue) takeUrgent(e *runningCommand) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	// any order: a command has one token
	for token := range q.urgent {
		if q.list[token] == e {
			delete(q.urgent, token)
			return true
		}
	}
	return false
}

// nodeCount is how many nodes are in the queue.
func (q *commandQueue) nodeCount() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.claims)
}

// markBackoffs marks what is in back-off in a view, and reports whether a node is.
func (q *commandQueue) markBackoffs(view *disruption.View, now time.Time) (hidden bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.backoffs.MarkBackoffs(view, now)
}

// recordBackoff backs off nodes that stay although a command was to remove them.
func (q *commandQueue) recordBackoff(why karpv1.DisruptionReason, now time.Time, nodes ...disruption.Candidate) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.backoffs.RecordFailure(why, now, nodes...)
}

// Work advances the commands that are due and returns when the next one is.
func (d *Disruption) Work(ctx context.Context) (time.Duration, error) {
	d.prepare()
	list := d.queue.all()
	if d.Ends != nil && len(list) > 0 {
		d.Ends.Begin()
		defer d.Ends.Done()
		ctx = withPulse(ctx, d.Ends)
	}
	failed := d.forEach(len(list), func(i int) error {
		if list[i].isDue(d.Now()) || d.queue.takeUrgent(list[i]) {
			return d.advance(ctx, list[i])
		}
		return nil
	})
	wait := idleQueue
	for _, e := range d.queue.all() {
		wait = min(wait, e.dueIn(d.Now()))
	}
	if err := errors.Join(failed...); err != nil && !onlyConflicts(err) {
		return wait, err
	}
	return wait, nil
}

// advance takes one command as far as possible now.
func (d *Disruption) advance(ctx context.Context, e *runningCommand) error {
	queued := d.queue.nodeCount()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over {
		return nil
	}
	e.wait = min(max(2*e.wait, firstQueueDelay), maxQueueDelay)
	e.due = d.Now().Add(e.wait)
	seen, claims, err := d.observe(ctx, &e.run)
	if err != nil {
		return err
	}
	progress := e.run.Advance(seen, queued, d.Now())
	for _, name := range e.run.ReplacementClaims {
		d.Store.Nominate(name, d.Now().Add(d.Nomination)) // other loops must not remove it meanwhile
	}
	if len(progress.Retained) > 0 {
		err = d.releaseHolds(ctx, progress.Retained)
	}
	switch progress.Stage {
	case disruption.Waiting:
		d.emitWaitingEvents(e, progress, seen, claims)
	case disruption.Ready:
		err = errors.Join(err, d.deleteAll(ctx, e, claims))
	case disruption.Over:
		d.finishCommand(ctx, e, "nothing is left to remove")
	case disruption.Broken:
		d.failCommand(ctx, e, progress)
	}
	return err
}

// observe reads the claims of a command. A claim that is missing in the cache may be too new for it, so the API
// server is read.
func (d *Disruption) observe(ctx context.Context, r *disruption.Running) (map[string]disruption.ClaimStatus, map[string]*karpv1.NodeClaim, error) {
	seen, claims := map[string]disruption.ClaimStatus{}, map[string]*karpv1.NodeClaim{}
	look := func(name, node, pool string) error {
		claim := &karpv1.NodeClaim{}
		err := d.Client.Get(ctx, client.ObjectKey{Name: name}, claim)
		if apierrors.IsNotFound(err) {
			err = d.Reader.Get(ctx, client.ObjectKey{Name: name}, claim)
		}
		if apierrors.IsNotFound(err) {
			seen[name] = disruption.ClaimStatus{NotFound: true}
			return nil
		}
		if err != nil {
			return fmt.Errorf("nodeclaim %s: %w", name, err)
		}
		s := disruption.ClaimStatus{
			Deleting: claim.DeletionTimestamp != nil,
			Launched: condition.True(claim.Status.Conditions, karpv1.ConditionLaunched), Initialized: condition.True(claim.Status.Conditions, karpv1.ConditionInitialized),
		}
		if node != "" {
			at := &corev1.Node{}
			if err := d.Client.Get(ctx, client.ObjectKey{Name: node}, at); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("node %s: %w", node, err)
			}
			s.Protected, s.Leading = d.disruptionForbiddenBy(at, pool), node == d.Store.UnreplicatedLeaderNode()
		}
		seen[name], claims[name] = s, claim
		return nil
	}
	for _, n := range r.Remove {
		if err := look(n.Claim, n.Node, n.Pool); err != nil {
			return nil, nil, err
		}
	}
	for _, name := range r.ReplacementClaims {
		if err := look(name, "", ""); err != nil {
			return nil, nil, err
		}
	}
	return seen, claims, nil
}

// emitWaitingEvents emits events on the pending replacements when what they wait for changes.
func (d *Disruption) emitWaitingEvents(e *runningCommand, p disruption.Progress, seen map[string]disruption.ClaimStatus, claims map[string]*karpv1.NodeClaim) {
	for _, name := range p.Pending {
		news := event.Event{Reason: event.DisruptionLaunching, Text: "The node is launched to replace " + names(e.run.Remove) + ", reason " + string(e.run.Reason)}
		if seen[name].Launched {
			news = event.Event{Reason: event.DisruptionWaitingReadiness, Text: "Once the node is initialized, it replaces " + names(e.run.Remove)}
		}
		if e.lastEvents[name] != news.Reason {
			e.lastEvents[name] = news.Reason
			d.Events.Emit(claims[name], news)
		}
	}
}

// deleteAll deletes the claims of a command that is ready, and retries failures later. A few claims are deleted
// one by one: their pods are then rescheduled in the order of the plan.
func (d *Disruption) deleteAll(ctx context.Context, e *runningCommand, claims map[string]*karpv1.NodeClaim) error {
	const few, many = 5, 20
	list, workers := e.run.Remove, many
	if len(list) <= few {
		workers = 1
	}
	failed := d.forEachWith(workers, len(list), func(i int) error { return d.delete(ctx, &e.run, list[i], claims[list[i].Claim]) })
	var rest []disruption.Candidate
	for i, n := range list {
		if failed[i] != nil {
			rest = append(rest, n)
		} else {
			d.Store.SetCommanded(n.Node, false) // it stays marked as terminating
		}
	}
	if e.run.Remove = rest; len(rest) > 0 {
		e.run.Failed = true
		return errors.Join(failed...)
	}
	d.recordDriftSuccess(&e.run.Command, list)
	d.finishCommand(ctx, e, "done")
	return nil
}

// finishCommand ends a command with nothing left to do.
func (d *Disruption) finishCommand(ctx context.Context, e *runningCommand, how string) {
	e.over = true
	d.queue.endCommand(e.run.Token(), d.Now())
	log.FromContext(ctx).V(1).Info("command succeeded", "command", e.run.ID, "reason", e.run.Reason)
	d.recordOutcome(e.run.Command, how)
	wakeLoop(d.wake)
}

// failCommand rolls back a command that cannot succeed. Replacements that came up stay, as ordinary nodes (FM
// K08).
func (d *Disruption) failCommand(ctx context.Context, e *runningCommand, p disruption.Progress) {
	e.over = true
	r := &e.run
	d.Metrics.DisruptionQueueFailures.WithLabelValues(r.Decision, reasonLabel(r.Reason), r.Type).Add(float64(max(1, len(r.ReplacementClaims)-len(r.InitializedClaims))))
	log.FromContext(ctx).Error(errors.New(p.Why), "disruption command failed; its nodes stay", "command", r.ID, "reason", r.Reason, "nodes", names(r.Remove))
	if p.Replacement {
		d.recordDriftFailure(r.Command)
	}
	d.queue.recordBackoff(r.Reason, d.Now(), r.Remove...)
	d.rollBack(ctx, *r)
	d.queue.endCommand(r.Token(), d.Now())
	d.recordOutcome(r.Command, "rolled back: "+p.Why)
	wakeLoop(d.wake)
}
