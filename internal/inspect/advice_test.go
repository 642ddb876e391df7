package inspect_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/snapshot"
	"github.com/dovetail-sh/dovetail/internal/snapshot/snapshottest"
)

func adviseOn(t failer, f *snapshot.File) inspect.Advice {
	t.Helper()
	c, err := f.Cluster(awsv1.Vocabulary())
	if err != nil {
		t.Fatal(err)
	}
	return inspect.Advise(c, nil)
}

// about returns the advice of a kind.
func about(a inspect.Advice, code inspect.AdviceCode) []inspect.Advised {
	return slices.DeleteFunc(slices.Clone(a.Advised), func(one inspect.Advised) bool { return one.Code != code })
}

// require adds a requirement to the NodePool.
func require(f *snapshot.File, key string, values ...string) {
	spec := &f.Objects.NodePools[0].Spec.Template.Spec
	spec.Requirements = slices.DeleteFunc(spec.Requirements, func(r karpv1.Requirement) bool { return r.Key == key })
	spec.Requirements = append(spec.Requirements, karpv1.Requirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values})
}

func TestAD_01_RequirementsThatCostMoney(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*snapshot.File)
		want   string // in what to change; empty: no advice
	}{
		"only on-demand":                         {func(f *snapshot.File) { require(f, karpv1.LabelCapacityType, karpv1.CapacityTypeOnDemand) }, "add spot to requirement karpenter.sh/capacity-type, if its pods can be interrupted"},
		"only amd64":                             {func(f *snapshot.File) { require(f, corev1.LabelArchStable, "amd64") }, "add arm64 to requirement kubernetes.io/arch, if all images of its pods run on arm64"},
		"only a family that wastes memory":       {func(f *snapshot.File) { require(f, awsv1.LabelInstanceFamily, "r5") }, "to requirement " + awsv1.LabelInstanceFamily},
		"only one zone, where all cost the same": {func(f *snapshot.File) { require(f, corev1.LabelTopologyZone, "us-east-1a") }, ""},
		"everything is allowed":                  {func(*snapshot.File) {}, ""},
		"what is excluded is not launched anywhere": {func(f *snapshot.File) {
			require(f, corev1.LabelArchStable, "amd64")
			for i := range f.Catalogues[0].InstanceTypes {
				if it := &f.Catalogues[0].InstanceTypes[i]; it.Name == "m7g.xlarge" {
					it.Unsuited = "the image is for amd64"
				}
			}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := snapshottest.New(snapshottest.Options{Nodes: 8})
			for i := range f.Objects.Pods { // 4 fit on 3.92 cores: of a large, 2 of 1.92
				f.Objects.Pods[i].Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("900m")
				f.Objects.Pods[i].Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = resource.MustParse("3Gi")
			}
			tc.change(f)
			got := about(adviseOn(t, f), inspect.RequirementCosts)
			if tc.want == "" {
				if len(got) > 0 {
					t.Errorf("got %+v, want none", got)
				}
				return
			}
			if !slices.ContainsFunc(got, func(a inspect.Advised) bool {
				return strings.Contains(a.Change, tc.want) && a.Saves > 0 && a.Object == "nodepool/default"
			}) {
				t.Errorf("got %+v, want advice to %s", got, tc.want)
			}
		})
	}
}

func TestAD_02_RequestsThatStrandCapacity(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		cpu  string
		want string
	}{
		"a little more than a third of a node": {"1350m", "request 1300m CPU"},
		"a half of a node exactly":             {"1960m", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := snapshottest.New(snapshottest.Options{})
			require(f, corev1.LabelInstanceTypeStable, "m5.xlarge")
			for i := range 6 {
				claim, node := snapshottest.Node(fmt.Sprintf("node-%d", i), "m5.xlarge", "us-east-1a", karpv1.CapacityTypeOnDemand)
				f.Objects.NodeClaims, f.Objects.Nodes = append(f.Objects.NodeClaims, *claim), append(f.Objects.Nodes, *node)
				for j := range 2 {
					f.Objects.Pods = append(f.Objects.Pods, *snapshottest.Pod(fmt.Sprintf("web-%d-%d", i, j), node.Name, tc.cpu, "1Gi"))
				}
			}
			got := about(adviseOn(t, f), inspect.RequestStrands)
			switch {
			case tc.want == "" && len(got) > 0:
				t.Errorf("got %+v, want none", got)
			case tc.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0].Change, tc.want) || got[0].Saves <= 0 || got[0].Pods != 12):
				t.Errorf("got %+v, want advice to %s for 12 pods", got, tc.want)
			}
		})
	}
}

// guard adds a PodDisruptionBudget that never allows an eviction of the pods with a label.
func guard(f *snapshot.File, name, label string) {
	never := intstr.FromInt32(0)
	f.Objects.Budgets = append(f.Objects.Budgets, policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &never, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": label}}},
		Status:     policyv1.PodDisruptionBudgetStatus{ExpectedPods: 1, CurrentHealthy: 1, DesiredHealthy: 1},
	})
}

