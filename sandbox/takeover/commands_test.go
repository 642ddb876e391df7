package takeover

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/sandbox/commands"
	"github.com/dovetail-sh/dovetail/sandbox/world"
)

// What users of dovetail see of a cluster that something else manages.

// newUser returns a user with a ClusterRole.
func newUser(t *testing.T, role string) *commands.User {
	t.Helper()
	account := "user-" + role
	runLine(t, "kubectl create serviceaccount "+account+" -n default --dry-run=client -o yaml | kubectl apply -f - && kubectl create clusterrolebinding "+account+
		" --clusterrole="+role+" --serviceaccount=default:"+account+" --dry-run=client -o yaml | kubectl apply -f -")
	token := runLine(t, "kubectl create token "+account+" -n default --duration=2h")
	return &commands.User{Server: commands.Serve(t, sandbox.ControlPlane.Config, token), Binary: shell.dovetail, Env: shell.env}
}

// succeeds checks that a command succeeds, and what it says.
func succeeds(t *testing.T, u *commands.User, args []string, want ...string) commands.Output {
	t.Helper()
	return says(t, u, 0, args, want...)
}

func says(t *testing.T, u *commands.User, code int, args []string, want ...string) commands.Output {
	t.Helper()
	o := u.Run(t, args...)
	t.Logf("%d requests\n%s", len(o.Requests), o)
	if o.Code != code {
		t.Errorf("exit code %d, want %d:\n%s", o.Code, code, o)
	}
	for _, text := range want {
		if !strings.Contains(o.Out+o.Err, text) {
			t.Errorf("no %q in\n%s", text, o)
		}
	}
	return o
}

// snapshotPlansAlike checks that a snapshot has the plan of the cluster, also as a record that this build decides alike.
func snapshotPlansAlike(t *testing.T, u *commands.User, manager string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "cluster.json.gz")
	succeeds(t, u, []string{"snapshot", "--with-plan", "-o", file}, "pods and ")
	live, later := succeeds(t, u, []string{"plan", "--live", "-o", "json"}), succeeds(t, u, []string{"plan", "--scenario", file, "-o", "json"})
	if got, want := commands.Normalize(later.Out, nil), commands.Normalize(live.Out, nil); got != want {
		t.Errorf("the plan for the snapshot:\n%s\nwant that for the cluster:\n%s", got, want)
	}
	succeeds(t, u, []string{"replay", file}, "1 of 1 record is decided as before")
	var said struct{ Controller string }
	if err := json.Unmarshal([]byte(succeeds(t, u, []string{"snapshot", "--scenario", file}).Out), &said); err != nil || said.Controller != manager {
		t.Errorf("the snapshot says that %q manages the nodes, %v; want %s", said.Controller, err, manager)
	}
}

// mayOnlyView checks what a user with the role view is told: what there is without nodes, and what to request.
func mayOnlyView(t *testing.T, pod, node string) {
	t.Helper()
	u := newUser(t, "view")
	const request = "request the right to list nodes"
	says(t, u, 1, []string{"plan", "--live"}, "nodes", request)
	says(t, u, 1, []string{"advise"}, "nodes", request)
	says(t, u, 1, []string{"explain", "node", node}, "node/"+node, request)
	succeeds(t, u, []string{"explain", "pod", pod}, "The pod is Running on node "+node, request)
	succeeds(t, u, []string{"snapshot", "-o", filepath.Join(t.TempDir(), "cluster.json")}, request)
}

