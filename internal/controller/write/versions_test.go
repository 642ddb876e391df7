package write

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// FM D08: after a conflict the cache is given time for a later version, but if none comes work goes on.
func TestFM_D08_ConflictsWithoutALaterVersionEnd(t *testing.T) {
	t.Parallel()
	var w Versions
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "7"}}
	w.RecordConflict(claim)
	looks := 0
	for w.cacheIsStale(claim) {
		if looks++; looks > 100 {
			t.Fatal("waits for ever for a version that was not written")
		}
	}
	if looks != maxStaleReads {
		t.Errorf("looked %d times, want %d", looks, maxStaleReads)
	}
	w.RecordConflict(claim)
	later := claim.DeepCopy()
	if later.ResourceVersion = "8"; w.cacheIsStale(later) {
		t.Error("waits although the cache has passed the version")
	}
	w.RecordWrite(later)
	for range 10 {
		if !w.cacheIsStale(claim) {
			t.Fatal("works on a version older than our own write")
		}
	}
}
