package flow_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// ice takes the capacity of offerings away, until the test ends.
func (f *flow) ice(capacityType, instanceType, zone string) {
	f.Helper()
	pool := fmt.Sprintf(`{"capacityType":%q,"instanceType":%q,"zone":%q}`, capacityType, instanceType, zone)
	f.aws(http.MethodPost, "ice", pool)
	f.Cleanup(func() { f.aws(http.MethodDelete, "ice", pool) })
}

// S-004, F01: the first choice has no capacity; the next is asked for at once, and the pod runs.
func TestS_004_NoCapacityForTheFirstChoice(t *testing.T) {
	t.Parallel()
	f := newFlow(t)
	f.ice("spot", "c6a.large", "")
	f.pool("", types("c6a.large", "c6a.xlarge"), func(p *karpv1.NodePool) {
		require(karpv1.LabelCapacityType, corev1.NodeSelectorOpIn, karpv1.CapacityTypeSpot)(p)
	})
	began := time.Now()
	f.deploy("inflate", 1)
	f.running("inflate", 1)
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("served after %s (F01: 30 s)", took)
	}
	for _, i := range f.allInstances() {
		if i.Type != "c6a.xlarge" {
			t.Errorf("instance of type %s", i.Type)
		}
	}
}

// F02, LC edge 16: no offering of the first pool has capacity. Its claims fail at a bounded rate, and the
// next pool is used.
func TestLC_15_16_TheNextPoolWhenTheFirstHasNoCapacity(t *testing.T) {
	t.Parallel()
	f := newFlow(t)
	f.ice("on-demand", "r6a.large", "")
	label := func(p *karpv1.NodePool) { p.Spec.Template.ObjectMeta.Labels = map[string]string{"flow": f.name} }
	f.pool("-first", label, types("r6a.large"), func(p *karpv1.NodePool) { p.Spec.Weight = new(int32(90)) })
	f.pool("-next", label, types("m6a.large"))
	f.deploy("inflate", 1, selects("flow", f.name))
	f.event("NodeClaim", f.name+"-first", "InsufficientCapacityError", "")
	f.running("inflate", 1)
	if n := len(f.claims(f.name + "-next")); n != 1 {
		t.Errorf("%d claims of the next pool", n)
	}
}

// F02: nothing has capacity. Claims come and go, ten a minute at most, and the pod says so.
func TestFM_F02_NoCapacityAtAll(t *testing.T) {
	t.Parallel()
	f := newFlow(t)
	f.ice("on-demand", "r6i.large", "")
	f.pool("", types("r6i.large"))
	f.deploy("inflate", 1)
	f.event("NodeClaim", f.name, "InsufficientCapacityError", "")
	seen := map[string]bool{}
	f.stays(60*time.Second, "at most ten claims a minute", func() (bool, string) {
		for _, c := range f.claims() {
			seen[c.Name] = true
		}
		return len(seen) <= 10, fmt.Sprintf("%d claims", len(seen))
	})
	if len(f.allInstances()) > 0 {
		t.Error("an instance without capacity")
	}
}

// F03, F05: the quota for spot is used up; on-demand is used where the pool allows it. Not in parallel:
// the quota is that of the account.
func TestFM_F03_SpotQuota(t *testing.T) {
	f := newFlow(t)
	f.aws(http.MethodPut, "quota", `{"spotVCPU":0}`)
	f.Cleanup(func() { f.aws(http.MethodPut, "quota", `{"spotVCPU":null}`) })
	f.pool("", require(karpv1.LabelCapacityType, corev1.NodeSelectorOpIn, karpv1.CapacityTypeSpot, karpv1.CapacityTypeOnDemand))
	f.deploy("inflate", 1)
	f.running("inflate", 1, later)
	if got := f.ready(1)[0].Labels[karpv1.LabelCapacityType]; got != karpv1.CapacityTypeOnDemand {
		t.Errorf("the claim is %s", got)
	}
}
