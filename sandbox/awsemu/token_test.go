package awsemu

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

// tokenKey signs the tokens of the fixture's cluster.
var tokenKey = sync.OnceValue(newTokenKey)

func newTokenKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	return key
}

// claims are those of the token of a pod; change what a case is about.
type claims map[string]any

func podClaims(namespace, account, audience string) claims {
	return claims{
		"iss": Issuer("eu-west-1", "sandbox"), "sub": "system:serviceaccount:" + namespace + ":" + account, "aud": []string{audience},
		"exp": time.Now().Add(time.Hour).Unix(), "nbf": time.Now().Add(-time.Minute).Unix(),
		"kubernetes.io": map[string]any{"namespace": namespace, "pod": namedUID{"karpenter-0", "1-2-3"}, "serviceaccount": namedUID{account, "4-5-6"}},
	}
}

func (c claims) withClaim(key string, value any) claims {
	c[key] = value
	return c
}

// signJWT makes a JWT of claims.
func signJWT(t *testing.T, c claims, key *ecdsa.PrivateKey) string {
	t.Helper()
	payload, err := json.Marshal(c)
	check(t, err)
	signed := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"ES256"}`)) + "." + base64.RawURLEncoding.EncodeToString(payload)
	digest := sha256.Sum256([]byte(signed))
	r, s, err := ecdsa.Sign(rand.Reader, key, digest[:])
	check(t, err)
	return signed + "." + base64.RawURLEncoding.EncodeToString(append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...))
}

func irsaToken(t *testing.T) string {
	t.Helper()
	return signJWT(t, podClaims("kube-system", "karpenter", IRSAAudience), tokenKey())
}

func podIdentityToken(t *testing.T) string {
	t.Helper()
	return signJWT(t, podClaims("kube-system", "karpenter", PodIdentityAudience), tokenKey())
}

// irsaTrust is what iam/trust/controller-irsa.json says of a service account of the fixture's cluster.
func irsaTrust(namespace, account string) string {
	issuer := strings.TrimPrefix(Issuer("eu-west-1", "sandbox"), "https://")
	return `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Federated":"arn:aws:iam::111122223333:oidc-provider/` + issuer + `"},` +
		`"Action":"sts:AssumeRoleWithWebIdentity","Condition":{"StringEquals":{"` + issuer + `:aud":"sts.amazonaws.com","` + issuer + `:sub":"system:serviceaccount:` + namespace + `:` + account + `"}}}]}`
}

const accountTrust = `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::111122223333:root"},"Action":"sts:AssumeRole"}}`

// setTrust replaces whom the role of the controller trusts.
func (c *cloud) setTrust(t *testing.T, trust string) {
	t.Helper()
	_, err := iam.NewFromConfig(c.cfg).UpdateAssumeRolePolicy(t.Context(), &iam.UpdateAssumeRolePolicyInput{
		RoleName: aws.String("KarpenterControllerRole-sandbox"), PolicyDocument: &trust,
	})
	check(t, err)
}

// roleSession is a configuration with the credentials of the controller's role, and the access key.
func (c *cloud) roleSession(name string) (cfg aws.Config, key string) {
	var given issued
	c.runLocked(func(time.Time) { given = c.issueCredentials(c.controllerRole(), name, time.Hour) })
	cfg = c.cfg.Copy()
	cfg.Credentials = credentials.NewStaticCredentialsProvider(given.key, given.secret, given.token)
	return cfg, given.key
}

