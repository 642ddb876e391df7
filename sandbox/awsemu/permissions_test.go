package awsemu

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/credentials/endpointcreds"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/smithy-go"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/policy"
)

func asAPIError(err error) (smithy.APIError, bool) {
	var api smithy.APIError
	ok := errors.As(err, &api)
	return api, ok
}

func TestPassRoleIsRequired(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	c.runLocked(func(now time.Time) {
		c.rules.Denials = []Denial{{Action: policy.Texts{"iam:PassRole"}}}
		c.iamState().Profiles["p"] = InstanceProfile{Name: "p", Path: "/", Created: now}
	})
	_, err := iam.NewFromConfig(c.cfg).AddRoleToInstanceProfile(t.Context(), &iam.AddRoleToInstanceProfileInput{InstanceProfileName: aws.String("p"), RoleName: aws.String("KarpenterNodeRole")})
	wantCode(t, err, "AccessDenied", 403)
	if !strings.Contains(err.Error(), "iam:PassRole") {
		t.Errorf("err = %v", err)
	}
}

// A table of statements, each with a call that it allows and one that it does not. The role may do everything else.
func TestConditionsOfPolicies(t *testing.T) {
	t.Parallel()
	tag := func(env *ec2Env, id string, tags ...string) error {
		in := &ec2.CreateTagsInput{Resources: []string{id}}
		for n := 0; n < len(tags); n += 2 {
			in.Tags = append(in.Tags, types.Tag{Key: &tags[n], Value: &tags[n+1]})
		}
		_, err := env.ec2.CreateTags(env.Context(), in)
		return err
	}
	template := func(env *ec2Env, name string, tags ...string) error {
		in := &ec2.CreateLaunchTemplateInput{LaunchTemplateName: &name, LaunchTemplateData: &types.RequestLaunchTemplateData{ImageId: aws.String(imageOfArch("x86_64"))}}
		if len(tags) > 0 {
			in.TagSpecifications = []types.TagSpecification{{ResourceType: types.ResourceTypeLaunchTemplate, Tags: []types.Tag{{Key: &tags[0], Value: &tags[1]}}}}
		}
		_, err := env.ec2.CreateLaunchTemplate(env.Context(), in)
		return err
	}
	own, other := subnet("a"), subnet("b")
	for name, tc := range map[string]struct {
		allow string // of the statement, besides its action
		pass  func(*ec2Env) error
		stop  func(*ec2Env) error
		want  string // in the refusal
	}{
		"request tag": {
			allow: `"Resource":"*","Condition":{"StringEquals":{"aws:RequestTag/team":"a"}}`,
			pass:  func(l *ec2Env) error { return tag(l, own, "team", "a") },
			stop:  func(l *ec2Env) error { return tag(l, own, "team", "b") },
			want:  `StringEquals aws:RequestTag/team ["a"], not ["b"]`,
		},
		"one of several values": {
			allow: `"Resource":"*","Condition":{"StringLike":{"aws:RequestTag/team":["a*","b"]}}`,
			pass:  func(l *ec2Env) error { return tag(l, own, "team", "abc") },
			stop:  func(l *ec2Env) error { return tag(l, own, "team", "bcd") },
			want:  "aws:RequestTag/team",
		},
		"resource tag": {
			allow: `"Resource":"*","Condition":{"StringLike":{"aws:ResourceTag/Name":"*-private-eu-west-1a"}}`,
			pass:  func(l *ec2Env) error { return tag(l, own, "x", "y") },
			stop:  func(l *ec2Env) error { return tag(l, other, "x", "y") },
			want:  "aws:ResourceTag/Name",
		},
		"every tag key": {
			allow: `"Resource":"*","Condition":{"ForAllValues:StringEquals":{"aws:TagKeys":["Name","team"]}}`,
			pass:  func(l *ec2Env) error { return tag(l, own, "Name", "n", "team", "a") },
			stop:  func(l *ec2Env) error { return tag(l, own, "Name", "n", "cost", "a") },
			want:  "aws:TagKeys",
		},
		"any tag key": {
			allow: `"Resource":"*","Condition":{"ForAnyValue:StringEquals":{"aws:TagKeys":["team"]}}`,
			pass:  func(l *ec2Env) error { return tag(l, own, "Name", "n", "team", "a") },
			stop:  func(l *ec2Env) error { return tag(l, own, "Name", "n") },
			want:  "aws:TagKeys",
		},
		"if it exists": {
			allow: `"Resource":"*","Condition":{"StringEqualsIfExists":{"aws:RequestTag/team":"a"}}`,
			pass:  func(l *ec2Env) error { return tag(l, own, "Name", "n") },
			stop:  func(l *ec2Env) error { return tag(l, own, "team", "b") },
			want:  "aws:RequestTag/team",
		},
		"absent": {
			allow: `"Resource":"*","Condition":{"Null":{"aws:RequestTag/team":"true"}}`,
			pass:  func(l *ec2Env) error { return tag(l, own, "Name", "n") },
			stop:  func(l *ec2Env) error { return tag(l, own, "team", "b") },
			want:  "Null aws:RequestTag/team",
		},
		"not": {
			allow: `"Resource":"*","Condition":{"StringNotEquals":{"aws:RequestTag/team":"b"}}`,
			pass:  func(l *ec2Env) error { return tag(l, own, "Name", "n") },
			stop:  func(l *ec2Env) error { return tag(l, own, "team", "b") },
			want:  "StringNotEquals",
		},
		"create action": {
			allow: `"Resource":"*","Condition":{"StringEquals":{"ec2:CreateAction":["CreateLaunchTemplate"]}}`,
			pass:  func(l *ec2Env) error { return template(l, "tagged", "team", "a") },
			stop:  func(l *ec2Env) error { return tag(l, own, "team", "a") },
			want:  "ec2:CreateAction",
		},
		"region": {
			allow: `"Resource":"*","Condition":{"StringEquals":{"aws:RequestedRegion":"eu-west-1"}}`,
			pass:  func(l *ec2Env) error { return tag(l, own, "team", "a") },
			stop: func(l *ec2Env) error {
				elsewhere := *l
				elsewhere.ec2 = ec2.NewFromConfig(l.sdk, func(o *ec2.Options) { o.Region = "us-east-1" })
				return tag(&elsewhere, own, "team", "a")
			},
			want: `not ["us-east-1"]`,
		},
		"resource": {
			allow: `"Resource":["arn:aws:ec2:*:111122223333:subnet/` + own + `"]`,
			pass:  func(l *ec2Env) error { return tag(l, own, "team", "a") },
			stop:  func(l *ec2Env) error { return tag(l, other, "team", "a") },
			want:  "on resource: arn:aws:ec2:eu-west-1:111122223333:subnet/" + other,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			person := newEC2Env(t)
			person.putRolePolicy("KarpenterNodeRole", "tags", `{"Sid":"Tags","Effect":"Allow","Action":"ec2:CreateTags",`+tc.allow+`},{"Effect":"Allow","NotAction":"ec2:CreateTags","Resource":"*"}`)
			env := person.withRole("KarpenterNodeRole")
			if err := tc.pass(env); err != nil {
				t.Errorf("the call that should pass: %v", err)
			}
			err := tc.stop(env)
			if apiCode(err) != "UnauthorizedOperation" || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("the call that should not: %v, want UnauthorizedOperation with %q", err, tc.want)
			}
		})
	}
}

