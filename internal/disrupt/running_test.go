package disrupt

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Disruption 17: what becomes of a command, depending on its claims and the time it has taken.
func TestAdvance(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	tests := map[string]struct {
		reason  karpv1.DisruptionReason
		wait    []string
		up      []string // seen up earlier
		failed  bool
		seen    map[string]ClaimStatus
		after   time.Duration
		want    Progress
		removes []string
	}{
		"a delete command is ready at once": {
			seen: map[string]ClaimStatus{}, want: Progress{Stage: Ready}, removes: []string{"a", "b"},
		},
		"one replacement of two is up": {
			wait: []string{"x", "y"}, seen: map[string]ClaimStatus{"x": {Initialized: true}},
			want: Progress{Stage: Waiting, Pending: []string{"y"}}, removes: []string{"a", "b"},
		},
		"once up is kept, though it is not initialized now": {
			wait: []string{"x"}, up: []string{"x"}, seen: map[string]ClaimStatus{}, want: Progress{Stage: Ready}, removes: []string{"a", "b"},
		},
		"FM K07, K08: a replacement is gone, though the other is up": {
			wait: []string{"x", "y"}, seen: map[string]ClaimStatus{"x": {Initialized: true}, "y": {NotFound: true}},
			want: Progress{Stage: Broken, Why: "replacement y is gone", Replacement: true}, removes: []string{"a", "b"},
		},
		"a replacement is being deleted": {
			wait: []string{"x"}, seen: map[string]ClaimStatus{"x": {Deleting: true}},
			want: Progress{Stage: Broken, Why: "replacement x is gone", Replacement: true}, removes: []string{"a", "b"},
		},
		"FM K06: ten minutes are not too long": {
			wait: []string{"x"}, after: 10 * time.Minute, want: Progress{Stage: Waiting, Pending: []string{"x"}}, removes: []string{"a", "b"},
		},
		"FM K06: more than ten minutes are": {
			wait: []string{"x"}, after: 10*time.Minute + time.Second,
			want: Progress{Stage: Broken, Why: "it is not done after 10m0s", Replacement: true, Pending: []string{"x"}}, removes: []string{"a", "b"},
		},
		"a replacement that comes up late still counts": {
			wait: []string{"x"}, seen: map[string]ClaimStatus{"x": {Initialized: true}}, after: time.Hour, want: Progress{Stage: Ready}, removes: []string{"a", "b"},
		},
		"deletions that failed are tried until the limit": {
			failed: true, after: time.Hour, want: Progress{Stage: Broken, Why: "it is not done after 10m0s"}, removes: []string{"a", "b"},
		},
		"FM K09: a node that went without the command is dropped": {
			seen: map[string]ClaimStatus{"a": {Deleting: true}}, want: Progress{Stage: Ready}, removes: []string{"b"},
		},
		"nothing is left": {
			seen: map[string]ClaimStatus{"a": {Deleting: true}, "b": {NotFound: true}}, want: Progress{Stage: Over},
		},
		"a node that was protected meanwhile undoes a move": {
			seen: map[string]ClaimStatus{"a": {ProtectedBy: "node node-a carries annotation karpenter.sh/do-not-disrupt"}},
			want: Progress{Stage: Broken, Why: "node node-a carries annotation karpenter.sh/do-not-disrupt now"}, removes: []string{"a", "b"},
		},
		"an empty node that was protected meanwhile stays alone": {
			reason: karpv1.ReasonEmpty, seen: map[string]ClaimStatus{"a": {ProtectedBy: "node node-a carries annotation karpenter.sh/do-not-disrupt"}},
			want: Progress{Stage: Ready, Retained: []Candidate{{Node: "node-a", Claim: "a"}}}, removes: []string{"b"},
		},
		"FM C17: the standby of the leader on it was lost meanwhile": {
			seen: map[string]ClaimStatus{"b": {Leading: true}},
			want: Progress{Stage: Broken, Why: "node/node-b: the leader of this controller runs on it, and no other replica is ready on another node; give the controller a second replica"}, removes: []string{"a", "b"},
		},
		"FM C17: repair does not wait for a standby": {
			reason: karpv1.ReasonUnhealthy, seen: map[string]ClaimStatus{"b": {Leading: true}}, want: Progress{Stage: Ready}, removes: []string{"a", "b"},
		},
		"repair needs no budget": {
			reason: karpv1.ReasonUnhealthy, seen: map[string]ClaimStatus{"a": {ProtectedBy: "node node-a carries annotation karpenter.sh/do-not-disrupt"}}, want: Progress{Stage: Ready}, removes: []string{"a", "b"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := Running{ReplacementClaims: tc.wait, InitializedClaims: map[string]bool{}, Failed: tc.failed, Command: Command{
				Reason: tc.reason, Decided: began, Remove: []Candidate{{Node: "node-a", Claim: "a"}, {Node: "node-b", Claim: "b"}},
			}}
			if r.Reason == "" {
				r.Reason = karpv1.ReasonUnderutilized
			}
			for _, claim := range tc.up {
				r.InitializedClaims[claim] = true
			}
			if diff := cmp.Diff(tc.want, r.Advance(tc.seen, 2, began.Add(tc.after))); diff != "" {
				t.Errorf("progress (-want +got):\n%s", diff)
			}
			var removes []string
			for _, c := range r.Remove {
				removes = append(removes, c.Claim)
			}
			if diff := cmp.Diff(tc.removes, removes); diff != "" {
				t.Errorf("what it still removes (-want +got):\n%s", diff)
			}
		})
	}
}

// A node that stays takes its pods and its price out of the command.
func TestWithout(t *testing.T) {
	t.Parallel()
	key := func(name string) cluster.PodKey { return cluster.PodKey{Namespace: "default", Name: name} }
	c := Command{
		Saves: 3, Cost: 5, Moved: 2, Bind: []solve.Bind{{Pod: key("x"), Node: "to"}, {Pod: key("y"), Node: "to"}},
		Remove: []Candidate{{Claim: "a", Price: 1, Cost: 2, Pods: []string{"default/x"}}, {Claim: "b", Price: 2, Cost: 3, Pods: []string{"default/y"}}},
	}
	want := Command{Saves: 2, Cost: 3, Moved: 1, Bind: c.Bind[1:], Remove: c.Remove[1:]}
	if diff := cmp.Diff(want, c.Without(func(n Candidate) bool { return n.Claim == "a" })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Disruption 17: the limit grows with the queue, between ten minutes and an hour.
func TestPatience(t *testing.T) {
	t.Parallel()
	for nodes, want := range map[int]time.Duration{0: 10 * time.Minute, 7500: 10 * time.Minute, 15000: 20 * time.Minute, 45000: time.Hour, 1 << 20: time.Hour} {
		if got := CommandTimeout(nodes); got != want {
			t.Errorf("Patience(%d) = %s, want %s", nodes, got, want)
		}
	}
}
