package awsemu

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/arczonalshift"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

// Tags that the policies request, and their values in the environment.
var (
	nodeTags    = []string{"kubernetes.io/cluster/sandbox=owned", "eks:eks-cluster-name=sandbox", "karpenter.sh/nodepool=default", "karpenter.k8s.aws/ec2nodeclass=default"}
	profileTags = []string{"kubernetes.io/cluster/sandbox=owned", "eks:eks-cluster-name=sandbox", "karpenter.k8s.aws/ec2nodeclass=default", "topology.kubernetes.io/region=eu-west-1"}
)

// controllerEnv does what a controller does, with the credentials of its role. Tags may be left out: the key of the
// map is the resource type, its value the tag key.
type controllerEnv struct {
	*ec2Env
	person  *ec2Env // who sets the scene and may do everything
	without map[string]string
	role    string
}

func newControllerEnv(t *testing.T) *controllerEnv {
	t.Helper()
	person := newEC2Env(t)
	return &controllerEnv{ec2Env: person.withRole("KarpenterControllerRole-sandbox"), person: person, without: map[string]string{}, role: "KarpenterNodeRole-sandbox"}
}

// withRole is the environment with the credentials of a role.
func (l *ec2Env) withRole(role string) *ec2Env {
	l.emu.mu.Lock()
	given := l.emu.issueCredentials(role, "me", time.Hour)
	l.emu.mu.Unlock()
	bound := *l
	bound.sdk = l.sdk.Copy()
	bound.sdk.Credentials = credentials.NewStaticCredentialsProvider(given.key, given.secret, given.token)
	bound.ec2 = ec2.NewFromConfig(bound.sdk)
	return &bound
}

// putRolePolicy gives a role an inline policy with one statement.
func (l *ec2Env) putRolePolicy(role, name, statement string) {
	l.Helper()
	check(l.T, errorOf(iam.NewFromConfig(l.sdk).PutRolePolicy(l.Context(), &iam.PutRolePolicyInput{
		RoleName: &role, PolicyName: &name, PolicyDocument: aws.String(`{"Version":"2012-10-17","Statement":[` + statement + `]}`),
	})))
}

// pairsFor is the tags of a resource type without the one that is to be missing.
func (l *controllerEnv) pairsFor(kind string, tags []string) [][2]string {
	var list [][2]string
	for _, tag := range tags {
		if key, value, _ := strings.Cut(tag, "="); l.without[kind] != key {
			list = append(list, [2]string{key, value})
		}
	}
	return list
}

func (l *controllerEnv) tags(kind types.ResourceType) types.TagSpecification {
	spec := types.TagSpecification{ResourceType: kind}
	for _, pair := range l.pairsFor(string(kind), nodeTags) {
		spec.Tags = append(spec.Tags, types.Tag{Key: &pair[0], Value: &pair[1]})
	}
	return spec
}

func (l *controllerEnv) createProfile() error {
	in := &iam.CreateInstanceProfileInput{InstanceProfileName: aws.String("sandbox_1"), Path: aws.String("/karpenter/eu-west-1/sandbox/uid/")}
	for _, pair := range l.pairsFor("instance-profile", profileTags) {
		in.Tags = append(in.Tags, iamtypes.Tag{Key: &pair[0], Value: &pair[1]})
	}
	client := iam.NewFromConfig(l.sdk)
	if _, err := client.CreateInstanceProfile(l.Context(), in); err != nil {
		return err
	}
	_, err := client.AddRoleToInstanceProfile(l.Context(), &iam.AddRoleToInstanceProfileInput{InstanceProfileName: in.InstanceProfileName, RoleName: &l.role})
	return err
}

