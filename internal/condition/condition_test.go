package condition_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/condition"
	_ "github.com/dovetail-sh/dovetail/internal/seed" // the same values in every run
)

var (
	kind    = condition.Kind{Root: "Ready", Dependents: []string{"A", "B"}}
	created = metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	later   = metav1.NewTime(created.Add(time.Minute))
	obj     = condition.Object{Generation: 1, Created: created}
)

func status(list []metav1.Condition, name string) string {
	c := condition.Find(list, name)
	if c == nil {
		return "absent"
	}
	return string(c.Status) + "/" + c.Reason
}

func TestApply(t *testing.T) {
	t.Parallel()
	yes := func(name string) condition.Change {
		return condition.Change{Type: name, Status: metav1.ConditionTrue}
	}
	no := func(name string) condition.Change {
		return condition.Change{Type: name, Status: metav1.ConditionFalse, Reason: "Broken"}
	}
	for name, tc := range map[string]struct {
		changes     []condition.Change
		want        map[string]string
		wantMessage string // of the root
	}{
		"API-2.5 nothing set yet": {
			want:        map[string]string{"A": "Unknown/AwaitingReconciliation", "Ready": "Unknown/ReconcilingDependents"},
			wantMessage: "A=Unknown, B=Unknown",
		},
		"API-2.5 all true": {
			changes: []condition.Change{yes("A"), yes("B")},
			want:    map[string]string{"A": "True/A", "B": "True/B", "Ready": "True/Ready"},
		},
		"API-2.5 one false decides": {
			changes:     []condition.Change{no("A")},
			want:        map[string]string{"A": "False/Broken", "B": "Unknown/AwaitingReconciliation", "Ready": "False/UnhealthyDependents"},
			wantMessage: "A=False, B=Unknown",
		},
		"API-2.5 one unknown": {
			changes:     []condition.Change{yes("A")},
			want:        map[string]string{"Ready": "Unknown/ReconcilingDependents"},
			wantMessage: "B=Unknown",
		},
		"API-2.5 others do not count": {
			changes: []condition.Change{yes("A"), yes("B"), no("Other")},
			want:    map[string]string{"Other": "False/Broken", "Ready": "True/Ready"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := kind.Apply(nil, obj, later, tc.changes...)
			for name, want := range tc.want {
				if have := status(got, name); have != want {
					t.Errorf("%s is %s, want %s", name, have, want)
				}
			}
			if message := condition.Find(got, "Ready").Message; message != tc.wantMessage {
				t.Errorf("message of the root %q, want %q", message, tc.wantMessage)
			}
			if last := got[len(got)-1].Type; last != "Ready" {
				t.Errorf("last condition %s, want the root", last)
			}
		})
	}
}

func TestTimesChangeWithTheStatusAlone(t *testing.T) {
	t.Parallel()
	first := kind.Apply(nil, obj, later, condition.Change{Type: "A", Status: metav1.ConditionFalse, Reason: "X"})
	if got := condition.Find(first, "B").LastTransitionTime; !got.Equal(&created) {
		t.Errorf("a condition never set has time %s, want that of creation", got)
	}
	muchLater := metav1.NewTime(later.Add(time.Hour))
	second := kind.Apply(first, obj, muchLater, condition.Change{Type: "A", Status: metav1.ConditionFalse, Reason: "Y", Message: "new"})
	a := condition.Find(second, "A")
	if a.Reason != "Y" || !a.LastTransitionTime.Equal(&later) {
		t.Errorf("a new reason: %+v, want it with the old time", a)
	}
	third := kind.Apply(second, obj, muchLater, condition.Change{Type: "A", Status: metav1.ConditionTrue})
	if got := condition.Find(third, "A").LastTransitionTime; !got.Equal(&muchLater) {
		t.Errorf("a new status has time %s, want now", got)
	}
	flips := condition.Flips(second, third)
	want := []condition.Flip{
		{Type: "A", From: "False", To: "True", Reason: "A"},
		{Type: "Ready", From: "False", To: "Unknown", Reason: "ReconcilingDependents", Message: "B=Unknown"},
	}
	if diff := cmp.Diff(want, flips); diff != "" {
		t.Errorf("flips (-want +got):\n%s", diff)
	}
}

// A condition that was observed at an older generation says nothing about the object as it is now.
func TestOldObservationsDoNotMakeReady(t *testing.T) {
	t.Parallel()
	list := kind.Apply(nil, obj, later, condition.Change{Type: "A", Status: metav1.ConditionTrue}, condition.Change{Type: "B", Status: metav1.ConditionFalse, Reason: "X"})
	changed := condition.Object{Generation: 2, Created: created}
	got := kind.Apply(list, changed, later, condition.Change{Type: "A", Status: metav1.ConditionTrue})
	if have := status(got, "Ready"); have != "Unknown/ReconcilingDependents" {
		t.Errorf("API-2.5: Ready is %s although B was seen at an older generation", have)
	}
	changed.Deleting = true
	got = kind.Apply(list, changed, later, condition.Change{Type: "A", Status: metav1.ConditionTrue})
	for _, c := range got {
		if c.ObservedGeneration != 2 {
			t.Errorf("API-2.5: while deleting, %s is observed at %d", c.Type, c.ObservedGeneration)
		}
	}
}

func TestApplyReachesAFixedPoint(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		change := rapid.Custom(func(t *rapid.T) condition.Change {
			return condition.Change{
				Type:   rapid.SampledFrom([]string{"A", "B", "Other"}).Draw(t, "type"),
				Status: rapid.SampledFrom([]metav1.ConditionStatus{"True", "False", "Unknown"}).Draw(t, "status"),
				Reason: "R",
			}
		})
		changes := rapid.SliceOf(change).Draw(t, "changes")
		once := kind.Apply(nil, obj, later, changes...)
		twice := kind.Apply(once, obj, metav1.NewTime(later.Add(time.Hour)))
		if diff := cmp.Diff(once, twice); diff != "" {
			t.Fatalf("applying nothing changes something:\n%s", diff)
		}
	})
}
