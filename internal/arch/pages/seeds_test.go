package pages_test

import (
	"strings"
	"testing"
)

// What the seeds want documented, and the page that has it.
func TestSeedsThatAreDocumentation(t *testing.T) {
	t.Parallel()
	for seed, want := range map[string]struct {
		page  string
		texts []string
	}{
		"S-014 comparison with Cluster Autoscaler": {"docs/explanation/cluster-autoscaler.md", []string{
			"| Architecture |", "| Speed |", "| Selection of instances |", "| Cost |", "| Configuration |", "| Flexibility |", "| Multi-AZ |", "| Consolidation |", "| Spot |",
			"| Taints and tolerations |", "| Bin packing |", "| Complexity |", "| Maturity |", "## When to use which", "15 to 45 s", "3 to 5 minutes",
		}},
		"S-015 beside HPA and VPA": {"docs/how-to/pod-autoscalers.md", []string{"HorizontalPodAutoscaler", "VerticalPodAutoscaler", "KEDA"}},
		"S-032 what spot saves":    {"docs/how-to/use-spot.md", []string{"60 to 90 % less than on-demand"}},
		"S-035 supported versions": {"docs/how-to/upgrade.md", []string{"| Kubernetes, EKS | 1.28 and later", "Karpenter 1.0.0 and later", "20.31 and later"}},
		"S-054 migration from Cluster Autoscaler": {"docs/how-to/migrate-from-cluster-autoscaler.md", []string{
			"Install beside it", "a workload that does not matter", "Move gradually", "then remove it", "Both can run side by side",
			"eks.amazonaws.com/nodegroup", "kubectl scale deployment cluster-autoscaler -n kube-system --replicas=0", "karpenter.sh/discovery",
		}},
		"S-119 a bootstrap node group": {"docs/how-to/high-availability.md", []string{"bootstrap node group", "evicts itself"}},
		"S-120 its values":             {"docs/how-to/high-availability.md", []string{"t4g.medium", "minimum 2, desired 2, maximum 3", "CriticalAddonsOnly=true:NoSchedule", "`NO_SCHEDULE`", "CoreDNS"}},
		"S-121 an initial node":        {"docs/how-to/install-eksctl.md", []string{"--node-type t3.medium --nodes 1 --nodes-min 1 --nodes-max 3", "At least one node must exist before the controller does"}},
		"S-124 eksctl, with flags": {"docs/how-to/install-eksctl.md", []string{
			"eksctl create cluster --name", "--region us-east-1", "--version", "--nodegroup-name", "--node-type", "--nodes ", "--nodes-min", "--nodes-max", "--with-oidc", "--managed",
		}},
		"S-124 eksctl, with a file":       {"examples/eksctl/cluster.yaml", []string{"kind: ClusterConfig", "region: us-east-1", "withOIDC: true", "managedNodeGroups:", "instanceType: t3.medium", "eks-pod-identity-agent"}},
		"S-125 variables":                 {"docs/how-to/install.md", []string{"export CLUSTER_NAME=", "export AWS_DEFAULT_REGION=", "export AWS_ACCOUNT_ID=", "export TEMPOUT="}},
		"S-194 a namespace of its own":    {"docs/how-to/install.md", []string{"kubectl create namespace karpenter"}},
		"S-132 load balancers":            {"docs/how-to/load-balancers.md", []string{"Optional", "aws-load-balancer-controller"}},
		"S-133 the order of an uninstall": {"docs/how-to/uninstall.md", []string{"helm uninstall karpenter", "kubectl delete crd nodepools.karpenter.sh", "setup-karpenter-iam.sh delete", "eksctl delete cluster"}},
		"S-136 who pays":                  {"docs/how-to/uninstall.md", []string{"You pay for instances"}},
		"S-144 settings of the termination handler": {"docs/how-to/termination-handler.md", []string{
			"IMDS mode", "| spot interruption draining | on |", "| SQS draining (queue mode) | off", "| rebalance draining | off", "| scheduled event draining | off",
			"| delete local data, ignore DaemonSets | on |", "120 s, -1", "| metadata tries | 3 |", "| metrics port | 9092 |",
		}},
		"S-145 log of the termination handler": {"docs/how-to/termination-handler.md", []string{"account, zone, instance id and type, addresses", "the arguments", "watches for interruption events", "SPOT_ITN"}},
		"S-173 S-174 old lines of the log":     {"docs/how-to/migrate-from-karpenter.md", []string{"| launched instance: id, host name, type, zone, capacity type, provisioner | `launched nodeclaim`", "`\"reason\":\"empty\"`", "`tainted node`", "`deleted node`"}},
		"S-195 logs of a pod":                  {"docs/how-to/migrate-from-karpenter.md", []string{"`kubectl logs -f POD -n NAMESPACE`"}},
		"S-152 the submodule of terraform-aws-modules": {"docs/how-to/install-terraform.md", []string{
			"terraform-aws-modules/eks/aws//modules/karpenter", "module.karpenter.queue_name", "module.karpenter.service_account", "enable_v1_permissions", "node_iam_role_name",
		}},
		"S-183 consolidation too aggressive": {"docs/how-to/tune-consolidation.md", []string{"## Consolidation is too aggressive", "`WhenEmpty`", "longer `consolidateAfter`", "karpenter.sh/do-not-disrupt=true"}},
		"S-186 the trap of self-eviction":    {"docs/how-to/high-availability.md", []string{"## Run the controller on nodes that it does not manage", "evicts itself"}},
		"S-187 flexible requirements":        {"docs/how-to/use-spot.md", []string{"instance-category In [c, m, r]", `instance-generation Gt ["2"]`, "List specific types only if a workload requires them"}},
		"S-188 spot and a fallback":          {"docs/how-to/use-spot.md", []string{"## Two pools", "examples/nodepools/fallback.yaml", "## Allow many instance types"}},
		"S-189 requests and limits":          {"docs/how-to/set-requests.md", []string{"requests: {cpu: 100m, memory: 128Mi}", "limits: {cpu: 200m, memory: 256Mi}", "Always set requests"}},
		"S-181 without requests":             {"docs/how-to/set-requests.md", []string{"A pod without requests is scheduled", "LimitRange"}},
		"S-190 stateful workloads":           {"docs/how-to/stateful-workloads.md", []string{"terminationGracePeriodSeconds: 120", `karpenter.sh/do-not-disrupt: "true"`}},
		"S-191 presets":                      {"docs/how-to/tune-consolidation.md", []string{"Aggressive: batch, development", "Conservative: production", "`30s` | `5m`"}},
		"S-192 diagrams": {"docs/explanation/architecture.md", []string{
			"controller", "kube-scheduler", "EC2", "SQS", "IAM", "## A pod becomes a node", "## Pods move together", "stateDiagram", "## Bootstrap nodes and managed nodes", "sequenceDiagram",
		}},
		"S-193 further reading": {"docs/explanation/architecture.md", []string{
			"https://karpenter.sh/docs/concepts/", "https://www.eksworkshop.com/", "https://docs.aws.amazon.com/eks/latest/best-practices/karpenter.html",
			"https://registry.terraform.io/modules/terraform-aws-modules/eks/aws/latest/submodules/karpenter", "https://github.com/kubernetes/autoscaler/tree/master/cluster-autoscaler",
		}},
		"S-202 values of charts 1.0.x": {"docs/how-to/migrate-from-karpenter.md", []string{"Values of charts 1.0.0 and 1.0.1 are accepted", "--reset-then-reuse-values", "Not `--reuse-values`", "meta.helm.sh/release-name=karpenter-crd"}},
	} {
		page := read(t, want.page)
		for _, text := range want.texts {
			if !strings.Contains(page, text) {
				t.Errorf("%s: %s does not say %q", seed, want.page, text)
			}
		}
	}
}
