package controller_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// launchAll is what happens when the cloud answers: each claim has the cheapest type it allows.
func (l *lab) launchAll() {
	for _, c := range l.claims() {
		types := c.Spec.Requirements[len(c.Spec.Requirements)-1]
		cpu := map[string]string{"small": "2", "large": "8"}[types.Values[0]]
		size := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("32Gi"), corev1.ResourcePods: resource.MustParse("110")}
		c.Status.ProviderID, c.Status.Capacity, c.Status.Allocatable = "aws:///a/"+c.Name, size, size
		c.Labels[corev1.LabelInstanceTypeStable], c.Labels[corev1.LabelTopologyZone] = types.Values[0], "a"
		c.Labels[karpv1.LabelCapacityType] = karpv1.CapacityTypeOnDemand
		l.add(&c)
	}
}

// G8: whatever mix of pods comes in whatever waves, a later plan finds a place for each of them on the
// claims that are on their way, and orders nothing for pods that were planned before.
func TestFM_G8_MixedPodsFindTheirClaimsAgain(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(l *lab){
		"not launched yet": func(*lab) {},
		"launched":         (*lab).launchAll,
		"with a DaemonSet": func(*lab) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(15) {
				l := newLab(t)
				l.add(readyPool("general"))
				if name == "with a DaemonSet" {
					set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "agent", UID: "agent"}}
					set.Spec.Template.Spec = pendingPod("agent", "200m").Spec
					l.add(set)
				}
				random := rand.New(rand.NewPCG(seed, 1))
				for wave := range 3 {
					for i := range 3 + random.IntN(20) {
						l.add(pendingPod(fmt.Sprintf("p%d-%d", wave, i), fmt.Sprintf("%dm", 100+100*random.IntN(40))))
					}
					l.Pass(t.Context())
				}
				before := len(l.claims())
				prepare(l)
				l.Pass(t.Context())
				l.Pass(t.Context())
				if after := len(l.claims()); after != before {
					t.Errorf("seed %d: %d claims, and %d after two more plans for the same pods", seed, before, after)
				}
			}
		})
	}
}