func TestAD_03_WhatKeepsNodes(t *testing.T) {
	t.Parallel()
	f := snapshottest.New(snapshottest.Options{Nodes: 6})
	f.Settings.Policy.SpotToSpot = true
	guard(f, "never", "guarded")
	pods := f.Objects.Pods
	pods[0].Labels["app"] = "guarded"                                              // node-0000
	pods[4].Annotations = map[string]string{karpv1.AnnotationDoNotDisrupt: "true"} // node-0002
	f.Objects.Nodes[4].Annotations = map[string]string{karpv1.AnnotationDoNotDisrupt: "true"}
	a := adviseOn(t, f)
	for code, want := range map[inspect.AdviceCode][]string{
		inspect.BudgetNeverAllows: {"poddisruptionbudget/default/never"},
		inspect.ProtectionCosts:   {"namespace/default", "node/node-0004"},
	} {
		var objects []string
		for _, one := range about(a, code) {
			if objects = append(objects, one.Object); one.Saves <= 0 || one.Nodes != 1 {
				t.Errorf("%s %s: %+v, want a saving, and one node", code, one.Object, one)
			}
		}
		if slices.Sort(objects); !slices.Equal(objects, want) {
			t.Errorf("%s is about %v, want %v", code, objects, want)
		}
	}
}

// A node that two things keep is freed by neither of them alone.
func TestAD_03_NodesThatTwoThingsKeepAreNotPriced(t *testing.T) {
	t.Parallel()
	f := snapshottest.New(snapshottest.Options{Nodes: 4})
	guard(f, "never", "guarded")
	f.Objects.Pods[0].Labels["app"] = "guarded"
	f.Objects.Pods[1].Annotations = map[string]string{karpv1.AnnotationDoNotDisrupt: "true"}
	a := adviseOn(t, f)
	budgets := about(a, inspect.BudgetNeverAllows)
	if len(about(a, inspect.ProtectionCosts)) > 0 || len(budgets) != 1 || budgets[0].Saves != 0 {
		t.Errorf("got %+v, want the PodDisruptionBudget without a saving", a.Advised)
	}
}

func TestAD_04_LimitsThatKeepPodsPending(t *testing.T) {
	t.Parallel()
	f := snapshottest.New(snapshottest.Options{Nodes: 1, Pods: 1, Pending: 6, Huge: 1})
	if got := about(adviseOn(t, f), inspect.LimitKeepsPending); len(got) > 0 {
		t.Errorf("got %+v without a limit", got)
	}
	f.Objects.NodePools[0].Spec.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("6")}
	got := about(adviseOn(t, f), inspect.LimitKeepsPending)
	if len(got) != 1 || got[0].Pods < 1 || got[0].Pods > 6 || got[0].Object != "nodepool/default" {
		t.Errorf("got %+v, want the pending pods that the limit keeps", got)
	}
}

func TestAD_05_PodsWithoutRequests(t *testing.T) {
	t.Parallel()
	f := snapshottest.New(snapshottest.Options{Nodes: 2})
	delete(f.Objects.Pods[0].Spec.Containers[0].Resources.Requests, corev1.ResourceCPU)
	f.Objects.Pods[1].Spec.Containers[0].Resources.Requests = nil
	got := about(adviseOn(t, f), inspect.PodsWithoutRequest)
	if len(got) != 1 || got[0].Pods != 2 || got[0].Saves != 0 || !strings.Contains(got[0].Text, "CPU (2) or memory (1)") {
		t.Errorf("got %+v, want two pods without CPU, one of them without memory", got)
	}
}

func TestAD_06_AdviceIsOrderedBoundedAndRepeatable(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := files(t)
		if rapid.Bool().Draw(t, "narrow") {
			require(f, karpv1.LabelCapacityType, karpv1.CapacityTypeOnDemand)
		}
		first := adviseOn(t, f)
		r := rand.New(rand.NewPCG(3, 4))
		shuffle(r, f.Objects.Nodes)
		shuffle(r, f.Objects.NodeClaims)
		shuffle(r, f.Objects.Pods)
		if second := adviseOn(t, f); encoded(t, first) != encoded(t, second) {
			t.Errorf("the same objects in another order give other advice:\n%s\n%s", encoded(t, first), encoded(t, second))
		}
		if !slices.IsSortedFunc(first.Advised, func(a, b inspect.Advised) int {
			if a.Saves > b.Saves {
				return -1
			}
			return 0
		}) {
			t.Errorf("advice is not in order of what it saves: %s", encoded(t, first))
		}
		for _, one := range first.Advised {
			if one.Text == "" || one.Change == "" || one.Saves < 0 || one.Saves > first.After+first.Hourly {
				t.Errorf("%+v", one)
			}
			money := one.Code == inspect.RequirementCosts || one.Code == inspect.RequestStrands || one.Code == inspect.ProtectionCosts
			if money && one.Saves == 0 {
				t.Errorf("advice that saves nothing: %+v", one)
			}
		}
		if first.Searches > 48 {
			t.Errorf("%d plans were made", first.Searches)
		}
	})
}

func BenchmarkAdvise(b *testing.B) {
	f := snapshottest.New(snapshottest.Options{Nodes: 1000, Pods: 10, Pending: 100})
	require(f, corev1.LabelArchStable, "amd64")
	require(f, karpv1.LabelCapacityType, karpv1.CapacityTypeOnDemand)
	f.Settings.Policy.Workers = 2
	guard(f, "never", "guarded")
	for i := range 50 {
		f.Objects.Pods[i*100].Labels["app"] = "guarded"
		f.Objects.Pods[i*100+50].Annotations = map[string]string{karpv1.AnnotationDoNotDisrupt: "true"}
	}
	c, err := f.Cluster(awsv1.Vocabulary())
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		inspect.Advise(c, nil)
	}
}
