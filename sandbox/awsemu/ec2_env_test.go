package awsemu

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"
)

// ec2Start is where the clock of every environment starts.
var ec2Start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// ec2Env is an emulator behind HTTP with a clock that only moves on request, and the real client.
type ec2Env struct {
	*testing.T
	emu    *Emulator
	clock  *Clock
	server *httptest.Server
	ec2    *ec2.Client
	sdk    aws.Config
}

func newEC2Env(t *testing.T) *ec2Env {
	t.Helper()
	return newEC2LabWith(t, NewClock(func() time.Time { return ec2Start }, 0))
}

// newEC2LabWith is an environment with a clock that the test moves.
func newEC2LabWith(t *testing.T, clock *Clock) *ec2Env {
	t.Helper()
	emu := New(Options{Clock: clock, Seed: 1, Fixture: Fixture{
		Account: "111122223333", Region: "eu-west-1", Cluster: "sandbox", KubernetesVersion: "1.34", Queue: "Karpenter-sandbox",
		Zones: []Zone{{Name: "eu-west-1a", ID: "euw1-az1"}, {Name: "eu-west-1b", ID: "euw1-az2"}, {Name: "eu-west-1c", ID: "euw1-az3"}},
	}})
	env := &ec2Env{T: t, emu: emu, clock: clock, server: httptest.NewServer(emu)}
	t.Cleanup(env.server.Close)
	env.sdk = aws.Config{
		Region: "eu-west-1", BaseEndpoint: &env.server.URL, Credentials: credentials.NewStaticCredentialsProvider("AKIATEST", "secret", ""),
		Retryer: func() aws.Retryer {
			return retry.NewStandard(func(o *retry.StandardOptions) {
				o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
			})
		},
	}
	env.ec2 = ec2.NewFromConfig(env.sdk)
	env.createProfile("nodes")
	return env
}

// createProfile makes an instance profile that can be used.
func (l *ec2Env) createProfile(name string) {
	l.Helper()
	client := iam.NewFromConfig(l.sdk)
	if _, err := client.CreateInstanceProfile(l.Context(), &iam.CreateInstanceProfileInput{InstanceProfileName: &name}); err != nil {
		l.Fatalf("create instance profile: %v", err)
	}
	role := "KarpenterNodeRole-sandbox"
	if _, err := client.AddRoleToInstanceProfile(l.Context(), &iam.AddRoleToInstanceProfileInput{InstanceProfileName: &name, RoleName: &role}); err != nil {
		l.Fatalf("add role: %v", err)
	}
}

// callControlAPI calls the control API and returns the response.
func (l *ec2Env) callControlAPI(method, path, body string) string {
	l.Helper()
	status, reply := l.tryControl(method, path, body)
	if status != http.StatusOK {
		l.Fatalf("%s %s: %d %s", method, path, status, reply)
	}
	return reply
}

func (l *ec2Env) tryControl(method, path, body string) (int, string) {
	l.Helper()
	request, err := http.NewRequestWithContext(l.Context(), method, l.server.URL+controlPrefix+path, strings.NewReader(body))
	if err != nil {
		l.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		l.Fatal(err)
	}
	defer response.Body.Close()
	reply, err := io.ReadAll(response.Body)
	if err != nil {
		l.Fatal(err)
	}
	return response.StatusCode, string(reply)
}

// advanceClock moves the time.
func (l *ec2Env) advanceClock(d time.Duration) {
	l.Helper()
	l.callControlAPI(http.MethodPut, "time", `{"advance":"`+d.String()+`"}`)
}

// events takes all events from the queue.
func (l *ec2Env) events() []map[string]any {
	l.Helper()
	client := sqs.NewFromConfig(l.sdk)
	url, err := client.GetQueueUrl(l.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String("Karpenter-sandbox")})
	if err != nil {
		l.Fatal(err)
	}
	var list []map[string]any
	for {
		out, err := client.ReceiveMessage(l.Context(), &sqs.ReceiveMessageInput{QueueUrl: url.QueueUrl, MaxNumberOfMessages: 10, VisibilityTimeout: 3600})
		if err != nil {
			l.Fatal(err)
		}
		if len(out.Messages) == 0 {
			return list
		}
		for _, m := range out.Messages {
			event := map[string]any{}
			if err := json.Unmarshal([]byte(*m.Body), &event); err != nil {
				l.Fatalf("event %s: %v", *m.Body, err)
			}
			list = append(list, event)
			if _, err := client.DeleteMessage(l.Context(), &sqs.DeleteMessageInput{QueueUrl: url.QueueUrl, ReceiptHandle: m.ReceiptHandle}); err != nil {
				l.Fatal(err)
			}
		}
	}
}

// imageOfArch is the image of AL2023 for an architecture.
func imageOfArch(arch string) string {
	return imageIDFor("/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/" + arch + "/standard/recommended/image_id")
}

