package flow_test

import (
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/sandbox/apiproxy"
)

// Group D of the failure modes, one after the other: these faults are for everybody. D06 is in
// crash_test.go. Not tested here: D01 and D02, which need voluntary disruption; D07, since the proxy
// cannot cut a list between pages; D10, D11, D13 and D15, which are unit tests of the memory; D12, which
// needs fifteen minutes.

// FM D03, D04: the watch of claims is slow, so that a claim is not in the cache when the next pass runs.
func TestFM_D04_OwnClaimsAreNotSeenYet(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsAll)
	f.deploy("inflate", 2)
	f.waitForUnschedulable(2)
	mend := f.proxyFault(apiproxy.Fault{Verb: "watch", Resource: "nodeclaims", Latency: 10 * time.Second})
	f.killController()                 // so that the watch begins anew, and late
	f.pool("", onlyTypes("m5.xlarge")) // holds both pods
	f.waitForRunningPods("inflate", 2, later)
	mend()
	f.ready(1)
	if n := len(f.allInstances()); n != 1 {
		t.Errorf("%d instances", n)
	}
}

// FM D05: watches end again and again.
func TestFM_D05_WatchesAreCut(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsAll)
	f.pool("")
	f.proxyFault(apiproxy.Fault{Verb: "watch", CutAfter: 2 * time.Second})
	f.deploy("inflate", 3, onePerNode("inflate"))
	f.waitForRunningPods("inflate", 3, later)
	f.ready(3)
	claims := f.claims()
	f.remove(&claims[0])
	f.waitUntilGone(&claims[0], later)
	f.waitForRunningPods("inflate", 3, later)
	if n := len(f.allInstances()); n != 4 {
		t.Errorf("%d instances, want three and a successor", n)
	}
}

// FM D08: writes conflict, again and again.
func TestFM_D08_Conflicts(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("")
	for _, resource := range []string{"nodeclaims", "nodeclaims/status", "nodes", "nodepools/status"} {
		f.proxyFault(apiproxy.Fault{Verb: "patch", Resource: resource, Status: http.StatusConflict, Count: 3})
	}
	f.deploy("inflate", 2, onePerNode("inflate"))
	f.waitForRunningPods("inflate", 2, later)
	for _, n := range f.nodes() {
		seen := map[string]bool{}
		for _, taint := range n.Spec.Taints {
			if seen[taint.Key] {
				t.Errorf("taint %s twice on %s", taint.Key, n.Name)
			}
			seen[taint.Key] = true
		}
	}
	if n := len(f.allInstances()); n != 2 {
		t.Errorf("%d instances", n)
	}
}

// FM D09: the API server requests patience for a while. The deadline of a drain does not slip for it.
func TestFM_D09_TooManyRequests(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsAll)
	f.pool("", withTerminationGracePeriod("40s"))
	f.deploy("inflate", 1, withAnnotation(karpv1.AnnotationDoNotDisrupt, "true"))
	f.waitForRunningPods("inflate", 1)
	claim := f.ready(1)[0]
	f.remove(&claim)
	before := f.claim("has a deadline", func(c *karpv1.NodeClaim) bool { return c.Annotations[karpv1.AnnotationTerminationTimestamp] != "" })
	f.markDisturbed()
	mend := f.proxyFault(apiproxy.Fault{Status: http.StatusTooManyRequests, Latency: 100 * time.Millisecond})
	f.checkStays(15*time.Second, "the instance", func() (bool, string) {
		state := f.stateOf(instanceOf(&claim))
		return state == "running", state
	})
	for _, c := range f.claims() {
		if got, want := c.Annotations[karpv1.AnnotationTerminationTimestamp], before.Annotations[karpv1.AnnotationTerminationTimestamp]; c.UID == claim.UID && got != want {
			t.Errorf("the deadline was %s and is %s", want, got)
		}
	}
	mend()
	f.waitUntilGone(&claim, later)
	f.waitForRunningPods("inflate", 1)
}

// FM D14: objects without optional fields do not block others.
func TestFM_D14_SparseObjects(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("")
	f.deploy("sparse", 1, func(p *corev1.PodTemplateSpec) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule}}
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}, PodAffinity: &corev1.PodAffinity{}}
	})
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	f.waitForRunningPods("sparse", 1)
}

// FM D16: events cannot be written; everything else goes on.
func TestFM_D16_EventsAreRefused(t *testing.T) {
	t.Parallel()
	f := newFlow(t, exclusive) // others look for events
	f.proxyFault(apiproxy.Fault{Resource: "events", Status: http.StatusServiceUnavailable})
	f.pool("")
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	claim := f.ready(1)[0]
	f.remove(&claim)
	f.waitUntilGone(&claim)
}

// FM D17: the namespace goes while its node drains.
func TestFM_D17_NamespaceGoesDuringTheDrain(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("")
	f.deploy("inflate", 3, stopsAfter(2))
	f.waitForRunningPods("inflate", 3)
	claim := f.ready(len(f.claims()))[0]
	f.remove(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.namespace}})
	f.remove(&claim)
	f.waitUntilGone(&claim)
}
