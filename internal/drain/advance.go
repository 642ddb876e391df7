package drain

import (
	"context"
	"errors"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// A termination is a dialogue: decide, perform, call the cloud, decide again with its response. AdvanceNode and
// AdvanceClaim lead it. internal/controller performs steps with API calls, internal/sim on its model, so that the
// simulator tests the dialogue that ships.

const (
	maxRounds   = 4           // decisions in one pass; two calls of the cloud need three
	recheckSoon = time.Second // when they were not enough
)

// Instance is the instance of what is terminated. Errors are those of a cloud.Provider.
type Instance interface {
	Find(ctx context.Context) error
	Terminate(ctx context.Context) error
}

// NodeShell performs the steps of the termination of a Node.
type NodeShell interface {
	Instance
	// Perform writes a step, without calls of the cloud, and brings the facts up to date with what it wrote.
	// It reports whether a condition was written.
	Perform(ctx context.Context, f *Facts, s Step) (said bool, err error)
	// Release removes the finalizer.
	Release(ctx context.Context, f Facts) error
}

// ClaimShell performs the steps of the termination of a NodeClaim, as NodeShell does.
type ClaimShell interface {
	Instance
	Perform(ctx context.Context, f *ClaimFacts, s ClaimStep) (said bool, err error)
	Release(ctx context.Context, f ClaimFacts) error
}

// AdvanceNode performs all steps of the termination of a Node that are possible now, and returns when to call it
// again. After an error, call it sooner, with back-off. The calls are updated in both cases.
func AdvanceNode(ctx context.Context, f Facts, calls *Calls, shell NodeShell) (after time.Duration, err error) {
	f.Said = calls.Said
	return terminateInstance(ctx, f.Now, calls, shell, func(a response) (next, error) {
		f.Instance, f.Refusal, f.Queried, f.Accepted = a.state, a.refusal, calls.Queried, calls.Accepted
		step := Next(f)
		said, err := shell.Perform(ctx, &f, step)
		return next{query: step.Query, terminate: step.Terminate, release: step.Release, said: said, after: step.After}, err
	}, func() error { return shell.Release(ctx, f) })
}

// AdvanceClaim is AdvanceNode for a NodeClaim.
func AdvanceClaim(ctx context.Context, f ClaimFacts, calls *Calls, shell ClaimShell) (after time.Duration, err error) {
	f.Said = calls.Said
	return terminateInstance(ctx, f.Now, calls, shell, func(a response) (next, error) {
		f.Instance, f.Refusal, f.Accepted = a.state, a.refusal, calls.Accepted
		step := NextClaim(f)
		said, err := shell.Perform(ctx, &f, step)
		return next{query: step.Query, terminate: step.Terminate, release: step.Release, said: said, after: step.After}, err
	}, func() error { return shell.Release(ctx, f) })
}

// response is the last response of the cloud in a dialogue.
type response struct {
	state   State
	refusal Refusal
}

// next is how a dialogue continues after a step was performed.
type next struct {
	query, terminate, release, said bool

	after time.Duration
}

func terminateInstance(ctx context.Context, now time.Time, calls *Calls, instance Instance, decide func(response) (next, error), release func() error) (time.Duration, error) {
	var last response
	var refused error
	for range maxRounds {
		n, err := decide(last)
		if n.said {
			calls.Said = now
		}
		switch {
		case err != nil:
			return 0, err
		case n.query:
			last = response{state: stateFromFind(instance.Find(ctx))}
			calls.Queried = now
		case n.terminate:
			err := instance.Terminate(ctx)
			if last = terminated(err); last.state == Staying {
				refused = err
				continue
			}
			calls.Accepted = now
		case n.release:
			err := release()
			if err == nil {
				*calls = Calls{}
			}
			return 0, err
		default:
			return n.after, refused
		}
	}
	return recheckSoon, nil
}

// stateFromFind reads the response to a question about an instance. Only a definite "not found" means that it is gone (G3).
func stateFromFind(err error) State {
	switch {
	case err == nil:
		return Present
	case cloud.Is(err, cloud.NotFound):
		return Gone
	default:
		return Unsure
	}
}

// terminated reads the response to a request to terminate an instance.
func terminated(err error) response {
	switch {
	case err == nil:
		return response{state: Ending}
	case cloud.Is(err, cloud.NotFound):
		return response{state: Gone}
	}
	a := response{state: Staying, refusal: Refusal{Reason: TerminationFailed, Text: err.Error()}}
	switch e, ofCloud := errors.AsType[*cloud.Error](err); {
	case ofCloud && e.Reason != "":
		a.refusal.Reason = e.Reason
	case cloud.Is(err, cloud.Denied):
		a.refusal.Reason = Unauthorized
	case cloud.Is(err, cloud.Throttled):
		a.refusal.Reason = Throttled
	}
	return a
}

// Calls is the in-memory state of a process about its calls for one object. It limits their rate. If it is lost with
// the process, there is one more call.
type Calls struct {
	Queried  time.Time // when the cloud was last queried about the instance
	Accepted time.Time // when it last accepted to terminate the instance, or reported it as terminated
	Said     time.Time // when a condition was last written
}

func (c Calls) before(t time.Time) bool {
	return c.Queried.Before(t) && c.Accepted.Before(t) && c.Said.Before(t)
}

// CallLog holds the calls for many objects. The zero value is ready.
type CallLog struct{ calls map[types.UID]Calls }

// Of returns the calls for an object.
func (l *CallLog) Of(uid types.UID) Calls { return l.calls[uid] }

// Record replaces the calls for an object. Those for objects that went unnoticed are dropped after an hour.
func (l *CallLog) Record(uid types.UID, c Calls, now time.Time) {
	const many, old = 10000, time.Hour
	if c == (Calls{}) {
		l.Drop(uid)
		return
	}
	if l.calls == nil {
		l.calls = map[types.UID]Calls{}
	}
	if len(l.calls) >= many {
		maps.DeleteFunc(l.calls, func(_ types.UID, c Calls) bool { return c.before(now.Add(-old)) })
	}
	l.calls[uid] = c
}

// Drop removes the calls for an object that is gone.
func (l *CallLog) Drop(uid types.UID) { delete(l.calls, uid) }
