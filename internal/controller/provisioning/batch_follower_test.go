package provisioning

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// A process that does not lead hears of pods for weeks and never plans: reasons for a plan must not pile up
// there. When it leads, one window covers everybody.
func TestBatcherDropsTriggersOfFollowers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := NewBatcher(time.Second, 10*time.Second)
		for i := range 1000 {
			b.Trigger(types.UID(strconv.Itoa(i)))
		}
		start := time.Now()
		if !b.Wait(t.Context()) || time.Since(start) != time.Second {
			t.Errorf("the window closed after %v, want 1s", time.Since(start))
		}
	})
}
