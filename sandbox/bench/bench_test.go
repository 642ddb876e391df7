package bench

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		options Options
		want    string
	}{
		"as it should be":          {Options{Nodes: 1, Pods: 50}, ""},
		"no nodes":                 {Options{Pods: 1}, "nodes: want"},
		"no pods":                  {Options{Nodes: 1}, "pods: want 1 to 50"},
		"more pods than fit":       {Options{Nodes: 2, Pods: 101}, "pods: want 1 to 100"},
		"time that runs backwards": {Options{Nodes: 1, Pods: 1, Idle: -1}, "idle"},
		"a clock that does so":     {Options{Nodes: 1, Pods: 1, Speed: -1}, "speed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := tc.options.Check()
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Check() = %v, want %q", err, tc.want)
			}
		})
	}
}

// Every change is counted and reported.
func TestTally(t *testing.T) {
	t.Parallel()
	tally := &tally{objects: map[types.UID]bool{}, changed: make(chan struct{})}
	steps := []struct {
		do   func()
		want count
	}{
		{func() { tally.set("a", false) }, count{1, 0}},
		{func() { tally.set("a", true) }, count{1, 1}},
		{func() { tally.set("b", true) }, count{2, 2}},
		{func() { tally.set("b", false) }, count{2, 1}},
		{func() { tally.remove("b") }, count{1, 1}},
		{func() { tally.remove("a") }, count{0, 0}},
	}
	for n, step := range steps {
		changed := tally.nextChange()
		step.do()
		if got := tally.count(); got != step.want {
			t.Errorf("step %d: %+v, want %+v", n, got, step.want)
		}
		select {
		case <-changed:
		default:
			t.Errorf("step %d: no callback", n)
		}
	}
}
