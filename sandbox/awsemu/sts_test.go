package awsemu

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

const controllerRoleARN = "arn:aws:iam::111122223333:role/KarpenterControllerRole-sandbox"

func TestCallerIdentity(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	client, ctx := sts.NewFromConfig(c.cfg), t.Context()
	user, err := client.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	check(t, err)
	if *user.Account != "111122223333" || *user.Arn != "arn:aws:iam::111122223333:user/AKIDTEST" || *user.UserId != "AKIDTEST" {
		t.Errorf("user %+v", user)
	}
	c.setTrust(t, accountTrust)
	assumed, err := client.AssumeRole(ctx, &sts.AssumeRoleInput{RoleArn: aws.String(controllerRoleARN), RoleSessionName: aws.String("me")})
	check(t, err)
	if left := time.Until(*assumed.Credentials.Expiration); left < 50*time.Minute || left > time.Hour {
		t.Errorf("expires in %s", left)
	}
	cfg := c.cfg.Copy()
	cfg.Credentials = credentials.NewStaticCredentialsProvider(*assumed.Credentials.AccessKeyId, *assumed.Credentials.SecretAccessKey, *assumed.Credentials.SessionToken)
	role, err := sts.NewFromConfig(cfg).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	check(t, err)
	if *role.Arn != "arn:aws:sts::111122223333:assumed-role/KarpenterControllerRole-sandbox/me" || !strings.HasSuffix(*role.UserId, ":me") {
		t.Errorf("role %+v", role)
	}
}

func TestSTSErrors(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	client, ctx := sts.NewFromConfig(c.cfg), t.Context()
	web := func(role, session, token string) error {
		_, err := client.AssumeRoleWithWebIdentity(ctx, &sts.AssumeRoleWithWebIdentityInput{RoleArn: &role, RoleSessionName: &session, WebIdentityToken: &token})
		return err
	}
	c.setTrust(t, irsaTrust("kube-system", "karpenter"))
	good := irsaToken(t)
	check(t, web(controllerRoleARN, "s", good))
	_, durationErr := client.AssumeRole(ctx, &sts.AssumeRoleInput{RoleArn: aws.String(controllerRoleARN), RoleSessionName: aws.String("s"), DurationSeconds: aws.Int32(60)})
	_, roleErr := client.AssumeRole(ctx, &sts.AssumeRoleInput{RoleArn: aws.String("arn:aws:iam::111122223333:role/None"), RoleSessionName: aws.String("s")})
	_, arnErr := client.AssumeRole(ctx, &sts.AssumeRoleInput{RoleArn: aws.String(""), RoleSessionName: aws.String("s")})
	for name, tc := range map[string]struct {
		err    error
		code   string
		status int
	}{
		"no JWT":           {web(controllerRoleARN, "s", "opaque"), "InvalidIdentityToken", 400},
		"no JSON":          {web(controllerRoleARN, "s", "e30.ew.sig"), "InvalidIdentityToken", 400},
		"no base64":        {web(controllerRoleARN, "s", "a.%.c"), "InvalidIdentityToken", 400},
		"says nothing":     {web(controllerRoleARN, "s", "e30.e30.sig"), "InvalidIdentityToken", 400},
		"empty token":      {web(controllerRoleARN, "s", ""), "ValidationError", 400},
		"missing role":     {web("arn:aws:iam::111122223333:role/None", "s", good), "AccessDenied", 403},
		"other account":    {web("arn:aws:iam::999999999999:role/KarpenterNodeRole", "s", good), "AccessDenied", 403},
		"bad session name": {web(controllerRoleARN, "a b", good), "ValidationError", 400},
		"too short":        {durationErr, "ValidationError", 400},
		"assume none":      {roleErr, "AccessDenied", 403},
		"assume nothing":   {arnErr, "ValidationError", 400},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantCode(t, tc.err, tc.code, tc.status)
		})
	}
}

