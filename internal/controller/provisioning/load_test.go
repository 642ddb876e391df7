package provisioning_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/dovetail-sh/dovetail/internal/controller/controllertest"
)

// advanceOnRead sets a clock that advances with every read, as if each step of planning took that long.
func advanceOnRead(l *fixture, step time.Duration) {
	at := time.Now()
	l.Now = func() time.Time { at = at.Add(step); return at }
}

// FM I13: a plan that takes too long is used as far as it came; the log and the gauge show the rest, and
// everybody has a turn, although those who have no place are always looked at first.
func TestFM_I13_PlansThatAreCutOff(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	advanceOnRead(l, time.Second)
	const impossible, possible = 150, 20
	l.add(controllertest.ReadyPool("general"))
	for i := range impossible {
		l.add(controllertest.PendingPod(fmt.Sprintf("huge-%03d", i), fmt.Sprintf("%dm", 100_000+i)))
	}
	for i := range possible {
		l.add(controllertest.PendingPod(fmt.Sprintf("fine-%02d", i), fmt.Sprintf("%dm", 5000+i)))
	}
	cut := 0
	ctx := log.IntoContext(t.Context(), funcr.New(func(_, args string) {
		if strings.Contains(args, "planning took too long and was cut off") {
			cut++
		}
	}, funcr.Options{Verbosity: 1}))
	l.Pass(ctx)
	if cut != 1 {
		t.Fatalf("%d lines say that the plan was cut off, want one", cut)
	}
	if got := sum(l.metrics.SchedulerUnschedulablePods); got != impossible+possible-float64(len(l.claims())) {
		t.Errorf("the gauge shows %v pods, want all but %d", got, len(l.claims()))
	}
	if l.emitted.Saw("fine-19 FailedScheduling") {
		t.Errorf("a pod that was not looked at was told that it has no place: %q", l.emitted.Said)
	}
	for range 60 {
		l.Pass(ctx)
	}
	for i := range possible {
		if name := fmt.Sprintf("fine-%02d", i); !l.emitted.Saw(name + " Nominated") {
			t.Errorf("pod %s never had its turn", name)
		}
	}
	if n := len(l.claims()); n != possible {
		t.Errorf("%d claims, want %d: one for each pod that fits", n, possible)
	}
}

// FM I14: a pod with more preferences and alternatives than can be tried does not delay others.
func TestFM_I14_OnePathologicalPod(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	advanceOnRead(l, time.Millisecond)
	odd := controllertest.PendingPod("odd", "7")
	odd.Labels = map[string]string{"app": "odd"}
	terms := &corev1.NodeSelector{}
	affinity := &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}
	for i := range 300 {
		e := corev1.NodeSelectorRequirement{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{fmt.Sprintf("nowhere-%d", i)}}
		terms.NodeSelectorTerms = append(terms.NodeSelectorTerms, corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{e}})
		affinity.PreferredDuringSchedulingIgnoredDuringExecution = append(affinity.PreferredDuringSchedulingIgnoredDuringExecution, corev1.PreferredSchedulingTerm{
			Weight: int32(i%100) + 1, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{e}},
		})
	}
	odd.Spec.Affinity = &corev1.Affinity{NodeAffinity: affinity, PodAffinity: &corev1.PodAffinity{}}
	for i := range 100 {
		match := &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprintf("nobody-%d", i)}}
		odd.Spec.Affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution = append(odd.Spec.Affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution,
			corev1.WeightedPodAffinityTerm{Weight: 1, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: corev1.LabelTopologyZone, LabelSelector: match}})
		odd.Spec.TopologySpreadConstraints = append(odd.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: match,
		})
	}
	l.add(controllertest.ReadyPool("general"), odd)
	const others = 1000
	for i := range others {
		l.add(controllertest.PendingPod(fmt.Sprintf("web-%03d", i), fmt.Sprintf("%dm", 100+i%50)))
	}
	l.Pass(t.Context())
	if n := l.emitted.Count("web-", "Nominated"); n != others {
		t.Errorf("%d of %d other pods have a node after the first plan", n, others)
	}
	if !l.emitted.Saw("odd FailedScheduling") {
		t.Error("the odd pod has no event that says why it has none")
	}
}

// FM I12: ten thousand pods at once get their nodes from the first plan, and the next orders nothing more.
func TestFM_I12_TenThousandPodsAtOnce(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	advanceOnRead(l, time.Millisecond)
	const pods = 10_000
	l.add(controllertest.ReadyPool("general"))
	for i := range pods {
		l.add(controllertest.PendingPod(fmt.Sprintf("web-%05d", i), fmt.Sprintf("%dm", 50+5*(i%10))))
	}
	l.Pass(t.Context())
	claims := len(l.claims())
	if n := l.emitted.Count("web-", "Nominated"); n != pods {
		t.Errorf("%d of %d pods have a node after the first plan, on %d claims", n, pods, claims)
	}
	l.Pass(t.Context())
	if n := len(l.claims()); n != claims {
		t.Errorf("%d claims, and %d after another plan for the same pods", claims, n)
	}
}
