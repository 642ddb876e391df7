package clients

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"
)

// S-114, S-116: the chart installs into a namespace that admits only pods of the restricted Pod Security level, judged by the API
// server, and all of its objects are accepted there. Not in parallel: other tests want a cluster without a controller.
func TestS_114_ChartInARestrictedNamespace(t *testing.T) {
	needAWS(t)
	chart, err := filepath.Abs(theChart)
	if err != nil {
		t.Fatal(err)
	}
	const violates = "violate"
	args := " -n restricted --set settings.clusterName=$CLUSTER_NAME,settings.clusterNme=typo,webhook.enabled=true"
	everything := args + ",networkPolicy.enabled=true,flowSchemas.enabled=true,podDisruptionBudget.maxUnavailable=50%,terminationGracePeriodSeconds=0,controller.resources.requests.cpu=100m,controller.env[0].name=A,controller.env[0].value=1"
	t.Cleanup(func() {
		stderr := ""
		if t.Failed() {
			stderr = "kubectl get pods,events -n restricted; kubectl logs -n restricted -l app.kubernetes.io/name=karpenter --tail=20 || true; "
		}
		cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "bash", "-ec", stderr+"helm uninstall karpenter -n restricted --ignore-not-found --wait --timeout 60s; kubectl delete namespace restricted --ignore-not-found")
		cmd.Dir, cmd.Env = shell.home, shell.env
		out, err := cmd.CombinedOutput()
		if err != nil || t.Failed() {
			t.Errorf("clean up: %v\n%s", err, out)
		}
	})
	performSteps(t, []step{
		{name: "namespace", run: "kubectl create namespace restricted && kubectl label namespace restricted pod-security.kubernetes.io/enforce=restricted pod-security.kubernetes.io/warn=restricted"},
		{
			name: "credentials", want: []string{"a-"}, save: "ASSOCIATION",
			run: `aws eks create-pod-identity-association --cluster-name "$CLUSTER_NAME" --namespace restricted --service-account karpenter \
				--role-arn arn:aws:iam::111122223333:role/KarpenterControllerRole-sandbox --query association.associationId --output text`,
		},
		{name: "the level is enforced", run: "kubectl run loose --image=busybox -n restricted", want: []string{`violates PodSecurity "restricted:latest"`}, fails: true},
		{name: "every object is accepted", run: "helm template karpenter " + chart + everything + " | kubectl apply --dry-run=server -f -", want: []string{"networkpolicy.networking.k8s.io/karpenter created", "flowschema.flowcontrol.apiserver.k8s.io/karpenter-leader-election created", "pod/karpenter-test created"}, avoid: []string{violates, "Warning"}},
		{name: "install", run: "helm install karpenter " + chart + args + " --wait --timeout 240s", want: []string{"STATUS: deployed", "These are no values of this chart and have no effect: settings.clusterNme, webhook."}, avoid: []string{violates}},
		{name: "it runs", run: "kubectl get deployment karpenter -n restricted", want: []string{"2/2"}},
		{name: "helm test", run: "helm test karpenter -n restricted --timeout 120s", want: []string{"karpenter-test", "Succeeded"}, avoid: []string{violates}},
		{name: "uninstall", run: "helm uninstall karpenter -n restricted --wait --timeout 60s", want: []string{`release "karpenter" uninstalled`}},
		{name: "no credentials", run: `aws eks delete-pod-identity-association --cluster-name "$CLUSTER_NAME" --association-id "$ASSOCIATION"`},
	})
}
