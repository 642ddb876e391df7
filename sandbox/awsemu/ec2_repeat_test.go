package awsemu

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

func TestSameTokenSameResponse(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	env.createTemplate("t", nil)
	in := fleetInput(spot, 2, "m5.large/a")
	in.ClientToken = aws.String("token")
	first := env.createFleet(in)
	env.callControlAPI(http.MethodPost, "ice", `{}`)
	env.advanceClock(23 * time.Hour)
	second := env.createFleet(in)
	if diff := cmp.Diff(fleetIDs(first), fleetIDs(second)); diff != "" || *first.FleetId != *second.FleetId {
		t.Errorf("second response (-first +second):\n%s", diff)
	}
	if n := len(env.emu.Instances()); n != 2 {
		t.Errorf("%d instances, want 2", n)
	}
	other := fleetInput(spot, 3, "m5.large/a")
	other.ClientToken = aws.String("token")
	if _, err := env.ec2.CreateFleet(t.Context(), other); apiCode(err) != "IdempotentParameterMismatch" {
		t.Errorf("other parameters: %v", err)
	}
	env.callControlAPI(http.MethodDelete, "ice", "")
	env.advanceClock(time.Hour)
	if third := env.createFleet(in); slices.Equal(fleetIDs(first), fleetIDs(third)) {
		t.Errorf("the token is kept for more than a day")
	}

	template := &ec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String("x"), LaunchTemplateData: &types.RequestLaunchTemplateData{ImageId: aws.String("ami-1")}, ClientToken: aws.String("lt")}
	one, err := env.ec2.CreateLaunchTemplate(t.Context(), template)
	if err != nil {
		t.Fatal(err)
	}
	two, err := env.ec2.CreateLaunchTemplate(t.Context(), template)
	if err != nil || *one.LaunchTemplate.LaunchTemplateId != *two.LaunchTemplate.LaunchTemplateId {
		t.Errorf("template again: %+v, %v", two, err)
	}
	run := runInput(false)
	run.ClientToken = aws.String("run")
	a, err := env.ec2.RunInstances(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	b, err := env.ec2.RunInstances(t.Context(), run)
	if err != nil || *a.Instances[0].InstanceId != *b.Instances[0].InstanceId {
		t.Errorf("run again: %+v, %v", b, err)
	}
}

func TestConnectionLostAfterTheLaunch(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	env.createTemplate("t", nil)
	env.callControlAPI(http.MethodPost, "faults", `{"action":"ec2:CreateFleet","count":1,"drop":"after"}`)
	ids := fleetIDs(env.createFleet(fleetInput(spot, 2, "m5.large/a")))
	calls := env.emu.Calls(wire.EC2, "CreateFleet")
	if len(calls) != 2 || calls[0].Invocation != calls[1].Invocation {
		t.Fatalf("calls %+v, want one call in two attempts", calls)
	}
	var have []string
	for _, v := range env.emu.Instances() {
		have = append(have, v.ID)
	}
	if diff := cmp.Diff(have, sorted(ids)); diff != "" {
		t.Errorf("instances (-there +answered):\n%s", diff)
	}
}

func TestStateSurvivesJSON(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	env.createTemplate("t", nil)
	in := fleetInput(spot, 2, "m5.large/a")
	in.ClientToken = aws.String("token")
	ids := fleetIDs(env.createFleet(in))
	env.callControlAPI(http.MethodPost, "ice", `{"instanceType":"c5.*","ttl":"1h"}`)
	state := env.callControlAPI(http.MethodGet, "state", "")
	env.callControlAPI(http.MethodPost, "reset", "")
	if n := len(env.emu.Instances()); n != 0 {
		t.Fatalf("%d instances after a reset", n)
	}
	env.callControlAPI(http.MethodPut, "state", state)
	if again := env.callControlAPI(http.MethodGet, "state", ""); again != state {
		t.Errorf("state changed (-before +after):\n%s", cmp.Diff(strings.Split(state, "\n"), strings.Split(again, "\n")))
	}
	if got := fleetIDs(env.createFleet(in)); !slices.Equal(got, ids) {
		t.Errorf("the token was dropped: %v, want %v", got, ids)
	}
}

func TestNothingInAStateIsTrusted(t *testing.T) {
	t.Parallel()
	var s EC2State
	if err := s.UnmarshalJSON([]byte(`{"subnets":{"x":null},"instances":null,"ice":[null],"types":{"x":null,"y":{"zones":["mars"],"spotPrices":{"mars":-1}}}}`)); err != nil {
		t.Fatal(err)
	}
	if len(s.Subnets) != 0 || s.Instances == nil || len(s.ICE) != 0 || s.Timing.Pending == 0 || len(s.Types) != 1 {
		t.Errorf("state %+v", s)
	}
	env := newEC2Env(t)
	env.emu.model.EC2.Types = s.Types
	env.emu.buildCatalogue()
	if got := env.describeMarket("y"); !got.Known || got.Zones != nil || got.Spot != nil {
		t.Errorf("a type without anything: %+v", got)
	}
}

