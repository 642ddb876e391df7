package awsemu

import (
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"
)

func TestTrust_D03_AnInstanceShowsItsInterfaces(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	env.createTemplate("t", func(d *types.RequestLaunchTemplateData) {
		d.NetworkInterfaces = []types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{
			{DeviceIndex: aws.Int32(0), InterfaceType: aws.String("efa"), Groups: []string{stableID("sg-", "nodes")}},
			{DeviceIndex: aws.Int32(1), NetworkCardIndex: aws.Int32(1), InterfaceType: aws.String("efa-only"), Groups: []string{stableID("sg-", "nodes")}},
		}
	})
	id := env.launch(onDemand, "p4d.24xlarge/a")
	i := env.describe(id)
	if len(i.NetworkInterfaces) != 2 {
		t.Fatalf("%d interfaces", len(i.NetworkInterfaces))
	}
	first, second := i.NetworkInterfaces[0], i.NetworkInterfaces[1]
	if a := first.Attachment; a == nil || *a.DeviceIndex != 0 || *a.NetworkCardIndex != 0 || a.Status != types.AttachmentStatusAttached || !*a.DeleteOnTermination ||
		aws.ToString(first.PrivateIpAddress) != *i.PrivateIpAddress || *first.InterfaceType != "efa" || len(first.Groups) != 1 || *first.VpcId != *i.VpcId || first.MacAddress == nil {
		t.Errorf("first interface %+v", first)
	}
	if a := second.Attachment; a == nil || *a.DeviceIndex != 1 || *a.NetworkCardIndex != 1 || *second.InterfaceType != "efa-only" || second.PrivateIpAddress != nil {
		t.Errorf("second interface %+v", second)
	}
	out, err := env.ec2.DescribeNetworkInterfaces(t.Context(), &ec2.DescribeNetworkInterfacesInput{Filters: ec2FilterOf("attachment.instance-id", id)})
	if err != nil || len(out.NetworkInterfaces) != 2 || *out.NetworkInterfaces[0].Attachment.InstanceId != id || *out.NetworkInterfaces[0].AvailabilityZone != "eu-west-1a" {
		t.Errorf("interfaces %+v, %v", out, err)
	}
	if _, err := env.ec2.DescribeNetworkInterfaces(t.Context(), &ec2.DescribeNetworkInterfacesInput{NetworkInterfaceIds: []string{"eni-1"}}); apiCode(err) != "InvalidNetworkInterfaceID.NotFound" {
		t.Errorf("unknown interface: %v", err)
	}
}

func TestTrust_D03_AnInstanceShowsItsMetadataOptions(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	env.createTemplate("t", func(d *types.RequestLaunchTemplateData) {
		d.MetadataOptions = &types.LaunchTemplateInstanceMetadataOptionsRequest{
			HttpTokens: types.LaunchTemplateHttpTokensStateOptional, HttpPutResponseHopLimit: aws.Int32(3), HttpProtocolIpv6: types.LaunchTemplateInstanceMetadataProtocolIpv6Enabled,
		}
	})
	got := env.describe(env.launch(spot, "m5.large/a")).MetadataOptions
	want := &types.InstanceMetadataOptionsResponse{
		HttpEndpoint: "enabled", HttpProtocolIpv6: "enabled", HttpPutResponseHopLimit: aws.Int32(3), HttpTokens: "optional", InstanceMetadataTags: "disabled", State: "applied",
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(types.InstanceMetadataOptionsResponse{}), ignoreSmithy()); diff != "" {
		t.Errorf("options (-want +got):\n%s", diff)
	}
}

// ignoreSmithy leaves out what the SDK keeps for itself.
func ignoreSmithy() cmp.Option {
	return cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".noSmithyDocumentSerde" }, cmp.Ignore())
}

