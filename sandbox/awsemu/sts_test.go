package awsemu

import (
	"context"
	"encoding/base64"
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

func jwt(payload string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + ".sig"
}

func TestCallerIdentity(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	client, ctx := sts.NewFromConfig(c.cfg), t.Context()
	user, err := client.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	check(t, err)
	if *user.Account != "111122223333" || *user.Arn != "arn:aws:iam::111122223333:user/AKIDTEST" || *user.UserId != "AKIDTEST" {
		t.Errorf("user %+v", user)
	}
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
	good := jwt(`{"aud":["sts.amazonaws.com"],"sub":"system:serviceaccount:kube-system:karpenter"}`)
	check(t, web(controllerRoleARN, "s", good))
	check(t, web(controllerRoleARN, "s", jwt(`{"aud":"sts.amazonaws.com"}`)))
	_, durationErr := client.AssumeRole(ctx, &sts.AssumeRoleInput{RoleArn: aws.String(controllerRoleARN), RoleSessionName: aws.String("s"), DurationSeconds: aws.Int32(60)})
	_, roleErr := client.AssumeRole(ctx, &sts.AssumeRoleInput{RoleArn: aws.String("arn:aws:iam::111122223333:role/None"), RoleSessionName: aws.String("s")})
	_, arnErr := client.AssumeRole(ctx, &sts.AssumeRoleInput{RoleArn: aws.String(""), RoleSessionName: aws.String("s")})
	for name, tc := range map[string]struct {
		err    error
		code   string
		status int
	}{
		"no JWT":           {web(controllerRoleARN, "s", "opaque"), "InvalidIdentityToken", 400},
		"no JSON":          {web(controllerRoleARN, "s", jwt("{")), "InvalidIdentityToken", 400},
		"no base64":        {web(controllerRoleARN, "s", "a.%.c"), "InvalidIdentityToken", 400},
		"for someone else": {web(controllerRoleARN, "s", jwt(`{"aud":["https://kubernetes.default.svc"]}`)), "InvalidIdentityToken", 400},
		"for nobody":       {web(controllerRoleARN, "s", jwt(`{}`)), "InvalidIdentityToken", 400},
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

// alone clears what the machine of the test may have set.
func alone(t *testing.T) {
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
	alone(t)
	c := startCloud(t)
	token := filepath.Join(t.TempDir(), "token")
	check(t, os.WriteFile(token, []byte(jwt(`{"aud":["sts.amazonaws.com"],"sub":"system:serviceaccount:kube-system:karpenter"}`)), 0o600))
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
	alone(t)
	c := startCloud(t)
	token := filepath.Join(t.TempDir(), "token")
	check(t, os.WriteFile(token, []byte("pod-identity-token"), 0o600))
	t.Setenv("AWS_ENDPOINT_URL", c.url)
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", c.url+credentialsPath)
	t.Setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token)
	if got := whoAmI(t.Context(), t); !strings.HasPrefix(got, "arn:aws:sts::111122223333:assumed-role/KarpenterControllerRole-sandbox/eks-sandbox-") {
		t.Errorf("I am %s", got)
	}
}

func TestCredentialsAreRefused(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	ask := func(method, token string) int {
		req, err := http.NewRequestWithContext(t.Context(), method, c.url+credentialsPath, http.NoBody)
		check(t, err)
		if token != "" {
			req.Header.Set("Authorization", token)
		}
		res, err := c.cfg.HTTPClient.Do(req)
		check(t, err)
		check(t, res.Body.Close())
		return res.StatusCode
	}
	if got := ask(http.MethodGet, ""); got != http.StatusBadRequest {
		t.Errorf("without a token: %d", got)
	}
	if got := ask(http.MethodPost, "x"); got != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", got)
	}
	if got := ask(http.MethodGet, "x"); got != http.StatusOK {
		t.Errorf("with a token: %d", got)
	}
	c.set(t, http.MethodPut, "roles", `[]`)
	if got := ask(http.MethodGet, "x"); got != http.StatusNotFound {
		t.Errorf("without a role: %d", got)
	}
}

func TestSessionsAreBounded(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	c.locked(func(time.Time) {
		for range maxSessions + 10 {
			c.issue("r", "s", time.Hour)
		}
		if got := len(c.iam().Sessions); got != maxSessions {
			t.Errorf("%d sessions", got)
		}
		for key, s := range c.iam().Sessions {
			s.Expires = time.Now().Add(-time.Hour)
			c.iam().Sessions[key] = s
		}
		c.issue("r", "s", time.Hour)
		if got := len(c.iam().Sessions); got != 1 {
			t.Errorf("%d sessions after the others expired", got)
		}
	})
}
