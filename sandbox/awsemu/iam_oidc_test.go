package awsemu

import (
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

const foreignIssuer = "https://oidc.eks.eu-west-1.amazonaws.com/id/0123456789ABCDEF"

// What a script does to let the tokens of a cluster in.
func TestOIDCProviderLife(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	client, ctx := iam.NewFromConfig(c.cfg), t.Context()
	create := func(url string) (*iam.CreateOpenIDConnectProviderOutput, error) {
		return client.CreateOpenIDConnectProvider(ctx, &iam.CreateOpenIDConnectProviderInput{
			Url: &url, ClientIDList: []string{"sts.amazonaws.com"}, Tags: []types.Tag{{Key: aws.String("team"), Value: aws.String("a")}},
		})
	}
	made, err := create(foreignIssuer)
	check(t, err)
	arn := made.OpenIDConnectProviderArn
	if *arn != "arn:aws:iam::111122223333:oidc-provider/oidc.eks.eu-west-1.amazonaws.com/id/0123456789ABCDEF" {
		t.Errorf("ARN %s", *arn)
	}
	wantCode(t, errorOf(create(foreignIssuer)), "EntityAlreadyExists", 409)
	wantCode(t, errorOf(create("http://plain")), "ValidationError", 400)
	check(t, errorOf(client.TagOpenIDConnectProvider(ctx, &iam.TagOpenIDConnectProviderInput{OpenIDConnectProviderArn: arn, Tags: []types.Tag{{Key: aws.String("x"), Value: aws.String("y")}}})))
	check(t, errorOf(client.UntagOpenIDConnectProvider(ctx, &iam.UntagOpenIDConnectProviderInput{OpenIDConnectProviderArn: arn, TagKeys: []string{"x"}})))
	check(t, errorOf(client.AddClientIDToOpenIDConnectProvider(ctx, &iam.AddClientIDToOpenIDConnectProviderInput{OpenIDConnectProviderArn: arn, ClientID: aws.String("other")})))
	got, err := client.GetOpenIDConnectProvider(ctx, &iam.GetOpenIDConnectProviderInput{OpenIDConnectProviderArn: arn})
	check(t, err)
	if "https://"+*got.Url != foreignIssuer || !slices.Equal(got.ClientIDList, []string{"sts.amazonaws.com", "other"}) || len(got.Tags) != 1 || *got.Tags[0].Value != "a" {
		t.Errorf("provider %+v", got)
	}
	list, err := client.ListOpenIDConnectProviders(ctx, &iam.ListOpenIDConnectProvidersInput{})
	check(t, err)
	if !slices.ContainsFunc(list.OpenIDConnectProviderList, func(e types.OpenIDConnectProviderListEntry) bool { return *e.Arn == *arn }) {
		t.Errorf("list %+v", list.OpenIDConnectProviderList)
	}
	for range 2 { // a second time is no error
		check(t, errorOf(client.DeleteOpenIDConnectProvider(ctx, &iam.DeleteOpenIDConnectProviderInput{OpenIDConnectProviderArn: arn})))
	}
	wantCode(t, errorOf(client.GetOpenIDConnectProvider(ctx, &iam.GetOpenIDConnectProviderInput{OpenIDConnectProviderArn: arn})), "NoSuchEntity", 404)
}

func TestRolesAreChanged(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	client, ctx, name := iam.NewFromConfig(c.cfg), t.Context(), aws.String("made")
	check(t, errorOf(client.CreateRole(ctx, &iam.CreateRoleInput{
		RoleName: name, AssumeRolePolicyDocument: aws.String(ec2Trust), Description: aws.String("d"), Tags: []types.Tag{{Key: aws.String("team"), Value: aws.String("a")}},
	})))
	check(t, errorOf(client.UpdateAssumeRolePolicy(ctx, &iam.UpdateAssumeRolePolicyInput{RoleName: name, PolicyDocument: aws.String(podTrust)})))
	wantCode(t, errorOf(client.UpdateAssumeRolePolicy(ctx, &iam.UpdateAssumeRolePolicyInput{RoleName: name, PolicyDocument: aws.String("{")})), "MalformedPolicyDocument", 400)
	check(t, errorOf(client.TagRole(ctx, &iam.TagRoleInput{RoleName: name, Tags: []types.Tag{{Key: aws.String("x"), Value: aws.String("y")}}})))
	check(t, errorOf(client.UntagRole(ctx, &iam.UntagRoleInput{RoleName: name, TagKeys: []string{"team"}})))
	check(t, errorOf(client.UpdateRole(ctx, &iam.UpdateRoleInput{RoleName: name, MaxSessionDuration: aws.Int32(7200)})))
	wantCode(t, errorOf(client.UpdateRole(ctx, &iam.UpdateRoleInput{RoleName: name, MaxSessionDuration: aws.Int32(60)})), "ValidationError", 400)
	got, err := client.GetRole(ctx, &iam.GetRoleInput{RoleName: name})
	check(t, err)
	if r := got.Role; len(r.Tags) != 1 || *r.Tags[0].Key != "x" || *r.MaxSessionDuration != 7200 || *r.Description != "d" {
		t.Errorf("role %+v", *r)
	}
	wantCode(t, errorOf(client.TagRole(ctx, &iam.TagRoleInput{RoleName: aws.String("none"), Tags: []types.Tag{{Key: aws.String("x"), Value: aws.String("y")}}})), "NoSuchEntity", 404)
}

// A policy is given a new text; the old ones are kept until there are five.
func TestPolicyVersions(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	client, ctx := iam.NewFromConfig(c.cfg), t.Context()
	made, err := client.CreatePolicy(ctx, &iam.CreatePolicyInput{PolicyName: aws.String("p"), PolicyDocument: aws.String(anyPolicy), Tags: []types.Tag{{Key: aws.String("team"), Value: aws.String("a")}}})
	check(t, err)
	arn := made.Policy.Arn
	version := func() error {
		return errorOf(client.CreatePolicyVersion(ctx, &iam.CreatePolicyVersionInput{PolicyArn: arn, PolicyDocument: aws.String(anyPolicy), SetAsDefault: true}))
	}
	for range 4 {
		check(t, version())
	}
	wantCode(t, version(), "LimitExceeded", 409)
	remove := func(id string) error {
		return errorOf(client.DeletePolicyVersion(ctx, &iam.DeletePolicyVersionInput{PolicyArn: arn, VersionId: &id}))
	}
	wantCode(t, remove("v5"), "DeleteConflict", 409)
	check(t, remove("v1"))
	check(t, version())
	got, err := client.GetPolicy(ctx, &iam.GetPolicyInput{PolicyArn: arn})
	check(t, err)
	if *got.Policy.DefaultVersionId != "v6" || len(got.Policy.Tags) != 1 {
		t.Errorf("policy %+v", *got.Policy)
	}
	wantCode(t, errorOf(client.DeletePolicy(ctx, &iam.DeletePolicyInput{PolicyArn: arn})), "DeleteConflict", 409)
	list, err := client.ListPolicyVersions(ctx, &iam.ListPolicyVersionsInput{PolicyArn: arn})
	check(t, err)
	for _, v := range list.Versions {
		if !v.IsDefaultVersion {
			check(t, remove(*v.VersionId))
		}
	}
	check(t, errorOf(client.DeletePolicy(ctx, &iam.DeletePolicyInput{PolicyArn: arn})))
}

func TestPodIdentityAssociationLife(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	client, ctx, cluster := eks.NewFromConfig(c.cfg), t.Context(), aws.String("sandbox")
	create := func(cluster, namespace, role string) (*eks.CreatePodIdentityAssociationOutput, error) {
		return client.CreatePodIdentityAssociation(ctx, &eks.CreatePodIdentityAssociationInput{
			ClusterName: &cluster, Namespace: &namespace, ServiceAccount: aws.String("karpenter"), RoleArn: &role, Tags: map[string]string{"team": "a"},
		})
	}
	made, err := create("sandbox", "mine", controllerRoleARN)
	check(t, err)
	id := made.Association.AssociationId
	wantCode(t, errorOf(create("sandbox", "mine", controllerRoleARN)), "ResourceInUseException", 409)
	wantCode(t, errorOf(create("sandbox", "other", "arn:aws:iam::111122223333:role/none")), "InvalidParameterException", 400)
	wantCode(t, errorOf(create("other", "other", controllerRoleARN)), "ResourceNotFoundException", 404)
	list, err := client.ListPodIdentityAssociations(ctx, &eks.ListPodIdentityAssociationsInput{ClusterName: cluster, Namespace: aws.String("mine")})
	check(t, err)
	if len(list.Associations) != 1 || *list.Associations[0].AssociationId != *id {
		t.Errorf("list %+v", list.Associations)
	}
	check(t, errorOf(client.UpdatePodIdentityAssociation(ctx, &eks.UpdatePodIdentityAssociationInput{ClusterName: cluster, AssociationId: id, RoleArn: aws.String(nodeRoleARN)})))
	check(t, errorOf(client.TagResource(ctx, &eks.TagResourceInput{ResourceArn: made.Association.AssociationArn, Tags: map[string]string{"x": "y"}})))
	check(t, errorOf(client.UntagResource(ctx, &eks.UntagResourceInput{ResourceArn: made.Association.AssociationArn, TagKeys: []string{"team"}})))
	got, err := client.DescribePodIdentityAssociation(ctx, &eks.DescribePodIdentityAssociationInput{ClusterName: cluster, AssociationId: id})
	check(t, err)
	if a := got.Association; *a.RoleArn != nodeRoleARN || a.Tags["x"] != "y" || len(a.Tags) != 1 || !c.PodIdentity("mine", "karpenter") {
		t.Errorf("association %+v", *a)
	}
	check(t, errorOf(client.DeletePodIdentityAssociation(ctx, &eks.DeletePodIdentityAssociationInput{ClusterName: cluster, AssociationId: id})))
	_, err = client.DeletePodIdentityAssociation(ctx, &eks.DeletePodIdentityAssociationInput{ClusterName: cluster, AssociationId: id})
	wantCode(t, err, "ResourceNotFoundException", 404)
	if c.PodIdentity("mine", "karpenter") {
		t.Error("the association is still there")
	}
	entry, err := client.DescribeAccessEntry(ctx, &eks.DescribeAccessEntryInput{ClusterName: cluster, PrincipalArn: aws.String(nodeRoleARN)})
	check(t, err)
	check(t, errorOf(client.TagResource(ctx, &eks.TagResourceInput{ResourceArn: entry.AccessEntry.AccessEntryArn, Tags: map[string]string{"x": "y"}})))
	tags, err := client.ListTagsForResource(ctx, &eks.ListTagsForResourceInput{ResourceArn: entry.AccessEntry.AccessEntryArn})
	check(t, err)
	if tags.Tags["x"] != "y" {
		t.Errorf("tags %v", tags.Tags)
	}
}

// Queues and rules say whose they are.
func TestTagsOfQueuesAndRules(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	ctx, queues := t.Context(), sqs.NewFromConfig(c.cfg)
	queue, err := queues.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String("q"), Tags: map[string]string{"team": "a"}})
	check(t, err)
	check(t, errorOf(queues.TagQueue(ctx, &sqs.TagQueueInput{QueueUrl: queue.QueueUrl, Tags: map[string]string{"x": "y"}})))
	check(t, errorOf(queues.UntagQueue(ctx, &sqs.UntagQueueInput{QueueUrl: queue.QueueUrl, TagKeys: []string{"team"}})))
	tags, err := queues.ListQueueTags(ctx, &sqs.ListQueueTagsInput{QueueUrl: queue.QueueUrl})
	check(t, err)
	if len(tags.Tags) != 1 || tags.Tags["x"] != "y" {
		t.Errorf("queue %v", tags.Tags)
	}
	const arn = "arn:aws:events:eu-west-1:111122223333:rule/r"
	for _, value := range []string{"a", "b"} {
		if status, code := c.events(t, "PutRule", `{"Name":"r","EventPattern":"{\"source\":[\"aws.ec2\"]}","Tags":[{"Key":"team","Value":"`+value+`"}]}`, nil); status != 200 {
			t.Fatal(status, code)
		}
	}
	var list struct{ Tags []tagXML }
	c.events(t, "ListTagsForResource", `{"ResourceARN":"`+arn+`"}`, &list)
	if len(list.Tags) != 1 || list.Tags[0].Value != "a" {
		t.Errorf("rule %v: tags are those of the first PutRule", list.Tags)
	}
	c.events(t, "TagResource", `{"ResourceARN":"`+arn+`","Tags":[{"Key":"x","Value":"y"}]}`, nil)
	c.events(t, "UntagResource", `{"ResourceARN":"`+arn+`","TagKeys":["team"]}`, nil)
	c.events(t, "ListTagsForResource", `{"ResourceARN":"`+arn+`"}`, &list)
	if len(list.Tags) != 1 || list.Tags[0].Key != "x" {
		t.Errorf("rule %v after a change", list.Tags)
	}
	if status, code := c.events(t, "ListTagsForResource", `{"ResourceARN":"`+arn+`none"}`, nil); status != 400 || code != "ResourceNotFoundException" {
		t.Errorf("a rule that is not there: %d %s", status, code)
	}
}
