package provisioning_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/dovetail-sh/dovetail/internal/controller/controllertest"
)

// Scheduling 3.4: pods whose preferences can hinder consolidation are named once a day.
func TestPreferencesAreNamedOnce(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		ignore bool
		want   int
	}{
		"named once, however often planned":  {want: 1},
		"no news if preferences are ignored": {ignore: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newFixture(t)
			l.Policy.IgnorePreferences = tc.ignore
			wishful := controllertest.PendingPod("wishful", "1")
			wishful.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
				TopologyKey: corev1.LabelTopologyZone, MaxSkew: 1, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: &metav1.LabelSelector{},
			}}
			l.add(controllertest.ReadyPool("general"), wishful, controllertest.PendingPod("plain", "1"))
			var lines []string
			ctx := log.IntoContext(t.Context(), funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
			for range 3 {
				l.Pass(ctx)
			}
			named := 0
			for _, line := range lines {
				if strings.Contains(line, "can keep nodes from being consolidated") {
					named++
					if !strings.Contains(line, "default/wishful") || strings.Contains(line, "default/plain") {
						t.Errorf("line %s, want the pod with the preference alone", line)
					}
				}
			}
			if named != tc.want {
				t.Errorf("named %d times, want %d", named, tc.want)
			}
		})
	}
}

// A pod with thousands of preferences is planned for by the heaviest, and reported once.
func TestTrust_C02_IgnoredPreferencesAreReported(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	pod := controllertest.PendingPod("villain", "1")
	prefers := &corev1.NodeAffinity{}
	for i := range 300 {
		prefers.PreferredDuringSchedulingIgnoredDuringExecution = append(prefers.PreferredDuringSchedulingIgnoredDuringExecution, corev1.PreferredSchedulingTerm{
			Weight: 1, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "team-" + strconv.Itoa(i), Operator: corev1.NodeSelectorOpDoesNotExist}}},
		})
	}
	pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: prefers}
	l.add(controllertest.ReadyPool("general"), pod)
	for range 3 {
		l.Pass(t.Context())
	}
	emitted := 0
	for _, line := range l.emitted.Said {
		if strings.Contains(line, "DefaultAssumed: spec.affinity.nodeAffinity.preferred: has 300 entries; planning considers 100") {
			emitted++
		}
	}
	if emitted != 1 {
		t.Errorf("reported %d times, want once: %q", emitted, l.emitted.Said)
	}
}
