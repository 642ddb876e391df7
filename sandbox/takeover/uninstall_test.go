package takeover

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// liveInstances are the instances of NodePools that are not terminated.
func liveInstances() (ids []string) {
	for _, i := range sandbox.AWS.Instances() {
		if i.Tags[karpv1.LabelNodePool] != "" && i.State != "terminated" && i.State != "shutting-down" {
			ids = append(ids, i.ID)
		}
	}
	return ids
}

// ownFinalizers are those of ours on all objects that carry them, by kind and name.
func ownFinalizers(t *testing.T) (found []string) {
	t.Helper()
	add := func(kind string, o client.Object) {
		for _, f := range o.GetFinalizers() {
			if strings.HasPrefix(f, "karpenter.") {
				found = append(found, kind+" "+o.GetName())
			}
		}
	}
	for _, c := range list(t, &karpv1.NodeClaimList{}).Items {
		add("NodeClaim", &c)
	}
	for _, n := range list(t, &corev1.NodeList{}).Items {
		add("Node", &n)
	}
	for _, c := range list(t, &awsv1.EC2NodeClassList{}).Items {
		add("EC2NodeClass", &c)
	}
	return found
}

// managedNodes are the Nodes of NodePools.
func managedNodes(t *testing.T) []corev1.Node {
	t.Helper()
	return list(t, &corev1.NodeList{}, client.HasLabels{karpv1.LabelNodePool}).Items
}

// waitUntilControllerGone waits until the controller is, with all its pods.
func waitUntilControllerGone(t *testing.T) {
	t.Helper()
	waitUntil(t, "no pod of the controller is left", func() (bool, string) {
		n := len(list(t, &corev1.PodList{}, client.InNamespace(namespace), client.MatchingLabels{"app.kubernetes.io/name": "karpenter"}).Items)
		return n == 0, fmt.Sprint(n)
	})
}

// S-133 to S-135, S-136: everything goes in the order of the seed. Deleting the CRDs hangs on no finalizer, and no instance,
// launch template or profile is left that would keep the role from being deleted.
func TestS_133_S_134_S_135_UninstallInTheOrderOfTheSeed(t *testing.T) {
	needAWS(t)
	k := freshCluster(t)
	const node, profile = "KarpenterNodeInstanceRole", "KarpenterNodeInstanceProfile"
	// Role and profile of the guide are there; the controller may pass the role on, and its nodes may join.
	runLine(t, `aws iam put-role-policy --role-name KarpenterControllerRole-$CLUSTER_NAME --policy-name pass --policy-document \
  '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"iam:PassRole","Resource":"arn:aws:iam::111122223333:role/`+node+`","Condition":{"StringEquals":{"iam:PassedToService":"ec2.amazonaws.com"}}}]}'`)
	const entry = "--cluster-name $CLUSTER_NAME --principal-arn arn:aws:iam::111122223333:role/" + node
	runLine(t, "aws eks describe-access-entry "+entry+" || aws eks create-access-entry "+entry+" --type EC2_LINUX")
	runLine(t, install)
	apply(t, strings.ReplaceAll(onePerNode("default", "1s"), "KarpenterNodeRole-sandbox", node))
	apply(t, workloadYAML("inflate", "default", 2))
	waitForRunningPods(t, "inflate", 2)
	if len(k.controllerProfiles()) != 1 {
		t.Errorf("profiles %v, want one for the class", k.controllerProfiles())
	}

	runLine(t, "kubectl delete deployment inflate")
	waitUntil(t, "the nodes vanish", func() (bool, string) {
		return len(managedNodes(t))+len(liveInstances()) == 0, fmt.Sprint(len(managedNodes(t)), liveInstances())
	})
	runLine(t, "helm uninstall karpenter -n $NAMESPACE --wait")
	waitUntilControllerGone(t)
	if left := ownFinalizers(t); len(left) > 0 {
		t.Errorf("finalizers are left on %q", left)
	}
	if classes := list(t, &awsv1.EC2NodeClassList{}).Items; len(classes) != 1 || classes[0].Spec.Role != node {
		t.Errorf("what the user wrote is gone or changed: %v", classes)
	}
	runLine(t, "kubectl delete crd nodepools.karpenter.sh ec2nodeclasses.karpenter.k8s.aws --timeout=240s")
	if left := append(k.controllerProfiles(), k.templateNames()...); len(left) > 0 {
		t.Errorf("%v are left in the account", left)
	}
	runLine(t, `aws iam remove-role-from-instance-profile --instance-profile-name `+profile+` --role-name `+node+`
aws iam delete-instance-profile --instance-profile-name `+profile+`
for p in $(aws iam list-attached-role-policies --role-name `+node+` --query 'AttachedPolicies[].PolicyArn' --output text); do aws iam detach-role-policy --role-name `+node+` --policy-arn $p; done
aws iam delete-role --role-name `+node)
	if out := runLine(t, `aws ec2 describe-instances --filters Name=tag:kubernetes.io/cluster/$CLUSTER_NAME,Values=owned Name=instance-state-name,Values=pending,running,stopping,stopped,shutting-down --query 'Reservations[].Instances[].InstanceId' --output text`); out != "" {
		t.Errorf("instances %s are left", out)
	}
	if out, _ := tryLine(t, "helm list -A | grep karpenter; kubectl get jobs,pods -n $NAMESPACE | grep uninstall"); out != "" {
		t.Errorf("left: %s", out)
	}
}

