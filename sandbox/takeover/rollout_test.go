package takeover

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// install is how most tests install the chart.
const install = `helm upgrade --install karpenter $CHARTS/karpenter -n $NAMESPACE --set settings.clusterName=$CLUSTER_NAME,settings.interruptionQueue=$INTERRUPTION_QUEUE --wait `

// onePerNode is a class and a pool whose nodes hold one pod of a workload each.
func onePerNode(name, consolidateAfter string) string {
	return fmt.Sprintf(`
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: %[1]s}
spec:
  role: KarpenterNodeRole-sandbox
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: sandbox}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: sandbox}}]
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: %[1]s}
spec:
  template:
    spec:
      requirements:
      - {key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: %[1]s}
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: %[2]s, budgets: [{nodes: 100%%}]}
---`, name, consolidateAfter)
}

// launchedInstances are the instances that were ever launched for a pool.
func launchedInstances(pool string) (ids []string) {
	for _, i := range sandbox.AWS.Instances() {
		if i.Tags[karpv1.LabelNodePool] == pool {
			ids = append(ids, i.ID+" "+i.State)
		}
	}
	return ids
}

// A rolling update of the chart: at no moment two controllers lead, the one that goes gives the lease back, and whatever is
// requested meanwhile is done once.
func TestRollingUpdate(t *testing.T) {
	freshCluster(t)
	runLine(t, install)
	first := waitForLeader(t, "Dovetail", isDovetail)
	lease := followLease(t)
	apply(t, onePerNode("rolling", "Never"))
	apply(t, workloadYAML("rolling", "rolling", 1))
	for i := range 3 {
		runLine(t, fmt.Sprintf("helm upgrade karpenter $CHARTS/karpenter -n $NAMESPACE --reuse-values --set-string podAnnotations.round=%d", i))
		runLine(t, fmt.Sprintf("kubectl scale deployment rolling --replicas=%d", i+2))
		runLine(t, "kubectl rollout status deployment karpenter -n $NAMESPACE --timeout=240s")
	}
	waitForRunningPods(t, "rolling", 4)
	if ids := launchedInstances("rolling"); len(ids) != 4 {
		t.Errorf("instances %v for four pods", ids)
	}
	all := lease.handedOver(t)
	if len(slices.Compact(slices.Sorted(slices.Values(all)))) < 4 || all[0] != first {
		t.Errorf("leaders %q, want the first one and one more for each update", all)
	}
}

// FM C16: one node for controllers is left, so that the new replica of an update has no place. The old one leads on, without
// an outage; when there is room, the update goes on.
func TestFM_C16_TheNewReplicaHasNoPlace(t *testing.T) {
	freshCluster(t)
	runLine(t, install)
	t.Cleanup(func() { runLine(t, "kubectl uncordon bootstrap-2.eu-west-1.compute.internal") })
	runLine(t, "kubectl cordon bootstrap-2.eu-west-1.compute.internal")
	runLine(t, "kubectl delete pods -n $NAMESPACE -l app.kubernetes.io/name=karpenter --field-selector spec.nodeName=bootstrap-2.eu-west-1.compute.internal")
	replicas := func() (running, pending int) {
		for _, p := range list(t, &corev1.PodList{}, client.InNamespace(namespace), client.MatchingLabels{"app.kubernetes.io/name": "karpenter"}).Items {
			switch {
			case p.Spec.NodeName == "":
				pending++
			case p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil:
				running++
			}
		}
		return running, pending
	}
	waitUntil(t, "one replica runs and leads, one has no place", func() (bool, string) {
		running, pending := replicas()
		return running == 1 && pending == 1 && leaseHolder(t, namespace) != "", fmt.Sprint(running, pending)
	})
	leader := waitForLeader(t, "the one that is left", isDovetail)
	lease := followLease(t)
	runLine(t, "helm upgrade karpenter $CHARTS/karpenter -n $NAMESPACE --reuse-values --set-string podAnnotations.round=next")
	waitUntil(t, "all new replicas wait for a place", func() (bool, string) {
		running, pending := replicas()
		return running == 1 && pending == 2, fmt.Sprint(running, pending)
	})
	apply(t, onePerNode("tight", "Never"))
	apply(t, workloadYAML("tight", "tight", 1))
	waitForRunningPods(t, "tight", 1)
	checkStays(t, 20*time.Second, "the old replica leads", func() (bool, string) {
		now := leaseHolder(t, namespace)
		return now == leader, now
	})
	runLine(t, "kubectl uncordon bootstrap-2.eu-west-1.compute.internal")
	runLine(t, "kubectl rollout status deployment karpenter -n $NAMESPACE --timeout=240s")
	waitForLeader(t, "a new replica", func(now string) bool { return isDovetail(now) && now != leader })
	lease.handedOver(t)
}

// FM C11, LC-60: a second release in another namespace does nothing beside the first one, and says why; when the first one
// is scaled down, it leads.
func TestFM_C11_ASecondRelease(t *testing.T) {
	freshCluster(t)
	runLine(t, install+"--set replicas=1")
	// Helm does not wait for a replica that the update strategy may remove.
	runLine(t, "kubectl wait deployment/karpenter -n $NAMESPACE --for=jsonpath='{.status.readyReplicas}'=1 --timeout=240s")
	if out := runFailingLine(t, "helm install karpenter $CHARTS/karpenter -n karpenter --create-namespace --set settings.clusterName=$CLUSTER_NAME"); !strings.Contains(out, "invalid ownership metadata") {
		t.Error(out)
	}
	runLine(t, "helm install second $CHARTS/karpenter -n karpenter --create-namespace --set settings.clusterName=$CLUSTER_NAME,replicas=1")
	const logs = "kubectl logs -n karpenter -l app.kubernetes.io/name=karpenter --tail=-1; kubectl logs -p -n karpenter -l app.kubernetes.io/name=karpenter --tail=-1"
	waitUntil(t, "it says what leads already", func() (bool, string) {
		out, _ := tryLine(t, logs)
		return strings.Contains(out, "another controller leads: Deployment karpenter in namespace kube-system has 1 ready replicas"), out
	})
	if now := leaseHolder(t, "karpenter"); now != "" {
		t.Errorf("%s leads in the second namespace", now)
	}
	runLine(t, "kubectl scale deployment karpenter -n kube-system --replicas=0")
	waitUntil(t, "the second one leads", func() (bool, string) { return leaseHolder(t, "karpenter") != "", "none does" })
}
