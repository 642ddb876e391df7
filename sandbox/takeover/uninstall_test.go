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

// alive are the instances of NodePools that are not terminated.
func alive() (ids []string) {
	for _, i := range sandbox.AWS.Instances() {
		if i.Tags[karpv1.LabelNodePool] != "" && i.State != "terminated" && i.State != "shutting-down" {
			ids = append(ids, i.ID)
		}
	}
	return ids
}

// finalizers are those of ours on all objects that carry them, by kind and name.
func finalizers(t *testing.T) (found []string) {
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

// managed are the Nodes of NodePools.
func managed(t *testing.T) []corev1.Node {
	t.Helper()
	return list(t, &corev1.NodeList{}, client.HasLabels{karpv1.LabelNodePool}).Items
}

// gone waits until the controller is, with all its pods.
func gone(t *testing.T) {
	t.Helper()
	await(t, "no pod of the controller is left", func() (bool, string) {
		n := len(list(t, &corev1.PodList{}, client.InNamespace(namespace), client.MatchingLabels{"app.kubernetes.io/name": "karpenter"}).Items)
		return n == 0, fmt.Sprint(n)
	})
}

// S-133 to S-135, S-136: everything goes in the order of the seed. Deleting the CRDs hangs on no finalizer, and no instance,
// launch template or profile is left that would keep the role from being deleted.
func TestS_133_S_134_S_135_UninstallInTheOrderOfTheSeed(t *testing.T) {
	needAWS(t)
	k := fresh(t)
	const node, profile = "KarpenterNodeInstanceRole", "KarpenterNodeInstanceProfile"
	// Role and profile of the guide are there; the controller may pass the role on, and its nodes may join.
	typed(t, `aws iam put-role-policy --role-name KarpenterControllerRole-$CLUSTER_NAME --policy-name pass --policy-document \
  '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"iam:PassRole","Resource":"arn:aws:iam::111122223333:role/`+node+`","Condition":{"StringEquals":{"iam:PassedToService":"ec2.amazonaws.com"}}}]}'`)
	const entry = "--cluster-name $CLUSTER_NAME --principal-arn arn:aws:iam::111122223333:role/" + node
	typed(t, "aws eks describe-access-entry "+entry+" || aws eks create-access-entry "+entry+" --type EC2_LINUX")
	typed(t, install)
	apply(t, strings.ReplaceAll(onePerNode("default", "1s"), "KarpenterNodeRole-sandbox", node))
	apply(t, workload("inflate", "default", 2))
	running(t, "inflate", 2)
	if len(k.made()) != 1 {
		t.Errorf("profiles %v, want one for the class", k.made())
	}

	typed(t, "kubectl delete deployment inflate")
	await(t, "the nodes vanish", func() (bool, string) {
		return len(managed(t))+len(alive()) == 0, fmt.Sprint(len(managed(t)), alive())
	})
	typed(t, "helm uninstall karpenter -n $NAMESPACE --wait")
	gone(t)
	if left := finalizers(t); len(left) > 0 {
		t.Errorf("finalizers are left on %q", left)
	}
	if classes := list(t, &awsv1.EC2NodeClassList{}).Items; len(classes) != 1 || classes[0].Spec.Role != node {
		t.Errorf("what the user wrote is gone or changed: %v", classes)
	}
	typed(t, "kubectl delete crd nodepools.karpenter.sh ec2nodeclasses.karpenter.k8s.aws --timeout=240s")
	if left := append(k.made(), k.templates()...); len(left) > 0 {
		t.Errorf("%v are left in the account", left)
	}
	typed(t, `aws iam remove-role-from-instance-profile --instance-profile-name `+profile+` --role-name `+node+`
aws iam delete-instance-profile --instance-profile-name `+profile+`
for p in $(aws iam list-attached-role-policies --role-name `+node+` --query 'AttachedPolicies[].PolicyArn' --output text); do aws iam detach-role-policy --role-name `+node+` --policy-arn $p; done
aws iam delete-role --role-name `+node)
	if out := typed(t, `aws ec2 describe-instances --filters Name=tag:kubernetes.io/cluster/$CLUSTER_NAME,Values=owned Name=instance-state-name,Values=pending,running,stopping,stopped,shutting-down --query 'Reservations[].Instances[].InstanceId' --output text`); out != "" {
		t.Errorf("instances %s are left", out)
	}
	if out, _ := try(t, "helm list -A | grep karpenter; kubectl get jobs,pods -n $NAMESPACE | grep uninstall"); out != "" {
		t.Errorf("left: %s", out)
	}
}

// Without the Job the CRD of a class cannot be deleted, and the role of the nodes not either: the hazard that it is for.
func TestS_133_WithoutTheJobDeletingHangs(t *testing.T) {
	k := fresh(t)
	typed(t, install)
	apply(t, onePerNode("default", "1s"))
	await(t, "the class has its profile", func() (bool, string) { return len(k.made()) == 1 && len(finalizers(t)) == 1, fmt.Sprint(k.made()) })
	typed(t, "helm uninstall karpenter -n $NAMESPACE --no-hooks --wait")
	gone(t)
	if out := refused(t, "kubectl delete crd ec2nodeclasses.karpenter.k8s.aws --timeout=5s"); !strings.Contains(out, "timed out") {
		t.Error(out)
	}
	if out := refused(t, "kubectl get ec2nodeclass default -o jsonpath={.metadata.finalizers} | grep -v termination"); out != "" {
		t.Error(out)
	}
}

// FM C18: the controller is uninstalled while nodes are there. They run on, with their finalizers; a new installation adopts
// them, and ends those that were deleted meanwhile.
func TestFM_C18_UninstalledFirst(t *testing.T) {
	fresh(t)
	typed(t, install)
	apply(t, onePerNode("left", "Never"))
	apply(t, workload("left", "left", 2))
	running(t, "left", 2)
	claims := list(t, &karpv1.NodeClaimList{}).Items
	if len(claims) != 2 {
		t.Fatalf("%d claims", len(claims))
	}
	typed(t, "helm uninstall karpenter -n $NAMESPACE --wait")
	gone(t)
	if held := finalizers(t); len(held) != 5 {
		t.Errorf("finalizers on %q, want them on two claims, two nodes and a class", held)
	}
	if ids := alive(); len(ids) != 2 {
		t.Errorf("instances %v", ids)
	}
	running(t, "left", 2)
	refused(t, "kubectl delete nodeclaim "+claims[0].Name+" --timeout=3s")
	if ids := alive(); len(ids) != 2 {
		t.Errorf("instances %v, although nobody is there to end them", ids)
	}

	typed(t, install)
	await(t, "the claim that was deleted goes, and its pod gets another node", func() (bool, string) {
		now := list(t, &karpv1.NodeClaimList{}).Items
		same := slices.ContainsFunc(now, func(c karpv1.NodeClaim) bool { return c.UID == claims[1].UID && c.DeletionTimestamp == nil })
		old := slices.ContainsFunc(now, func(c karpv1.NodeClaim) bool { return c.UID == claims[0].UID })
		if !same {
			t.Fatalf("%s was not adopted", claims[1].Name)
		}
		return !old && len(now) == 2 && len(alive()) == 2 && !slices.Contains(alive(), instanceOf(&claims[0])), fmt.Sprint(len(now), alive())
	})
	running(t, "left", 2)
}

// LC-63 (b): nodes are released. They run on without finalizers, and the CRDs can be deleted.
func TestLC_63_NodesAreReleased(t *testing.T) {
	fresh(t)
	typed(t, install+"--set uninstall.nodes=Release")
	apply(t, onePerNode("kept", "Never"))
	apply(t, workload("kept", "kept", 1))
	running(t, "kept", 1)
	typed(t, "helm uninstall karpenter -n $NAMESPACE --wait")
	gone(t)
	if held := finalizers(t); len(held) > 0 {
		t.Errorf("finalizers on %q", held)
	}
	typed(t, "kubectl delete crd nodepools.karpenter.sh nodeclaims.karpenter.sh ec2nodeclasses.karpenter.k8s.aws --timeout=240s")
	stays(t, 5*time.Second, "the instance runs", func() (bool, string) { return len(alive()) == 1, fmt.Sprint(alive()) })
}

// LC-63 (a): all nodes go before the controller does, and then what was made for the class.
func TestLC_63_NodesAreDeleted(t *testing.T) {
	k := fresh(t)
	typed(t, install+"--set uninstall.nodes=Delete")
	apply(t, onePerNode("going", "Never"))
	apply(t, workload("going", "going", 2))
	running(t, "going", 2)
	typed(t, "helm uninstall karpenter -n $NAMESPACE --wait")
	gone(t)
	if left := append(finalizers(t), alive()...); len(left)+len(managed(t))+len(k.made())+len(k.templates()) > 0 {
		t.Errorf("%q, %d nodes, %v and %v are left", left, len(managed(t)), k.made(), k.templates())
	}
	if pools := list(t, &karpv1.NodePoolList{}).Items; len(pools) > 0 {
		t.Errorf("%d pools are left", len(pools))
	}
	if classes := list(t, &awsv1.EC2NodeClassList{}).Items; len(classes) != 1 {
		t.Errorf("%d classes, although nobody asked to delete them", len(classes))
	}
	if out, _ := try(t, "kubectl get clusterroles,clusterrolebindings -o name | grep karpenter"); out != "" {
		t.Errorf("rights are left: %s", out)
	}
}

// The last resort of the page: the controller is gone for good, and instances and finalizers are removed by hand.
func TestUninstalledForGood(t *testing.T) {
	needAWS(t)
	fresh(t)
	typed(t, install)
	apply(t, onePerNode("orphan", "Never"))
	apply(t, workload("orphan", "orphan", 1))
	running(t, "orphan", 1)
	typed(t, "helm uninstall karpenter -n $NAMESPACE --no-hooks --wait")
	gone(t)
	claim := list(t, &karpv1.NodeClaimList{}).Items[0]
	typed(t, "kubectl delete deployment orphan")
	for _, line := range []string{
		"aws ec2 terminate-instances --instance-ids " + instanceOf(&claim),
		`kubectl patch nodeclaim ` + claim.Name + ` --type=merge -p '{"metadata":{"finalizers":null}}'`,
		`kubectl patch node ` + claim.Status.NodeName + ` --type=merge -p '{"metadata":{"finalizers":null}}'`,
		`kubectl patch ec2nodeclass orphan --type=merge -p '{"metadata":{"finalizers":null}}'`,
		"kubectl delete crd nodepools.karpenter.sh nodeclaims.karpenter.sh ec2nodeclasses.karpenter.k8s.aws --timeout=240s",
	} {
		typed(t, line)
	}
	await(t, "no instance is left", func() (bool, string) { return len(alive()) == 0, fmt.Sprint(alive()) })
}