// createTemplate makes a launch template as the controller does.
func (l *ec2Env) createTemplate(name string, change func(*types.RequestLaunchTemplateData)) {
	l.Helper()
	data := &types.RequestLaunchTemplateData{
		ImageId: aws.String(imageOfArch("x86_64")), UserData: aws.String(base64.StdEncoding.EncodeToString([]byte("#!/bin/bash\necho hello"))),
		IamInstanceProfile: &types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: aws.String("nodes")},
		NetworkInterfaces: []types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{
			{DeviceIndex: aws.Int32(0), Groups: []string{stableID("sg-", "nodes")}},
		},
		BlockDeviceMappings: []types.LaunchTemplateBlockDeviceMappingRequest{
			{DeviceName: aws.String("/dev/xvda"), Ebs: &types.LaunchTemplateEbsBlockDeviceRequest{VolumeSize: aws.Int32(20), VolumeType: types.VolumeTypeGp3}},
		},
	}
	if change != nil {
		change(data)
	}
	_, err := l.ec2.CreateLaunchTemplate(l.Context(), &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: &name, LaunchTemplateData: data,
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeLaunchTemplate, Tags: []types.Tag{{Key: aws.String("eks:eks-cluster-name"), Value: aws.String("sandbox")}}}},
	})
	if err != nil {
		l.Fatalf("create template %s: %v", name, err)
	}
}

// subnet is the subnet of a zone such as a.
func subnet(zone string) string { return stableID("subnet-", "private/eu-west-1"+zone) }

// parseOverride is an override: an instance type in a zone such as m5.large/a, with a priority after @.
func parseOverride(text string) types.FleetLaunchTemplateOverridesRequest {
	text, priority, prioritised := strings.Cut(text, "@")
	name, zone, _ := strings.Cut(text, "/")
	o := types.FleetLaunchTemplateOverridesRequest{
		InstanceType: types.InstanceType(name), SubnetId: aws.String(subnet(zone)), AvailabilityZone: aws.String("eu-west-1" + zone),
	}
	if prioritised {
		o.Priority = aws.Float64(float64(priority[0] - '0'))
	}
	return o
}

// fleetInput requests instances from the template "t".
func fleetInput(market types.DefaultTargetCapacityType, count int32, offers ...string) *ec2.CreateFleetInput {
	in := &ec2.CreateFleetInput{
		Type:                        types.FleetTypeInstant,
		TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{TotalTargetCapacity: &count, DefaultTargetCapacityType: market},
		LaunchTemplateConfigs: []types.FleetLaunchTemplateConfigRequest{{
			LaunchTemplateSpecification: &types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateName: aws.String("t"), Version: aws.String("$Latest")},
		}},
		SpotOptions:     &types.SpotOptionsRequest{AllocationStrategy: types.SpotAllocationStrategyPriceCapacityOptimized},
		OnDemandOptions: &types.OnDemandOptionsRequest{AllocationStrategy: types.FleetOnDemandAllocationStrategyLowestPrice},
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeInstance, Tags: []types.Tag{
			{Key: aws.String("karpenter.sh/nodepool"), Value: aws.String("default")},
		}}},
	}
	for _, text := range offers {
		in.LaunchTemplateConfigs[0].Overrides = append(in.LaunchTemplateConfigs[0].Overrides, parseOverride(text))
	}
	return in
}

// createFleet launches and fails the test on an error of the call.
func (l *ec2Env) createFleet(in *ec2.CreateFleetInput) *ec2.CreateFleetOutput {
	l.Helper()
	out, err := l.ec2.CreateFleet(l.Context(), in)
	if err != nil {
		l.Fatalf("create fleet: %v", err)
	}
	return out
}

// launch makes one instance of the template "t".
func (l *ec2Env) launch(market types.DefaultTargetCapacityType, offers ...string) string {
	l.Helper()
	ids := fleetIDs(l.createFleet(fleetInput(market, 1, offers...)))
	if len(ids) != 1 {
		l.Fatalf("launched %v, want one instance", ids)
	}
	return ids[0]
}

func fleetIDs(out *ec2.CreateFleetOutput) []string {
	var ids []string
	for _, i := range out.Instances {
		ids = append(ids, i.InstanceIds...)
	}
	return ids
}

// fleetSummary is the pools that served as type/zone=count, and the errors as code type/zone.
func fleetSummary(out *ec2.CreateFleetOutput) []string {
	var list []string
	for _, i := range out.Instances {
		o := i.LaunchTemplateAndOverrides.Overrides
		list = append(list, string(o.InstanceType)+"/"+strings.TrimPrefix(*o.AvailabilityZone, "eu-west-1")+"="+itoa(len(i.InstanceIds)))
	}
	for _, e := range out.Errors {
		o := e.LaunchTemplateAndOverrides.Overrides
		list = append(list, *e.ErrorCode+" "+string(o.InstanceType)+"/"+strings.TrimPrefix(aws.ToString(o.AvailabilityZone), "eu-west-1"))
	}
	return list
}

// apiCode is the code of an error of the SDK.
func apiCode(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api.ErrorCode()
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// describe returns an instance.
func (l *ec2Env) describe(id string) types.Instance {
	l.Helper()
	out, err := l.ec2.DescribeInstances(l.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
	if err != nil {
		l.Fatalf("describe %s: %v", id, err)
	}
	return out.Reservations[0].Instances[0]
}

func (l *ec2Env) wantState(id string, want types.InstanceStateName) {
	l.Helper()
	if got := l.describe(id).State.Name; got != want {
		l.Errorf("%s is %s, want %s", id, got, want)
	}
}

func ec2FilterOf(name string, values ...string) []types.Filter {
	return []types.Filter{{Name: &name, Values: values}}
}

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }

func compactXML(text string) string {
	var b bytes.Buffer
	if json.Compact(&b, []byte(text)) != nil {
		return text
	}
	return b.String()
}
