package aws

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dovetail-sh/dovetail/internal/metric"
)

// Credentials come from where the SDK finds them: variables, the web identity of the service account
// (IRSA), or the agent of EKS pod identity (13.3). It is not parallel: the SDK reads the environment.
func TestCredentialsOfTheDefaultChain(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("identity"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		env  func(url string) map[string]string
		want string // the access key that a call is signed with
	}{
		"variables": {want: "AKIAENV", env: func(string) map[string]string {
			return map[string]string{"AWS_ACCESS_KEY_ID": "AKIAENV", "AWS_SECRET_ACCESS_KEY": "secret"}
		}},
		"IRSA": {want: "ASIAWEB", env: func(string) map[string]string {
			return map[string]string{"AWS_ROLE_ARN": "arn:aws:iam::111122223333:role/controller", "AWS_WEB_IDENTITY_TOKEN_FILE": token}
		}},
		"pod identity": {want: "ASIAPOD", env: func(url string) map[string]string {
			return map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": url + "/pod", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": token}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			signed := ""
			web := httptest.NewServer(account(&signed))
			t.Cleanup(web.Close)
			env := tc.env(web.URL)
			for _, key := range []string{
				"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE",
				"AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "AWS_PROFILE",
			} {
				t.Setenv(key, env[key])
			}
			for key, value := range map[string]string{
				"AWS_ENDPOINT_URL": web.URL, "AWS_ENDPOINT_URL_STS": web.URL, "AWS_REGION": "eu-west-1", "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
				"AWS_EC2_METADATA_DISABLED": "true",
			} {
				t.Setenv(key, value)
			}
			c, err := newClients(t.Context(), "v1", metric.New(prometheus.NewRegistry()))
			if err != nil {
				t.Fatal(err)
			}
			if err := checkReachable(t.Context(), c.ec2, c.region, "sandbox"); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(signed, "Credential="+tc.want+"/") {
				t.Errorf("the call is signed as %q, want %s", signed, tc.want)
			}
		})
	}
}

// account is STS, the agent of pod identity, and EC2, which notes how a call was signed.
func account(signed *string) http.Handler {
	const until = "2100-01-01T00:00:00Z"
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/pod" {
			if r.Header.Get("Authorization") != "identity" {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			fmt.Fprintf(w, `{"AccessKeyId":"ASIAPOD","SecretAccessKey":"s","Token":"t","Expiration":%q}`, until)
			return
		}
		if err := r.ParseForm(); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if r.PostForm.Get("Action") == "AssumeRoleWithWebIdentity" && r.PostForm.Get("WebIdentityToken") == "identity" {
			fmt.Fprintf(w, `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult><Credentials>`+
				`<AccessKeyId>ASIAWEB</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken><Expiration>%s</Expiration>`+
				`</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`, until)
			return
		}
		*signed = r.Header.Get("Authorization")
		w.WriteHeader(http.StatusPreconditionFailed)
		fmt.Fprint(w, `<Response><Errors><Error><Code>DryRunOperation</Code><Message>ok</Message></Error></Errors><RequestID>r</RequestID></Response>`)
	})
}