// Without the Job the CRD of a class cannot be deleted, and the role of the nodes not either: the hazard that it is for.
func TestS_133_WithoutTheJobDeletingHangs(t *testing.T) {
	k := freshCluster(t)
	runLine(t, install)
	apply(t, onePerNode("default", "1s"))
	waitUntil(t, "the class has its profile", func() (bool, string) {
		return len(k.controllerProfiles()) == 1 && len(ownFinalizers(t)) == 1, fmt.Sprint(k.controllerProfiles())
	})
	runLine(t, "helm uninstall karpenter -n $NAMESPACE --no-hooks --wait")
	waitUntilControllerGone(t)
	if out := runFailingLine(t, "kubectl delete crd ec2nodeclasses.karpenter.k8s.aws --timeout=5s"); !strings.Contains(out, "timed out") {
		t.Error(out)
	}
	if out := runFailingLine(t, "kubectl get ec2nodeclass default -o jsonpath={.metadata.finalizers} | grep -v termination"); out != "" {
		t.Error(out)
	}
}

// FM C18: the controller is uninstalled while nodes are there. They run on, with their finalizers; a new installation adopts
// them, and ends those that were deleted meanwhile.
func TestFM_C18_UninstalledFirst(t *testing.T) {
	freshCluster(t)
	runLine(t, install)
	apply(t, onePerNode("left", "Never"))
	apply(t, workloadYAML("left", "left", 2))
	waitForRunningPods(t, "left", 2)
	claims := list(t, &karpv1.NodeClaimList{}).Items
	if len(claims) != 2 {
		t.Fatalf("%d claims", len(claims))
	}
	runLine(t, "helm uninstall karpenter -n $NAMESPACE --wait")
	waitUntilControllerGone(t)
	if held := ownFinalizers(t); len(held) != 5 {
		t.Errorf("finalizers on %q, want them on two claims, two nodes and a class", held)
	}
	if ids := liveInstances(); len(ids) != 2 {
		t.Errorf("instances %v", ids)
	}
	waitForRunningPods(t, "left", 2)
	runFailingLine(t, "kubectl delete nodeclaim "+claims[0].Name+" --timeout=3s")
	if ids := liveInstances(); len(ids) != 2 {
		t.Errorf("instances %v, although no process is there to end them", ids)
	}

	runLine(t, install)
	waitUntil(t, "the claim that was deleted goes, and its pod gets another node", func() (bool, string) {
		now := list(t, &karpv1.NodeClaimList{}).Items
		same := slices.ContainsFunc(now, func(c karpv1.NodeClaim) bool { return c.UID == claims[1].UID && c.DeletionTimestamp == nil })
		old := slices.ContainsFunc(now, func(c karpv1.NodeClaim) bool { return c.UID == claims[0].UID })
		if !same {
			t.Fatalf("%s was not adopted", claims[1].Name)
		}
		return !old && len(now) == 2 && len(liveInstances()) == 2 && !slices.Contains(liveInstances(), instanceOf(&claims[0])), fmt.Sprint(len(now), liveInstances())
	})
	waitForRunningPods(t, "left", 2)
}

