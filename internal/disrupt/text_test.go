package disrupt_test

import (
	"strings"
	"testing"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
)

// Trust B07: a command says what it saves only if it does. Drift replaces a node by one that costs as much, and
// the price of an empty node may not be known.
func TestTrust_B07_NothingSavedIsNotSaid(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		why          karpv1.DisruptionReason
		saves, price float64
		want         string // how it ends
	}{
		"consolidation":                           {karpv1.ReasonUnderutilized, 0.12345, 1, "replacement(s), saves $0.1235 an hour"},
		"drift to the same type":                  {karpv1.ReasonDrifted, 0, 1, "replacement(s)"},
		"drift, and prices are sums of fractions": {karpv1.ReasonDrifted, -1e-17, 1, "replacement(s)"},
		"drift to a cheaper type":                 {karpv1.ReasonDrifted, 0.05, 1, "replacement(s), saves $0.0500 an hour"},
		"drift to a dearer type":                  {karpv1.ReasonDrifted, -0.05, 1, "replacement(s), costs $0.0500 an hour more"},
		"an empty node":                           {karpv1.ReasonEmpty, 0.192, 1, "replacement(s), saves $0.1920 an hour"},
		"drift of a node without a price":         {karpv1.ReasonDrifted, -0.1, 0, "replacement(s)"},
		"an empty node without a price":           {karpv1.ReasonEmpty, 0, 1, "replacement(s)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := disrupt.Command{ID: "x", Reason: tc.why, Decision: disrupt.Delete, Saves: tc.saves, Remove: []disrupt.Candidate{{Node: "n1", Pool: "general", Price: tc.price}}}
			if got := c.Text(); !strings.HasSuffix(got, tc.want) || !strings.HasPrefix(got, string(tc.why)+"/x: delete, nodepools [general], nodes [n1], 0 ") {
				t.Errorf("the command is %q, want something that ends with %q", got, tc.want)
			}
		})
	}
}

// Trust B07: a pod that nothing makes again does not move, it ends.
func TestTrust_B07_BarePodsDoNotMove(t *testing.T) {
	t.Parallel()
	drift, unhealthy := disrupt.Command{Reason: karpv1.ReasonDrifted}, disrupt.Command{Reason: karpv1.ReasonUnhealthy, Because: "Ready=False"}
	for name, tc := range map[string]struct {
		command    disrupt.Command
		pods, bare []string
		want       string
	}{
		"of controllers": {command: drift, pods: []string{"x/a", "x/b"}, want: "2 pod(s) move"},
		"of both kinds":  {command: drift, pods: []string{"x/a", "x/b"}, bare: []string{"x/b"}, want: "1 pod(s) move; 1 end(s), since no controller makes them again: x/b"},
		"bare alone":     {command: drift, pods: []string{"x/b"}, bare: []string{"x/b"}, want: "0 pod(s) move; 1 end(s), since no controller makes them again: x/b"},
		"many of them": {
			command: unhealthy, pods: []string{"x/a", "x/b", "x/c", "x/d"}, bare: []string{"x/a", "x/b", "x/c", "x/d"},
			want: "condition Ready=False; 0 pod(s) move; 4 end(s), since no controller makes them again: x/a, x/b, x/c and 1 more",
		},
		"drift that terminates first": {
			command: disrupt.Command{Reason: karpv1.ReasonDrifted, Decision: disrupt.TerminateFirst, Because: disrupt.NoReservedCapacity}, pods: []string{"x/a"},
			want: "1 pod(s) move; the replacement comes afterwards (no-reserved-capacity)",
		},
		"V15-50: repair that terminates first": {
			command: disrupt.Command{
				Reason: karpv1.ReasonUnhealthy, Decision: disrupt.TerminateFirst, Because: disrupt.NoReservedCapacity,
				Repair: &disrupt.Diagnosis{Condition: "Ready", Status: "False"},
			},
			pods: []string{"x/a"}, want: "condition Ready=False; 1 pod(s) move; the replacement comes afterwards (no-reserved-capacity)",
		},
		"empty": {command: disrupt.Command{Reason: karpv1.ReasonEmpty}, want: "no pod on it would have to move"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tc.command.Why(&disrupt.Candidate{Node: "n1", Pods: tc.pods, Bare: tc.bare}); got != tc.want {
				t.Errorf("the node goes: %s, want %s", got, tc.want)
			}
		})
	}
	t.Run("as decided", func(t *testing.T) {
		t.Parallel()
		v := scripted(t, "type name=m cpu=4 price=1\ntype name=l cpu=8 price=4\npool name=default\nnode name=n1 pool=default type=l\nbound name=a cpu=1 node=n1\nbound name=b cpu=1 node=n1\n")
		v.Nodes[0].Pods[1].Bare = true
		list := disrupt.Next(v, never).Commands
		if len(list) != 1 || len(list[0].Remove[0].Pods) != 2 || len(list[0].Remove[0].Bare) != 1 {
			t.Errorf("commands %+v, want one of which a pod ends", list)
		}
	})
}

// Trust B07: how full a node is said to be is what its pods request that stay; one that ends is not usage.
func TestTrust_B07_EndingPodsAreNotUsage(t *testing.T) {
	t.Parallel()
	v := scripted(t, "type name=m cpu=4 price=1\npool name=default\nnode name=n1 pool=default type=m\nbound name=a cpu=2 node=n1\nbound name=b cpu=1 node=n1\n")
	n := &v.Cluster.Nodes[0]
	if got := n.RequestedPercent(0); got != 75 {
		t.Fatalf("its pods request %d %% of the CPU, want 75", got)
	}
	n.Pods[1].Terminating = true
	if got := n.RequestedPercent(0); got != 50 {
		t.Errorf("its pods request %d %% of the CPU when one of them ends, want 50", got)
	}
	if text := disrupt.Next(v, never).Events; len(text) != 1 || !strings.Contains(text[0].Event.Text, "request 50 % of its CPU") {
		t.Errorf("it is said that %+v, want 50 %%", text)
	}
}

// What metrics say of a command: which condition a repair is for, and why nodes are removed first.
func TestWhatMetricsSayOfCommands(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		command          disrupt.Command
		unhealthy, first string
	}{
		"drift": {command: disrupt.Command{Reason: karpv1.ReasonDrifted, Decision: disrupt.Replace, Because: "x"}},
		"drift that removes first": {
			command: disrupt.Command{Reason: karpv1.ReasonDrifted, Decision: disrupt.TerminateFirst, Because: disrupt.StaticAtLimit}, first: disrupt.StaticAtLimit,
		},
		"repair, recovered after a restart": {
			command: disrupt.Command{Reason: karpv1.ReasonUnhealthy, Decision: disrupt.Replace, Because: "KernelReady"}, unhealthy: "KernelReady",
		},
		"repair that removes first": {
			command: disrupt.Command{
				Reason: karpv1.ReasonUnhealthy, Decision: disrupt.TerminateFirst, Because: disrupt.NoReservedCapacity, Repair: &disrupt.Diagnosis{Condition: "KernelReady"},
			},
			unhealthy: "KernelReady", first: disrupt.NoReservedCapacity,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if unhealthy, first := tc.command.UnhealthyCondition(), tc.command.FirstBecause(); unhealthy != tc.unhealthy || first != tc.first {
				t.Errorf("repaired for %q, removed first because of %q; want %q and %q", unhealthy, first, tc.unhealthy, tc.first)
			}
		})
	}
}
