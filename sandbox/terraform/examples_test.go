package terraform

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
	"github.com/dovetail-sh/dovetail/sandbox/world"
)

// trial is an example, and how it is tried.
type trial struct {
	example string
	vars    map[string]string
	// breaks is an apply that does not get to its end. The next one does.
	breaks    func(t *testing.T, r root)
	namespace string // of the controller
	works     func(t *testing.T, r root)
}

// clusterVars are those of the examples that are given a cluster.
func clusterVars() map[string]string {
	return map[string]string{"eks_cluster_name": world.Cluster, "aws_region": world.Region, "helm_repository": setting.charts}
}

// The controller with its defaults, from an account and a cluster that have nothing of it to a node that it launched, and back.
func TestS_147_S_149_S_155_Basic(t *testing.T) {
	trial{
		example: "basic", vars: clusterVars(), namespace: "karpenter",
		breaks: interruptedAfter("iam:CreateRole"),
		works: func(t *testing.T, r root) {
			t.Helper()
			checkCreated(t, map[string][]string{
				"iam.roles":        {"AWSServiceRoleForEC2Spot", "KarpenterControllerRole-sandbox", "KarpenterNodeRole-sandbox"},
				"sqs.queues":       {"Karpenter-sandbox"},
				"sqs.rules":        {"KarpenterCapacityReservationInterruption-sandbox", "KarpenterInstanceStateChange-sandbox", "KarpenterRebalance-sandbox", "KarpenterScheduledChange-sandbox", "KarpenterSpotInterruption-sandbox"},
				"eks.associations": {"karpenter/karpenter"},
				"eks.entries":      {"arn:aws:iam::111122223333:role/KarpenterNodeRole-sandbox"},
			})
			if profile := "KarpenterNodeInstanceProfile-sandbox"; !slices.Contains(names(accountContents(t)["iam.profiles"]), profile) {
				t.Errorf("no instance profile %s", profile)
			}
			want := map[string]any{
				"iam_role_arn": "arn:aws:iam::111122223333:role/KarpenterControllerRole-sandbox", "node_iam_role_name": "KarpenterNodeRole-sandbox", "queue_name": "Karpenter-sandbox",
			}
			if diff := cmp.Diff(want, r.readOutputs(t)); diff != "" {
				t.Errorf("outputs:\n%s", diff)
			}
			buysNodes(t)
		},
	}.run(t)
}

// Everything that is often changed: a namespace, a service account, a version and tags of the user's own, IRSA, NodePools
// from a list. The account refuses a call in the middle of the first apply.
func TestS_157_Complete(t *testing.T) {
	vars := clusterVars()
	vars["oidc_provider_arn"] = oidcProvider(t)
	trial{
		example: "complete", vars: vars, namespace: "node-autoscaling",
		breaks: func(t *testing.T, r root) { t.Helper(); r.applyDenied(t, "sqs:CreateQueue") },
		works: func(t *testing.T, _ root) {
			t.Helper()
			checkCreated(t, map[string][]string{"sqs.queues": {"sandbox-interruptions"}, "eks.associations": nil})
			arn := runShell(t, `kubectl get serviceaccount node-autoscaler -n node-autoscaling -o jsonpath='{.metadata.annotations.eks\.amazonaws\.com/role-arn}'`)
			if arn != "arn:aws:iam::111122223333:role/KarpenterControllerRole-sandbox" {
				t.Errorf("the service account gets role %q", arn)
			}
			if pools := runShell(t, "kubectl get nodepools -o name"); pools != "nodepool.karpenter.sh/general\nnodepool.karpenter.sh/infra" {
				t.Errorf("NodePools: %s", pools)
			}
		},
	}.run(t)
}

