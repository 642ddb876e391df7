package report_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/report"
)

// sent is what reached the API server.
type sent struct{ lines, actions []string }

func (s *sent) Eventf(regarding, _ runtime.Object, kind, reason, action, note string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf("%s %s %s: %s", regarding.(client.Object).GetName(), kind, reason, fmt.Sprintf(note, args...)))
	s.actions = append(s.actions, action)
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)}}
}

func claim(name string) *karpv1.NodeClaim {
	return &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
}

// operations 9: a repeat is dropped for as long as the reason says; another object, key or reason is
// no repeat.
func TestRepeatsAreDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := &sent{}
		r := report.New(out, time.Now)
		evicted := event.Event{Reason: event.Evicted, Text: "a"}
		r.Emit(pod("p"), evicted, evicted)
		r.Emit(pod("q"), evicted)
		r.Emit(pod("p"), event.Event{Reason: event.Evicted, Text: "b", Key: "other"})
		r.Emit(pod("p"), event.Event{Reason: event.Disrupted, Text: "c"})
		time.Sleep(2*time.Minute - time.Second)
		r.Emit(pod("p"), evicted)
		time.Sleep(time.Second)
		r.Emit(pod("p"), event.Event{Reason: event.Evicted, Text: "again"})
		want := []string{
			"p Normal Evicted: a", "q Normal Evicted: a", "p Normal Evicted: b", "p Normal Disrupted: c", "p Normal Evicted: again",
		}
		if diff := cmp.Diff(want, out.lines); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		out := &sent{}
		r := report.New(out, time.Now)
		for range 4 { // at 0, 2, 4 and 6 minutes
			r.Emit(pod("p"), event.Event{Reason: event.FailedScheduling, Text: "no room"})
			time.Sleep(2 * time.Minute)
		}
		if diff := cmp.Diff([]string{"p Warning FailedScheduling: no room", "p Warning FailedScheduling: no room"}, out.lines); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

// V15-61, operations 9: five a second over all pods, ten at once; claims are not held back by pods, and
// what was held back is sent when it comes again.
func TestFM_N04_EventStormsAreLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := &sent{}
		r := report.New(out, time.Now)
		storm := func(reason event.Reason) int {
			before := len(out.lines)
			for i := range 10000 {
				r.Emit(pod(fmt.Sprint("p", i)), event.Event{Reason: reason, Text: "x"})
			}
			return len(out.lines) - before
		}
		if got := storm(event.Nominated); got != 10 {
			t.Errorf("%d events at once, want 10", got)
		}
		time.Sleep(time.Second)
		if got := storm(event.Nominated); got != 5 {
			t.Errorf("%d events a second later, want 5", got)
		}
		if slices.Contains(out.lines[10:], out.lines[0]) {
			t.Error("a pod got its event twice while others wait")
		}
		if got := storm(event.FailedScheduling); got != 500 {
			t.Errorf("%d pods got an event at once, want 500", got)
		}
		storm(event.InsufficientCapacityError)
		before := len(out.lines)
		for i := range 20 {
			r.Emit(claim(fmt.Sprint("c", i)), event.Event{Reason: event.InsufficientCapacityError, Text: "x"})
		}
		if got := len(out.lines) - before; got != 20 {
			t.Errorf("%d of 20 claims were told", got)
		}
	})
}

// Memory is bounded: whatever number of objects, repeats are dropped before they fill it.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := &sent{}
		r := report.New(out, time.Now)
		const many = 120000
		for i := range many {
			r.Emit(claim(fmt.Sprint(i)), event.Event{Reason: event.DisruptionTerminating, Text: "x"})
		}
		if len(out.lines) != many {
			t.Errorf("%d of %d events were sent", len(out.lines), many)
		}
		r.Emit(claim(fmt.Sprint(many-1)), event.Event{Reason: event.DisruptionTerminating, Text: "x"})
		if len(out.lines) != many {
			t.Error("the newest event was dropped")
		}
	})
}

// API-2.5: every flip is an event of its condition; being created as Unknown is not news.
func TestFlips(t *testing.T) {
	t.Parallel()
	flips := []condition.Flip{
		{Type: "Launched", To: metav1.ConditionUnknown, Reason: "AwaitingReconciliation"},
		{Type: "Registered", To: metav1.ConditionTrue, Reason: "Registered"},
		{Type: "Ready", From: metav1.ConditionTrue, To: metav1.ConditionFalse, Reason: "UnhealthyDependents", Message: "Launched=False"},
	}
	out := &sent{}
	r := report.New(out, time.Now)
	r.Flips(claim("c"), flips)
	r.Flips(claim("c"), flips)
	want := []string{
		"c Normal Registered: Status condition Registered changed from Unknown to True, reason Registered",
		"c Normal Ready: Status condition Ready changed from True to False, reason UnhealthyDependents: Launched=False",
	}
	if diff := cmp.Diff(want, out.lines); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	r.SilentFlips = true
	r.Flips(claim("d"), flips)
	if len(out.lines) != len(want) {
		t.Errorf("silent flips were told: %v", out.lines[len(want):])
	}
}

// The API server refuses what is too long, and merges events whose action is equal.
func TestTextsFit(t *testing.T) {
	t.Parallel()
	out := &sent{}
	r := report.New(out, time.Now)
	long := strings.Repeat("ü", 1000)
	r.Emit(claim("c"), event.Event{Reason: event.FailedDraining, Text: long, Key: long})
	r.Emit(claim("c"), event.Event{Reason: event.FailedDraining, Text: "other", Key: long + "other"})
	r.Emit(claim("c"), event.Event{Reason: event.FailedConsistencyCheck, Text: "other"})
	note := strings.TrimPrefix(out.lines[0], "c Warning FailedDraining: ")
	if len(note) > 1024 || !utf8.ValidString(note) || !strings.HasSuffix(note, "...") {
		t.Errorf("note of %d bytes: %q", len(note), note)
	}
	for _, action := range out.actions {
		if len(action) > 128 || action == "" || !utf8.ValidString(action) {
			t.Errorf("action of %d bytes: %q", len(action), action)
		}
	}
	if out.actions[0] == out.actions[1] {
		t.Error("events of two texts have one action")
	}
}
