package disruption_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// FM C17: the node of this very controller is replaced while another replica is ready elsewhere. If that one
// is lost before the replacement is up, the node stays, and everything is undone.
func TestFM_C17_TheStandbyIsLostWhileTheReplacementComesUp(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason karpv1.DisruptionReason
		lost   bool
		goes   bool
	}{
		"drift, the standby is there": {reason: karpv1.ReasonDrifted, goes: true},
		"drift, the standby is lost":  {reason: karpv1.ReasonDrifted, lost: true},
		"repair does not wait for it": {reason: karpv1.ReasonUnhealthy, lost: true, goes: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture(t, interceptor.Funcs{})
			s.node("a", "leader")
			s.node("b", "standby")
			for _, replica := range []string{"leader", "standby"} {
				edit(s, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: replica}}, func(p *corev1.Pod) {
					p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "rs", UID: "rs", Controller: new(true)}}
				})
				s.ready(replica, corev1.ConditionTrue)
			}
			s.replace(tc.reason, "", "a")
			s.mustPass()
			made := s.replacements()
			if len(made) != 1 || !slices.Equal(s.tainted(), []string{"a"}) {
				t.Fatalf("%d replacements, %v held; want one for node a", len(made), s.tainted())
			}
			if tc.lost {
				s.ready("standby", corev1.ConditionFalse)
			}
			s.up(made[0].Name)
			s.work(10 * time.Second)
			if _, gone := s.claims(); slices.Contains(gone, "claim-a") != tc.goes {
				t.Errorf("claims %v are deleted", gone)
			}
			if held := len(s.tainted()) > 0; held != tc.goes {
				t.Errorf("nodes %v are held", s.tainted())
			}
		})
	}
}

// ready says of a pod whether it is ready.
func (s *fixture) ready(name string, status corev1.ConditionStatus) {
	s.t.Helper()
	pod := &corev1.Pod{}
	if err := s.client.Get(s.t.Context(), client.ObjectKey{Namespace: "default", Name: name}, pod); err != nil {
		s.t.Fatal(err)
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
	if err := s.client.Status().Update(s.t.Context(), pod); err != nil {
		s.t.Fatal(err)
	}
	s.sync()
}