// A cluster with a bootstrap group, and all that the interface of the proof of concept has.
func TestS_159_S_161_S_162_S_163_S_164_S_165_FullStack(t *testing.T) {
	subnets := untaggedSubnets(t)
	list, err := json.Marshal(subnets)
	if err != nil {
		t.Fatal(err)
	}
	trial{
		example: "full-stack", namespace: "kube-system", vars: map[string]string{
			"aws_region": world.Region, "helm_repository": setting.charts, "k8s_version": setting.world.ClusterVersion(), "subnet_ids": string(list), "tags": `{ team = "platform" }`,
			"addon_cni_version": "v1.12.0-eksbuild.1", "addon_coredns_version": "v1.8.7-eksbuild.3", "addon_kubeproxy_version": "v1.23.8-eksbuild.2",
			"map_roles":       `[{ rolearn = "arn:aws:iam::111122223333:role/ops", username = "ops", groups = ["system:masters"] }]`,
			"service_account": `[{ name = "reader", namespace = "default" }]`,
			"karpenter_provider": `[{ provider_name = "batch", capacity_type = ["spot"], instance_family = ["c5", "m5"], instance_sizes = ["large"], availability_zones = ["eu-west-1a"],
				cpu_limit = "100", memory_limit = "400Gi", ttl_scaling_empty = 30, ttl_nodes = 3600 }]`,
		},
		breaks: interruptedAfter("eks:CreateNodegroup"),
		works:  func(t *testing.T, r root) { t.Helper(); hasStack(t, r, subnets) },
	}.run(t)
}

// oidcProvider makes the OIDC provider of the cluster for the time of a test, and returns its ARN. Users of IRSA have one.
func oidcProvider(t *testing.T) string {
	t.Helper()
	client := iam.NewFromConfig(userConfig())
	made, err := client.CreateOpenIDConnectProvider(t.Context(), &iam.CreateOpenIDConnectProviderInput{
		Url: aws.String(awsemu.Issuer(world.Region, world.Cluster)), ClientIDList: []string{"sts.amazonaws.com"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := client.DeleteOpenIDConnectProvider(context.WithoutCancel(t.Context()), &iam.DeleteOpenIDConnectProviderInput{OpenIDConnectProviderArn: made.OpenIDConnectProviderArn}); err != nil {
			t.Error(err)
		}
	})
	return *made.OpenIDConnectProviderArn
}

func interruptedAfter(action string) func(t *testing.T, r root) {
	return func(t *testing.T, r root) {
		t.Helper()
		r.interruptApply(t, action)
	}
}

// run takes an example from init to destroy. Not in parallel: they share a cluster and an account.
func (e trial) run(t *testing.T) {
	t.Helper()
	r := exampleRoot(t, e.example, e.vars)
	before := accountContents(t)
	r.runTofu(t, 0, "init", "-input=false")
	r.runTofu(t, 0, "validate")
	r.runTofu(t, 2, "plan", "-input=false", "-detailed-exitcode")
	t.Cleanup(func() { // also after a failure, so that the next example finds what it expects
		if t.Failed() {
			_ = r.tofuCommand(context.Background(), "destroy", "-auto-approve", "-input=false").Run()
		}
		runShell(t, "kubectl delete crd -l app.kubernetes.io/managed-by=Helm --timeout=60s")
	})
	e.breaks(t, r)
	r.runTofu(t, 0, "apply", "-auto-approve", "-input=false")
	r.runTofu(t, 0, "plan", "-input=false", "-detailed-exitcode")
	runShell(t, "kubectl rollout status deployment karpenter --timeout=60s -n "+e.namespace)
	runShell(t, "kubectl wait ec2nodeclass default --for=condition=Ready --timeout=60s")
	e.works(t, r)
	r.runTofu(t, 0, "destroy", "-auto-approve", "-input=false")
	sameAccount(t, before)
	cleanCluster(t)
}

// runShell runs a line of bash in the world, with the rights of an administrator.
func runShell(t *testing.T, line string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", "set -euo pipefail\n"+line)
	cmd.Env = append(slices.Clone(setting.env), "KUBECONFIG="+setting.world.ControlPlane.Kubeconfig)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("$ %s\nends with %v:\n%s", line, err, out)
	}
	return strings.TrimSpace(string(out))
}

