package overlay_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ktypes "k8s.io/apimachinery/pkg/types"

	"github.com/dovetail-sh/dovetail/api/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/overlay"
)

// OV-20: when an evaluation changes what plans see, and which pools it covers.
func TestOV_20_StateKeepsASetThatSaysTheSame(t *testing.T) {
	t.Parallel()
	one := func(uid ktypes.UID, generation int64) v1alpha1.NodeOverlay {
		return v1alpha1.NodeOverlay{ObjectMeta: metav1.ObjectMeta{Name: "o", UID: uid, Generation: generation}}
	}
	applied, conflicts := []overlay.Verdict{{Name: "o"}}, []overlay.Verdict{{Name: "o", Reason: "Conflict"}}
	pools := []overlay.Pool{{Name: "p", Labels: map[string]string{"team": "a"}}}
	before := overlay.Evaluation{Objects: []v1alpha1.NodeOverlay{one("u", 1)}, Verdicts: applied, Pools: pools}
	for name, tc := range map[string]struct {
		before          *overlay.Evaluation
		now             overlay.Evaluation
		swapped, replan bool
		covers          bool // pool p
	}{
		"the first one finds no overlays": {now: overlay.Evaluation{}, swapped: true, covers: true},
		"the first one finds an overlay":  {now: before, swapped: true, replan: true, covers: true},
		"nothing changed":                 {before: &before, now: before, covers: true},
		"another generation":              {before: &before, now: overlay.Evaluation{Objects: []v1alpha1.NodeOverlay{one("u", 2)}, Verdicts: applied, Pools: pools}, swapped: true, replan: true, covers: true},
		"made anew under its name":        {before: &before, now: overlay.Evaluation{Objects: []v1alpha1.NodeOverlay{one("v", 1)}, Verdicts: applied, Pools: pools}, swapped: true, replan: true, covers: true},
		"another verdict":                 {before: &before, now: overlay.Evaluation{Objects: before.Objects, Verdicts: conflicts, Pools: pools}, swapped: true, replan: true, covers: true},
		"a pool has other labels":         {before: &before, now: overlay.Evaluation{Objects: before.Objects, Verdicts: applied, Pools: []overlay.Pool{{Name: "p"}}}, swapped: true, replan: true, covers: true},
		"a pool could not be listed":      {before: &before, now: overlay.Evaluation{Objects: before.Objects, Verdicts: applied}, swapped: true, replan: true},
		"the last overlay is gone":        {before: &before, now: overlay.Evaluation{}, swapped: true, replan: true, covers: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s overlay.State
			if s.Covers("p") {
				t.Error("covers a pool before overlays were read")
			}
			if tc.before != nil {
				s.Swap(*tc.before)
			}
			if swapped, replan := s.Swap(tc.now); swapped != tc.swapped || replan != tc.replan {
				t.Errorf("swapped %v, replan %v; want %v, %v", swapped, replan, tc.swapped, tc.replan)
			}
			if got := s.Covers("p"); got != tc.covers {
				t.Errorf("covers p: %v, want %v", got, tc.covers)
			}
		})
	}
}

// The next evaluation is hours away; after failures it comes soon, and later with each of them.
func TestStateBacksOffFailedEvaluations(t *testing.T) {
	t.Parallel()
	var s overlay.State
	for i, step := range []struct {
		failed bool
		want   time.Duration
	}{{false, 6 * time.Hour}, {true, time.Second}, {true, 2 * time.Second}, {true, 4 * time.Second}, {false, 6 * time.Hour}, {true, time.Second}} {
		if got := s.Next(step.failed); got != step.want {
			t.Errorf("step %d: next after %s, want %s", i, got, step.want)
		}
	}
	for range 30 {
		s.Next(true)
	}
	if got := s.Next(true); got != 5*time.Minute {
		t.Errorf("after many failures: next after %s, want 5m", got)
	}
}
