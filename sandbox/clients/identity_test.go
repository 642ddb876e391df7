package clients

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/sandbox/world"
)

// What pods do with the tokens that EKS puts into them, step by step: the tokens are those of the cluster, and the account
// believes no others.
func TestS_122_S_123_TokensOfServiceAccounts(t *testing.T) {
	t.Parallel()
	needAWS(t)
	const role = `arn:aws:iam::111122223333:role/clients-irsa`
	const provider = `oidc.eks.eu-west-1.amazonaws.com/id/SANDBOX`
	const trust = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Federated":"arn:aws:iam::111122223333:oidc-provider/` + provider + `"},` +
		`"Action":"sts:AssumeRoleWithWebIdentity","Condition":{"StringEquals":{"` + provider + `:sub":"system:serviceaccount:identity:karpenter","` + provider + `:aud":"sts.amazonaws.com"}}}]}`
	const web = "aws sts assume-role-with-web-identity --role-arn " + role + " --role-session-name clients --web-identity-token"
	const agent = `curl -sS -H "Authorization: $(kubectl create token karpenter --audience pods.eks.amazonaws.com)" "$AWS_ENDPOINT_URL/_dovetail-credentials"`
	performSteps(t, inNewNamespace("identity", []step{
		{name: "service account", run: "kubectl create serviceaccount karpenter"},
		{name: "the issuer is the cluster's", run: "kubectl get --raw /.well-known/openid-configuration", want: []string{"https://" + provider}},
		{name: "as EKS says", run: `aws eks describe-cluster --name "$CLUSTER_NAME" --query cluster.identity.oidc.issuer`, want: []string{"https://" + provider}},
		{name: "the account knows it", run: "aws iam list-open-id-connect-providers", want: []string{":oidc-provider/" + provider}},
		{name: "a role", run: `aws iam create-role --role-name clients-irsa --assume-role-policy-document '` + trust + `'`, want: []string{role}},
		{name: "S-123 its token opens the role", run: web + ` "$(kubectl create token karpenter --audience sts.amazonaws.com)"`, want: []string{"ASIA", "system:serviceaccount:identity:karpenter"}},
		{name: "S-123 no other account's", run: web + ` "$(kubectl create token default --audience sts.amazonaws.com)"`, want: []string{"Not authorized to perform sts:AssumeRoleWithWebIdentity"}, fails: true},
		{name: "S-123 nor for another audience", run: web + ` "$(kubectl create token karpenter)"`, want: []string{"Incorrect token audience"}, fails: true},
		{name: "S-122 no association", run: agent, want: []string{"No pod identity association was found", "identity"}},
		{
			name: "S-122 associate", run: `aws eks create-pod-identity-association --cluster-name "$CLUSTER_NAME" --namespace identity --service-account karpenter --role-arn ` + role + ` --query association.associationId --output text`,
			want: []string{"a-"}, save: "ASSOCIATION",
		},
		{name: "S-122 the role does not trust", run: agent, want: []string{"EKS does not have permissions to assume the associated role"}},
		{name: "S-122 the one that does", run: `aws eks update-pod-identity-association --cluster-name "$CLUSTER_NAME" --association-id "$ASSOCIATION" --role-arn arn:aws:iam::111122223333:role/KarpenterControllerRole-sandbox`},
		{name: "S-122 credentials", run: agent, want: []string{"ASIA", "Expiration"}},
		{name: "delete", run: `aws eks delete-pod-identity-association --cluster-name "$CLUSTER_NAME" --association-id "$ASSOCIATION" && aws iam delete-role --role-name clients-irsa`},
	}))
}

// installSteps is what helm does with the chart in namespace $NS; more sets values.
func installSteps(more string) string {
	return `helm install karpenter "$TESTDATA/../../../charts/karpenter" -n $NS --create-namespace --set settings.clusterName="$CLUSTER_NAME",replicas=1 \
		--set controller.resources.requests.cpu=100m,controller.resources.requests.memory=128Mi ` + more
}