// S-122, S-123: a pod without credentials says what is missing, for which service account, and what fixes it. The errors are
// those of the SDK: only the services are played. It is not parallel: the SDK reads the environment.
func TestS_122_S_123_MissingCredentialsNameTheFix(t *testing.T) {
	claims := base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"system:serviceaccount:karpenter:scaler"}`))
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("e30."+claims+".c2ln"), 0o600); err != nil {
		t.Fatal(err)
	}
	const role = "arn:aws:iam::111122223333:role/controller"
	const associate = "aws eks create-pod-identity-association --cluster-name sandbox --namespace karpenter --service-account scaler "
	agent := map[string]string{envAgent: "URL/pod", envAgentToken: token}
	web := map[string]string{envWebRole: role, envWebToken: token}
	sts := func(code, message string) string {
		return `<ErrorResponse><Error><Type>Sender</Type><Code>` + code + `</Code><Message>` + message + `</Message></Error><RequestId>r</RequestId></ErrorResponse>`
	}
	for name, tc := range map[string]struct {
		env    map[string]string
		status int
		body   string
		want   []string
	}{
		"neither":                          {env: map[string]string{envNamespace: "karpenter"}, want: []string{"has no credentials for AWS", "--namespace karpenter --service-account SERVICE_ACCOUNT", "eks.amazonaws.com/role-arn", "restart its pods"}},
		"pod identity: no association":     {agent, 404, `{"code":"ResourceNotFoundException","message":"none"}`, []string{"has no role for service account scaler in namespace karpenter", associate}},
		"pod identity: the trust":          {agent, 403, `[f2c1]: (AccessDeniedException): Unauthorized Exception! EKS does not have permissions to assume the associated role., fault: client`, []string{"trust policy must allow pods.eks.amazonaws.com", "sts:TagSession", "controller-pod-identity.json"}},
		"pod identity: a token too old":    {agent, 400, `{"code":"ExpiredTokenException","message":"old"}`, []string{"EKS Pod Identity gives service account scaler in namespace karpenter no credentials", "ExpiredTokenException"}},
		"pod identity: no agent":           {env: map[string]string{envAgent: "http://127.0.0.1:1/pod", envAgentToken: token}, want: []string{"http://127.0.0.1:1/pod does not respond", "aws eks create-addon --cluster-name sandbox --addon-name eks-pod-identity-agent"}},
		"IRSA: another namespace is named": {web, 403, sts("AccessDenied", "Not authorized to perform sts:AssumeRoleWithWebIdentity"), []string{role, "does not trust service account scaler in namespace karpenter", "subject system:serviceaccount:karpenter:scaler", "controller-irsa.json"}},
		"IRSA: no provider":                {web, 400, sts("InvalidIdentityToken", "No OpenIDConnect provider found in your account for https://oidc"), []string{"eksctl utils associate-iam-oidc-provider --cluster sandbox"}},
		"IRSA: another audience":           {web, 400, sts("InvalidIdentityToken", "Incorrect token audience"), []string{"web identity of service account scaler in namespace karpenter", "Incorrect token audience"}},
		"IRSA: STS out of reach":           {env: map[string]string{envWebRole: role, envWebToken: token, "AWS_ENDPOINT_URL_STS": "http://127.0.0.1:1"}, want: []string{"dnsPolicy=Default"}},
		"IRSA: no token":                   {env: map[string]string{envWebRole: role, envWebToken: "/does/not/exist"}, want: []string{"the service account of the controller", "/does/not/exist"}},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tc.status)
				fmt.Fprint(w, tc.body)
			}))
			t.Cleanup(server.Close)
			for _, key := range []string{
				"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", envWebRole, envWebToken, envAgent, envAgentToken, envNamespace,
			} {
				t.Setenv(key, strings.Replace(tc.env[key], "URL", server.URL, 1))
			}
			for key, value := range map[string]string{
				"AWS_ENDPOINT_URL": server.URL, "AWS_ENDPOINT_URL_STS": cmp.Or(tc.env["AWS_ENDPOINT_URL_STS"], server.URL), "AWS_REGION": "eu-west-1", "AWS_CONFIG_FILE": "/dev/null",
				"AWS_SHARED_CREDENTIALS_FILE": "/dev/null", "AWS_EC2_METADATA_DISABLED": "true", "AWS_MAX_ATTEMPTS": "1",
			} {
				t.Setenv(key, value)
			}
			c, err := newClients(t.Context(), "v1", metric.New(prometheus.NewRegistry()))
			if err != nil {
				t.Fatal(err)
			}
			err = checkReachable(t.Context(), c.ec2, c.region, "sandbox")
			for _, text := range tc.want {
				if err == nil || !strings.Contains(err.Error(), text) {
					t.Errorf("%v\nwant %q", err, text)
				}
			}
		})
	}
}