// runOnKarpenter runs commands on a cluster of Karpenter. EX-37, WI-01, WI-02, WI-03, WI-18, TV-14, AD-07.
func (s *takeoverRun) runOnKarpenter(t *testing.T) {
	t.Helper()
	commands.OnlyReads(t, sandbox.AWS)
	u := newUser(t, "cluster-admin")
	pods := list(t, &corev1.PodList{}, client.InNamespace("default"), client.MatchingLabels{"app": "general"}).Items
	node := s.claims["plain"].Status.NodeName
	const fallback = "based on objects and events of the cluster, because the controller"
	succeeds(t, u, []string{"plan", "--live"}, "an hour", "Nodes that stay", "the disruption budgets of NodePool frozen leave no room for it", s.claims["drifted"].Status.NodeName, "1 node is being removed already")
	succeeds(t, u, []string{"plan", "--live", "--set", "nodepool/frozen.disruption.budgets=[{nodes: 100%}]"}, "Dovetail would remove 1 node and launch 1", "Drifted")
	succeeds(t, u, []string{"explain", "node", node}, "m5.large, on-demand", "NodePool general", fallback, "is Karpenter")
	succeeds(t, u, []string{"explain", "pod", pods[0].Name}, pods[0].Spec.NodeName, fallback)
	succeeds(t, u, []string{"explain", "nodepool", "frozen"}, "frozen", fallback)
	succeeds(t, u, []string{"explain", "nodeclaim", s.claims["launched"].Name}, s.claims["launched"].Name, fallback)
	succeeds(t, u, []string{"top"}, node, "Drifted", "Removing", "; objects\n", "/month", fallback)
	succeeds(t, u, []string{"advise"}, "advice")
	snapshotPlansAlike(t, u, "karpenter")
	mayOnlyView(t, pods[0].Name, pods[0].Spec.NodeName)
}

// runOnDovetail sends requests to the controller that took over: found by its Lease, reached through the API server. EX-35, EX-37.
func (s *takeoverRun) runOnDovetail(t *testing.T) {
	t.Helper()
	u := newUser(t, "cluster-admin")
	node := s.claims["plain"].Status.NodeName
	for _, args := range [][]string{{"explain", "node", node}, {"explain", "nodepool", "general"}, {"top"}, {"plan", "--live"}, {"advise"}} {
		o := succeeds(t, u, args)
		if strings.Contains(o.Out, "based on objects") || strings.Contains(o.Out, "the cluster as its controller sees it") {
			t.Errorf("the leader was not queried:\n%s", o)
		}
	}
}

