package clients

import (
	"testing"
)

const (
	first  = "bootstrap-1.eu-west-1.compute.internal"
	second = "bootstrap-2.eu-west-1.compute.internal"
)

// A workload that waits, runs and moves. Not in parallel: it needs a cluster in which every node has
// the taint of the bootstrap group.
func TestKubectlWorkload(t *testing.T) {
	performSteps(t, inNewNamespace("workload", []step{
		{
			name: "version", run: "kubectl version --warnings-as-errors",
			want: []string{"Client Version: " + shell.world.ControlPlane.Version, "Server Version: " + shell.world.ControlPlane.Version, "Version: v1."},
		},
		{name: "nodes join", run: "kubectl wait nodes --all --for=condition=Ready --timeout=60s", want: []string{first, second}},
		{name: "S-097 nodes", run: "kubectl get nodes", want: []string{first, second, " Ready ", "v1.37"}},
		{name: "S-097 nodes, watched", run: "kubectl get nodes --watch --request-timeout=1s", want: []string{first, second}},
		{
			name: "describe node", run: "kubectl describe node " + first,
			want: []string{"CriticalAddonsOnly=true:NoSchedule", "KubeletReady", "node.kubernetes.io/instance-type=", "Allocatable:", "aws:///eu-west-1"},
		},
		{
			name: "S-096 the old label", run: "kubectl label node " + second + " karpenter.sh/provisioner-name=default >/dev/null && kubectl get nodes -l karpenter.sh/provisioner-name",
			want: []string{second}, avoid: []string{first},
		},
		{name: "S-096 and away", run: "kubectl label node " + second + " karpenter.sh/provisioner-name-", want: []string{"unlabeled"}},
		{name: "create", run: "kubectl create deployment nginx --image=nginx --replicas=3", want: []string{"deployment.apps/nginx created"}},
		{
			name: "no node is for it", run: `kubectl wait deployment nginx --for=jsonpath='{.status.unavailableReplicas}'=3 --timeout=60s && ` +
				`kubectl wait pod -l app=nginx --for=jsonpath='{.status.conditions[?(@.type=="PodScheduled")].reason}'=Unschedulable --timeout=60s`,
			want: []string{"condition met"},
		},
		{
			name: "S-108 pending pods", run: "kubectl get pods --field-selector=status.phase=Pending",
			want: []string{"nginx-", "0/1", "Pending"}, avoid: []string{"Running"},
		},
		{name: "events arrive", run: "kubectl wait events --field-selector=reason=FailedScheduling --for=create --timeout=60s"},
		{
			name: "S-108 why", run: `kubectl describe pod "$(kubectl get events --field-selector=reason=FailedScheduling -o jsonpath='{.items[0].involvedObject.name}')"`,
			want: []string{"FailedScheduling", "0/2 nodes are available", "untolerated taint"},
		},
		{name: "S-102 events in order", run: "kubectl get events --sort-by=.lastTimestamp", want: []string{"FailedScheduling", "ScalingReplicaSet"}},
		{
			name: "tolerate", run: `kubectl patch deployment nginx -p '{"spec":{"template":{"spec":{"containers":[{"name":"nginx","resources":{"requests":{"cpu":"10m","memory":"8Mi"}}}],"terminationGracePeriodSeconds":1,"tolerations":[{"key":"CriticalAddonsOnly","operator":"Exists"}]}}}}'`,
			want: []string{"patched"},
		},
		{name: "rollout", run: "kubectl rollout status deployment nginx --timeout=60s", want: []string{"successfully rolled out"}},
		{name: "S-103 scale up", run: "kubectl scale deployment nginx --replicas=5", want: []string{"scaled"}},
		{name: "rollout of five", run: "kubectl rollout status deployment nginx --timeout=60s", want: []string{"successfully rolled out"}},
		{name: "S-109 metrics are served", run: "kubectl wait apiservice v1beta1.metrics.k8s.io --for=condition=Available --timeout=60s"},
		{name: "S-109 nodes, by use", run: "kubectl top nodes", want: []string{"CPU(cores)", "MEMORY(bytes)", first, second, "0m", "1%"}},
		{name: "S-109 one node", run: "kubectl top node " + first, want: []string{first}, avoid: []string{second}},
		{name: "S-109 pods, by use", run: "kubectl top pods -l app=nginx", want: []string{"nginx-", "10m", "8Mi"}},
		{name: "S-109 containers", run: "kubectl top pods --containers", want: []string{"POD", "NAME", "nginx"}},
		{name: "logs of a pod that runs nothing", run: "kubectl logs deployment/nginx", want: []string{"simulated"}},
		{name: "exec has nowhere to go", run: "kubectl exec deployment/nginx -- ls", want: []string{"has only logs and forwarded ports"}, fails: true},
		{name: "S-111 deployments", run: "kubectl get deploy", want: []string{"5/5"}},
		{name: "S-111 pods and their nodes", run: "kubectl get pods -o wide", want: []string{"Running", "10.", first, second}},
		{
			name: "drain", run: "kubectl drain " + second + " --ignore-daemonsets --delete-emptydir-data --timeout=60s",
			want: []string{"cordoned", "evicting pod workload/nginx-", "drained"},
		},
		{name: "cordoned", run: "kubectl get nodes", want: []string{"Ready,SchedulingDisabled"}},
		{name: "five again", run: "kubectl rollout status deployment nginx --timeout=60s", want: []string{"successfully rolled out"}},
		{name: "all on the other node", run: "kubectl get pods -o wide --field-selector=status.phase=Running", want: []string{first}, avoid: []string{second}},
		{name: "uncordon", run: "kubectl uncordon " + second, want: []string{"uncordoned"}},
		{name: "S-103 scale down", run: "kubectl scale deployment nginx --replicas=0 && kubectl wait pod -l app=nginx --for=delete --timeout=60s"},
		{name: "delete", run: "kubectl delete deployment nginx", want: []string{"deleted"}},
	}))
}

