package lifecycle_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	_ "github.com/dovetail-sh/dovetail/internal/seed" // the same values in every run
)

// world is a claim, its nodes and a cloud, as far as Next acts on them.
type world struct {
	claim    *karpv1.NodeClaim
	nodes    []*corev1.Node
	launches int // that succeeded
	removed  bool
	now      time.Time
}

// turn performs one step. The cloud and the gates respond as drawn; a write may fail after the cloud
// has responded, and then its response is kept.
func (w *world) turn(t *rapid.T, memory **lifecycle.Outcome) {
	facts := lifecycle.Facts{Claim: w.claim, Nodes: w.nodes, Launch: *memory, Gated: true, Now: w.now}
	step := lifecycle.Next(facts)
	for step.Launch || step.CallGates {
		if step.Launch {
			facts.Launch = &lifecycle.Outcome{Err: errors.New("boom"), Wait: time.Second}
			if rapid.Bool().Draw(t, "launches") {
				w.launches++
				facts.Launch = &lifecycle.Outcome{Instance: cloud.Instance{ID: id}}
				*memory = facts.Launch
			}
		} else {
			facts.Gates = []lifecycle.GateState{{Name: "g", Wait: time.Duration(rapid.IntRange(0, 1).Draw(t, "gate")) * time.Second}}
		}
		step = lifecycle.Next(facts)
	}
	if step.Remove != nil {
		w.removed = true
		return
	}
	if step.Node != nil && rapid.Bool().Draw(t, "node written") {
		w.nodes = []*corev1.Node{step.Node}
	} else if step.Node != nil {
		return // the claim is written after the node
	}
	if rapid.Bool().Draw(t, "claim written") {
		w.claim = step.Claim
	}
}

func TestNextNeverGoesBackAndNeverLaunchesTwice(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := &world{claim: fresh(), now: created}
		w.claim.Finalizers = nil
		var memory *lifecycle.Outcome
		for range rapid.IntRange(1, 30).Draw(t, "turns") {
			w.now = w.now.Add(time.Duration(rapid.IntRange(0, 90).Draw(t, "seconds")) * time.Second)
			if w.launches > 0 && len(w.nodes) == 0 && rapid.Bool().Draw(t, "joins") {
				w.nodes = []*corev1.Node{joined("n")}
			}
			before := w.claim
			w.turn(t, &memory)
			for _, name := range lifecycle.Conditions().Dependents {
				if condition.True(before.Status.Conditions, name) && !condition.True(w.claim.Status.Conditions, name) {
					t.Fatalf("%s was true and is %s", name, state(w.claim, name))
				}
			}
			if w.launches > 1 {
				t.Fatal("LC-02: launched twice")
			}
			if w.removed {
				if condition.True(w.claim.Status.Conditions, karpv1.ConditionRegistered) {
					t.Fatal("FM B02: a registered claim was removed")
				}
				return
			}
		}
		for _, n := range w.nodes {
			n.Spec.Taints = nil
		}
		fixed(t, w, memory)
	})
}

// fixed holds the world still and expects that nothing is left to do after a few steps.
func fixed(t *rapid.T, w *world, memory *lifecycle.Outcome) {
	if memory == nil {
		memory = &lifecycle.Outcome{Instance: cloud.Instance{ID: id}}
	}
	facts := lifecycle.Facts{Claim: w.claim, Nodes: w.nodes, Launch: memory, Now: w.now}
	for range 4 {
		step := lifecycle.Next(facts)
		facts.Claim = step.Claim
		if step.Node != nil {
			step.Node.Spec.Taints = nil // as daemons do
			facts.Nodes = []*corev1.Node{step.Node}
		}
	}
	last := lifecycle.Next(facts)
	if diff := cmp.Diff(facts.Claim, last.Claim); diff != "" || last.Node != nil || len(last.News) > 0 || last.Registered {
		t.Fatalf("no fixed point: node %v, news %v, claim:\n%s", last.Node, last.News, diff)
	}
	if len(facts.Nodes) > 0 && state(facts.Claim, karpv1.ConditionReady) != "True/Ready" && last.Remove == nil {
		t.Fatalf("a node that is usable ends as %s", state(facts.Claim, karpv1.ConditionReady))
	}
}
