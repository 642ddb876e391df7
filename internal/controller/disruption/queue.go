package disruption

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/controller/write"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/disrupt/command"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

const idleQueue = time.Hour // an empty queue waits for a wake-up

// commandQueue guards the state of the running commands. Both loops use it.
type commandQueue struct {
	wake chan struct{}

	mu    sync.Mutex
	state *command.Queue
	turns map[string]*sync.Mutex // by token: its effects are performed before the next step
}

func newCommandQueue(seed uint64) *commandQueue {
	return &commandQueue{wake: make(chan struct{}, 1), state: command.NewQueue(seed), turns: map[string]*sync.Mutex{}}
}

// step makes one step of the protocol.
func (q *commandQueue) step(take func(*command.Queue) []command.Effect) []command.Effect {
	q.mu.Lock()
	defer q.mu.Unlock()
	return take(q.state)
}

// takeTurn waits until the effects of the last step of a command are performed. The caller ends its turn.
func (q *commandQueue) takeTurn(token string) (end func()) {
	q.mu.Lock()
	turn := q.turns[token]
	if turn == nil {
		turn = &sync.Mutex{}
		q.turns[token] = turn
	}
	q.mu.Unlock()
	turn.Lock()
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if !q.state.IsRunning(token) {
			delete(q.turns, token) // workers that wait for it find nothing to do
		}
		turn.Unlock()
	}
}

// due returns the commands that are due, and how many there are in all.
func (q *commandQueue) due(now time.Time) (tokens []string, running int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.state.Due(now), len(q.state.Running())
}

// nextDue returns in what time the next command is due.
func (q *commandQueue) nextDue(now time.Time) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	if in, found := q.state.NextDue(now); found {
		return min(in, idleQueue)
	}
	return idleQueue
}

// recordLostReplacement records that a claim is terminating.
func (q *commandQueue) recordLostReplacement(claim string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.state.RecordLostReplacement(claim) {
		loop.Wake(q.wake)
	}
}

// markBackoffs marks what is in back-off in a view, and reports whether a node is.
func (q *commandQueue) markBackoffs(view *disrupt.View, now time.Time) (hidden bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.state.MarkBackoffs(view, now)
}

// recordBackoff backs off nodes that stay although a command was to remove them.
func (q *commandQueue) recordBackoff(why karpv1.DisruptionReason, now time.Time, nodes []disrupt.Candidate) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.state.RecordFailure(why, now, nodes...)
}

// worker advances running commands and performs the effects of their steps.
type worker struct {
	objects

	queue      *commandQueue
	holder     holder
	deleter    deleter
	reporter   *reporter
	store      disruptStore
	events     write.Emitter
	metrics    *metric.Set
	backoff    launchBackoff // nil: none
	pulse      loop.Pulse    // may be nil
	wake       chan struct{} // of the loop that decides
	nomination time.Duration
	now        func() time.Time
}

// work advances the commands that are due and returns when the next one is.
func (w *worker) work(ctx context.Context) (time.Duration, error) {
	tokens, running := w.queue.due(w.now())
	if w.pulse != nil && running > 0 {
		w.pulse.Begin()
		defer w.pulse.Done()
		ctx = loop.WithPulse(ctx, w.pulse)
	}
	failed := forEach(w.metrics, len(tokens), func(i int) error { return w.advance(ctx, tokens[i]) })
	wait := w.queue.nextDue(w.now())
	if err := errors.Join(failed...); err != nil && !onlyConflicts(err) {
		return wait, err
	}
	return wait, nil
}

// advance takes one command as far as possible now.
func (w *worker) advance(ctx context.Context, token string) error {
	defer w.queue.takeTurn(token)()
	var r disrupt.Running
	runs := false
	w.queue.step(func(q *command.Queue) []command.Effect {
		r, runs = q.BeginObserve(token, w.now())
		return nil
	})
	if !runs {
		return nil
	}
	seen, claims, err := w.observe(ctx, &r)
	if err != nil {
		return err
	}
	return w.perform(ctx, w.queue.step(func(q *command.Queue) []command.Effect { return q.Observe(token, seen, w.now()) }), claims)
}

// observe reads the claims of a command. A claim that is missing in the cache may be too new for it, so the API
// server is read.
func (w *worker) observe(ctx context.Context, r *disrupt.Running) (map[string]disrupt.ClaimStatus, map[string]*karpv1.NodeClaim, error) {
	seen, claims := map[string]disrupt.ClaimStatus{}, map[string]*karpv1.NodeClaim{}
	look := func(name, node, pool string) error {
		claim := &karpv1.NodeClaim{}
		err := w.client.Get(ctx, client.ObjectKey{Name: name}, claim)
		if apierrors.IsNotFound(err) {
			err = w.reader.Get(ctx, client.ObjectKey{Name: name}, claim)
		}
		if apierrors.IsNotFound(err) {
			seen[name] = command.Status(nil)
			return nil
		}
		if err != nil {
			return fmt.Errorf("nodeclaim %s: %w", name, err)
		}
		s := command.Status(claim)
		if node != "" {
			at := &corev1.Node{}
			if err := w.client.Get(ctx, client.ObjectKey{Name: node}, at); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("node %s: %w", node, err)
			}
			s.ProtectedBy, s.Leading = cluster.NodeProtectedBy(at, poolNamed(w.store, pool)), node == w.store.UnreplicatedLeaderNode()
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

// deleteAll deletes the claims of a command that is ready, and retries failures later.
func (w *worker) deleteAll(ctx context.Context, r *disrupt.Running, claims map[string]*karpv1.NodeClaim) error {
	list := r.Remove
	failed := forEachWith(w.metrics, command.DeletionWorkers(len(list)), len(list), func(i int) error { return w.deleter.delete(ctx, r, list[i], claims[list[i].Claim]) })
	rest := map[string]bool{}
	for i, n := range list {
		if failed[i] != nil {
			rest[n.Claim] = true
		} else {
			w.store.SetCommanded(n.Node, false) // it stays marked as terminating
		}
	}
	failed = append(failed, w.perform(ctx, w.queue.step(func(q *command.Queue) []command.Effect { return q.Deleted(r.Token(), rest, w.now()) }), nil))
	return errors.Join(failed...)
}
