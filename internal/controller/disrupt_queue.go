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
	"github.com/dovetail-sh/dovetail/internal/event"
)

const (
	firstLook    = time.Second     // at a command in the queue
	slowestLook  = 5 * time.Second // a replacement that fails is noticed within this time (FM K07)
	idleQueue    = time.Hour       // an empty queue is woken
	rememberEnds = 10 * time.Minute
)

// commands are those that run. Both loops use it.
type commands struct {
	kick chan struct{}

	mu     sync.Mutex
	list   map[string]*underway // by token
	claims map[string]string    // tokens, by the claims that go
	waits  map[string]string    // tokens, by the replacements that are waited for
	urgent map[string]bool      // tokens of commands that lost one of these
	ended  map[string]time.Time // tokens of commands that are over: the cache may still show them as running
	drift  disruption.Backoff   // by pool
	again  disruption.Backoff   // by claim: nodes whose command came to nothing
	cure   disruption.Backoff   // by claim: those whose repair did
}

// underway is a command with when to look at it.
type underway struct {
	mu   sync.Mutex
	run  disruption.Running
	over bool
	due  time.Time
	wait time.Duration
	told map[string]event.Reason // what replacements were last told
}

func (e *underway) isDue(now time.Time) bool { return e.dueIn(now) == 0 }

func (e *underway) dueIn(now time.Time) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return max(e.due.Sub(now), 0)
}

func newCommands(seed uint64) *commands {
	return &commands{
		kick: make(chan struct{}, 1), list: map[string]*underway{}, claims: map[string]string{}, waits: map[string]string{}, urgent: map[string]bool{}, ended: map[string]time.Time{},
		drift: disruption.Backoff{Base: time.Minute, Cap: 10 * time.Minute, Seed: seed},
		again: disruption.Backoff{Base: disruptEvery, Cap: quietFor, Seed: seed},
		cure:  disruption.Backoff{Base: disruptEvery, Cap: quietFor, Seed: seed},
	}
}

func (q *commands) add(r disruption.Running) *underway {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := &underway{run: r, told: map[string]event.Reason{}}
	q.list[r.Token()] = e
	for _, n := range r.Remove {
		q.claims[n.Claim] = r.Token()
	}
	for _, name := range r.ReplacementClaims {
		q.waits[name] = r.Token()
	}
	return e
}

// has reports whether a claim is part of a running command.
func (q *commands) has(claim string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, found := q.claims[claim]
	return found
}

func (q *commands) all() []*underway {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := make([]*underway, 0, len(q.list))
	for _, token := range slices.Sorted(maps.Keys(q.list)) {
		out = append(out, q.list[token])
	}
	return out
}

// known reports whether a command runs or has ended in this process.
func (q *commands) known(token string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, ended := q.ended[token]
	return ended || q.list[token] != nil
}

// runs reports whether a command runs.
func (q *commands) runs(token string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.list[token] != nil
}

func (q *commands) end(token string, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.list, token)
	delete(q.urgent, token)
	for _, list := range []map[string]string{q.claims, q.waits} {
		maps.DeleteFunc(list, func(_, of string) bool { return of == token })
	}
	maps.DeleteFunc(q.ended, func(_ string, at time.Time) bool { return now.Sub(at) > rememberEnds })
	q.ended[token] = now
}

// lost notes that a replacement goes. A command that waits for it is looked at now: its pods need no
// other place, and its nodes are wanted back (G8).
func (q *commands) lost(claim string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if token, waited := q.waits[claim]; waited {
		q.urgent[token] = true
		nudge(q.kick)
	}
}

// urged reports once whether a command lost a replacement.
func (q *commands) urged(e *underway) bool {
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

// nodes is how many nodes are in the queue.
func (q *commands) nodes() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.claims)
}

// resting names the pools whose drift failed lately.
func (q *commands) resting(now time.Time) map[string]time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.drift.Deadlines(now)
}

// tired names the claims whose command came to nothing lately, and those whose repair did.
func (q *commands) tired(now time.Time) (all, repair map[string]time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.again.Deadlines(now), q.cure.Deadlines(now)
}

// tire notes that nodes stay although a command was to remove them. Those that do so again and again
// would else be held and released with every pass (G12), and no other would have its turn (G9). A node
// that stays for another reason may still be repaired.
func (q *commands) tire(why karpv1.DisruptionReason, now time.Time, nodes ...disruption.Candidate) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, n := range nodes {
		q.again.RecordFailure(n.Claim, now)
		if why == karpv1.ReasonUnhealthy {
			q.cure.RecordFailure(n.Claim, now)
		}
	}
}

