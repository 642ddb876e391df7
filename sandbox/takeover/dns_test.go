package takeover

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// FM C19: the DNS of the cluster runs on nodes that are not there yet. The controller says what to set and is tried again, no
// faster than the back-off of the kubelet; with the DNS of its machine it starts.
func TestFM_C19_NoClusterDNS(t *testing.T) {
	freshCluster(t)
	defer sandbox.CutDNS()()
	runLine(t, strings.ReplaceAll(install, "--wait", "")+"--set replicas=1")
	pods := func() []corev1.Pod {
		return list(t, &corev1.PodList{}, client.InNamespace(namespace), client.MatchingLabels{"app.kubernetes.io/name": "karpenter"}).Items
	}
	waitUntil(t, "it waits for its next try", func() (bool, string) {
		for _, p := range pods() {
			for _, s := range p.Status.ContainerStatuses {
				if s.State.Waiting != nil && s.State.Waiting.Reason == "CrashLoopBackOff" && s.RestartCount > 0 {
					return true, ""
				}
			}
		}
		return false, ""
	})
	out := runLine(t, "kubectl logs -p -n $NAMESPACE -l app.kubernetes.io/name=karpenter --tail=-1")
	for _, want := range []string{"the name aws.sandbox.invalid cannot be resolved", "set dnsPolicy=Default"} {
		if !strings.Contains(out, want) {
			t.Errorf("the log does not say %q:\n%s", want, out)
		}
	}
	if now := leaseHolder(t, namespace); now != "" {
		t.Errorf("%s leads without AWS", now)
	}
	runLine(t, install+"--set replicas=1,dnsPolicy=Default")
	waitForLeader(t, "the one with the DNS of its machine", isDovetail)
}
