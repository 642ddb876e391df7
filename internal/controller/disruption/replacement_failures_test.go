package disruption_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/controller/controllertest"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// FM K23: all nodes have drifted and the new image is broken, so that no replacement ever joins. No more
// nodes than the budget allows are being replaced at any time, none of the old ones goes, and the pauses
// between the attempts grow.
func TestFM_K23_ReplacementsNeverJoin(t *testing.T) {
	t.Parallel()
	const (
		step         = 20 * time.Second
		registration = 15 * time.Minute // then life cycle gives a claim up
		budget       = 2
	)
	s := newFixture(t, interceptor.Funcs{})
	s.Decide = disrupt.Next
	edit(s, &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general"}}, func(p *karpv1.NodePool) {
		p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: intstr.FromInt32(budget)}}
	})
	for i := range 6 {
		name := fmt.Sprintf("n%d", i)
		s.node(name, "full-"+name)
		edit(s, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "full-" + name}}, func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("7")
		})
		s.drift(name)
	}
	made := map[string]time.Time{}
	var tries, ends []time.Time // when nodes began to be replaced, and when that was given up
	for begun, busy := s.clock, 0; s.clock.Sub(begun) < 90*time.Minute; s.clock = s.clock.Add(step) {
		s.mustPass()
		s.work(0)
		s.plans.Pass(t.Context())
		s.sync()
		if _, gone := s.claims(); len(gone) > 0 {
			t.Fatalf("after %s: claims %v are deleted for nodes that never came", s.clock.Sub(begun), gone)
		}
		held := s.tainted()
		if len(held) > budget {
			t.Fatalf("after %s: %v are being replaced, the budget is %d", s.clock.Sub(begun), held, budget)
		}
		if busy == 0 && len(held) > 0 {
			tries = append(tries, s.clock)
		}
		if busy > 0 && len(held) == 0 {
			ends = append(ends, s.clock)
		}
		busy = len(held)
		for _, c := range s.replacements() {
			if made[c.Name].IsZero() {
				made[c.Name] = s.clock
			}
			if s.clock.Sub(made[c.Name]) >= registration {
				s.ice(c.Name)
			}
		}
	}
	if len(tries) < 4 {
		t.Fatalf("tried at %v, want several attempts", tries)
	}
	least := 30 * time.Second // half of a minute, and twice as much each time (disruption 18)
	for i := range min(len(tries)-1, len(ends)) {
		if pause := tries[i+1].Sub(ends[i]); pause < least-step {
			t.Errorf("pause %d took %s, want at least %s", i+1, pause, least)
		}
		least = min(2*least, 5*time.Minute)
	}
	if most := budget * len(tries); len(made) > most {
		t.Errorf("%d replacements in %d attempts, want at most %d", len(made), len(tries), most)
	}
	if n := testutil.ToFloat64(s.metrics.DisruptionDriftBackoffs.WithLabelValues("general")); int(n) < len(ends) {
		t.Errorf("%v pauses were counted, want %d", n, len(ends))
	}
}

// FM K05: a node has expired, and a pod that is protected keeps it. Its pods need a home with every plan:
// one is launched, and every later plan finds it again, before and after it is up. It is not removed meanwhile,
// though it is empty.
func TestFM_K05_OneReplacementForAnExpiredNodeThatIsHeld(t *testing.T) {
	t.Parallel()
	s := newFixture(t, interceptor.Funcs{})
	s.Decide = disrupt.Next
	edit(s, &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general"}}, func(p *karpv1.NodePool) { p.Spec.Disruption.ConsolidateAfter = "0s" })
	s.node("a", "db", "web")
	protect(s, "db")
	edit(s, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, func(n *corev1.Node) {
		n.Finalizers, n.Spec.Taints = []string{karpv1.FinalizerTermination}, []corev1.Taint{karpv1.DisruptedTaint()}
	})
	for _, obj := range []client.Object{s.claim("claim-a"), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}} {
		if err := s.client.Delete(t.Context(), obj); err != nil { // finalizers keep both
			t.Fatal(err)
		}
	}
	for round := range 60 {
		s.clock = s.clock.Add(30 * time.Second)
		s.sync()
		s.plans.Pass(t.Context())
		s.clock = s.clock.Add(30 * time.Second) // the nomination is over
		s.mustPass()
		s.work(0)
		made := s.replacements()
		if len(made) != 1 || made[0].DeletionTimestamp != nil {
			t.Fatalf("round %d: replacements %v, want one that stays", round, claimNames(made))
		}
		switch round {
		case 5:
			s.launch(made[0].Name)
		case 10:
			s.join(made[0].Name)
		}
	}
}

