package disrupt

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	_ "github.com/dovetail-sh/dovetail/internal/seed" // the same values in every run
)

var now = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return now.Add(-d) }

// health is a condition that has been so for some time.
func health(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason string, since time.Duration) corev1.NodeCondition {
	return corev1.NodeCondition{Type: kind, Status: status, Reason: reason, LastTransitionTime: metav1.NewTime(ago(since))}
}

func minutes(n int) *time.Duration { return new(time.Duration(n) * time.Minute) }

// testPolicies is a set with everything in it.
func testPolicies() []cloud.Repair {
	return []cloud.Repair{
		{Condition: "Ready", Status: "False", Toleration: 30 * time.Minute, Bound: new(time.Duration(0)), Action: cloud.ReplaceNode},
		{Condition: "Ready", Status: "Unknown", ReasonRegex: ".*", Toleration: 10 * time.Minute, Action: cloud.ReplaceNode},
		{Condition: "DiskReady", Status: "False", ReasonRegex: "^Read", Toleration: 5 * time.Minute, Bound: minutes(3), Priority: 10, Action: cloud.RebootNode},
		{Condition: "DiskReady", Status: "False", ReasonRegex: "Broken", Toleration: 5 * time.Minute, Priority: 90, Action: cloud.ReplaceNode},
		{Condition: "GPUReady", Status: "False", ReasonRegex: "X", Toleration: time.Minute, Bound: minutes(1), Priority: 50, Action: cloud.RebootNode},
	}
}

func testSet(t interface{ Fatal(...any) }) *RepairSet {
	s, err := NewRepairSet(testPolicies())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// V15-03, V15-17: one error names all faults.
func TestNewRepairSet(t *testing.T) {
	t.Parallel()
	good := func(change func(*cloud.Repair)) []cloud.Repair {
		r := cloud.Repair{Condition: "A", Status: "True", ReasonRegex: "x", Action: cloud.RebootNode}
		change(&r)
		return []cloud.Repair{{Condition: "Ready", Status: "False", Action: cloud.ReplaceNode}, r}
	}
	for name, tc := range map[string]struct {
		list []cloud.Repair
		want []string // parts of the error; none: it is fine
	}{
		"all is well":           {list: testPolicies()},
		"none":                  {want: []string{"no repair policy"}},
		"no condition":          {list: good(func(r *cloud.Repair) { r.Condition = "" }), want: []string{"policy 2", "type is empty"}},
		"an odd status":         {list: good(func(r *cloud.Repair) { r.Status = "true" }), want: []string{"policy 2 (A=true)", `"true" is not`}},
		"a negative toleration": {list: good(func(r *cloud.Repair) { r.Toleration = -1 }), want: []string{"toleration"}},
		"a negative bound":      {list: good(func(r *cloud.Repair) { r.Bound = minutes(-1) }), want: []string{"grace period is below 0"}},
		"a low priority":        {list: good(func(r *cloud.Repair) { r.Priority = -1 }), want: []string{"priority -1"}},
		"a high priority":       {list: good(func(r *cloud.Repair) { r.Priority = 101 }), want: []string{"priority 101"}},
		"the highest priority":  {list: good(func(r *cloud.Repair) { r.Priority = 100 })},
		"an odd action":         {list: good(func(r *cloud.Repair) { r.Action = "Pray" }), want: []string{`"Pray"`}},
		"a regex that is none":  {list: good(func(r *cloud.Repair) { r.ReasonRegex = "(" }), want: []string{"regex"}},
		"two fallbacks":         {list: good(func(r *cloud.Repair) { r.ReasonRegex, r.Action = "", cloud.ReplaceNode }), want: []string{"2 repair policies have no reason regex"}},
		"no fallback":           {list: good(func(*cloud.Repair) {})[1:], want: []string{"0 repair policies have no reason regex"}},
		"a fallback that boots": {list: []cloud.Repair{{Condition: "Ready", Status: "False", Action: cloud.RebootNode}}, want: []string{"fallback must have action ReplaceNode"}},
		"all at once": {
			list: append(good(func(r *cloud.Repair) { r.Condition, r.Priority = "", -5 }), cloud.Repair{Condition: "B", Status: "x", ReasonRegex: "("}),
			want: []string{"policy 2", "type is empty", "priority -5", "policy 3 (B=x)", "regex", "action"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := NewRepairSet(tc.list)
			if len(tc.want) == 0 {
				if err != nil || s == nil {
					t.Fatalf("refused: %v", err)
				}
				return
			}
			if err == nil {
				t.Fatal("accepted")
			}
			for _, part := range tc.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not contain %q", err, part)
				}
			}
		})
	}
}

