package inspect_test

import (
	"fmt"
	"math/rand/v2"
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
	_ "github.com/dovetail-sh/dovetail/internal/seed"
	"github.com/dovetail-sh/dovetail/internal/snapshot"
	"github.com/dovetail-sh/dovetail/internal/snapshot/snapshottest"
)

// files draws a cluster with what makes plans differ: budgets, protection, drift, pods that end, nodes of others, nodes on
// their way out, limits and gates.
func files(t *rapid.T) *snapshot.File {
	f := snapshottest.New(snapshottest.Options{Pending: rapid.IntRange(0, 4).Draw(t, "pending"), Huge: rapid.IntRange(0, 1).Draw(t, "huge")})
	f.Settings.Policy.SpotToSpot = rapid.Bool().Draw(t, "spot to spot")
	pool := &f.Objects.NodePools[0]
	pool.Spec.Disruption.Budgets[0].Nodes = rapid.SampledFrom([]intstr.IntOrString{intstr.FromString("100%"), intstr.FromInt32(1), intstr.FromInt32(0)}).Draw(t, "budget")
	if rapid.IntRange(0, 4).Draw(t, "limited") == 0 {
		pool.Spec.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("24")}
	}
	for i := range rapid.IntRange(0, 8).Draw(t, "nodes") {
		name := fmt.Sprintf("node-%d", i)
		kind := rapid.SampledFrom([]string{"m5.large", "m5.xlarge", "m5.2xlarge", "r5.xlarge", "m7g.xlarge"}).Draw(t, "type")
		zone := rapid.SampledFrom([]string{"us-east-1a", "us-east-1b"}).Draw(t, "zone")
		claim, node := snapshottest.Node(name, kind, zone, rapid.SampledFrom([]string{karpv1.CapacityTypeOnDemand, karpv1.CapacityTypeSpot}).Draw(t, "market"))
		switch rapid.IntRange(0, 9).Draw(t, "state") {
		case 0:
			claim.Status.Conditions = append(claim.Status.Conditions, metav1.Condition{Type: karpv1.ConditionDrifted, Status: metav1.ConditionTrue, Reason: "NodePoolDrifted"})
		case 1:
			deleted := metav1.NewTime(snapshottest.Now())
			claim.DeletionTimestamp, claim.Finalizers = &deleted, []string{karpv1.FinalizerTermination}
		case 2:
			node.Annotations = map[string]string{karpv1.AnnotationDoNotDisrupt: "true"}
		case 3: // a node of others
			node.Labels, claim = map[string]string{corev1.LabelHostname: name}, nil
		}
		if claim != nil {
			f.Objects.NodeClaims = append(f.Objects.NodeClaims, *claim)
		}
		f.Objects.Nodes = append(f.Objects.Nodes, *node)
		for j := range rapid.IntRange(0, 3).Draw(t, "pods") {
			pod := snapshottest.Pod(fmt.Sprintf("web-%d-%d", i, j), name, rapid.SampledFrom([]string{"100m", "500m"}).Draw(t, "cpu"), "512Mi")
			switch rapid.IntRange(0, 9).Draw(t, "kind") {
			case 0:
				pod.OwnerReferences = nil
			case 1:
				pod.Annotations = map[string]string{karpv1.AnnotationDoNotDisrupt: "true"}
			case 2:
				pod.Labels["guarded"] = "true"
			}
			f.Objects.Pods = append(f.Objects.Pods, *pod)
		}
	}
	f.Objects.Budgets = []policyv1.PodDisruptionBudget{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "guard"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"guarded": "true"}}},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: rapid.Int32Range(0, 1).Draw(t, "allowed")},
	}}
	return f
}

func TestWI_41_EqualInputGivesEqualPlans(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := files(t)
		first := planned(t, f)
		r := rand.New(rand.NewPCG(1, 2))
		shuffle(r, f.Objects.Nodes)
		shuffle(r, f.Objects.NodeClaims)
		shuffle(r, f.Objects.Pods)
		shuffle(r, f.Catalogues[0].InstanceTypes)
		if second := planned(t, f); encoded(t, first) != encoded(t, second) {
			t.Fatalf("the same objects in another order give another plan:\n%s\n%s", encoded(t, first), encoded(t, second))
		}
	})
}

func TestWI_42_PlansAddUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := files(t)
		p := planned(t, f)
		checkTotals(t, &p)
		removed, placed := map[string]bool{}, map[string]bool{}
		for _, r := range p.Remove {
			if removed[r.Node] || r.Pool == "" {
				t.Errorf("node %s is removed twice, or is not ours", r.Node)
			}
			removed[r.Node] = true
		}
		for _, k := range p.Kept {
			if removed[k.Node] || k.Why.Code == "" {
				t.Errorf("node %s is kept and removed, or without a reason", k.Node)
			}
		}
		for _, u := range p.Unplaced {
			if placed[u.Pod] = true; len(u.Why) == 0 {
				t.Errorf("pod %s fits no node, without a reason", u.Pod)
			}
		}
		for _, m := range append(p.Moves, p.Binds...) {
			if placed[m.Pod] || removed[m.To] {
				t.Errorf("pod %s has two places, or one on a removed node: %+v", m.Pod, m)
			}
			placed[m.Pod] = true
		}
		for _, n := range p.Notes {
			if len(n) > 5 && n[:6] == "a part" {
				t.Errorf("the plan breaks rules: %s", n)
			}
		}
	})
}

func TestWI_43_MorePassesNeverCostMore(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := files(t)
		for i := range f.Objects.NodeClaims { // a drifted node is replaced at any price
			c := &f.Objects.NodeClaims[i]
			for j := range c.Status.Conditions {
				if c.Status.Conditions[j].Type == karpv1.ConditionDrifted {
					c.Status.Conditions[j].Status = metav1.ConditionFalse
				}
			}
		}
		c, err := f.Cluster(awsv1.Vocabulary())
		if err != nil {
			t.Fatal(err)
		}
		one, all := inspect.PlanPasses(c, 1), inspect.PlanOf(c, nil)
		if all.After.Hourly > one.After.Hourly+1e-9 {
			t.Errorf("the plan costs $%v, and $%v after its first pass", all.After.Hourly, one.After.Hourly)
		}
	})
}

func planned(t *rapid.T, f *snapshot.File) inspect.Changes {
	c, err := f.Cluster(awsv1.Vocabulary())
	if err != nil {
		t.Fatal(err)
	}
	return inspect.PlanOf(c, nil)
}

func shuffle[T any](r *rand.Rand, list []T) {
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
}

func BenchmarkPlanOf(b *testing.B) {
	for name, drifted := range map[string]bool{"half empty": false, "drifted": true} {
		b.Run(name, func(b *testing.B) {
			f := snapshottest.New(snapshottest.Options{Nodes: 1000, Pods: 10, Pending: 100, Huge: 2})
			f.Settings.Policy.Workers = 2
			for i := range f.Objects.NodeClaims {
				if c := &f.Objects.NodeClaims[i]; drifted {
					c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{Type: karpv1.ConditionDrifted, Status: metav1.ConditionTrue, Reason: "AMIDrift"})
				}
			}
			c, err := f.Cluster(awsv1.Vocabulary())
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				inspect.PlanOf(c, nil)
			}
		})
	}
}
