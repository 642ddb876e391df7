package awsemu

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"
)

func asAPIError(err error) (smithy.APIError, bool) {
	var api smithy.APIError
	ok := errors.As(err, &api)
	return api, ok
}

func TestPassRoleIsAskedFor(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	c.locked(func(now time.Time) {
		c.rules.Permissions = []Permission{{Action: "iam:PassRole", Deny: true}}
		c.iam().Profiles["p"] = InstanceProfile{Name: "p", Path: "/", Created: now}
	})
	_, err := iam.NewFromConfig(c.cfg).AddRoleToInstanceProfile(t.Context(), &iam.AddRoleToInstanceProfileInput{InstanceProfileName: aws.String("p"), RoleName: aws.String("KarpenterNodeRole")})
	wantCode(t, err, "AccessDenied", 403)
	if !strings.Contains(err.Error(), "iam:PassRole") {
		t.Errorf("err = %v", err)
	}
}

func TestStrictPermissionsAllowTheSixPoliciesOnly(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	c.locked(func(time.Time) { c.rules.Permissions = StrictPermissions("sandbox") })
	ctx, profiles, queues := t.Context(), iam.NewFromConfig(c.cfg), sqs.NewFromConfig(c.cfg)

	_, err := profiles.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{InstanceProfileName: aws.String("p")})
	check(t, err)
	_, err = profiles.AddRoleToInstanceProfile(ctx, &iam.AddRoleToInstanceProfileInput{InstanceProfileName: aws.String("p"), RoleName: aws.String("KarpenterNodeRole")})
	check(t, err)
	_, err = queues.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: aws.String("Karpenter-sandbox")})
	check(t, err)
	_, err = eks.NewFromConfig(c.cfg).DescribeCluster(ctx, &eks.DescribeClusterInput{Name: aws.String("sandbox")})
	check(t, err)
	_, err = sts.NewFromConfig(c.cfg).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	check(t, err)

	_, err = profiles.CreateServiceLinkedRole(ctx, &iam.CreateServiceLinkedRoleInput{AWSServiceName: aws.String(spotServiceName)})
	wantCode(t, err, "AccessDenied", 403)
	if !strings.Contains(err.Error(), "iam:CreateServiceLinkedRole") || !strings.Contains(err.Error(), "no identity-based policy") {
		t.Errorf("err = %v", err)
	}
	_, err = queues.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: aws.String("x"), MessageBody: aws.String("x")})
	wantCode(t, err, "AccessDeniedException", 400)
	_, err = ssm.NewFromConfig(c.cfg).GetParameters(ctx, &ssm.GetParametersInput{Names: []string{"x"}})
	wantCode(t, err, "AccessDeniedException", 400)
	_, err = eks.NewFromConfig(c.cfg).ListClusters(ctx, &eks.ListClustersInput{})
	wantCode(t, err, "AccessDeniedException", 403)
}