func TestSameSeedSameIDs(t *testing.T) {
	t.Parallel()
	run := func() []string {
		env := newEC2Env(t)
		env.createTemplate("t", nil)
		ids := fleetIDs(env.createFleet(fleetInput(spot, 3, "m5.large/a", "m5.xlarge/b")))
		return append(ids, env.templateID("t"), *env.describe(ids[0]).NetworkInterfaces[0].NetworkInterfaceId)
	}
	if diff := cmp.Diff(run(), run()); diff != "" {
		t.Errorf("two emulators with one seed:\n%s", diff)
	}
}

func TestControlsOfEC2(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	for name, tc := range map[string]struct {
		method, path, body string
		want               string // part of the refusal
	}{
		"id is required":         {http.MethodPut, "images", `[{"name":"x"}]`, "id: is required"},
		"typo":                   {http.MethodPut, "subnets", `[{"id":"x","zone":"eu-west-1a","fre":1}]`, "unknown field"},
		"unknown zone":           {http.MethodPut, "subnets", `[{"id":"x","zone":"mars"}]`, "zone"},
		"bad network":            {http.MethodPut, "subnets", `[{"id":"x","zone":"eu-west-1a","cidr":"10.0.0.0/30"}]`, "cidr"},
		"unknown type":           {http.MethodPut, "reservations", `[{"id":"x","instanceType":"x","zone":"eu-west-1a"}]`, "instanceType"},
		"impossible reservation": {http.MethodPut, "reservations", `[{"id":"x","instanceType":"m5.large","zone":"eu-west-1a","total":1,"available":2}]`, "available"},
		"unknown strategy":       {http.MethodPut, "placement-groups", `[{"id":"x"}]`, "strategy"},
		"negative quota":         {http.MethodPut, "quota", `{"spotVCPU":-1}`, "negative"},
		"negative time":          {http.MethodPut, "timing", `{"pending":"-1s"}`, "no time"},
		"negative price":         {http.MethodPut, "prices", `[{"price":-1}]`, "negative"},
		"nothing to delete":      {http.MethodDelete, "images/ami-1", ``, "there is no"},
		"nothing to show":        {http.MethodGet, "groups/sg-1", ``, "there is no"},
		"no list":                {http.MethodPut, "groups", `{}`, "body"},
		"bad ice":                {http.MethodPost, "ice", `{"zones":"a"}`, "unknown field"},
		"no such part":           {http.MethodGet, "instances/x/y", ``, "no instance"},
	} {
		if status, text := env.tryControl(tc.method, tc.path, tc.body); status != http.StatusBadRequest || !strings.Contains(text, tc.want) {
			t.Errorf("%s: %d %s, want ...%s", name, status, text, tc.want)
		}
	}
	env.callControlAPI(http.MethodPut, "quota", `{"spotVCPU":4,"fleets":2}`)
	env.callControlAPI(http.MethodPut, "quota", `{"spotVCPU":null}`)
	if got := compactXML(env.callControlAPI(http.MethodGet, "quota", "")); got != `{"spotVCPU":null,"onDemandVCPU":null,"fleets":2}` {
		t.Errorf("quota %s", got)
	}
	env.callControlAPI(http.MethodPost, "ice", `{"capacityType":"spot","zone":"eu-west-1a","ttl":"3m"}`)
	env.callControlAPI(http.MethodPost, "ice", `{"capacityType":"spot","zone":"eu-west-1b"}`)
	env.callControlAPI(http.MethodDelete, "ice", `{"capacityType":"spot","zone":"eu-west-1b"}`)
	if got := env.callControlAPI(http.MethodGet, "ice", ""); strings.Count(got, "zone") != 1 {
		t.Errorf("ice %s", got)
	}
	env.advanceClock(3 * time.Minute)
	if got := strings.TrimSpace(env.callControlAPI(http.MethodGet, "ice", "")); got != "[]" && got != "null" {
		t.Errorf("ice after its time: %s", got)
	}
	env.callControlAPI(http.MethodDelete, "images/"+imageOfArch("x86_64"), "")
	env.createTemplate("t", nil)
	if got := fleetSummary(env.createFleet(fleetInput(onDemand, 1, "m5.large/a"))); !slices.Equal(got, []string{"InvalidAMIID.NotFound m5.large/a"}) {
		t.Errorf("fleet with an image that was deregistered: %v", got)
	}
}

func TestAddressesAreUniqueAndComeBack(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	env.callControlAPI(http.MethodPut, "subnets", `[{"id":"`+subnet("a")+`","cidr":"10.9.0.0/28"}]`) // 11 addresses
	env.createTemplate("t", nil)
	out := env.createFleet(fleetInput(onDemand, 20, "m5.large/a"))
	if diff := cmp.Diff([]string{"m5.large/a=11", "InsufficientFreeAddressesInSubnet m5.large/a"}, fleetSummary(out)); diff != "" {
		t.Fatalf("fleet (-want +got):\n%s", diff)
	}
	seen := map[string]bool{}
	for _, v := range env.emu.Instances() {
		if seen[v.PrivateIP] {
			t.Errorf("%s is used twice", v.PrivateIP)
		}
		seen[v.PrivateIP] = true
	}
	env.callControlAPI(http.MethodPost, "kill", `{"instance":"`+fleetIDs(out)[3]+`"}`)
	env.launch(onDemand, "m5.large/a")
}