// firstLines waits until the first lines of the log of a pod of the controller have a text, and prints them.
func firstLines(text string) string {
	return `for i in $(seq 300); do
		out=$(kubectl logs -n $NS -l app.kubernetes.io/name=karpenter --tail=-1 2>&1 | head -5 || true)
		if grep -qF '` + text + `' <<< "$out"; then echo "$out"; exit; fi
		sleep 0.5
	done; echo "$out"; exit 1`
}

// restarted replaces the pods, as one has to after the association or the trust has changed.
const restarted = "kubectl rollout restart deployment karpenter -n $NS && kubectl rollout status deployment karpenter -n $NS --timeout=180s"

// A node is launched for a pod, with the credentials of a role, and goes again.
func launchSteps(role string) []step {
	return []step{
		{name: "a class, a pool and a pod", run: `kubectl apply -f - <<YAML
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: $NS}
spec:
  role: KarpenterNodeRole-sandbox
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: sandbox}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: sandbox}}]
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: $NS}
spec:
  template:
    spec:
      requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}]
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: $NS}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: $NS}
spec:
  terminationGracePeriodSeconds: 0
  nodeSelector: {karpenter.sh/nodepool: $NS}
  containers: [{name: web, image: pause, resources: {requests: {cpu: 1}}}]
YAML`},
		{name: "S-129 a node is launched", run: "kubectl wait pod web -n $NS --for=condition=Ready --timeout=240s && kubectl get nodes -l karpenter.sh/nodepool=$NS", want: []string{"Ready"}},
		{
			name: "by the role, and by no other identity", run: `curl -sf "$AWS_ENDPOINT_URL/_dovetail/calls?service=ec2&action=CreateFleet" | tr -d ' \n' | grep -o '"action":"CreateFleet","key":"ASIA[^"]*","role":"` + role + `"' | sort -u`,
			want: []string{role},
		},
		{name: "no keys are in the pod", run: "kubectl get pods -n $NS -l app.kubernetes.io/name=karpenter -o yaml", want: []string{"AWS_", "serviceAccountToken"}, avoid: []string{"AWS_ACCESS_KEY_ID"}},
		{name: "the node goes", run: "kubectl delete pod web -n $NS && kubectl delete nodepool $NS --timeout=240s && kubectl wait nodeclaim -l karpenter.sh/nodepool=$NS --for=delete --timeout=240s; kubectl delete ec2nodeclass $NS --timeout=120s"},
		{name: "and the release", run: "helm uninstall karpenter -n $NS --no-hooks --wait --timeout 120s"},
	}
}

// runIdentitySteps runs steps with $NS as the namespace. Its controller goes whatever happens: other tests want a cluster without.
func runIdentitySteps(t *testing.T, ns string, lists ...[]step) {
	t.Helper()
	t.Cleanup(func() {
		if err := shell.world.Uninstall(context.WithoutCancel(t.Context()), world.Installation{Namespace: ns}); err != nil {
			t.Error(err)
		}
	})
	var all []step
	for _, s := range slices.Concat(lists...) {
		s.run = strings.ReplaceAll(s.run, "$NS", ns)
		all = append(all, s)
	}
	performSteps(t, all)
}

const controllerRole = "KarpenterControllerRole-sandbox"