func (l *controllerEnv) createTemplate(name string) error {
	data := &types.RequestLaunchTemplateData{
		ImageId: aws.String(imageOfArch("x86_64")), IamInstanceProfile: &types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: aws.String("sandbox_1")},
		NetworkInterfaces: []types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{{DeviceIndex: aws.Int32(0), Groups: []string{stableID("sg-", "nodes")}}},
	}
	for _, kind := range []types.ResourceType{types.ResourceTypeNetworkInterface, types.ResourceTypeSpotInstancesRequest} {
		spec := l.tags(kind)
		data.TagSpecifications = append(data.TagSpecifications, types.LaunchTemplateTagSpecificationRequest{ResourceType: kind, Tags: spec.Tags})
	}
	_, err := l.ec2.CreateLaunchTemplate(l.Context(), &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: &name, LaunchTemplateData: data, TagSpecifications: []types.TagSpecification{l.tags(types.ResourceTypeLaunchTemplate)},
	})
	return err
}

func (l *controllerEnv) fleetInput() *ec2.CreateFleetInput {
	in := fleetInput(spot, 1, "m5.large/a")
	in.TagSpecifications = []types.TagSpecification{l.tags(types.ResourceTypeFleet), l.tags(types.ResourceTypeInstance), l.tags(types.ResourceTypeVolume)}
	return in
}

// launchCycle is everything that a controller does to get one instance. It returns the instance, or
// the refusal wherever that came from.
func (l *controllerEnv) launchCycle() (id, refusal string) {
	l.Helper()
	if err := l.createProfile(); err != nil {
		return "", err.Error()
	}
	if err := l.createTemplate("t"); err != nil {
		return "", err.Error()
	}
	in := l.fleetInput()
	in.DryRun = aws.Bool(true)
	if _, err := l.ec2.CreateFleet(l.Context(), in); apiCode(err) != "DryRunOperation" {
		return "", err.Error()
	}
	_, err := l.ec2.RunInstances(l.Context(), &ec2.RunInstancesInput{
		DryRun: aws.Bool(true), MinCount: aws.Int32(1), MaxCount: aws.Int32(1), InstanceType: "m5.large",
		LaunchTemplate:    &types.LaunchTemplateSpecification{LaunchTemplateName: aws.String("t"), Version: aws.String("$Latest")},
		NetworkInterfaces: []types.InstanceNetworkInterfaceSpecification{{DeviceIndex: aws.Int32(0), SubnetId: aws.String(subnet("a"))}},
		TagSpecifications: []types.TagSpecification{l.tags(types.ResourceTypeInstance), l.tags(types.ResourceTypeVolume)},
	})
	if apiCode(err) != "DryRunOperation" {
		return "", err.Error()
	}
	in.DryRun = nil
	out, err := l.ec2.CreateFleet(l.Context(), in)
	if err != nil {
		return "", err.Error()
	}
	if len(out.Errors) > 0 {
		return "", *out.Errors[0].ErrorCode + ": " + *out.Errors[0].ErrorMessage
	}
	return out.Instances[0].InstanceIds[0], ""
}

