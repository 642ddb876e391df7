package clients

import (
	"testing"
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
	perform(t, namespace("identity", []step{
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
