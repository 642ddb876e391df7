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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
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
	ended  map[string]time.Time // tokens of commands that are over: the cache may still show them as running
	drift  disruption.Backoff   // by pool
	again  disruption.Backoff   // by claim: nodes that objected
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
		kick: make(chan struct{}, 1), list: map[string]*underway{}, claims: map[string]string{}, ended: map[string]time.Time{},
		drift: disruption.Backoff{Base: time.Minute, Cap: 10 * time.Minute, Seed: seed},
		again: disruption.Backoff{Base: disruptEvery, Cap: quietFor, Seed: seed},
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
	maps.DeleteFunc(q.claims, func(_, of string) bool { return of == token })
	maps.DeleteFunc(q.ended, func(_ string, at time.Time) bool { return now.Sub(at) > rememberEnds })
	q.ended[token] = now
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
	return q.drift.Resting(now)
}

// tired names the claims that objected to a command lately.
func (q *commands) tired(now time.Time) map[string]time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.again.Resting(now)
}

// object notes that a node turned out to stay. A node that does so again and again would else be held
// and released with every pass (G12).
func (q *commands) object(claim string, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.again.Failed(claim, now)
}

// Work looks at the commands that are due and says when the next one is.
func (d *Disruption) Work(ctx context.Context) (time.Duration, error) {
	d.prepare()
	list := d.queue.all()
	failed := make([]error, len(list))
	each(len(list), func(i int) {
		if list[i].isDue(d.Now()) {
			failed[i] = d.advance(ctx, list[i])
		}
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
	for _, name := range e.run.Wait {
		d.Store.Nominate(name, d.Now().Add(d.Nomination)) // nobody else is to remove it meanwhile
	}
	if len(progress.Spared) > 0 {
		err = d.letGo(ctx, progress.Spared)
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
func (d *Disruption) observe(ctx context.Context, r *disruption.Running) (map[string]disruption.Seen, map[string]*karpv1.NodeClaim, error) {
	seen, claims := map[string]disruption.Seen{}, map[string]*karpv1.NodeClaim{}
	look := func(name, node string) error {
		claim := &karpv1.NodeClaim{}
		err := d.Client.Get(ctx, client.ObjectKey{Name: name}, claim)
		if apierrors.IsNotFound(err) {
			err = d.Reader.Get(ctx, client.ObjectKey{Name: name}, claim)
		}
		if apierrors.IsNotFound(err) {
			seen[name] = disruption.Seen{Gone: true}
			return nil
		}
		if err != nil {
			return fmt.Errorf("nodeclaim %s: %w", name, err)
		}
		s := disruption.Seen{
			Going:    claim.DeletionTimestamp != nil,
			Launched: condition.True(claim.Status.Conditions, karpv1.ConditionLaunched), Initialized: condition.True(claim.Status.Conditions, karpv1.ConditionInitialized),
		}
		if node != "" {
			at := &corev1.Node{}
			if err := d.Client.Get(ctx, client.ObjectKey{Name: node}, at); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("node %s: %w", node, err)
			}
			s.Protected = at.Annotations[karpv1.AnnotationDoNotDisrupt] == "true"
		}
		seen[name], claims[name] = s, claim
		return nil
	}
	for _, n := range r.Remove {
		if err := look(n.Claim, n.Node); err != nil {
			return nil, nil, err
		}
	}
	for _, name := range r.Wait {
		if err := look(name, ""); err != nil {
			return nil, nil, err
		}
	}
	return seen, claims, nil
}

// keepTelling says on the replacements what is waited for, when that changes.
func (d *Disruption) keepTelling(e *underway, p disruption.Progress, seen map[string]disruption.Seen, claims map[string]*karpv1.NodeClaim) {
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

// deleteAll deletes the claims of a command that is ready. What fails is tried again.
func (d *Disruption) deleteAll(ctx context.Context, e *underway, claims map[string]*karpv1.NodeClaim) error {
	list := e.run.Remove
	failed := make([]error, len(list))
	each(len(list), func(i int) { failed[i] = d.delete(ctx, &e.run, list[i], claims[list[i].Claim]) })
	var rest []disruption.Candidate
	for i, n := range list {
		if failed[i] != nil {
			rest = append(rest, n)
		} else {
			d.Store.Hold(n.Node, false) // it stays marked: it goes
		}
	}
	if e.run.Remove = rest; len(rest) > 0 {
		e.run.Failed = true
		return errors.Join(failed...)
	}
	d.finish(ctx, e, "done")
	return nil
}

// delete deletes one claim, that very one, after it was told how long its drain may take.
func (d *Disruption) delete(ctx context.Context, r *disruption.Running, n disruption.Candidate, claim *karpv1.NodeClaim) error {
	pods := d.podsToMove(ctx, n.Node)
	bound, err := d.bound(ctx, r, claim)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	if err := d.Client.Delete(ctx, claim, client.Preconditions{UID: &claim.UID}); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("delete nodeclaim %s: %w", n.Claim, err)
	}
	text := event.Event{Reason: event.DisruptionTerminating, Text: "Disrupting the node, reason " + string(r.Reason) + ": " + because(&r.Command, n)}
	d.Events.Emit(claim, text)
	node := &corev1.Node{}
	if d.Client.Get(ctx, client.ObjectKey{Name: n.Node}, node) == nil {
		d.Events.Emit(node, text)
	}
	d.countDeleted(r, n, claim, bound, pods)
	return nil
}

// bound writes until when the drain of a claim may take, if the command has a bound. A time that is
// there already is only ever made earlier (V15-26, V15-29). It returns the bound that is in force.
func (d *Disruption) bound(ctx context.Context, r *disruption.Running, claim *karpv1.NodeClaim) (*time.Duration, error) {
	if r.Bound == nil {
		return nil, nil
	}
	lasts := *r.Bound
	if own, err := claim.Spec.TerminationGracePeriod.Parse(); err == nil && claim.Spec.TerminationGracePeriod != "" {
		lasts = min(lasts, own)
	}
	err := d.write(ctx, claim, false, func() bool {
		at := d.Now().Add(lasts).UTC()
		if have, err := time.Parse(time.RFC3339, claim.Annotations[karpv1.AnnotationTerminationTimestamp]); err == nil && !have.After(at) {
			return true
		}
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, karpv1.AnnotationTerminationTimestamp, at.Format(time.RFC3339))
		return false
	})
	if err != nil {
		return nil, fmt.Errorf("bound the drain of nodeclaim %s: %w", claim.Name, err)
	}
	log.FromContext(ctx).Info("annotated nodeclaim", "NodeClaim", klog.KRef("", claim.Name),
		karpv1.AnnotationTerminationTimestamp, claim.Annotations[karpv1.AnnotationTerminationTimestamp])
	return &lasts, nil
}

// finish ends a command that succeeded.
func (d *Disruption) finish(ctx context.Context, e *underway, how string) {
	e.over = true
	d.queue.end(e.run.Token(), d.Now())
	d.worked(&e.run.Command)
	log.FromContext(ctx).V(1).Info("command succeeded", "command", e.run.ID, "reason", e.run.Reason)
	d.outcome(e.run.Command, how)
	nudge(d.wake)
}

// fail undoes a command that cannot end well. Replacements that came up stay, as ordinary nodes (FM K08).
func (d *Disruption) fail(ctx context.Context, e *underway, p disruption.Progress) {
	e.over = true
	r := &e.run
	d.Metrics.DisruptionQueueFailures.WithLabelValues(r.Decision, reasonLabel(r.Reason), r.Type).Add(float64(max(1, len(r.Wait)-len(r.Up))))
	log.FromContext(ctx).Error(errors.New(p.Why), "disruption command failed; its nodes stay", "command", r.ID, "reason", r.Reason, "nodes", names(r.Remove))
	if p.Replacement {
		d.setBack(r.Command)
	}
	d.undo(ctx, *r)
	d.queue.end(r.Token(), d.Now())
	d.outcome(r.Command, "rolled back: "+p.Why)
	nudge(d.wake)
}