// aws-emulator 12, number 21: the policies of the installation guide are enough for a full create, tag and terminate
// cycle, and for a reboot (S-129).
func TestS_129_PoliciesOfTheControllerPassAFullCycle(t *testing.T) {
	t.Parallel()
	env := newControllerEnv(t)
	ctx, profiles := t.Context(), iam.NewFromConfig(env.sdk)
	id, refusal := env.launchCycle()
	if refusal != "" {
		t.Fatal(refusal)
	}
	for name, run := range map[string]func() error{
		"cluster": func() error {
			_, err := eks.NewFromConfig(env.sdk).DescribeCluster(ctx, &eks.DescribeClusterInput{Name: aws.String("sandbox")})
			return err
		},
		"queue": func() error {
			_, err := sqs.NewFromConfig(env.sdk).GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: aws.String("Karpenter-sandbox")})
			return err
		},
		"parameter": func() error {
			_, err := ssm.NewFromConfig(env.sdk).GetParameter(ctx, &ssm.GetParameterInput{Name: aws.String("/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/x86_64/standard/recommended/image_id")})
			return err
		},
		"prices": func() error {
			_, err := pricing.NewFromConfig(env.sdk).GetProducts(ctx, &pricing.GetProductsInput{ServiceCode: aws.String("AmazonEC2")})
			return err
		},
		"zonal shift": func() error {
			_, err := arczonalshift.NewFromConfig(env.sdk).GetManagedResource(ctx, &arczonalshift.GetManagedResourceInput{ResourceIdentifier: aws.String("arn:aws:eks:eu-west-1:111122223333:cluster/sandbox")})
			return err
		},
		"identity": func() error {
			_, err := sts.NewFromConfig(env.sdk).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
			return err
		},
		"profile": func() error {
			_, err := profiles.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: aws.String("sandbox_1")})
			return err
		},
		"profiles": func() error {
			_, err := profiles.ListInstanceProfiles(ctx, &iam.ListInstanceProfilesInput{PathPrefix: aws.String("/karpenter/")})
			return err
		},
		"instances": func() error {
			_, err := env.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{})
			return err
		},
	} {
		if err := run(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, step := range []struct {
		name string
		run  func() error
	}{
		{"tag", func() error {
			_, err := env.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{id}, Tags: []types.Tag{
				{Key: aws.String("Name"), Value: aws.String("node")}, {Key: aws.String("karpenter.sh/nodeclaim"), Value: aws.String("c")}, {Key: aws.String("eks:eks-cluster-name"), Value: aws.String("sandbox")},
			}})
			return err
		}},
		{"reboot", func() error {
			return errorOf(env.ec2.RebootInstances(ctx, &ec2.RebootInstancesInput{InstanceIds: []string{id}}))
		}},
		{"terminate", func() error {
			_, err := env.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{id}})
			return err
		}},
		{"delete the template", func() error {
			_, err := env.ec2.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateName: aws.String("t")})
			return err
		}},
		{"remove the role", func() error {
			_, err := profiles.RemoveRoleFromInstanceProfile(ctx, &iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: aws.String("sandbox_1"), RoleName: &env.role})
			return err
		}},
		{"delete the profile", func() error {
			_, err := profiles.DeleteInstanceProfile(ctx, &iam.DeleteInstanceProfileInput{InstanceProfileName: aws.String("sandbox_1")})
			return err
		}},
	} {
		if err := step.run(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
	}
}

func TestPoliciesOfTheControllerCatchMissingTags(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"fleet", "instance", "volume", "network-interface", "spot-instances-request", "launch-template"} {
		for _, tag := range []string{"kubernetes.io/cluster/sandbox", "eks:eks-cluster-name", "karpenter.sh/nodepool"} {
			t.Run(kind+" without "+tag, func(t *testing.T) {
				t.Parallel()
				env := newControllerEnv(t)
				env.without[kind] = tag
				_, refusal := env.launchCycle()
				for _, want := range []string{"UnauthorizedOperation", "no identity-based policy", ":" + kind + "/*", "aws:RequestTag/" + tag} {
					if !strings.Contains(refusal, want) {
						t.Errorf("refusal %q, want %q", refusal, want)
					}
				}
			})
		}
	}
	for _, tag := range []string{"kubernetes.io/cluster/sandbox", "eks:eks-cluster-name", "karpenter.k8s.aws/ec2nodeclass", "topology.kubernetes.io/region"} {
		t.Run("instance profile without "+tag, func(t *testing.T) {
			t.Parallel()
			env := newControllerEnv(t)
			env.without["instance-profile"] = tag
			if _, refusal := env.launchCycle(); !strings.Contains(refusal, "AccessDenied") || !strings.Contains(refusal, "aws:RequestTag/"+tag) {
				t.Errorf("refusal %q", refusal)
			}
		})
	}
}