const autoscalerYAML = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: cluster-autoscaler, namespace: kube-system, labels: {app: cluster-autoscaler}}
spec:
  replicas: 1
  selector: {matchLabels: {app: cluster-autoscaler}}
  template:
    metadata: {labels: {app: cluster-autoscaler}}
    spec:
      tolerations: [{key: CriticalAddonsOnly, operator: Exists}]
      containers:
      - {name: cluster-autoscaler, image: "registry.k8s.io/autoscaling/cluster-autoscaler:v1.34.0", resources: {requests: {cpu: 100m, memory: 600Mi}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 0
      nodeSelector: {eks.amazonaws.com/nodegroup: web}
      containers: [{name: pause, image: "public.ecr.aws/eks-distro/kubernetes/pause:3.7", resources: {requests: {cpu: 400m, memory: 256Mi}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: large, labels: {app: large}}
spec:
  nodeSelector: {eks.amazonaws.com/nodegroup: web}
  containers: [{name: pause, image: "public.ecr.aws/eks-distro/kubernetes/pause:3.7", resources: {requests: {cpu: "5", memory: 256Mi}}}]
`

// The cluster has node groups, Cluster Autoscaler and no kind of Karpenter. EX-37, WI-02, WI-03, WI-04, WI-18, TV-14, AD-07.
func TestWI_04_AClusterOfClusterAutoscaler(t *testing.T) {
	k := bareCluster(t)
	nodes := k.createNodeGroup("web", "m5.large", 3)
	apply(t, autoscalerYAML)
	t.Cleanup(func() {
		runLine(t, "kubectl delete deployment cluster-autoscaler -n kube-system; kubectl delete deployment web; kubectl delete pod large --grace-period=0")
	})
	waitForRunningPods(t, "web", len(nodes))
	waitUntil(t, "the large pod is found unschedulable", func() (bool, string) {
		pods := list(t, &corev1.PodList{}, client.InNamespace("default"), client.MatchingLabels{"app": "large"}).Items
		return len(pods) == 1 && len(pods[0].Status.Conditions) > 0, fmt.Sprint(pods)
	})
	commands.OnlyReads(t, sandbox.AWS)
	u := newUser(t, "cluster-admin")
	const groups = "each of its 2 node groups is taken for a NodePool"
	succeeds(t, u, []string{"plan", "--live"}, "Dovetail would remove ", "Underutilized", "m5.large", groups, "1 pending pod fits no node")
	succeeds(t, u, []string{"explain", "node", nodes[0]}, "m5.large, on-demand", "Cluster Autoscaler manages the nodes: this is what Dovetail would decide", "was not found")
	succeeds(t, u, []string{"explain", "pod", "large"}, "web", "m5.large")
	succeeds(t, u, []string{"explain", "nodepool", "web"}, "web")
	succeeds(t, u, []string{"top"}, nodes[0], "; objects\n", "/month", "default/large", groups)
	succeeds(t, u, []string{"advise"}, "advice")
	succeeds(t, u, []string{"plan", "--live", "--set", "nodepool/web.requirements=[{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}]", "--without", "instance-type=t3.medium"}, "Dovetail would")
	snapshotPlansAlike(t, u, "cluster-autoscaler")
	web := list(t, &corev1.PodList{}, client.InNamespace("default"), client.MatchingLabels{"app": "web"}).Items[0]
	mayOnlyView(t, web.Name, web.Spec.NodeName)
}

// createNodeGroup launches instances that join as those of a managed node group of EKS, and returns the names of their nodes.
func (k *karpenter) createNodeGroup(name, instanceType string, n int) (nodes []string) {
	k.Helper()
	profile, template := "eks-"+name, "eks-"+name
	_, err := k.iam.CreateInstanceProfile(k.Context(), &iam.CreateInstanceProfileInput{InstanceProfileName: &profile})
	k.failOn(err)
	_, err = k.iam.AddRoleToInstanceProfile(k.Context(), &iam.AddRoleToInstanceProfileInput{InstanceProfileName: &profile, RoleName: new("KarpenterNodeRole-sandbox")})
	k.failOn(err)
	userData := "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n--//\nContent-Type: application/node.eks.aws\n\n" +
		fmt.Sprintf(`apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster: {name: %s, apiServerEndpoint: "%s", certificateAuthority: %s, cidr: 10.100.0.0/16}
  kubelet:
    config: {maxPods: 29}
    flags: ['--node-labels="eks.amazonaws.com/nodegroup=%s,eks.amazonaws.com/capacityType=ON_DEMAND,eks.amazonaws.com/nodegroup-image=ami"']
`, world.Cluster, sandbox.ControlPlane.Config.Host, base64.StdEncoding.EncodeToString(sandbox.ControlPlane.Config.CAData), name) + "--//--\n"
	_, err = k.ec2.CreateLaunchTemplate(k.Context(), &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: &template,
		LaunchTemplateData: &ec2types.RequestLaunchTemplateData{
			ImageId: &k.image, UserData: new(base64.StdEncoding.EncodeToString([]byte(userData))),
			IamInstanceProfile: &ec2types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: &profile},
			NetworkInterfaces:  []ec2types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{{DeviceIndex: new(int32(0)), Groups: k.groups}},
		},
	})
	k.failOn(err)
	owned := []ec2types.Tag{{Key: new("kubernetes.io/cluster/" + world.Cluster), Value: new("owned")}, {Key: new("eks:nodegroup-name"), Value: &name}}
	for range n {
		i := k.launchTagged(template, instanceType, "on-demand", owned)
		nodes = append(nodes, i.PrivateDNS)
		waitUntil(k.T, "node "+i.PrivateDNS+" is ready", func() (bool, string) {
			node := &corev1.Node{}
			if err := kube.Get(k.Context(), client.ObjectKey{Name: i.PrivateDNS}, node); err != nil {
				return false, err.Error() + sandbox.Nodes.Why(i.ID)
			}
			return isReady(node), "not ready"
		})
	}
	k.Cleanup(func() { k.removeNodeGroup(profile, template, nodes) })
	return nodes
}

// removeNodeGroup leaves nothing of a node group to the next test.
func (k *karpenter) removeNodeGroup(profile, template string, nodes []string) {
	k.Helper()
	ctx := context.WithoutCancel(k.Context())
	k.emptyAccount() // instances
	_, err := k.ec2.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateName: &template})
	if !strings.Contains(fmt.Sprint(err), "NotFound") {
		k.failOn(err)
	}
	_, err = k.iam.RemoveRoleFromInstanceProfile(ctx, &iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: &profile, RoleName: new("KarpenterNodeRole-sandbox")})
	k.failOn(err)
	_, err = k.iam.DeleteInstanceProfile(ctx, &iam.DeleteInstanceProfileInput{InstanceProfileName: &profile})
	k.failOn(err)
	runLine(k.T, "kubectl delete nodes --ignore-not-found "+strings.Join(nodes, " "))
}
