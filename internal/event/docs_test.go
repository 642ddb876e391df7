package event_test

import (
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/event"
)

func TestDocsAreComplete(t *testing.T) {
	t.Parallel()
	seen := map[event.Reason]bool{}
	for _, d := range event.Docs() {
		if seen[d.Reason] {
			t.Errorf("%s is documented twice", d.Reason)
		}
		seen[d.Reason] = true
		if len(d.On) == 0 || d.When == "" || d.Every <= 0 || (d.PerSecond > 0) != (d.Burst > 0) {
			t.Errorf("%s: %+v", d.Reason, d)
		}
		if got := event.Lookup(d.Reason); got.When != d.When {
			t.Errorf("Lookup(%s) = %+v", d.Reason, got)
		}
	}
	if got := event.Lookup("Launched"); got.Warning || got.Every != 2*time.Minute {
		t.Errorf("the name of a condition is %+v", got)
	}
}
