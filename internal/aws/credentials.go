package aws

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/aws/awserr"
)

// Variables that EKS puts into pods: of Pod Identity, and of IAM roles for service accounts (IRSA).
const (
	envAgent      = "AWS_CONTAINER_CREDENTIALS_FULL_URI"
	envAgentToken = "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"
	envWebToken   = "AWS_WEB_IDENTITY_TOKEN_FILE"
	envWebRole    = "AWS_ROLE_ARN"
	envNamespace  = "SYSTEM_NAMESPACE" // set by the chart
)

// withoutCredentials reports whether a call failed before it was sent, because the SDK found no credentials.
func withoutCredentials(err error) bool {
	text := fmt.Sprint(err)
	return strings.Contains(text, "get credentials:") || strings.Contains(text, "AssumeRoleWithWebIdentity")
}

// nameMissing says what of the way to credentials is missing, and the command or document that fixes it.
func nameMissing(err error, cluster string, env func(string) string) error {
	switch {
	case env(envAgent) != "":
		return nameMissingAssociation(err, cluster, env)
	case env(envWebToken) != "":
		return nameMissingTrust(err, cluster, env)
	}
	return fmt.Errorf("the controller has no credentials for AWS: give its service account a role with %s, or with the annotation eks.amazonaws.com/role-arn (chart value serviceAccount.annotations), and restart its pods; what EKS gives a pod is settled when the pod is created: %w",
		associationCommand(cluster, accountOf("", env(envNamespace))), err)
}

// nameMissingAssociation is for EKS Pod Identity. The agent passes on what EKS said as text, in one form or another.
func nameMissingAssociation(err error, cluster string, env func(string) string) error {
	account := accountOf(env(envAgentToken), env(envNamespace))
	switch text := err.Error(); {
	case strings.Contains(text, "ResourceNotFoundException"):
		return fmt.Errorf("EKS Pod Identity has no role for %s; run %s: %w", account, associationCommand(cluster, account), err)
	case strings.Contains(text, "AccessDeniedException"):
		return fmt.Errorf("EKS Pod Identity may not use the role that is associated with %s; its trust policy must allow pods.eks.amazonaws.com the actions sts:AssumeRole and sts:TagSession (iam/trust/controller-pod-identity.json): %w", account, err)
	case strings.Contains(text, "Exception"):
		return fmt.Errorf("EKS Pod Identity gives %s no credentials: %w", account, err)
	default:
		return fmt.Errorf("the agent of EKS Pod Identity at %s does not respond; run `aws eks create-addon --cluster-name %s --addon-name eks-pod-identity-agent`, or look at the pods of the add-on: %w", env(envAgent), cluster, err)
	}
}

// nameMissingTrust is for IAM roles for service accounts.
func nameMissingTrust(err error, cluster string, env func(string) string) error {
	account, role := accountOf(env(envWebToken), env(envNamespace)), env(envWebRole)
	switch code := awserr.Code(err); {
	case strings.Contains(fmt.Sprint(err), "No OpenIDConnect provider"):
		return fmt.Errorf("the account does not know who issues the tokens of the cluster; run `eksctl utils associate-iam-oidc-provider --cluster %s --approve`: %w", cluster, err)
	case awserr.Unauthorized(err):
		return fmt.Errorf("role %s does not exist, or does not trust %s; its trust policy must allow sts:AssumeRoleWithWebIdentity to the subject system:serviceaccount:%s with the audience sts.amazonaws.com (iam/trust/controller-irsa.json): %w", role, account, account.subject(), err)
	case code != "":
		return fmt.Errorf("STS gives no credentials for the web identity of %s: %w", account, err)
	default:
		return fmt.Errorf("STS gives no credentials for the web identity of %s; check the token in %s, and the endpoint and DNS of STS (without cluster DNS set dnsPolicy=Default): %w", account, env(envWebToken), err)
	}
}

// serviceAccount is that of the controller, as far as it is known.
type serviceAccount struct{ namespace, name string }

func (a serviceAccount) String() string {
	if a.name == "" {
		return "the service account of the controller"
	}
	return "service account " + a.name + " in namespace " + a.namespace
}

// subject is the end of the subject that its tokens have.
func (a serviceAccount) subject() string {
	return placeholder(a.namespace, "NAMESPACE") + ":" + placeholder(a.name, "SERVICE_ACCOUNT")
}

func placeholder(known, otherwise string) string {
	if known == "" {
		return otherwise
	}
	return known
}

// associationCommand is the command that gives the service account a role.
func associationCommand(cluster string, a serviceAccount) string {
	return fmt.Sprintf("`aws eks create-pod-identity-association --cluster-name %s --namespace %s --service-account %s --role-arn ROLE_ARN`",
		cluster, placeholder(a.namespace, "NAMESPACE"), placeholder(a.name, "SERVICE_ACCOUNT"))
}

// accountOf reads whose a token is. A token that cannot be read, or of no Kubernetes, says nothing.
func accountOf(file, namespace string) serviceAccount {
	unknown := serviceAccount{namespace: namespace}
	text, err := os.ReadFile(file)
	parts := strings.Split(string(text), ".")
	if err != nil || len(parts) != 3 {
		return unknown
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	if err != nil {
		return unknown
	}
	var claims struct {
		Subject string `json:"sub"`
	}
	if json.Unmarshal(payload, &claims) != nil {
		return unknown
	}
	of, found := strings.CutPrefix(claims.Subject, "system:serviceaccount:")
	space, name, whole := strings.Cut(of, ":")
	if !found || !whole {
		return unknown
	}
	return serviceAccount{namespace: space, name: name}
}