// LC-63 (b): nodes are released. They run on without finalizers, and the CRDs can be deleted.
func TestLC_63_NodesAreReleased(t *testing.T) {
	freshCluster(t)
	runLine(t, install+"--set uninstall.nodes=Release")
	apply(t, onePerNode("kept", "Never"))
	apply(t, workloadYAML("kept", "kept", 1))
	waitForRunningPods(t, "kept", 1)
	runLine(t, "helm uninstall karpenter -n $NAMESPACE --wait")
	waitUntilControllerGone(t)
	if held := ownFinalizers(t); len(held) > 0 {
		t.Errorf("finalizers on %q", held)
	}
	runLine(t, "kubectl delete crd nodepools.karpenter.sh nodeclaims.karpenter.sh ec2nodeclasses.karpenter.k8s.aws --timeout=240s")
	checkStays(t, 5*time.Second, "the instance runs", func() (bool, string) { return len(liveInstances()) == 1, fmt.Sprint(liveInstances()) })
}

// LC-63 (a): all nodes go before the controller does, and then what was made for the class.
func TestLC_63_NodesAreDeleted(t *testing.T) {
	k := freshCluster(t)
	runLine(t, install+"--set uninstall.nodes=Delete")
	apply(t, onePerNode("going", "Never"))
	apply(t, workloadYAML("going", "going", 2))
	waitForRunningPods(t, "going", 2)
	runLine(t, "helm uninstall karpenter -n $NAMESPACE --wait")
	waitUntilControllerGone(t)
	if left := append(ownFinalizers(t), liveInstances()...); len(left)+len(managedNodes(t))+len(k.controllerProfiles())+len(k.templateNames()) > 0 {
		t.Errorf("%q, %d nodes, %v and %v are left", left, len(managedNodes(t)), k.controllerProfiles(), k.templateNames())
	}
	if pools := list(t, &karpv1.NodePoolList{}).Items; len(pools) > 0 {
		t.Errorf("%d pools are left", len(pools))
	}
	if classes := list(t, &awsv1.EC2NodeClassList{}).Items; len(classes) != 1 {
		t.Errorf("%d classes, although their deletion was not requested", len(classes))
	}
	if out, _ := tryLine(t, "kubectl get clusterroles,clusterrolebindings -o name | grep karpenter"); out != "" {
		t.Errorf("rights are left: %s", out)
	}
}

// The last resort of the page: the controller is gone for good, and instances and finalizers are removed by hand.
func TestUninstalledForGood(t *testing.T) {
	needAWS(t)
	freshCluster(t)
	runLine(t, install)
	apply(t, onePerNode("orphan", "Never"))
	apply(t, workloadYAML("orphan", "orphan", 1))
	waitForRunningPods(t, "orphan", 1)
	runLine(t, "helm uninstall karpenter -n $NAMESPACE --no-hooks --wait")
	waitUntilControllerGone(t)
	claim := list(t, &karpv1.NodeClaimList{}).Items[0]
	runLine(t, "kubectl delete deployment orphan")
	for _, line := range []string{
		"aws ec2 terminate-instances --instance-ids " + instanceOf(&claim),
		`kubectl patch nodeclaim ` + claim.Name + ` --type=merge -p '{"metadata":{"finalizers":null}}'`,
		`kubectl patch node ` + claim.Status.NodeName + ` --type=merge -p '{"metadata":{"finalizers":null}}'`,
		`kubectl patch ec2nodeclass orphan --type=merge -p '{"metadata":{"finalizers":null}}'`,
		"kubectl delete crd nodepools.karpenter.sh nodeclaims.karpenter.sh ec2nodeclasses.karpenter.k8s.aws --timeout=240s",
	} {
		runLine(t, line)
	}
	waitUntil(t, "no instance is left", func() (bool, string) { return len(liveInstances()) == 0, fmt.Sprint(liveInstances()) })
}