func TestPoliciesOfTheControllerRefuse(t *testing.T) {
	t.Parallel()
	env := newControllerEnv(t)
	id, refusal := env.launchCycle()
	if refusal != "" {
		t.Fatal(refusal)
	}
	env.person.createTemplate("untagged", nil)
	foreign := env.person.createFleet(fleetInputOf("untagged", "m5.large/b")).Instances[0].InstanceIds[0]
	ctx, profiles, queues := t.Context(), iam.NewFromConfig(env.sdk), sqs.NewFromConfig(env.sdk)
	tag := func(id, key, value string) error {
		_, err := env.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{id}, Tags: []types.Tag{{Key: &key, Value: &value}}})
		return err
	}
	for name, tc := range map[string]struct {
		run  func() error
		code string
		want string
	}{
		"a fourth tag key":               {func() error { return tag(id, "team", "a") }, "UnauthorizedOperation", "aws:TagKeys"},
		"another cluster's name":         {func() error { return tag(id, "eks:eks-cluster-name", "other") }, "UnauthorizedOperation", "eks:eks-cluster-name"},
		"a tag on a foreign one":         {func() error { return tag(foreign, "Name", "a") }, "UnauthorizedOperation", "aws:ResourceTag/kubernetes.io/cluster/sandbox"},
		"a tag on a subnet":              {func() error { return tag(subnet("a"), "Name", "a") }, "UnauthorizedOperation", "ec2:CreateTags on resource"},
		"a tag on what is not there":     {func() error { return tag("i-00000000000000000", "Name", "a") }, "InvalidInstanceID.NotFound", ""},
		"a bad tag on what is not there": {func() error { return tag("i-00000000000000000", "team", "a") }, "UnauthorizedOperation", "aws:TagKeys"},
		"to terminate a foreign one": {func() error {
			return errorOf(env.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{id, foreign}}))
		}, "UnauthorizedOperation", foreign},
		"to terminate what is not there": {func() error {
			return errorOf(env.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{"i-00000000000000000"}}))
		}, "InvalidInstanceID.NotFound", ""},
		"to delete an untagged template": {func() error {
			return errorOf(env.ec2.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateName: aws.String("untagged")}))
		}, "UnauthorizedOperation", "kubernetes.io/cluster/sandbox"},
		"to launch from it": {func() error {
			in := env.fleetInput()
			in.LaunchTemplateConfigs[0].LaunchTemplateSpecification.LaunchTemplateName = aws.String("untagged")
			return errorOf(env.ec2.CreateFleet(ctx, in))
		}, "UnauthorizedOperation", "AllowScopedEC2LaunchTemplateAccessActions"},
		"to delete a template that isn't": {func() error {
			return errorOf(env.ec2.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateName: aws.String("none")}))
		}, "InvalidLaunchTemplateName.NotFoundException", ""},
		"another region": {func() error {
			return errorOf(env.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{}, func(o *ec2.Options) { o.Region = "us-east-1" }))
		}, "UnauthorizedOperation", "aws:RequestedRegion"},
		"another describe": {func() error { return errorOf(env.ec2.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{})) }, "UnauthorizedOperation", "ec2:DescribeVpcs"},
		"an untagged profile": {func() error {
			return errorOf(profiles.DeleteInstanceProfile(ctx, &iam.DeleteInstanceProfileInput{InstanceProfileName: aws.String("nodes")}))
		}, "AccessDenied", "aws:ResourceTag/"},
		"the spot role": {func() error {
			return errorOf(profiles.CreateServiceLinkedRole(ctx, &iam.CreateServiceLinkedRoleInput{AWSServiceName: aws.String(spotServiceName)}))
		}, "AccessDenied", "iam:CreateServiceLinkedRole"},
		"another queue": {func() error {
			return errorOf(queues.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: aws.String("other")}))
		}, "AccessDeniedException", "sqs:GetQueueUrl"},
		"to send": {func() error {
			return errorOf(queues.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: aws.String("http://h/1/Karpenter-sandbox"), MessageBody: aws.String("x")}))
		}, "AccessDeniedException", "sqs:SendMessage"},
		"another cluster": {func() error {
			return errorOf(eks.NewFromConfig(env.sdk).DescribeCluster(ctx, &eks.DescribeClusterInput{Name: aws.String("other")}))
		}, "AccessDeniedException", "cluster/other"},
		"a list of clusters": {func() error { return errorOf(eks.NewFromConfig(env.sdk).ListClusters(ctx, &eks.ListClustersInput{})) }, "AccessDeniedException", "eks:ListClusters"},
		"a parameter of the user": {func() error {
			return errorOf(ssm.NewFromConfig(env.sdk).GetParameter(ctx, &ssm.GetParameterInput{Name: aws.String("/mine")}))
		}, "AccessDeniedException", "parameter/mine"},
		"another cluster's shifts": {func() error {
			return errorOf(arczonalshift.NewFromConfig(env.sdk).GetManagedResource(ctx, &arczonalshift.GetManagedResourceInput{ResourceIdentifier: aws.String("arn:aws:eks:eu-west-1:111122223333:cluster/other")}))
		}, "AccessDeniedException", "ResourceIdentifier"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := tc.run(); apiCode(err) != tc.code || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %s with %q", err, tc.code, tc.want)
			}
		})
	}
}

