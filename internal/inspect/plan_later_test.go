package inspect_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/snapshot"
	"github.com/dovetail-sh/dovetail/internal/snapshot/snapshottest"
)

func TestWI_44_WhatMayBeginNow(t *testing.T) {
	t.Parallel()
	at := snapshottest.Now()
	for name, tc := range map[string]struct {
		change  func(*snapshot.File)
		now     int // removals that may begin at once
		nothing bool
	}{
		"no budget in the way": {func(*snapshot.File) {}, 2, false},
		"one node at a time": {func(f *snapshot.File) {
			f.Objects.NodePools[0].Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: intstr.FromInt32(1)}}
		}, 1, false},
		"no node ever": {func(f *snapshot.File) {
			f.Objects.NodePools[0].Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: intstr.FromInt32(0)}}
		}, 0, true},
		"not during business hours": {func(f *snapshot.File) {
			f.Objects.NodePools[0].Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: intstr.FromInt32(0), Schedule: new("0 0 * * *"), Duration: new(karpv1.Duration("23h"))}}
		}, 0, false},
		"consolidateAfter has not passed": {func(f *snapshot.File) {
			f.Objects.NodePools[0].Spec.Disruption.ConsolidateAfter = "1h"
			for i := range f.Objects.NodeClaims {
				c := &f.Objects.NodeClaims[i]
				c.Status.LastPodEventTime = metav1.NewTime(at)
				c.Status.Conditions = slices.DeleteFunc(c.Status.Conditions, func(c metav1.Condition) bool { return c.Type == karpv1.ConditionConsolidatable })
			}
		}, 0, false},
		"consolidateAfter: Never": {func(f *snapshot.File) {
			f.Objects.NodePools[0].Spec.Disruption.ConsolidateAfter = "Never"
			for i := range f.Objects.NodeClaims {
				c := &f.Objects.NodeClaims[i]
				c.Status.Conditions = slices.DeleteFunc(c.Status.Conditions, func(c metav1.Condition) bool { return c.Type == karpv1.ConditionConsolidatable })
			}
		}, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := snapshottest.New(snapshottest.Options{Nodes: 4})
			tc.change(f)
			p := planOf(t, f)
			checkTotals(t, &p)
			now := 0
			for _, r := range p.Remove {
				if r.Now {
					now++
				}
			}
			if tc.nothing != (len(p.Remove) == 0) || now < tc.now || tc.now < 2 && now != tc.now || p.Later != (now < len(p.Remove)) {
				t.Errorf("%d removals, %d of them now, later is %v: %s", len(p.Remove), now, p.Later, encoded(t, p))
			}
			if tc.nothing && len(p.Kept) == 0 {
				t.Error("nodes stay, without a reason")
			}
		})
	}
}

func TestWI_45_NodesOfOthersStay(t *testing.T) {
	t.Parallel()
	f := snapshottest.New(snapshottest.Options{Nodes: 2})
	for i := range 3 {
		_, node := snapshottest.Node(fmt.Sprintf("group-%d", i), "m5.2xlarge", "us-east-1a", karpv1.CapacityTypeOnDemand)
		node.Labels = map[string]string{corev1.LabelHostname: node.Name}
		f.Objects.Nodes = append(f.Objects.Nodes, *node)
	}
	p := planOf(t, f)
	for _, r := range p.Remove {
		if strings.HasPrefix(r.Node, "group-") {
			t.Errorf("%s is removed, which is not ours", r.Node)
		}
	}
	if !slices.ContainsFunc(p.Notes, func(n string) bool {
		return strings.HasPrefix(n, "3 nodes belong to no NodePool, as those of Cluster Autoscaler")
	}) {
		t.Errorf("the notes are %q", p.Notes)
	}
	if !slices.ContainsFunc(p.Moves, func(m inspect.PodMove) bool { return strings.HasPrefix(m.To, "group-") }) {
		t.Errorf("no pod moves to the free nodes of others: %s", encoded(t, p))
	}
}

func TestWI_46_APlanThatIsStoppedSaysSo(t *testing.T) {
	t.Parallel()
	f := snapshottest.New(snapshottest.Options{Nodes: 20, Pending: 5})
	c, err := f.Cluster(awsv1.Vocabulary())
	if err != nil {
		t.Fatal(err)
	}
	for after := range 12 {
		left := after * after * 4
		p := inspect.PlanOf(c, func() bool { left--; return left < 0 })
		checkTotals(t, &p)
		if !p.Partial && left < 0 || p.Partial && !slices.ContainsFunc(p.Notes, func(n string) bool { return strings.HasPrefix(n, "the time was up") }) {
			t.Errorf("stopped after %d polls, partial is %v, the notes are %q", after*after*4, p.Partial, p.Notes)
		}
	}
}

func TestWI_47_ManyDriftedNodes(t *testing.T) {
	t.Parallel()
	f := snapshottest.New(snapshottest.Options{Nodes: 14})
	for i := range f.Objects.NodeClaims {
		c := &f.Objects.NodeClaims[i]
		c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{Type: karpv1.ConditionDrifted, Status: metav1.ConditionTrue, Reason: "AMIDrift", LastTransitionTime: metav1.NewTime(snapshottest.Now())})
	}
	p := planOf(t, f)
	checkTotals(t, &p)
	drifted := 0
	for _, r := range p.Remove {
		if r.Reason == string(karpv1.ReasonDrifted) {
			drifted++
		}
	}
	if drifted != 10 || !slices.ContainsFunc(p.Notes, func(n string) bool { return strings.HasPrefix(n, "4 more nodes have drifted") }) {
		t.Errorf("%d drifted nodes are replaced, and the notes are %q", drifted, p.Notes)
	}
}

func TestWI_48_RoomThatCapacityBuffersKeep(t *testing.T) {
	t.Parallel()
	f := snapshottest.New(snapshottest.Options{Nodes: 1, Pods: 1})
	f.Settings.Buffers = true
	for i := range 3 {
		pod := snapshottest.Pod(fmt.Sprintf("buffer-%d", i), "", "3", "4Gi")
		pod.Spec.Priority = new(int32(-10))
		f.Objects.VirtualPods = append(f.Objects.VirtualPods, *pod)
	}
	p := planOf(t, f)
	checkTotals(t, &p)
	if len(p.Launch) == 0 || len(p.Moves)+len(p.Binds) > 1 || !slices.ContainsFunc(p.Notes, func(n string) bool { return strings.Contains(n, "CapacityBuffers") }) {
		t.Errorf("no node is launched for the buffer: %s", encoded(t, p))
	}
}

func TestWI_49_NodesThatAreBeingRemoved(t *testing.T) {
	t.Parallel()
	p := planOf(t, snapshottest.Varied())
	checkTotals(t, &p)
	if p.Leaving.Nodes != 1 || slices.ContainsFunc(p.Remove, func(r inspect.Removal) bool { return r.Node == "node-leaving" }) {
		t.Errorf("node-leaving is removed already: %s", encoded(t, p))
	}
	why := map[string]reason.Code{}
	for _, k := range p.Kept {
		why[k.Node] = k.Why.Code
	}
	if why["node-held"] == "" {
		t.Errorf("nothing says why node-held stays: %v", why)
	}
}