// buysNodes shows that the controller that was installed works: pending pods get nodes. They stay until the end: destroying
// the installation has to remove them.
func buysNodes(t *testing.T) {
	t.Helper()
	runShell(t, "kubectl create deployment inflate --image=registry.k8s.io/pause:3.10 --replicas=3 && kubectl set resources deployment inflate --requests=cpu=1")
	t.Cleanup(func() { runShell(t, "kubectl delete deployment inflate") })
	runShell(t, "kubectl rollout status deployment inflate --timeout=180s")
	if nodes := runShell(t, "kubectl get nodes -l karpenter.sh/nodepool -o name"); nodes == "" {
		t.Error("the pods run, and there is no node of a NodePool")
	}
	launches := setting.world.AWS.Calls(wire.EC2, "CreateFleet")
	for _, c := range launches {
		if c.Role != "KarpenterControllerRole-sandbox" {
			t.Errorf("S-149: a fleet was made by role %q", c.Role)
		}
	}
	if len(launches) == 0 {
		t.Error("S-149: no fleet was made")
	}
	if polls := setting.world.AWS.Calls(wire.SQS, "ReceiveMessage"); len(polls) == 0 || !strings.HasSuffix(polls[0].Parameters["QueueUrl"], "/Karpenter-sandbox") {
		t.Errorf("S-149: the queue that was made is not read: %+v", polls)
	}
}

// cleanCluster checks that nothing of the controller is left in the cluster but the CRDs, whose deletion would take objects
// of others along.
func cleanCluster(t *testing.T) {
	t.Helper()
	want := "node/bootstrap-1.eu-west-1.compute.internal\nnode/bootstrap-2.eu-west-1.compute.internal"
	if left := runShell(t, "kubectl get nodes,nodepools,nodeclaims,ec2nodeclasses -o name"); left != want {
		t.Errorf("left in the cluster, besides the bootstrap group:\n%s", left)
	}
	if left := runShell(t, "helm list -A -q"); left != "" {
		t.Errorf("releases are left: %s", left)
	}
	if left := runShell(t, "kubectl get namespaces -o name"); left != "namespace/default\nnamespace/kube-node-lease\nnamespace/kube-public\nnamespace/kube-system" {
		t.Errorf("namespaces are left:\n%s", left)
	}
}

// userConfig is a client of AWS as the user has one.
func userConfig() aws.Config {
	return aws.Config{Region: world.Region, BaseEndpoint: aws.String(setting.world.AWSEndpoint), Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: "AKIASANDBOX", SecretAccessKey: "sandbox"}, nil
	})}
}

// untaggedSubnets are the subnets of the account, without the tags that the example puts there.
func untaggedSubnets(t *testing.T) []string {
	t.Helper()
	client := ec2.NewFromConfig(userConfig())
	out, err := client.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, s := range out.Subnets {
		ids = append(ids, *s.SubnetId)
	}
	slices.Sort(ids)
	if _, err := client.DeleteTags(t.Context(), &ec2.DeleteTagsInput{Resources: ids, Tags: []ec2types.Tag{{Key: aws.String("karpenter.sh/discovery")}, {Key: aws.String("kubernetes.io/role/internal-elb")}}}); err != nil {
		t.Fatal(err)
	}
	return ids
}

