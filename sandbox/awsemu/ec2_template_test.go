package awsemu

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func TestLaunchTemplates(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	for _, name := range []string{"karpenter.k8s.aws/1", "karpenter.k8s.aws/2", "other"} {
		env.createTemplate(name, nil)
	}
	find := func(in *ec2.DescribeLaunchTemplatesInput) []string {
		t.Helper()
		var names []string
		pages := ec2.NewDescribeLaunchTemplatesPaginator(env.ec2, in)
		for pages.HasMorePages() {
			page, err := pages.NextPage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, lt := range page.LaunchTemplates {
				if *lt.LatestVersionNumber != 1 || *lt.DefaultVersionNumber != 1 || !lt.CreateTime.Equal(ec2Start) {
					t.Errorf("template %+v", lt)
				}
				names = append(names, *lt.LaunchTemplateName)
			}
		}
		return sorted(names)
	}
	if got := find(&ec2.DescribeLaunchTemplatesInput{MaxResults: aws.Int32(2)}); len(got) != 3 {
		t.Errorf("all: %v", got)
	}
	if got := find(&ec2.DescribeLaunchTemplatesInput{Filters: ec2FilterOf("launch-template-name", "karpenter.k8s.aws/*")}); len(got) != 2 {
		t.Errorf("wild: %v", got)
	}
	if got := find(&ec2.DescribeLaunchTemplatesInput{Filters: ec2FilterOf("tag:eks:eks-cluster-name", "sandbox")}); len(got) != 3 {
		t.Errorf("by tag: %v", got)
	}
	if got := find(&ec2.DescribeLaunchTemplatesInput{LaunchTemplateNames: []string{"other"}}); !slices.Equal(got, []string{"other"}) {
		t.Errorf("by name: %v", got)
	}
	_, err := env.ec2.DescribeLaunchTemplates(t.Context(), &ec2.DescribeLaunchTemplatesInput{LaunchTemplateNames: []string{"none"}})
	if apiCode(err) != "InvalidLaunchTemplateName.NotFoundException" {
		t.Errorf("unknown name: %v", err)
	}
	if _, err := env.ec2.DeleteLaunchTemplate(t.Context(), &ec2.DeleteLaunchTemplateInput{LaunchTemplateName: aws.String("other")}); err != nil {
		t.Fatal(err)
	}
	_, err = env.ec2.DeleteLaunchTemplate(t.Context(), &ec2.DeleteLaunchTemplateInput{LaunchTemplateName: aws.String("other")})
	if apiCode(err) != "InvalidLaunchTemplateName.NotFoundException" {
		t.Errorf("deleted twice: %v", err)
	}
	_, err = env.ec2.DeleteLaunchTemplate(t.Context(), &ec2.DeleteLaunchTemplateInput{LaunchTemplateId: aws.String("lt-1")})
	if apiCode(err) != "InvalidLaunchTemplateId.NotFound" {
		t.Errorf("unknown id: %v", err)
	}
}

