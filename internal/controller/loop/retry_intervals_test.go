package loop

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// G14: whatever failed for an hour is tried again within a minute of the end of the outage.
func TestFM_G14_RetriesStayFrequent(t *testing.T) {
	t.Parallel()
	limiter := DefaultOptions(1).RateLimiter
	if limiter == nil {
		t.Fatal("the usual waits grow to a quarter of an hour")
	}
	var wait time.Duration
	for range 60 {
		wait = limiter.When(reconcile.Request{})
	}
	if wait > time.Minute {
		t.Errorf("the wait grows to %v", wait)
	}
}