func TestDenialsHaveTheirPhrases(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	for message, want := range map[string]string{
		"": "because no identity-based policy allows the ec2:DescribeSubnets action",
		"with an explicit deny in a permissions boundary":     "explicit deny in a permissions boundary",
		"with an explicit deny in a service control policy":   "explicit deny in a service control policy",
		"because no identity-based policy allows the action.": "no identity-based policy",
	} {
		env.callControlAPI(http.MethodDelete, "permissions", "")
		env.callControlAPI(http.MethodPost, "permissions", `{"action":"ec2:Describe*","deny":true,"message":"`+message+`"}`)
		_, err := env.ec2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{})
		if apiCode(err) != "UnauthorizedOperation" || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "ec2:DescribeSubnets") {
			t.Errorf("message %q: %v", message, err)
		}
	}
}

func TestDenialsAreChecked(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	for body, want := range map[string]string{
		`[{"deny":true}]`: "action: is required",
		`[{"action":"*","conditions":{"NumericLessThan":{"x":"1"}}}]`: `"NumericLessThan" is not evaluated`,
		`[{"action":"CreateFleet"}]`:                                  `want a service and an action`,
		`[{"action":"ec2:*","deny":false}]`:                           `aws iam put-role-policy`,
		`[{"action":"ec2:*","resources":["i-1"]}]`:                    `want an ARN`,
		`[{"action":"ec2:*","profile":"strict"}]`:                     `unknown field`,
		`{"action":"*","effect":"Deny"}`:                              `cannot unmarshal object`,
	} {
		if status, response := env.tryControl(http.MethodPut, "permissions", body); status != http.StatusBadRequest || !strings.Contains(response, want) {
			t.Errorf("PUT %s: %d %s, want %q", body, status, response, want)
		}
	}
}