func TestLaunchTemplateDataIsKeptVerbatim(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	env.createTemplate("t", func(d *types.RequestLaunchTemplateData) {
		d.MetadataOptions = &types.LaunchTemplateInstanceMetadataOptionsRequest{HttpTokens: types.LaunchTemplateHttpTokensStateRequired, HttpPutResponseHopLimit: aws.Int32(1)}
		d.Monitoring = &types.LaunchTemplatesMonitoringRequest{Enabled: aws.Bool(true)}
		d.TagSpecifications = []types.LaunchTemplateTagSpecificationRequest{{ResourceType: types.ResourceTypeNetworkInterface, Tags: []types.Tag{{Key: aws.String("k"), Value: aws.String("v")}}}}
	})
	got := env.callControlAPI(http.MethodGet, "launch-templates/"+env.templateID("t"), "")
	for _, want := range []string{
		`"MetadataOptions.HttpTokens": "required"`, `"MetadataOptions.HttpPutResponseHopLimit": "1"`, `"Monitoring.Enabled": "true"`,
		`"BlockDeviceMapping.1.Ebs.VolumeSize": "20"`, `"NetworkInterface.1.SecurityGroupId.1": "` + stableID("sg-", "nodes") + `"`,
		`"TagSpecification.1.Tag.1.Key": "k"`, `"IamInstanceProfile.Name": "nodes"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in\n%s", want, got)
		}
	}
}

func TestCreateLaunchTemplateRefuses(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	env.createTemplate("taken", nil)
	create := func(name string, userData []byte) error {
		_, err := env.ec2.CreateLaunchTemplate(t.Context(), &ec2.CreateLaunchTemplateInput{
			LaunchTemplateName: &name, LaunchTemplateData: &types.RequestLaunchTemplateData{UserData: aws.String(base64.StdEncoding.EncodeToString(userData))},
		})
		return err
	}
	if err := create("taken", nil); apiCode(err) != "InvalidLaunchTemplateName.AlreadyExistsException" {
		t.Errorf("same name: %v", err)
	}
	if err := create("fits", make([]byte, 16384)); err != nil {
		t.Errorf("largest user data: %v", err)
	}
	if err := create("large", make([]byte, 16385)); apiCode(err) != "InvalidUserData.Malformed" || !strings.Contains(err.Error(), "User data is limited") {
		t.Errorf("too much user data: %v", err)
	}
	env.callControlAPI(http.MethodPut, "permissions", `[{"action":"ec2:CreateLaunchTemplate","deny":true}]`)
	if err := create("x", nil); apiCode(err) != "UnauthorizedOperation" {
		t.Errorf("denied: %v", err)
	}
}

func TestTemplatesLag(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	env.callControlAPI(http.MethodPut, "lag", `{"templates":"2s"}`)
	env.createTemplate("t", nil)
	_, err := env.ec2.CreateFleet(t.Context(), fleetInput(onDemand, 1, "m5.large/a"))
	if apiCode(err) != "InvalidLaunchTemplateName.NotFoundException" {
		t.Errorf("fleet before the template is seen: %v", err)
	}
	env.advanceClock(2 * time.Second)
	env.launch(onDemand, "m5.large/a")
}

func TestRunInstances(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	_, err := env.ec2.RunInstances(t.Context(), runInput(true))
	if apiCode(err) != "InvalidLaunchTemplateName.NotFoundException" {
		t.Errorf("unknown template: %v", err)
	}
	env.createTemplate("t", nil)
	out, err := env.ec2.RunInstances(t.Context(), runInput(false))
	if err != nil || len(out.Instances) != 1 || *out.Instances[0].SubnetId != subnet("b") || len(out.Instances[0].SecurityGroups) != 1 {
		t.Fatalf("run: %+v, %v", out, err)
	}
	if _, err := env.ec2.RebootInstances(t.Context(), &ec2.RebootInstancesInput{InstanceIds: []string{*out.Instances[0].InstanceId}}); err != nil {
		t.Errorf("reboot: %v", err)
	}
	in := runInput(false)
	in.DisableApiTermination = aws.Bool(true)
	protected, err := env.ec2.RunInstances(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	_, err = env.ec2.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{*protected.Instances[0].InstanceId}})
	if apiCode(err) != "OperationNotPermitted" {
		t.Errorf("protected: %v", err)
	}
	env.callControlAPI(http.MethodPost, "ice", `{}`)
	_, err = env.ec2.RunInstances(t.Context(), runInput(false), func(o *ec2.Options) { o.RetryMaxAttempts = 1 })
	if apiCode(err) != "InsufficientInstanceCapacity" {
		t.Errorf("no capacity: %v", err)
	}
	if _, err := env.ec2.RunInstances(t.Context(), runInput(true)); apiCode(err) != "DryRunOperation" {
		t.Errorf("dry runs do not need capacity: %v", err)
	}
	env.callControlAPI(http.MethodPut, "permissions", `[{"action":"iam:PassRole","deny":true}]`)
	if _, err := env.ec2.RunInstances(t.Context(), runInput(true)); apiCode(err) != "UnauthorizedOperation" || !strings.Contains(err.Error(), "iam:PassRole") {
		t.Errorf("may not pass the role: %v", err)
	}
	env.callControlAPI(http.MethodPut, "permissions", `[]`)
	env.callControlAPI(http.MethodDelete, "launch-templates/"+env.templateID("t"), "")
	env.createTemplate("t", func(d *types.RequestLaunchTemplateData) { d.IamInstanceProfile.Name = aws.String("nobody") })
	if _, err := env.ec2.RunInstances(t.Context(), runInput(true)); apiCode(err) != "InvalidParameterValue" || !strings.Contains(err.Error(), "Invalid IAM Instance Profile name") {
		t.Errorf("unknown profile: %v", err)
	}
}