// hasStack checks what the full stack made besides what the module makes.
func hasStack(t *testing.T, r root, subnets []string) {
	t.Helper()
	client, name := eks.NewFromConfig(userConfig()), aws.String("backend")
	cluster, err := client.DescribeCluster(t.Context(), &eks.DescribeClusterInput{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	outputs := r.readOutputs(t)
	for output, want := range map[string]string{
		"endpoint": *cluster.Cluster.Endpoint, "kubeconfig-certificate-authority-data": *cluster.Cluster.CertificateAuthority.Data, "oidc_cluster_url": *cluster.Cluster.Identity.Oidc.Issuer,
	} {
		if outputs[output] != want {
			t.Errorf("S-164: output %s is %v, want %s", output, outputs[output], want)
		}
	}
	addon, err := client.DescribeAddon(t.Context(), &eks.DescribeAddonInput{ClusterName: name, AddonName: aws.String("vpc-cni")})
	if err != nil || *addon.Addon.AddonVersion != "v1.12.0-eksbuild.1" {
		t.Errorf("S-161: add-on vpc-cni: %+v, %v", addon, err)
	}
	addons, err := client.ListAddons(t.Context(), &eks.ListAddonsInput{ClusterName: name})
	if err != nil || !slices.Equal(addons.Addons, []string{"coredns", "eks-pod-identity-agent", "kube-proxy", "vpc-cni"}) {
		t.Errorf("S-165: add-ons %+v, %v", addons, err)
	}
	group, err := client.DescribeNodegroup(t.Context(), &eks.DescribeNodegroupInput{ClusterName: name, NodegroupName: aws.String("bootstrap")})
	if err != nil {
		t.Fatal(err)
	}
	g := group.Nodegroup
	taint := ekstypes.Taint{Key: aws.String("CriticalAddonsOnly"), Value: aws.String("true"), Effect: ekstypes.TaintEffectNoSchedule}
	if g.CapacityType != ekstypes.CapacityTypesOnDemand || !slices.Equal(g.InstanceTypes, []string{"t4g.medium"}) || *g.ScalingConfig.MinSize != 2 || *g.ScalingConfig.DesiredSize != 2 || *g.ScalingConfig.MaxSize != 3 ||
		len(g.Taints) != 1 || *g.Taints[0].Key != *taint.Key || *g.Taints[0].Value != *taint.Value || g.Taints[0].Effect != taint.Effect || g.LaunchTemplate == nil {
		t.Errorf("S-159: the bootstrap group is %+v", *g)
	}
	tags, err := ec2.NewFromConfig(userConfig()).DescribeTags(t.Context(), &ec2.DescribeTagsInput{Filters: []ec2types.Filter{
		{Name: aws.String("key"), Values: []string{"karpenter.sh/discovery"}},
		{Name: aws.String("value"), Values: []string{"backend"}},
		{Name: aws.String("resource-type"), Values: []string{"subnet", "security-group"}},
	}})
	if err != nil || len(tags.Tags) != len(subnets)+1 { // and the cluster's security group
		t.Errorf("S-165: %d resources carry the discovery tag, %v", len(tags.Tags), err)
	}
	if got := runShell(t, "kubectl get nodepools -o name"); got != "nodepool.karpenter.sh/batch" {
		t.Errorf("S-162: NodePools %s", got)
	}
	if got := runShell(t, "kubectl get configmap aws-auth -n kube-system -o yaml"); !strings.Contains(got, "role/ops") || !strings.Contains(got, "role/backend-node-group") {
		t.Errorf("S-163: aws-auth is\n%s", got)
	}
	if got := runShell(t, `kubectl get serviceaccount reader -o jsonpath='{.metadata.annotations.eks\.amazonaws\.com/role-arn}'`); got != "arn:aws:iam::111122223333:role/backend-default-reader" {
		t.Errorf("S-163: the service account has role %q", got)
	}
}

// An argument that the real provider does not have is refused here too: the double would else hide typos in the module.
func TestUnknownArguments(t *testing.T) {
	r := root{dir: t.TempDir()}
	text := `terraform {
  required_providers {
    aws = { source = "hashicorp/aws" }
  }
}

resource "aws_sqs_queue" "this" {
  name                   = "a"
  message_retention_secs = 300
}
`
	if err := os.WriteFile(filepath.Join(r.dir, "main.tf"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r.runTofu(t, 0, "init", "-input=false")
	if out := r.runTofu(t, 1, "validate"); !strings.Contains(out, `"message_retention_secs" is not expected here`) {
		t.Errorf("does not name the argument:\n%s", out)
	}
}

// Every file is as the formatter writes it.
func TestFormat(t *testing.T) {
	root{dir: setting.sources}.runTofu(t, 0, "fmt", "-check", "-diff", "-recursive")
}