// attach gives a role a policy.
func (c *cloud) attach(t *testing.T, role, arn string) {
	t.Helper()
	check(t, errorOf(iam.NewFromConfig(c.cfg).AttachRolePolicy(t.Context(), &iam.AttachRolePolicyInput{RoleName: &role, PolicyArn: &arn})))
}

// What a role may do is what the policies say that it has at this moment.
func TestPoliciesOfARole(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	ctx, client := t.Context(), iam.NewFromConfig(c.cfg)
	session, _ := c.roleSession("me")
	list := func() error {
		return errorOf(iam.NewFromConfig(session).ListRoles(ctx, &iam.ListRolesInput{}))
	}
	wants := func(what, code, text string) {
		t.Helper()
		err := list()
		switch {
		case code == "" && err != nil:
			t.Errorf("%s: %v", what, err)
		case code != "" && (apiCode(err) != code || !strings.Contains(err.Error(), text)):
			t.Errorf("%s: %v, want %s with %q", what, err, code, text)
		}
	}
	role, inline := aws.String("KarpenterControllerRole-sandbox"), aws.String("more")
	put := func(statements string) {
		t.Helper()
		check(t, errorOf(client.PutRolePolicy(ctx, &iam.PutRolePolicyInput{RoleName: role, PolicyName: inline, PolicyDocument: aws.String(`{"Statement":[` + statements + `]}`)})))
	}
	wants("the guide's policies", "AccessDenied", "because no identity-based policy allows the iam:ListRoles action")
	put(`{"Effect":"Allow","Action":"iam:List*","Resource":"*"}`)
	wants("an inline policy", "", "")
	put(`{"Effect":"Allow","Action":"iam:List*","Resource":"*"},{"Sid":"NoRoles","Effect":"Deny","Action":"iam:*Roles","Resource":"*"}`)
	wants("a deny wins", "AccessDenied", "with an explicit deny in an identity-based policy (NoRoles)")
	check(t, errorOf(client.DeleteRolePolicy(ctx, &iam.DeleteRolePolicyInput{RoleName: role, PolicyName: inline})))
	wants("it is gone", "AccessDenied", "no identity-based policy")

	made, err := client.CreatePolicy(ctx, &iam.CreatePolicyInput{PolicyName: aws.String("p"), PolicyDocument: aws.String(`{"Statement":{"Effect":"Allow","Action":"iam:GetRole","Resource":"*"}}`)})
	check(t, err)
	c.attach(t, *role, *made.Policy.Arn)
	wants("another action", "AccessDenied", "iam:ListRoles")
	check(t, errorOf(client.CreatePolicyVersion(ctx, &iam.CreatePolicyVersionInput{PolicyArn: made.Policy.Arn, PolicyDocument: aws.String(anyPolicy)})))
	wants("a version that is not the default", "AccessDenied", "iam:ListRoles")
	check(t, errorOf(client.SetDefaultPolicyVersion(ctx, &iam.SetDefaultPolicyVersionInput{PolicyArn: made.Policy.Arn, VersionId: aws.String("v2")})))
	wants("the default version", "", "")
	check(t, errorOf(client.DetachRolePolicy(ctx, &iam.DetachRolePolicyInput{RoleName: role, PolicyArn: made.Policy.Arn})))
	wants("detached", "AccessDenied", "iam:ListRoles")
	c.attach(t, *role, "arn:aws:iam::aws:policy/NobodyKnowsThisOne")
	wants("an unknown policy of AWS", "AccessDenied", "iam:ListRoles")
	c.attach(t, *role, "arn:aws:iam::aws:policy/AdministratorAccess")
	wants("a policy of AWS", "", "")
	c.set(t, http.MethodPut, "roles", `[]`)
	wants("the role is gone", "AccessDenied", "iam:ListRoles")
}

