package reboot

import (
	"context"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
)

const (
	maxRounds   = 4           // decisions in one pass
	recheckSoon = time.Second // when they were not enough
)

// Pending reports whether a claim has a reboot to be looked after: one that is requested or runs, or what is left of one.
func Pending(claim *karpv1.NodeClaim) bool {
	_, left := claim.Annotations[karpv1.AnnotationRebootPreBootID]
	return claim.DeletionTimestamp == nil && (left || condition.True(claim.Status.Conditions, karpv1.ConditionRebooting))
}

// Shell performs the steps of a reboot: internal/controller with API calls, internal/sim on its model.
type Shell interface {
	// Perform writes the node, has pods evicted and writes the claim, its status first: a boot id that is dropped
	// while the claim still waits for another one would never be found again. It brings the facts up to date.
	Perform(ctx context.Context, f *Facts, s Step) error
	// Reboot calls the cloud. Errors are those of a cloud.Provider.
	Reboot(ctx context.Context, claim *karpv1.NodeClaim, operation string) error
	// End deletes the claim if the step says so, and reports what is over.
	End(ctx context.Context, f Facts, s Step) error
}

// Advance performs all steps of a reboot that are possible now, and returns when to call it again. After an error,
// call it sooner, with back-off. The calls are updated in both cases.
func Advance(ctx context.Context, f Facts, calls *Calls, shell Shell) (after time.Duration, err error) {
	calls.beginWith(f.Claim)
	if f.FirstCall = calls.first; calls.final != nil {
		f.Response = &Response{Err: calls.final}
	}
	for range maxRounds {
		step := Next(f)
		if err := shell.Perform(ctx, &f, step); err != nil {
			return 0, err
		}
		switch {
		case step.Call != "":
			f.Response = &Response{Err: shell.Reboot(ctx, f.Claim, step.Call)}
			calls.record(f.Now, f.Response.Err)
			f.FirstCall = calls.first
		case step.Retry:
			return 0, f.Response.Err
		case !step.Again:
			err := shell.End(ctx, f, step)
			if err == nil && step.End != nil {
				*calls = Calls{}
			}
			return step.After, err
		}
	}
	return recheckSoon, nil
}

// Calls is the in-memory state of a process about the calls for the reboot of one claim. It is lost with the process:
// the cloud is then called again, and its timeout starts again.
type Calls struct {
	request time.Time // of the reboot that the calls are for
	first   time.Time // when the cloud was first called
	final   error     // repeating the call cannot help
}

// beginWith drops the calls for an earlier reboot of a claim.
func (c *Calls) beginWith(claim *karpv1.NodeClaim) {
	var request time.Time
	if rebooting := condition.Find(claim.Status.Conditions, karpv1.ConditionRebooting); rebooting != nil {
		request = rebooting.LastTransitionTime.Time
	}
	if !c.request.Equal(request) {
		*c = Calls{request: request}
	}
}

func (c *Calls) record(now time.Time, err error) {
	if c.first.IsZero() {
		c.first = now
	}
	if Final(err) {
		c.final = err
	}
}

// CallLog holds the calls for many claims. The zero value is ready.
type CallLog struct{ calls map[types.UID]Calls }

// Of returns the calls for a claim.
func (l *CallLog) Of(uid types.UID) Calls { return l.calls[uid] }

// Record replaces the calls for a claim. Those for claims that went unnoticed are dropped after an hour, which is longer
// than any reboot waits for the cloud.
func (l *CallLog) Record(uid types.UID, c Calls, now time.Time) {
	const old = time.Hour
	if c.first.IsZero() {
		l.Drop(uid)
		return
	}
	if l.calls == nil {
		l.calls = map[types.UID]Calls{}
	}
	maps.DeleteFunc(l.calls, func(_ types.UID, c Calls) bool { return now.Sub(c.first) > old })
	l.calls[uid] = c
}

// Drop removes the calls for a claim that is gone or has no reboot any more.
func (l *CallLog) Drop(uid types.UID) { delete(l.calls, uid) }