// The controller may pass the role of the nodes and no other.
func TestPoliciesOfTheControllerPassOneRole(t *testing.T) {
	t.Parallel()
	env := newControllerEnv(t)
	env.role = "KarpenterNodeInstanceRole"
	_, refusal := env.launchCycle()
	if !strings.Contains(refusal, "iam:PassRole on resource: arn:aws:iam::111122223333:role/KarpenterNodeInstanceRole") {
		t.Errorf("refusal %q", refusal)
	}
	env = newControllerEnv(t)
	env.role = "KarpenterNodeInstanceRole"
	env.person.putRolePolicy("KarpenterControllerRole-sandbox", "pass", `{"Effect":"Allow","Action":"iam:PassRole","Resource":"arn:aws:iam::111122223333:role/KarpenterNodeInstanceRole"}`)
	if _, refusal := env.launchCycle(); refusal != "" {
		t.Error(refusal)
	}
}

// A snapshot brings what is denied back, with its conditions.
func TestDenialsSurviveASnapshot(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	env.callControlAPI(http.MethodPost, "permissions", `{"action":"ec2:CreateTags","conditions":{"StringEquals":{"aws:RequestTag/team":"a"}},"message":"no"}`)
	before := env.callControlAPI(http.MethodGet, "permissions", "")
	text, err := env.emu.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	env.callControlAPI(http.MethodDelete, "permissions", "")
	if err := env.emu.Restore(text); err != nil {
		t.Fatal(err)
	}
	if after := env.callControlAPI(http.MethodGet, "permissions", ""); after != before || !strings.Contains(after, "aws:RequestTag/team") {
		t.Errorf("after %s", after)
	}
	tag := &ec2.CreateTagsInput{Resources: []string{subnet("a")}, Tags: []types.Tag{{Key: aws.String("team"), Value: aws.String("a")}}}
	if err := errorOf(env.ec2.CreateTags(t.Context(), tag)); apiCode(err) != "UnauthorizedOperation" {
		t.Errorf("tag: %v", err)
	}
}

// errorOf drops the response of a call.
func errorOf[T any](_ T, err error) error { return err }

// fleetInputOf requests one on-demand instance of a template.
func fleetInputOf(template, offers string) *ec2.CreateFleetInput {
	in := fleetInput(types.DefaultTargetCapacityTypeOnDemand, 1, offers)
	in.LaunchTemplateConfigs[0].LaunchTemplateSpecification.LaunchTemplateName = &template
	return in
}