// clearAWSEnvironment clears what the machine of the test may have set.
func clearAWSEnvironment(t *testing.T) {
	t.Helper()
	for _, name := range []string{
		"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_STS", "AWS_ROLE_ARN",
		"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
	} {
		t.Setenv(name, "")
		check(t, os.Unsetenv(name))
	}
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	t.Setenv("AWS_REGION", "eu-west-1")
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(t.TempDir(), "none"))
}

func whoAmI(ctx context.Context, t *testing.T) string {
	t.Helper()
	cfg, err := config.LoadDefaultConfig(ctx)
	check(t, err)
	out, err := sts.NewFromConfig(cfg).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	check(t, err)
	return *out.Arn
}

func TestServiceAccountTokenGivesTheRole(t *testing.T) {
	clearAWSEnvironment(t)
	c := startCloud(t)
	token := filepath.Join(t.TempDir(), "token")
	check(t, os.WriteFile(token, []byte(irsaToken(t)), 0o600))
	c.setTrust(t, irsaTrust("kube-system", "karpenter"))
	t.Setenv("AWS_ENDPOINT_URL_STS", c.url)
	t.Setenv("AWS_ROLE_ARN", controllerRoleARN)
	t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", token)
	t.Setenv("AWS_ROLE_SESSION_NAME", "irsa")
	if got := whoAmI(t.Context(), t); got != "arn:aws:sts::111122223333:assumed-role/KarpenterControllerRole-sandbox/irsa" {
		t.Errorf("I am %s", got)
	}
	if calls := c.Calls(wire.STS, "AssumeRoleWithWebIdentity"); len(calls) != 1 || calls[0].Key != "" {
		t.Errorf("calls %+v, want one without a signature", calls)
	}
}

func TestPodIdentityGivesTheRole(t *testing.T) {
	clearAWSEnvironment(t)
	c := startCloud(t)
	token := filepath.Join(t.TempDir(), "token")
	check(t, os.WriteFile(token, []byte(podIdentityToken(t)), 0o600))
	t.Setenv("AWS_ENDPOINT_URL", c.url)
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", c.url+CredentialsPath)
	t.Setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token)
	if got := whoAmI(t.Context(), t); !strings.HasPrefix(got, "arn:aws:sts::111122223333:assumed-role/KarpenterControllerRole-sandbox/eks-sandbox-") {
		t.Errorf("I am %s", got)
	}
}

func TestCredentialsAreRefused(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	query := func(method, token string) int {
		status, _ := c.callAgent(t.Context(), t, method, token)
		return status
	}
	if got := query(http.MethodGet, ""); got != http.StatusBadRequest {
		t.Errorf("without a token: %d", got)
	}
	if got := query(http.MethodPost, podIdentityToken(t)); got != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", got)
	}
	if got := query(http.MethodGet, podIdentityToken(t)); got != http.StatusOK {
		t.Errorf("with a token: %d", got)
	}
	c.set(t, http.MethodPut, "roles", `[]`)
	if got := query(http.MethodGet, podIdentityToken(t)); got != http.StatusForbidden {
		t.Errorf("without a role: %d", got)
	}
	c.set(t, http.MethodPost, "faults", `{"action":"eks-auth:AssumeRoleForPodIdentity","code":"ServiceUnavailableException","status":503}`)
	if got := query(http.MethodGet, podIdentityToken(t)); got != http.StatusServiceUnavailable {
		t.Errorf("while EKS is away: %d", got)
	}
}

func TestSessionsAreBounded(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	c.runLocked(func(time.Time) {
		for range maxSessions + 10 {
			c.issueCredentials("r", "s", time.Hour)
		}
		if got := len(c.iamState().Sessions); got != maxSessions {
			t.Errorf("%d sessions", got)
		}
		for key, s := range c.iamState().Sessions {
			s.Expires = time.Now().Add(-time.Hour)
			c.iamState().Sessions[key] = s
		}
		c.issueCredentials("r", "s", time.Hour)
		if got := len(c.iamState().Sessions); got != 1 {
			t.Errorf("%d sessions after the others expired", got)
		}
	})
}