// S-123, S-129: the chart with IAM roles for service accounts. A role whose trust names another namespace is named in the
// first lines of the log, with what its trust has to say; then the controller launches a node. Not in parallel: one
// controller at a time.
func TestS_123_TheChartWithIRSA(t *testing.T) {
	needAWS(t)
	const role = "arn:aws:iam::111122223333:role/irsa-controller"
	trust := func(namespace string) string {
		return `sed "s|\${partition}|aws|; s|\${account_id}|111122223333|; s|\${oidc_provider}|oidc.eks.eu-west-1.amazonaws.com/id/SANDBOX|; s|\${namespace}|` + namespace + `|; s|\${service_account}|karpenter|" "$TESTDATA/../../../iam/trust/controller-irsa.json" > trust.json`
	}
	runIdentitySteps(t, "irsa", []step{
		{name: "the account knows the issuer of the cluster", run: "aws iam list-open-id-connect-providers", want: []string{":oidc-provider/oidc.eks.eu-west-1.amazonaws.com/id/SANDBOX"}},
		{name: "a role that trusts another namespace", run: trust("elsewhere") + " && aws iam create-role --role-name irsa-controller --assume-role-policy-document file://trust.json", want: []string{role}},
		{name: "with the policies of the guide", run: `for arn in $(aws iam list-attached-role-policies --role-name ` + controllerRole + ` --query 'AttachedPolicies[].PolicyArn' --output text); do aws iam attach-role-policy --role-name irsa-controller --policy-arn $arn; done`},
		{name: "install", run: installSteps(`--set "serviceAccount.annotations.eks\.amazonaws\.com/role-arn=` + role + `"`), want: []string{"STATUS: deployed"}},
		{
			name: "the log says whom the role has to trust", run: firstLines("does not trust"),
			want: []string{role, "service account karpenter in namespace irsa", "system:serviceaccount:irsa:karpenter", "controller-irsa.json"},
		},
		{name: "the role trusts it", run: trust("irsa") + " && aws iam update-assume-role-policy --role-name irsa-controller --policy-document file://trust.json"},
		{name: "it runs", run: restarted},
		{name: "with a token", run: "kubectl get pods -n $NS -l app.kubernetes.io/name=karpenter -o yaml", want: []string{"AWS_WEB_IDENTITY_TOKEN_FILE", role, "audience: sts.amazonaws.com"}},
	}, launchSteps("irsa-controller"))
}

// S-122, S-129: the chart with EKS Pod Identity. Without an association, and with one to a role that does not trust EKS, the
// first lines of the log name the command and the document; then the controller launches a node. Not in parallel: one
// controller at a time.
func TestS_122_TheChartWithPodIdentity(t *testing.T) {
	needAWS(t)
	const associate = `aws eks create-pod-identity-association --cluster-name sandbox --namespace podidentity --service-account `
	runIdentitySteps(t, "podidentity", []step{
		{name: "the agent", run: `aws eks create-addon --cluster-name "$CLUSTER_NAME" --addon-name eks-pod-identity-agent && aws eks describe-addon --cluster-name "$CLUSTER_NAME" --addon-name eks-pod-identity-agent`, want: []string{"ACTIVE"}},
		{name: "install", run: installSteps(""), want: []string{"STATUS: deployed"}},
		{name: "the log names the command", run: firstLines("has no credentials for AWS"), want: []string{associate, "eks.amazonaws.com/role-arn", "restart its pods"}},
		{name: "a role that only EC2 may use", run: associate + `karpenter --role-arn arn:aws:iam::111122223333:role/KarpenterNodeRole-sandbox --query association.associationId --output text`, save: "ASSOCIATION"},
		{name: "new pods", run: "kubectl rollout restart deployment karpenter -n $NS"},
		{name: "the log names the document", run: firstLines("EKS Pod Identity may not use the role"), want: []string{"service account karpenter in namespace podidentity", "sts:TagSession", "controller-pod-identity.json"}},
		{name: "the role of the controller", run: `aws eks update-pod-identity-association --cluster-name "$CLUSTER_NAME" --association-id "$ASSOCIATION" --role-arn arn:aws:iam::111122223333:role/` + controllerRole},
		{name: "it runs", run: restarted},
		{name: "with a token", run: "kubectl get pods -n $NS -l app.kubernetes.io/name=karpenter -o yaml", want: []string{"AWS_CONTAINER_CREDENTIALS_FULL_URI", "audience: pods.eks.amazonaws.com"}},
	}, launchSteps(controllerRole), []step{
		{name: "no association any more", run: `aws eks delete-pod-identity-association --cluster-name "$CLUSTER_NAME" --association-id "$ASSOCIATION" && aws eks delete-addon --cluster-name "$CLUSTER_NAME" --addon-name eks-pod-identity-agent`},
	})
}
