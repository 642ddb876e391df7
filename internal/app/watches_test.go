package app

import (
	"strings"
	"testing"
	"time"
)

type slow time.Duration

func (s slow) Unsynced() (time.Duration, []string) { return time.Duration(s), []string{"Node", "Pod"} }

// Operations 4: watches that never deliver are a reason to start again.
func TestWatchesThatDeliverNothing(t *testing.T) {
	t.Parallel()
	if err := watchCheck(slow(stuckAfter))(nil); err != nil {
		t.Errorf("after %v: %v, want patience", stuckAfter, err)
	}
	if err := watchCheck(slow(stuckAfter + time.Second))(nil); err == nil || !strings.Contains(err.Error(), "Node, Pod") {
		t.Errorf("after more than %v: %v, want an error that names the kinds", stuckAfter, err)
	}
}