// A role admits the principals that it trusts, and no others.
func TestTrustOfARole(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	ctx, client := t.Context(), sts.NewFromConfig(c.cfg)
	assume := func(trust string) error {
		c.setTrust(t, trust)
		return errorOf(client.AssumeRole(ctx, &sts.AssumeRoleInput{RoleArn: aws.String(controllerRoleARN), RoleSessionName: aws.String("me")}))
	}
	const user = `"AWS":"arn:aws:iam::111122223333:user/AKIDTEST"`
	statement := func(effect, principal, rest string) string {
		return `{"Effect":"` + effect + `","Principal":{` + principal + `},"Action":"sts:*"` + rest + `}`
	}
	for name, tc := range map[string]struct {
		trust string
		want  bool
	}{
		"its account":            {accountTrust, true},
		"the user":               {`{"Statement":[` + statement("Allow", user, "") + `]}`, true},
		"everybody":              {`{"Statement":[{"Effect":"Allow","Principal":"*","Action":"sts:AssumeRole"}]}`, true},
		"one of two":             {`{"Statement":[` + statement("Allow", `"AWS":["arn:aws:iam::999999999999:root","111122223333"]`, "") + `]}`, true},
		"a service":              {podTrust, false},
		"another action":         {`{"Statement":[{"Effect":"Allow","Principal":"*","Action":"sts:TagSession"}]}`, false},
		"another account":        {`{"Statement":[` + statement("Allow", `"AWS":"arn:aws:iam::999999999999:root"`, "") + `]}`, false},
		"a deny wins":            {`{"Statement":[` + statement("Deny", user, "") + `,` + statement("Allow", user, "") + `]}`, false},
		"a condition fails":      {`{"Statement":[` + statement("Allow", user, `,"Condition":{"StringEquals":{"sts:ExternalId":"x"}}`) + `]}`, false},
		"a condition of no deny": {`{"Statement":[` + statement("Allow", user, "") + `,` + statement("Deny", user, `,"Condition":{"StringEquals":{"sts:ExternalId":"x"}}`) + `]}`, true},
	} {
		if err := assume(tc.trust); (err == nil) != tc.want {
			t.Errorf("%s: %v", name, err)
		} else if err != nil {
			wantCode(t, err, "AccessDenied", 403)
			if !strings.Contains(err.Error(), "User: arn:aws:iam::111122223333:user/AKIDTEST is not authorized to perform: sts:AssumeRole on resource: "+controllerRoleARN) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// S-123: a token of the cluster opens the role that names its service account, and no other token does.
func TestS_123_WebIdentity(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	ctx, client := t.Context(), sts.NewFromConfig(c.cfg)
	c.setTrust(t, irsaTrust("kube-system", "karpenter"))
	web := func(token string) error {
		return errorOf(client.AssumeRoleWithWebIdentity(ctx, &sts.AssumeRoleWithWebIdentityInput{RoleArn: aws.String(controllerRoleARN), RoleSessionName: aws.String("s"), WebIdentityToken: &token}))
	}
	check(t, web(irsaToken(t)))
	for name, tc := range map[string]struct {
		token      string
		code, text string
		status     int
	}{
		"another namespace": {signJWT(t, podClaims("karpenter", "karpenter", IRSAAudience), tokenKey()), "AccessDenied", "Not authorized to perform sts:AssumeRoleWithWebIdentity", 403},
		"another account":   {signJWT(t, podClaims("kube-system", "default", IRSAAudience), tokenKey()), "AccessDenied", "Not authorized", 403},
		"another audience":  {podIdentityToken(t), "InvalidIdentityToken", "Incorrect token audience", 400},
		"no audience":       {signJWT(t, podClaims("kube-system", "karpenter", "").withClaim("aud", nil), tokenKey()), "InvalidIdentityToken", "Incorrect token audience", 400},
		"another key":       {signJWT(t, podClaims("kube-system", "karpenter", IRSAAudience), newTokenKey()), "InvalidIdentityToken", "verification key", 400},
		"another cluster": {
			signJWT(t, podClaims("kube-system", "karpenter", IRSAAudience).withClaim("iss", foreignIssuer), tokenKey()),
			"InvalidIdentityToken", "No OpenIDConnect provider found in your account for " + foreignIssuer, 400,
		},
		"expired":  {signJWT(t, podClaims("kube-system", "karpenter", IRSAAudience).withClaim("exp", time.Now().Add(-time.Second).Unix()), tokenKey()), "ExpiredTokenException", "Token expired", 400},
		"too soon": {signJWT(t, podClaims("kube-system", "karpenter", IRSAAudience).withClaim("nbf", time.Now().Add(time.Hour).Unix()), tokenKey()), "ExpiredTokenException", "Token expired", 400},
	} {
		err := web(tc.token)
		wantCode(t, err, tc.code, tc.status)
		if err != nil && !strings.Contains(err.Error(), tc.text) {
			t.Errorf("%s: %v, want %q", name, err, tc.text)
		}
	}
	arn := c.oidcARN(Issuer("eu-west-1", "sandbox"))
	check(t, errorOf(iam.NewFromConfig(c.cfg).DeleteOpenIDConnectProvider(ctx, &iam.DeleteOpenIDConnectProviderInput{OpenIDConnectProviderArn: &arn})))
	if err := web(irsaToken(t)); err == nil || !strings.Contains(err.Error(), "No OpenIDConnect provider found") {
		t.Errorf("without the provider: %v", err)
	}
}

// S-122: the agent gives credentials to the pods of an associated service account, if the role trusts it.
func TestS_122_PodIdentity(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	query := func(token string) (status int, code string) {
		return c.callAgent(t.Context(), t, http.MethodGet, token)
	}
	for name, tc := range map[string]struct {
		token  string
		status int
		code   string
	}{
		"associated":         {podIdentityToken(t), 200, ""},
		"other namespace":    {signJWT(t, podClaims("karpenter", "karpenter", PodIdentityAudience), tokenKey()), 200, ""},
		"no association":     {signJWT(t, podClaims("default", "karpenter", PodIdentityAudience), tokenKey()), 404, "ResourceNotFoundException"},
		"no token":           {"", 400, "InvalidParameterException"},
		"no JWT":             {"x", 400, "InvalidTokenException"},
		"another key":        {signJWT(t, podClaims("kube-system", "karpenter", PodIdentityAudience), newTokenKey()), 400, "InvalidTokenException"},
		"the token for IRSA": {irsaToken(t), 400, "InvalidTokenException"},
		"expired":            {signJWT(t, podClaims("kube-system", "karpenter", PodIdentityAudience).withClaim("exp", 1), tokenKey()), 400, "ExpiredTokenException"},
	} {
		if status, code := query(tc.token); status != tc.status || code != tc.code {
			t.Errorf("%s: %d %s", name, status, code)
		}
	}
	pods := func(action, rest string) string {
		return `{"Statement":[{"Effect":"Allow","Principal":{"Service":"pods.eks.amazonaws.com"},"Action":` + action + rest + `}]}`
	}
	const both = `["sts:AssumeRole","sts:TagSession"]`
	for name, tc := range map[string]struct {
		trust  string
		status int
	}{
		"EC2 only":           {ec2Trust, 403},
		"IRSA only":          {irsaTrust("kube-system", "karpenter"), 403},
		"no tags":            {pods(`"sts:AssumeRole"`, ""), 403},
		"both":               {pods(both, ""), 200},
		"of this namespace":  {pods(both, `,"Condition":{"StringEquals":{"aws:RequestTag/kubernetes-namespace":"kube-system"}}`), 200},
		"of another":         {pods(both, `,"Condition":{"StringEquals":{"aws:RequestTag/kubernetes-namespace":"karpenter"}}`), 403},
		"of this cluster":    {pods(both, `,"Condition":{"ArnEquals":{"aws:SourceArn":"arn:aws:eks:eu-west-1:111122223333:cluster/sandbox"}}`), 200},
		"of another cluster": {pods(both, `,"Condition":{"ArnEquals":{"aws:SourceArn":"arn:aws:eks:eu-west-1:111122223333:cluster/other"}}`), 403},
	} {
		c.setTrust(t, tc.trust)
		if status, code := query(podIdentityToken(t)); status != tc.status || status != 200 && code != "AccessDeniedException" {
			t.Errorf("%s: %d %s", name, status, code)
		}
	}
}

// Credentials expire: a client that does not renew them is refused, by the words of each service.
func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	who := func(cfg aws.Config) error {
		return errorOf(sts.NewFromConfig(cfg).GetCallerIdentity(t.Context(), &sts.GetCallerIdentityInput{}))
	}
	session, _ := c.roleSession("me")
	check(t, who(session))
	c.set(t, http.MethodDelete, "sessions", "")
	wantCode(t, who(session), "ExpiredToken", 403)
	session.Credentials = credentials.NewStaticCredentialsProvider("ASIANOBODY", "secret", "token")
	wantCode(t, who(session), "InvalidClientTokenId", 403)
	check(t, who(c.cfg))
	c.set(t, http.MethodPut, "sessions", `"20s"`)
	c.runLocked(func(time.Time) {
		if left := time.Until(c.issueCredentials("r", "s", time.Hour).expires); left > 20*time.Second {
			t.Errorf("expires in %s", left)
		}
	})
}

func TestTokensOfOtherKinds(t *testing.T) {
	t.Parallel()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	check(t, err)
	signed := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"RS256"}`)) + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"aud":"one"}`))
	digest := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, digest[:])
	check(t, err)
	token, err := readToken(signed + "." + base64.RawURLEncoding.EncodeToString(signature))
	check(t, err)
	check(t, token.verifySignature(&key.PublicKey))
	for name, other := range map[string]crypto.PublicKey{"another kind": &tokenKey().PublicKey, "none": nil, "no key": "x"} {
		if token.verifySignature(other) == nil {
			t.Errorf("%s: believed", name)
		}
	}
	if len(token.Audience) != 1 || token.Audience[0] != "one" {
		t.Errorf("audience %v", token.Audience)
	}
}

// askAgent requests the credentials of a pod.
func (c *cloud) callAgent(ctx context.Context, t *testing.T, method, token string) (status int, code string) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, c.url+CredentialsPath, http.NoBody)
	check(t, err)
	if token != "" {
		req.Header.Set("Authorization", token)
	}
	res, err := c.cfg.HTTPClient.Do(req)
	check(t, err)
	defer func() { check(t, res.Body.Close()) }()
	var response struct{ Code string }
	check(t, json.NewDecoder(res.Body).Decode(&response))
	return res.StatusCode, response.Code
}
