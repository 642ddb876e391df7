package aws

import (
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
			if err := reachable(t.Context(), c.ec2, c.region); err != nil {
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
