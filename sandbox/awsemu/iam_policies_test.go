package awsemu

import (
	"net/url"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"
)

const anyPolicy = `{"Version": "2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]}`

// What a script does to give a controller its rights, and to take them away.
func TestPoliciesOfTheController(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	client, ctx := iam.NewFromConfig(c.cfg), t.Context()
	role := aws.String("KarpenterControllerRole-mine")
	check(t, errorOf(client.CreateRole(ctx, &iam.CreateRoleInput{RoleName: role, AssumeRolePolicyDocument: aws.String(podTrust)})))
	made, err := client.CreatePolicy(ctx, &iam.CreatePolicyInput{PolicyName: aws.String("KarpenterControllerPolicy-sandbox"), PolicyDocument: aws.String(anyPolicy)})
	check(t, err)
	arn := made.Policy.Arn
	if *arn != "arn:aws:iam::111122223333:policy/KarpenterControllerPolicy-sandbox" || len(*made.Policy.PolicyId) != 20 {
		t.Errorf("policy %+v", *made.Policy)
	}
	check(t, errorOf(client.AttachRolePolicy(ctx, &iam.AttachRolePolicyInput{RoleName: role, PolicyArn: arn})))
	got, err := client.GetPolicy(ctx, &iam.GetPolicyInput{PolicyArn: arn})
	check(t, err)
	version, err := client.GetPolicyVersion(ctx, &iam.GetPolicyVersionInput{PolicyArn: arn, VersionId: got.Policy.DefaultVersionId})
	check(t, err)
	// Clients such as awscli take a plus for a plus.
	if document, err := url.PathUnescape(*version.PolicyVersion.Document); err != nil || document != anyPolicy || *got.Policy.AttachmentCount != 1 {
		t.Errorf("document %s, %v; %d roles", document, err, *got.Policy.AttachmentCount)
	}
	for scope, want := range map[types.PolicyScopeType]int{types.PolicyScopeTypeLocal: 7, // with those of the fixture
		types.PolicyScopeTypeAws: 0} {
		list, err := client.ListPolicies(ctx, &iam.ListPoliciesInput{Scope: scope})
		check(t, err)
		if len(list.Policies) != want {
			t.Errorf("%s: %d policies, want %d", scope, len(list.Policies), want)
		}
	}
	wantCode(t, errorOf(client.DeletePolicy(ctx, &iam.DeletePolicyInput{PolicyArn: arn})), "DeleteConflict", 409)
	check(t, errorOf(client.DetachRolePolicy(ctx, &iam.DetachRolePolicyInput{RoleName: role, PolicyArn: arn})))
	check(t, errorOf(client.DeletePolicy(ctx, &iam.DeletePolicyInput{PolicyArn: arn})))
	wantCode(t, errorOf(client.GetPolicy(ctx, &iam.GetPolicyInput{PolicyArn: arn})), "NoSuchEntity", 404)

	inline := aws.String("inline")
	check(t, errorOf(client.PutRolePolicy(ctx, &iam.PutRolePolicyInput{RoleName: role, PolicyName: inline, PolicyDocument: aws.String(anyPolicy)})))
	names, err := client.ListRolePolicies(ctx, &iam.ListRolePoliciesInput{RoleName: role})
	check(t, err)
	if len(names.PolicyNames) != 1 || names.PolicyNames[0] != "inline" {
		t.Errorf("inline policies %v", names.PolicyNames)
	}
	check(t, errorOf(client.GetRolePolicy(ctx, &iam.GetRolePolicyInput{RoleName: role, PolicyName: inline})))
	wantCode(t, errorOf(client.DeleteRole(ctx, &iam.DeleteRoleInput{RoleName: role})), "DeleteConflict", 409)
	check(t, errorOf(client.DeleteRolePolicy(ctx, &iam.DeleteRolePolicyInput{RoleName: role, PolicyName: inline})))
	wantCode(t, errorOf(client.DeleteRolePolicy(ctx, &iam.DeleteRolePolicyInput{RoleName: role, PolicyName: inline})), "NoSuchEntity", 404)
	check(t, errorOf(client.DeleteRole(ctx, &iam.DeleteRoleInput{RoleName: role})))
}

func TestPolicyErrors(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	client, ctx := iam.NewFromConfig(c.cfg), t.Context()
	create := func(name, document string) error {
		return errorOf(client.CreatePolicy(ctx, &iam.CreatePolicyInput{PolicyName: &name, PolicyDocument: &document}))
	}
	check(t, create("there", anyPolicy))
	role, none := aws.String("KarpenterNodeRole"), aws.String("arn:aws:iam::111122223333:policy/none")
	for name, tc := range map[string]struct {
		err    error
		code   string
		status int
	}{
		"twice":                     {create("There", anyPolicy), "EntityAlreadyExists", 409},
		"no JSON":                   {create("a", "{"), "MalformedPolicyDocument", 400},
		"no statement":              {create("a", "{}"), "MalformedPolicyDocument", 400},
		"no action":                 {create("a", `{"Statement":[{"Effect":"Allow","Resource":"*"}]}`), "MalformedPolicyDocument", 400},
		"a variable":                {create("a", `{"Statement":[{"Effect":"Allow","Action":"*","Resource":"arn:aws:iam::1:user/${aws:username}"}]}`), "MalformedPolicyDocument", 400},
		"too long":                  {create("a", strings.Replace(anyPolicy, `"*"`, `"iam:`+strings.Repeat("a", 6144)+`"`, 1)), "LimitExceeded", 409},
		"no name":                   {create("a b", anyPolicy), "ValidationError", 400},
		"attach":                    {errorOf(client.AttachRolePolicy(ctx, &iam.AttachRolePolicyInput{RoleName: role, PolicyArn: none})), "NoSuchEntity", 404},
		"delete":                    {errorOf(client.DeletePolicy(ctx, &iam.DeletePolicyInput{PolicyArn: none})), "NoSuchEntity", 404},
		"version":                   {errorOf(client.GetPolicyVersion(ctx, &iam.GetPolicyVersionInput{PolicyArn: aws.String("arn:aws:iam::111122223333:policy/there"), VersionId: aws.String("v2")})), "NoSuchEntity", 404},
		"inline of an unknown role": {errorOf(client.PutRolePolicy(ctx, &iam.PutRolePolicyInput{RoleName: aws.String("none"), PolicyName: aws.String("p"), PolicyDocument: aws.String(anyPolicy)})), "NoSuchEntity", 404},
		"inline, no JSON":           {errorOf(client.PutRolePolicy(ctx, &iam.PutRolePolicyInput{RoleName: role, PolicyName: aws.String("p"), PolicyDocument: aws.String("x")})), "MalformedPolicyDocument", 400},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantCode(t, tc.err, tc.code, tc.status)
		})
	}
}