func TestTrust_D03_AnInstanceSaysWhyItEnded(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	env.createTemplate("t", nil)
	ended, taken := env.launch(spot, "m5.large/a"), env.launch(spot, "m5.large/a")
	if reason := env.describe(ended).StateTransitionReason; aws.ToString(reason) != "" {
		t.Errorf("alive because of %q", *reason)
	}
	if _, err := env.ec2.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{ended}}); err != nil {
		t.Fatal(err)
	}
	env.callControlAPI(http.MethodPost, "interrupt", `{"instance":"`+taken+`"}`)
	env.advanceClock(3 * time.Minute)
	for id, want := range map[string]string{ended: "User initiated (2030-01-01 00:00:00 GMT)", taken: "Server.SpotInstanceTermination"} {
		if got := aws.ToString(env.describe(id).StateTransitionReason); got != want {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
	}
}

func TestTrust_D03_InstancesStopAndStart(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	env.createTemplate("t", nil)
	id, lent := env.launch(onDemand, "m5.large/a"), env.launch(spot, "m5.large/a")
	env.advanceClock(time.Minute)
	out, err := env.ec2.StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: []string{id}})
	if err != nil || out.StoppingInstances[0].CurrentState.Name != "stopping" || out.StoppingInstances[0].PreviousState.Name != "running" {
		t.Fatalf("stop: %+v, %v", out, err)
	}
	start := func() error {
		_, err := env.ec2.StartInstances(t.Context(), &ec2.StartInstancesInput{InstanceIds: []string{id}})
		return err
	}
	if code := apiCode(start()); code != "IncorrectInstanceState" {
		t.Errorf("start while it stops: %s", code)
	}
	env.advanceClock(time.Minute)
	env.wantState(id, "stopped")
	if err := start(); err != nil {
		t.Fatal(err)
	}
	env.wantState(id, "pending")
	env.advanceClock(time.Minute)
	env.wantState(id, "running")
	if i := env.describe(id); aws.ToString(i.StateTransitionReason) != "" || i.StateReason != nil || !i.LaunchTime.Equal(ec2Start.Add(2*time.Minute)) {
		t.Errorf("started again: %+v", i)
	}
	if _, err := env.ec2.StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: []string{lent}}); apiCode(err) != "UnsupportedOperation" {
		t.Errorf("stop a spot instance: %v", err)
	}
}

func TestTrust_D03_SpotRequestsFollowTheirInstance(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	env.createTemplate("t", nil)
	taken, ended := env.launch(spot, "m5.large/a"), env.launch(spot, "m5.large/a")
	env.launch(onDemand, "m5.large/a")
	status := func() map[string]string {
		out, err := env.ec2.DescribeSpotInstanceRequests(t.Context(), &ec2.DescribeSpotInstanceRequestsInput{})
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]string{}
		for _, r := range out.SpotInstanceRequests {
			all[*r.InstanceId] = string(r.State) + " " + *r.Status.Code
		}
		return all
	}
	check := func(when string, want map[string]string) {
		t.Helper()
		if diff := cmp.Diff(want, status()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	check("launched", map[string]string{taken: "active fulfilled", ended: "active fulfilled"})
	env.callControlAPI(http.MethodPost, "interrupt", `{"instance":"`+taken+`"}`)
	if _, err := env.ec2.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{ended}}); err != nil {
		t.Fatal(err)
	}
	check("interrupted", map[string]string{taken: "active marked-for-termination", ended: "closed instance-terminated-by-user"})
	env.advanceClock(3 * time.Minute)
	check("gone", map[string]string{taken: "closed instance-terminated-no-capacity", ended: "closed instance-terminated-by-user"})
	id := *env.describe(taken).SpotInstanceRequestId
	out, err := env.ec2.DescribeSpotInstanceRequests(t.Context(), &ec2.DescribeSpotInstanceRequestsInput{SpotInstanceRequestIds: []string{id}})
	if err != nil || len(out.SpotInstanceRequests) != 1 || out.SpotInstanceRequests[0].LaunchSpecification.InstanceType != "m5.large" {
		t.Errorf("one request: %+v, %v", out, err)
	}
}