// podIdentity is a configuration with the credentials that a pod of the controller gets.
func (c *cloud) podIdentity(t *testing.T) aws.Config {
	t.Helper()
	cfg := c.cfg.Copy()
	cfg.Credentials = endpointcreds.New(c.url+CredentialsPath, func(o *endpointcreds.Options) { o.AuthorizationToken = podIdentityToken(t) })
	return cfg
}

// Who calls decides: a key, or the role behind a session of STS.
func TestPermissionsOfACaller(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	ctx := t.Context()
	session, _ := c.roleSession("me")
	c.attach(t, "KarpenterControllerRole-sandbox", "arn:aws:iam::aws:policy/AdministratorAccess")
	query := func(cfg aws.Config) error {
		_, err := iam.NewFromConfig(cfg).GetRole(ctx, &iam.GetRoleInput{RoleName: aws.String("KarpenterNodeRole-sandbox")})
		return err
	}
	c.set(t, http.MethodPut, "permissions", `[{"action":"iam:*","deny":true,"role":"KarpenterControllerRole-sandbox"}]`)
	check(t, query(c.cfg))
	err := query(session)
	wantCode(t, err, "AccessDenied", 403)
	if !strings.Contains(err.Error(), "assumed-role/KarpenterControllerRole-sandbox/me") {
		t.Errorf("err = %v, want the caller in it", err)
	}
	wantCode(t, query(c.podIdentity(t)), "AccessDenied", 403)
	c.set(t, http.MethodPut, "permissions", `[{"action":"iam:*","deny":true,"key":"AKIDTEST"}]`)
	wantCode(t, query(c.cfg), "AccessDenied", 403)
	check(t, query(session))
	c.set(t, http.MethodDelete, "permissions", "")
	check(t, query(session))
}

func TestKnownKeys(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	ctx := t.Context()
	c.attach(t, "KarpenterControllerRole-sandbox", "arn:aws:iam::aws:policy/AdministratorAccess")
	_, key := c.roleSession("me")
	c.set(t, http.MethodPut, "keys", `["AKIDTEST"]`)
	with := func(key string) aws.Config {
		cfg := c.cfg.Copy()
		cfg.Credentials = credentials.NewStaticCredentialsProvider(key, "secret", "")
		return cfg
	}
	calls := func(cfg aws.Config) map[string]error {
		_, ec2Err := ec2.NewFromConfig(cfg).DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{})
		_, iamErr := iam.NewFromConfig(cfg).GetRole(ctx, &iam.GetRoleInput{RoleName: aws.String("KarpenterNodeRole")})
		_, ssmErr := ssm.NewFromConfig(cfg).GetParameters(ctx, &ssm.GetParametersInput{Names: []string{"x"}})
		_, eksErr := eks.NewFromConfig(cfg).ListClusters(ctx, &eks.ListClustersInput{})
		return map[string]error{"ec2": ec2Err, "iam": iamErr, "ssm": ssmErr, "eks": eksErr}
	}
	for _, known := range []string{"AKIDTEST", key} {
		for service, err := range calls(with(known)) {
			if err != nil {
				t.Errorf("%s with a known key: %v", service, err)
			}
		}
	}
	for service, err := range calls(with("AKIDOTHER")) {
		wantCode(t, err, map[string]string{"ec2": "AuthFailure", "iam": "InvalidClientTokenId", "ssm": "UnrecognizedClientException", "eks": "UnrecognizedClientException"}[service], 0)
	}
	c.runLocked(func(time.Time) {
		c.iamState().Sessions["ASIAOLD"] = Session{Role: "KarpenterNodeRole", Name: "n", Expires: time.Now().Add(-time.Second)}
	})
	for service, err := range calls(with("ASIAOLD")) {
		wantCode(t, err, map[string]string{"ec2": "RequestExpired", "iam": "ExpiredToken", "ssm": "ExpiredTokenException", "eks": "ExpiredTokenException"}[service], 0)
	}
}