func claimNames(list []karpv1.NodeClaim) []string {
	var out []string
	for i := range list {
		out = append(out, list[i].Name)
	}
	return out
}

// launch gives a claim its instance, of the size large.
func (s *fixture) launch(name string) {
	s.t.Helper()
	labels := map[string]string{corev1.LabelInstanceTypeStable: "large", corev1.LabelTopologyZone: "a", karpv1.LabelCapacityType: karpv1.CapacityTypeOnDemand}
	edit(s, &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}, func(c *karpv1.NodeClaim) {
		for key, value := range labels {
			metav1.SetMetaDataLabel(&c.ObjectMeta, key, value)
		}
	})
	claim := s.claim(name)
	size := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi"), corev1.ResourcePods: resource.MustParse("110")}
	claim.Status.ProviderID, claim.Status.Capacity, claim.Status.Allocatable = "aws:///a/"+name, size, size
	if err := s.client.Status().Update(s.t.Context(), claim); err != nil {
		s.t.Fatal(err)
	}
	s.sync()
}

// join makes the node of a claim that was launched come up.
func (s *fixture) join(name string) {
	s.t.Helper()
	s.up(name)
	claim := s.claim(name)
	claim.Status.Conditions = append(claim.Status.Conditions, metav1.Condition{
		Type: karpv1.ConditionConsolidatable, Status: metav1.ConditionTrue, Reason: karpv1.ConditionConsolidatable, LastTransitionTime: metav1.NewTime(s.clock),
	})
	if err := s.client.Status().Update(s.t.Context(), claim); err != nil {
		s.t.Fatal(err)
	}
	labels := map[string]string{karpv1.LabelRegistered: "true", karpv1.LabelInitialized: "true", corev1.LabelHostname: name}
	maps.Copy(labels, claim.Labels)
	s.create(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: corev1.NodeSpec{ProviderID: claim.Status.ProviderID},
		Status: corev1.NodeStatus{
			Capacity: claim.Status.Capacity, Allocatable: claim.Status.Allocatable, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	})
}

// FM K13: the plan says that the pods fit elsewhere, and when the node is held they do not any more. The
// node stays, with its pods.
func TestFM_K13_NoPlaceAnyMore(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		cpu  string // of a pod that comes to the other node meanwhile
		goes bool
	}{
		"there is room left":  {cpu: "6", goes: true},
		"the room is used up": {cpu: "7"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture(t, interceptor.Funcs{})
			s.node("a", "web")
			s.node("b", "api")
			s.decide = func(v disrupt.View) []disrupt.Command {
				s.decide = nil
				c := command(v, karpv1.ReasonUnderutilized, "single", disrupt.Delete, "a")
				c.Bind = []solve.Bind{{Pod: cluster.PodKey{Namespace: "default", Name: "web"}, Node: "b"}}
				late := controllertest.PendingPod("late", tc.cpu)
				late.Spec.NodeName, late.Status = "b", corev1.PodStatus{Phase: corev1.PodRunning}
				s.create(late)
				return []disrupt.Command{c}
			}
			s.mustPass()
			want := []string(nil)
			if tc.goes {
				want = []string{"claim-a"}
			}
			if _, gone := s.claims(); !slices.Equal(gone, want) {
				t.Errorf("claims %v are deleted, want %v", gone, want)
			}
			if held := s.tainted(); len(held) > 0 != tc.goes {
				t.Errorf("nodes %v are held", held)
			}
			if n := testutil.ToFloat64(s.metrics.DisruptionFailedValidations.WithLabelValues("single")); n > 0 == tc.goes {
				t.Errorf("%v commands were found not to hold any more", n)
			}
		})
	}
}