// V15-18, V15-19: which policies match, and from when on they count.
func TestMatches(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		node cluster.ManagedNode
		want []string // regex or "fallback", and minutes until due
	}{
		"healthy":                 {node: cluster.ManagedNode{Health: []corev1.NodeCondition{health("Ready", "True", "KubeletReady", time.Hour)}}},
		"an unknown type":         {node: cluster.ManagedNode{Health: []corev1.NodeCondition{health("Odd", "True", "", time.Hour)}}},
		"the fallback's own pair": {node: cluster.ManagedNode{Health: []corev1.NodeCondition{health("Ready", "False", "x", 10*time.Minute)}}, want: []string{"fallback 20m0s"}},
		"a specific policy":       {node: cluster.ManagedNode{Health: []corev1.NodeCondition{health("DiskReady", "False", "ReadErrors", time.Minute)}}, want: []string{"^Read 4m0s"}},
		"the regex is not anchored by itself": {
			node: cluster.ManagedNode{Health: []corev1.NodeCondition{health("DiskReady", "False", "IsBrokenNow", time.Minute)}}, want: []string{"Broken 4m0s"},
		},
		"all that match": {
			node: cluster.ManagedNode{Health: []corev1.NodeCondition{health("DiskReady", "False", "ReadBroken", time.Minute)}}, want: []string{"^Read 4m0s", "Broken 4m0s"},
		},
		"no reason matches: the fallback of another pair, with its toleration": {
			node: cluster.ManagedNode{Health: []corev1.NodeCondition{health("DiskReady", "False", "Odd", time.Minute)}}, want: []string{"fallback 29m0s"},
		},
		"a match within its toleration suppresses the fallback": {
			node: cluster.ManagedNode{Health: []corev1.NodeCondition{health("Ready", "Unknown", "x", time.Minute)}}, want: []string{".* 9m0s"},
		},
		"a young node": {
			node: cluster.ManagedNode{Joined: ago(time.Minute), Health: []corev1.NodeCondition{health("Ready", "False", "x", time.Hour)}}, want: []string{"fallback 29m0s"},
		},
		"a reboot that just ended": {
			node: cluster.ManagedNode{Joined: ago(time.Hour), Rebooted: ago(2 * time.Minute), Health: []corev1.NodeCondition{health("Ready", "False", "x", time.Hour)}},
			want: []string{"fallback 28m0s"},
		},
		"FM M13 a flap restarts the clock": {
			node: cluster.ManagedNode{Joined: ago(time.Hour), Health: []corev1.NodeCondition{health("Ready", "False", "x", time.Second)}}, want: []string{"fallback 29m59s"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, m := range testSet(t).Matches(&tc.node) {
				what := m.Policy.ReasonRegex
				if m.Fallback {
					what = "fallback"
				}
				got = append(got, what+" "+m.Due.Sub(now).String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// V15-20, V15-21: all due matches become one verdict.
func TestJudge(t *testing.T) {
	t.Parallel()
	type outcome struct {
		Action, Drives string
		Bound          string
		BoundBy        string
		Score          float64
	}
	for name, tc := range map[string]struct {
		health []corev1.NodeCondition
		want   *outcome
	}{
		"nothing":     {},
		"not due yet": {health: []corev1.NodeCondition{health("Ready", "False", "", 30*time.Minute-time.Second)}},
		"due exactly now": {
			health: []corev1.NodeCondition{health("Ready", "False", "", 30*time.Minute)},
			want:   &outcome{Action: "ReplaceNode", Drives: "Ready", Bound: "0s", BoundBy: "Ready"},
		},
		"no bound": {
			health: []corev1.NodeCondition{health("Ready", "Unknown", "", 25*time.Minute)}, want: &outcome{Action: "ReplaceNode", Drives: "Ready", Score: 0.5},
		},
		"a rank counts half an hour": {
			health: []corev1.NodeCondition{health("DiskReady", "False", "Read", 20*time.Minute)},
			want:   &outcome{Action: "RebootNode", Drives: "DiskReady", Bound: "3m0s", BoundBy: "DiskReady", Score: 1.5},
		},
		"replacing is stronger than rebooting, and the shortest bound of both counts": {
			health: []corev1.NodeCondition{health("GPUReady", "False", "X", time.Minute), health("DiskReady", "False", "Broken", 5*time.Minute)},
			want:   &outcome{Action: "ReplaceNode", Drives: "DiskReady", Bound: "1m0s", BoundBy: "GPUReady", Score: 3},
		},
		"of two reboots the higher priority drives": {
			health: []corev1.NodeCondition{health("DiskReady", "False", "Read", 8*time.Minute), health("GPUReady", "False", "X", time.Minute)},
			want:   &outcome{Action: "RebootNode", Drives: "GPUReady", Bound: "1m0s", BoundBy: "GPUReady", Score: 2},
		},
		"of equal priority the one due first": {
			health: []corev1.NodeCondition{health("Ready", "Unknown", "", 40*time.Minute), health("DiskReady", "False", "Odd", 90*time.Minute)},
			want:   &outcome{Action: "ReplaceNode", Drives: "DiskReady", Bound: "0s", BoundBy: "DiskReady", Score: 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, due := testSet(t).mergeDueMatches(&cluster.ManagedNode{Health: tc.health}, now)
			if due != (tc.want != nil) {
				t.Fatalf("due = %v", due)
			}
			if !due {
				return
			}
			got := outcome{Action: string(v.action), Drives: string(v.drives.Condition.Type), Score: v.score}
			if v.bound != nil {
				got.Bound, got.BoundBy = v.bound.Policy.Bound.String(), string(v.bound.Condition.Type)
			}
			if diff := cmp.Diff(*tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// V15-20: the verdict does not depend on the order of the conditions, nor of the policies.
func TestJudgeDoesNotDependOnOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := drawUnhealthyNode(t, "n")
		shuffle := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		other := n
		other.Health = slices.Clone(n.Health)
		shuffle.Shuffle(len(other.Health), func(i, j int) { other.Health[i], other.Health[j] = other.Health[j], other.Health[i] })
		policies := testPolicies()
		shuffle.Shuffle(len(policies), func(i, j int) { policies[i], policies[j] = policies[j], policies[i] })
		again, err := NewRepairSet(policies)
		if err != nil {
			t.Fatal(err)
		}
		first, due := testSet(t).mergeDueMatches(&n, now)
		second, dueToo := again.mergeDueMatches(&other, now)
		if due != dueToo {
			t.Fatalf("due %v and %v", due, dueToo)
		}
		if diff := cmp.Diff(first, second, cmp.AllowUnexported(repairVerdict{}, Match{})); diff != "" {
			t.Error(diff)
		}
	})
}

// drawUnhealthyNode is a node with random conditions.
func drawUnhealthyNode(t *rapid.T, name string) cluster.ManagedNode {
	n := cluster.ManagedNode{Node: cluster.Node{Name: name, Claim: "claim-" + name, Initialized: true, Settling: true}, Registered: true, Joined: ago(48 * time.Hour)}
	for _, kind := range []corev1.NodeConditionType{"Ready", "DiskReady", "GPUReady", "Odd"} {
		if rapid.Bool().Draw(t, string(kind)) {
			n.Health = append(n.Health, health(kind,
				rapid.SampledFrom([]corev1.ConditionStatus{"True", "False", "Unknown"}).Draw(t, "status"),
				rapid.SampledFrom([]string{"Read", "Broken", "ReadBroken", "X", ""}).Draw(t, "reason"),
				time.Duration(rapid.IntRange(0, 90).Draw(t, "age"))*time.Minute))
		}
	}
	return n
}
