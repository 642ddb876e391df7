package check_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/check"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// judges reject plans on account of some pods.
func judge(code check.Code, subject func(solve.Plan, string) string, villains ...string) func(solve.Problem, solve.Plan) []check.Violation {
	return func(p solve.Problem, plan solve.Plan) []check.Violation {
		found := check.Plan(p, plan)
		for _, v := range villains {
			if at := subject(plan, v); at != "" {
				found = append(found, check.Violation{Code: code, Subject: at, Want: "this", Have: "that"})
			}
		}
		return found
	}
}

func hostOf(plan solve.Plan, name string) string {
	for i, n := range plan.Create {
		if slices.ContainsFunc(n.Pods, func(k cluster.PodKey) bool { return k.Name == name }) {
			return "create[" + string(rune('0'+i)) + "] type small"
		}
	}
	return ""
}

func TestTrust_C03_ARejectedPlanIsMadeWithoutThoseToBlame(t *testing.T) {
	t.Parallel()
	byPod := func(plan solve.Plan, name string) string {
		if hostOf(plan, name) == "" {
			return ""
		}
		return "pod/default/" + name
	}
	for name, tc := range map[string]struct {
		judge    func(solve.Problem, solve.Plan) []check.Violation
		sound    bool
		rejected int
		left     []string
	}{
		"nobody":                   {judge: check.Plan, sound: true},
		"one pod":                  {judge: judge(check.SpreadUnmet, byPod, "b"), sound: true, rejected: 2, left: []string{"b"}},
		"two pods":                 {judge: judge(check.SpreadUnmet, byPod, "b", "c"), sound: true, rejected: 2, left: []string{"b", "c"}},
		"everybody on a node":      {judge: judge(check.TooSmall, hostOf, "c"), sound: true, rejected: 2, left: []string{"a", "b", "c"}},
		"the plan and no pod":      {judge: judge(check.CostWrong, func(solve.Plan, string) string { return "plan" }, "x"), rejected: 2, left: []string{"a", "b", "c", "d"}},
		"a pod that is not placed": {judge: judge(check.PodUnknown, func(solve.Plan, string) string { return "pod/default/nobody" }, "x"), rejected: 2, left: []string{"a", "b", "c", "d"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			for _, pod := range []string{"a", "b", "c"} {
				w.Pods = append(w.Pods, cluster.Pod{Key: cluster.PodKey{Namespace: "default", Name: pod}, Shape: shape("web", func(*cluster.Shape) {})})
			}
			w.Pods = append(w.Pods, cluster.Pod{Key: cluster.PodKey{Namespace: "default", Name: "d"}, Shape: shape("other", func(s *cluster.Shape) {
				s.AntiAffinity = term(host, "web") // on a node of its own
			})})
			got := check.Sound(w.Problem, func(p solve.Problem) (solve.Problem, solve.Plan) { return p, solve.Solve(p, never) }, tc.judge)
			if got.Sound != tc.sound || len(got.Rejected) != tc.rejected {
				t.Errorf("sound %t after %d rejections, want %t after %d", got.Sound, len(got.Rejected), tc.sound, tc.rejected)
			}
			var left []string
			for _, u := range got.Plan.Unplaced {
				if u.Why[0].Code != reason.PlanRejected || !strings.Contains(u.Why[0].Text(), "want this, have that") {
					t.Errorf("%s: %s", u.Pod, u.Why[0].Text())
				}
				left = append(left, u.Pod.Name)
			}
			if diff := cmp.Diff(tc.left, left); diff != "" {
				t.Errorf("left out (-want +got):\n%s", diff)
			}
			if placed := hostOf(got.Plan, "d") != ""; placed != tc.sound {
				t.Errorf("the pod without blame: placed %t", placed)
			}
		})
	}
}
