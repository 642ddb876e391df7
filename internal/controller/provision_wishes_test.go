package controller_test

import (
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
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
			l := newLab(t)
			l.Policy.IgnorePreferences = tc.ignore
			wishful := pendingPod("wishful", "1")
			wishful.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
				TopologyKey: corev1.LabelTopologyZone, MaxSkew: 1, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: &metav1.LabelSelector{},
			}}
			l.add(readyPool("general"), wishful, pendingPod("plain", "1"))
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
