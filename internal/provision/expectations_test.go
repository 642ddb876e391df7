package provision

import (
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// FM I01: which pod gets the event that the scheduler keeps it off its node. Plans are made every ten seconds, pods are
// expected for twenty.
func TestFM_I01_PodsThatGetEvents(t *testing.T) {
	t.Parallel()
	key := func(name string) cluster.PodKey { return cluster.PodKey{Namespace: "default", Name: name} }
	for name, tc := range map[string]struct {
		binds   func(plan int) map[string]string // pod to node
		running func(plan int, pod string) bool
		want    map[string]int // pod to the first plan after which it gets the event
	}{
		"rejected all the time": {
			binds: func(int) map[string]string { return map[string]string{"a": "up"} }, want: map[string]int{"a": 6},
		},
		"from one node to another": {
			binds: func(plan int) map[string]string { return map[string]string{"a": []string{"up", "up-2"}[plan%2]} }, want: map[string]int{"a": 6},
		},
		"the node is not up yet": {binds: func(int) map[string]string { return map[string]string{"a": "coming"} }},
		"it still runs on a terminating node": {
			binds: func(int) map[string]string { return map[string]string{"a": "up"} }, running: func(int, string) bool { return true },
		},
		"it needed another place in between": {
			binds: func(plan int) map[string]string {
				if plan == 4 {
					return nil
				}
				return map[string]string{"a": "up"}
			},
			want: map[string]int{"a": 11},
		},
		"the scheduler is at work on pods as old": {
			binds:   func(int) map[string]string { return map[string]string{"a": "up", "b": "up", "c": "up"} },
			running: func(plan int, pod string) bool { return pod == "b" && plan >= 5 || pod == "c" && plan >= 6 },
			want:    map[string]int{"a": 8},
		},
		"the scheduler takes pods that came later": {
			binds: func(plan int) map[string]string {
				if plan < 3 {
					return map[string]string{"a": "up"}
				}
				return map[string]string{"a": "up", "b": "up"}
			},
			running: func(plan int, pod string) bool { return pod == "b" && plan >= 6 },
			want:    map[string]int{"a": 6},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x, reported := expectations{}, map[string]int{}
			start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			for plan := range 15 {
				now := start.Add(time.Duration(plan) * 10 * time.Second)
				var binds []solve.Bind
				waiting, runs := map[cluster.PodKey]bool{}, map[cluster.PodKey]bool{}
				for pod, node := range tc.binds(plan) {
					if tc.running != nil && tc.running(plan, pod) {
						runs[key(pod)] = true
					} else {
						waiting[key(pod)] = true
					}
					binds = append(binds, solve.Bind{Pod: key(pod), Node: node})
				}
				x = x.next(binds, map[string]bool{"up": true, "up-2": true}, waiting, func(k cluster.PodKey) bool { return runs[k] }, now)
				for pod, e := range x.pods {
					if _, due := x.unboundEvent(e, now, 20*time.Second); due && reported[pod.Name] == 0 {
						reported[pod.Name] = plan
					}
				}
			}
			if len(reported) != len(tc.want) {
				t.Errorf("reported %v, want %v", reported, tc.want)
			}
			for pod, plan := range tc.want {
				if reported[pod] != plan {
					t.Errorf("pod %s was told after plan %d, want %d", pod, reported[pod], plan)
				}
			}
		})
	}
}