// Work looks at the commands that are due and says when the next one is.
func (d *Disruption) Work(ctx context.Context) (time.Duration, error) {
	d.prepare()
	list := d.queue.all()
	if d.Ends != nil && len(list) > 0 {
		d.Ends.Begin()
		defer d.Ends.Done()
		ctx = withPulse(ctx, d.Ends)
	}
	failed := d.each(len(list), func(i int) error {
		if list[i].isDue(d.Now()) || d.queue.urged(list[i]) {
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

// advance takes one command as far as it gets now.
func (d *Disruption) advance(ctx context.Context, e *underway) error {
	queued := d.queue.nodes()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over {
		return nil
	}
	e.wait = min(max(2*e.wait, firstLook), slowestLook)
	e.due = d.Now().Add(e.wait)
	seen, claims, err := d.observe(ctx, &e.run)
	if err != nil {
		return err
	}
	progress := e.run.Advance(seen, queued, d.Now())
	for _, name := range e.run.ReplacementClaims {
		d.Store.Nominate(name, d.Now().Add(d.Nomination)) // nobody else is to remove it meanwhile
	}
	if len(progress.Retained) > 0 {
		err = d.letGo(ctx, progress.Retained)
	}
	switch progress.Stage {
	case disruption.Waiting:
		d.keepTelling(e, progress, seen, claims)
	case disruption.Ready:
		err = errors.Join(err, d.deleteAll(ctx, e, claims))
	case disruption.Over:
		d.finish(ctx, e, "nothing is left to remove")
	case disruption.Broken:
		d.fail(ctx, e, progress)
	}
	return err
}

// observe reads the claims of a command. One that the cache does not have may be too young for it.
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
			s.Protected, s.Leading = d.forbidden(at, pool), node == d.Store.UnreplicatedLeaderNode()
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

// keepTelling says on the replacements what is waited for, when that changes.
func (d *Disruption) keepTelling(e *underway, p disruption.Progress, seen map[string]disruption.ClaimStatus, claims map[string]*karpv1.NodeClaim) {
	for _, name := range p.Pending {
		news := event.Event{Reason: event.DisruptionLaunching, Text: "The node is launched to replace " + names(e.run.Remove) + ", reason " + string(e.run.Reason)}
		if seen[name].Launched {
			news = event.Event{Reason: event.DisruptionWaitingReadiness, Text: "Once the node is initialized, it replaces " + names(e.run.Remove)}
		}
		if e.told[name] != news.Reason {
			e.told[name] = news.Reason
			d.Events.Emit(claims[name], news)
		}
	}
}

// deleteAll deletes the claims of a command that is ready. What fails is tried again. A few go one by one: their
// pods then look for places in the order in which the plan thought that through.
func (d *Disruption) deleteAll(ctx context.Context, e *underway, claims map[string]*karpv1.NodeClaim) error {
	const few, many = 5, 20
	list, workers := e.run.Remove, many
	if len(list) <= few {
		workers = 1
	}
	failed := d.eachOf(workers, len(list), func(i int) error { return d.delete(ctx, &e.run, list[i], claims[list[i].Claim]) })
	var rest []disruption.Candidate
	for i, n := range list {
		if failed[i] != nil {
			rest = append(rest, n)
		} else {
			d.Store.SetCommanded(n.Node, false) // it stays marked: it goes
		}
	}
	if e.run.Remove = rest; len(rest) > 0 {
		e.run.Failed = true
		return errors.Join(failed...)
	}
	d.worked(&e.run.Command, list)
	d.finish(ctx, e, "done")
	return nil
}

// finish ends a command of which nothing is left to do.
func (d *Disruption) finish(ctx context.Context, e *underway, how string) {
	e.over = true
	d.queue.end(e.run.Token(), d.Now())
	log.FromContext(ctx).V(1).Info("command succeeded", "command", e.run.ID, "reason", e.run.Reason)
	d.outcome(e.run.Command, how)
	nudge(d.wake)
}

// fail undoes a command that cannot end well. Replacements that came up stay, as ordinary nodes (FM K08).
func (d *Disruption) fail(ctx context.Context, e *underway, p disruption.Progress) {
	e.over = true
	r := &e.run
	d.Metrics.DisruptionQueueFailures.WithLabelValues(r.Decision, reasonLabel(r.Reason), r.Type).Add(float64(max(1, len(r.ReplacementClaims)-len(r.InitializedClaims))))
	log.FromContext(ctx).Error(errors.New(p.Why), "disruption command failed; its nodes stay", "command", r.ID, "reason", r.Reason, "nodes", names(r.Remove))
	if p.Replacement {
		d.setBack(r.Command)
	}
	d.queue.tire(r.Reason, d.Now(), r.Remove...)
	d.undo(ctx, *r)
	d.queue.end(r.Token(), d.Now())
	d.outcome(r.Command, "rolled back: "+p.Why)
	nudge(d.wake)
}
