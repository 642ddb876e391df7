package app

import (
	"testing"
	"time"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/offering"
	"github.com/dovetail-sh/dovetail/internal/controller/provisioning"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/drain"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/report"
)

// machine is the clock of a machine. It runs evenly, and what it shows can be set.
type machine struct {
	begun  time.Time // with the monotonic reading of the clock
	passed time.Duration
	set    time.Duration
}

func newMachine() *machine { return &machine{begun: time.Now()} }

// now is what time.Now returns on the machine. Nothing in the language changes only one of the two readings
// of a time, so this writes into it: in the first word, the seconds of the clock that is shown are above 30
// bits of nanoseconds.
func (m *machine) now() time.Time {
	t := m.begun.Add(m.passed)
	*(*uint64)(unsafe.Pointer(&t)) += uint64(int64(m.set/time.Second) << 30)
	return t
}

// counted keeps the number of events.
type counted struct{ events int }

func (c *counted) Eventf(_, _ runtime.Object, _, _, _, _ string, _ ...any) { c.events++ }

// FM N07: the clock of the machine is set back by an hour. What is measured from one moment to another does
// not notice: offerings that are out, pools that rest, events that were sent, loops that are stuck. The check of the clock does.
func TestFM_N07_DurationsSurviveAClockThatIsSetBack(t *testing.T) {
	t.Parallel()
	m := newMachine()
	out := offering.NewUnavailable(m.now)
	out.Mark("spot", "m5.large", "a", offering.Group{}, "InsufficientInstanceCapacity")
	rest := provisioning.NewLaunchBackoff("")
	rest.RecordDenied("general", m.now())
	backoff := disrupt.Backoff{Base: time.Minute, Cap: time.Minute}
	backoff.RecordFailure("general", m.now())
	pulse := NewPulse("disruption", m.now)
	pulse.Begin()
	heard := &counted{}
	events := report.New(heard, m.now)
	say := func() {
		events.Emit(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "p"}}, event.Event{Reason: event.Evicted, Text: "gone"})
	}
	if say(); !rest.PoolBackedOff("general", m.now()) || len(backoff.Deadlines(m.now())) != 1 || heard.events != 1 || pulse.Check(m.now()) != nil {
		t.Fatal("the pool does not rest, the event was not sent, or the loop is stuck already")
	}

	before := m.now()
	m.passed, m.set = 2*time.Minute+59*time.Second, -time.Hour
	if shown := m.now().Round(0).Sub(before.Round(0)); shown > -56*time.Minute || m.now().Sub(before) != m.passed {
		t.Fatalf("the clock shows %s, and %s passed: it was not set back", shown, m.now().Sub(before))
	}
	if !out.Has("spot", "m5.large", "a", offering.Group{}) {
		t.Error("what had no capacity is tried again too early")
	}
	if rest.PoolBackedOff("general", m.now()) || len(backoff.Deadlines(m.now())) > 0 {
		t.Error("the pool still rests")
	}
	if say(); heard.events != 2 {
		t.Errorf("%d events, want the second one sent after two minutes", heard.events)
	}
	version := out.Version()
	m.passed = 3 * time.Minute
	if out.Has("spot", "m5.large", "a", offering.Group{}) || out.Version() == version {
		t.Error("what had no capacity is not tried again after three minutes")
	}
	m.passed = stuckAfter + time.Second
	if pulse.Check(m.now()) == nil {
		t.Error("a loop that is stuck is not noticed")
	}
}

// FM N07: what is counted from a time on an object waits longer by what the clock was set back, and no longer.
func TestFM_N07_DeadlinesAreLateByTheSkew(t *testing.T) {
	t.Parallel()
	m := newMachine()
	born := metav1.NewTime(m.begun.Round(0).Truncate(time.Second)) // as the API server writes it
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: born, DeletionTimestamp: &born}}
	claim.Spec.ExpireAfter, claim.Spec.TerminationGracePeriod = "1h", "1h"
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{TerminationGracePeriodSeconds: new(int64(300))}}
	limit := drain.Limit{At: drain.Deadline(claim)}
	expiry, _ := lifecycle.Expiry(claim)
	forced := func() bool {
		act, _ := limit.Act(pod, m.now())
		return act == drain.Delete
	}
	m.set = -time.Hour
	for passed, late := range map[time.Duration]bool{55*time.Minute + time.Second: true, time.Hour + 55*time.Minute + time.Second: false} {
		m.passed = passed
		if forced() == late {
			t.Errorf("after %s: the pod is forced to go: %v", passed, !late)
		}
	}
	m.passed = time.Hour + time.Second
	if left := expiry.Sub(m.now()); left <= 0 || left > time.Hour {
		t.Errorf("the claim expires in %s, want within the hour", left)
	}
	m.passed = 2*time.Hour + time.Second
	if left := expiry.Sub(m.now()); left > 0 {
		t.Errorf("the claim expires in %s, want now", left)
	}
}