func TestManyCallersAtOnce(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	env.createTemplate("t", nil)
	done := make(chan error)
	for range 8 {
		go func() {
			_, err := env.ec2.CreateFleet(t.Context(), fleetInput(spot, 3, "m5.large/a"))
			if err == nil {
				_, err = env.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{})
			}
			env.emu.Instances()
			done <- err
		}()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if n := len(env.emu.Instances()); n != 24 {
		t.Errorf("%d instances, want 24", n)
	}
}

// TestOddParameters sends what no client sends: nothing may crash, and no response may claim success
// on the wrong side.
func TestOddParameters(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	env.createTemplate("t", nil)
	env.launch(onDemand, "m5.large/a")
	bodies := []string{
		"", "MaxResults=0", "MaxResults=x", "MaxResults=-1", "MaxResults=99999999999999999999", "NextToken=!", "NextToken=AAAA",
		"Filter.1.Name=", "Filter.1.Name=tag:", "Filter.1.Name=tag-key", "Filter.1.Value.1=x", "InstanceId.1=", "InstanceId.1=i-", "ImageId.1=", "SubnetId.1=&GroupId.1=",
		"ResourceId.1=", "ResourceId.1=-", "ResourceId.1=i-1&Tag.1.Value=x", "Tag.1.Key=x", "LaunchTemplateName=", "LaunchTemplateId=", "LaunchTemplateName=y&LaunchTemplateData.UserData=%00",
		"LaunchTemplateName=y&LaunchTemplateData=", "LaunchTemplate.LaunchTemplateName=t&MinCount=0&MaxCount=-1", "LaunchTemplate.LaunchTemplateName=t&InstanceType=m5.large&MaxCount=5&MinCount=9",
		"ImageId=x&InstanceType=m5.large&SubnetId=x", "InstanceType=m5.large&InstanceMarketOptions.MarketType=barter",
		"Type=instant", "Type=instant&LaunchTemplateConfigs.1.Overrides.1.InstanceType=m5.large", "Type=instant&LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateName=t&LaunchTemplateConfigs.1.Overrides.1.Priority=NaN&TargetCapacitySpecification.TotalTargetCapacity=1",
		"Type=instant&LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateName=t&LaunchTemplateConfigs.1.Overrides.1.InstanceType=m5.large&TargetCapacitySpecification.TotalTargetCapacity=1&TargetCapacitySpecification.DefaultTargetCapacityType=gift",
		"LocationType=galaxy", "ProductDescription.1=OS/2", "VpcId.1=x", "ZoneName.1=x", "ClientToken=", "ClientToken=x&LaunchTemplateName=z",
	}
	for action := range env.emu.operations[wire.EC2] {
		for _, body := range bodies {
			request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader("Action="+action+"&Version=2016-11-15&"+body))
			request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			recorder := httptest.NewRecorder()
			env.emu.ServeHTTP(recorder, request)
			if recorder.Code >= http.StatusInternalServerError {
				t.Errorf("%s %s: %d %s", action, body, recorder.Code, recorder.Body)
			}
		}
	}
}

func FuzzEC2Wildcard(f *testing.F) {
	f.Add("a*b?c", "axxbyc")
	f.Add(`\*`, "*")
	f.Fuzz(func(t *testing.T, pattern, value string) {
		ec2Wildcard(pattern, value) // must end and not panic
		if !strings.ContainsAny(value, `*?\`) && !ec2Wildcard(value, value) {
			t.Errorf("%q does not match itself", value)
		}
		if !ec2Wildcard("*", value) {
			t.Errorf("* does not match %q", value)
		}
	})
}

func TestThrottledAndBroken(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	env.createTemplate("t", nil)
	env.callControlAPI(http.MethodPut, "throttle", `{"ec2:CreateFleet":{"rate":0,"burst":1}}`)
	env.launch(onDemand, "m5.large/a")
	if _, err := env.ec2.CreateFleet(t.Context(), fleetInput(onDemand, 1, "m5.large/a")); apiCode(err) != "RequestLimitExceeded" {
		t.Errorf("throttled: %v", err)
	}
	env.callControlAPI(http.MethodPost, "faults", `{"action":"ec2:Describe*","count":3,"code":"InternalError"}`)
	if _, err := env.ec2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{}); apiCode(err) != "InternalError" {
		t.Errorf("three faults outlast three attempts: %v", err)
	}
	if _, err := env.ec2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{}); err != nil {
		t.Errorf("after the faults: %v", err)
	}
	if n := len(env.emu.Instances()); n != 1 {
		t.Errorf("%d instances, want 1", n)
	}
}
