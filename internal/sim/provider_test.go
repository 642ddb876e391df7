package sim

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/conformance"
)

// What the controller is simulated with is a cloud like any other.
func TestTheMarketIsACloud(t *testing.T) {
	t.Parallel()
	conformance.Run(t, func(t *testing.T) conformance.Environment {
		t.Helper()
		w := newWorld(Config{
			Seed: 1, Machines: Machines(), Boot: time.Minute,
			Repairs: []cloud.Repair{{Condition: corev1.NodeReady, Status: corev1.ConditionFalse, Toleration: time.Minute, Action: cloud.ReplaceNode}},
		})
		pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
		return conformance.Environment{
			Provider: w.market, Pool: pool, Foreign: "aws:///eu-west-1a/i-1",
			Claim: func(name string) *karpv1.NodeClaim {
				claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
					Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(w.now), Labels: map[string]string{karpv1.LabelNodePool: pool.Name},
				}}
				claim.Spec.Requirements = []karpv1.Requirement{{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"m6.large", "c6.large"}}}
				return claim
			},
			Record:      func(claim *karpv1.NodeClaim, i cloud.Instance) { claim.Status.ProviderID = string(i.ID) },
			Restart:     func() cloud.Provider { return w.market }, // it keeps the books itself: a process has no state to lose
			AdvanceTime: func() { w.runUntil(w.now.Add(10*time.Minute), func() bool { return false }) },
			Exhaust: func() {
				for i := range w.market.machines {
					for _, zone := range Zones() {
						for _, o := range w.market.machines[i].offers(zone) {
							w.market.gone[offering(w.market.machines[i].Name, zone, o.CapacityType)] = w.now.Add(time.Hour)
						}
					}
				}
			},
		}
	})
}