// The kinds of Karpenter through the eyes of kubectl. There is no controller: the conditions are set
// by hand, to see that the columns show them.
func TestKubectlKinds(t *testing.T) {
	condition := func(status, reason, message string) string {
		return `{"status":{"conditions":[{"type":"Ready","status":"` + status + `","reason":"` + reason + `","message":"` + message + `","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`
	}
	performSteps(t, []step{
		{
			name: "S-099 CRDs", run: "kubectl get crd | grep karpenter",
			want: []string{"nodepools.karpenter.sh", "nodeclaims.karpenter.sh", "nodeoverlays.karpenter.sh", "ec2nodeclasses.karpenter.k8s.aws"},
		},
		{name: "S-091 no pools yet", run: "kubectl get nodepools", want: []string{"No resources found"}},
		{name: "explain", run: "kubectl explain nodepool.spec.disruption.consolidateAfter", want: []string{"karpenter.sh", "consolidateAfter"}},
		{name: "apply", run: `kubectl apply -f "$TESTDATA/pool.yaml"`, want: []string{"ec2nodeclass.karpenter.k8s.aws/default created", "nodepool.karpenter.sh/default created"}},
		{name: "apply again", run: `kubectl apply -f "$TESTDATA/pool.yaml"`, want: []string{"nodepool.karpenter.sh/default unchanged"}},
		{name: "ready pool", run: "kubectl patch nodepool default --subresource=status --type merge -p '" + condition("True", "Ready", "") + "'"},
		{name: "class that is not", run: "kubectl patch ec2nodeclass default --subresource=status --type merge -p '" + condition("False", "SubnetsNotFound", "no subnet has these tags") + "'"},
		{name: "S-091 pools", run: "kubectl get nodepools", want: []string{"NODECLASS", "READY", "default", "True"}},
		{name: "S-091 limits", run: "kubectl get nodepool -o yaml | grep limits -A 5", want: []string{`cpu: "100"`, "memory: 400Gi"}},
		{name: "S-092 classes", run: "kubectl get ec2nodeclasses", want: []string{"READY", "default", "False"}},
		{name: "S-092 why not", run: "kubectl describe ec2nodeclass default", want: []string{"SubnetsNotFound", "no subnet has these tags", "al2023@latest"}},
		{name: "S-093 policy and conditions", run: "kubectl describe nodepool default", want: []string{"WhenEmptyOrUnderutilized", "Consolidate After:", "Conditions:", "Type:"}},
		{name: "S-058, S-094 claims", run: "kubectl get nodeclaims", want: []string{"TYPE", "CAPACITY", "ZONE", "NODE", "READY", "default-abcde"}},
		{name: "S-058, S-094 one claim", run: "kubectl describe nodeclaim default-abcde", want: []string{"karpenter.sh/nodepool=default", "m5.large"}},
		{
			name: "everything of the category", run: "kubectl get karpenter",
			want: []string{"nodepool.karpenter.sh/default", "nodeclaim.karpenter.sh/default-abcde", "ec2nodeclass.karpenter.k8s.aws/default"},
		},
		{name: "S-104 consolidate sooner", run: `kubectl patch nodepool default --type merge -p '{"spec":{"disruption":{"consolidateAfter":"10s"}}}'`, want: []string{"patched"}},
		{name: "S-104 it is written", run: "kubectl get nodepool default -o jsonpath='{.spec.disruption.consolidateAfter}'", want: []string{"10s"}},
		{name: "S-105 an annotation that is not there", run: "kubectl annotate nodepool default karpenter.sh/do-not-disrupt-"},
		{
			name: "a field that does not exist", run: `sed 's/consolidateAfter/consolidateLater/' "$TESTDATA/pool.yaml" | kubectl apply -f -`,
			want: []string{`unknown field "spec.disruption.consolidateLater"`}, fails: true,
		},
		{name: "delete", run: "kubectl delete nodeclaim,nodepool,ec2nodeclass --all --timeout=60s", want: []string{"default-abcde", "deleted"}},
	})
}
