package awsemu

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"
)

// eventLines renders events as time offset, kind and state or action.
func eventLines(events []map[string]any) []string {
	var lines []string
	for _, e := range events {
		at, _ := time.Parse(time.RFC3339, e["time"].(string))
		detail := e["detail"].(map[string]any)
		line := at.Sub(ec2Start).String() + " " + e["detail-type"].(string)
		for _, member := range []string{"state", "instance-action"} {
			if text, ok := detail[member].(string); ok {
				line += " " + text
			}
		}
		lines = append(lines, line)
	}
	return sorted(lines)
}

func TestLifeOfAnInstance(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	env.createTemplate("t", nil)
	id := env.launch(spot, "m5.large/b")
	i := env.describe(id)
	if i.State.Name != "pending" || *i.State.Code != 0 || *i.Placement.AvailabilityZone != "eu-west-1b" || *i.Placement.AvailabilityZoneId != "euw1-az2" ||
		i.Placement.Tenancy != "default" || i.SpotInstanceRequestId == nil || i.InstanceLifecycle != "spot" || *i.PrivateDnsName != "ip-10-1-0-4.eu-west-1.compute.internal" ||
		!i.LaunchTime.Equal(ec2Start) || i.Architecture != "x86_64" || len(i.SecurityGroups) != 1 || len(i.NetworkInterfaces) != 1 || i.IamInstanceProfile == nil || *i.ImageId != imageOfArch("x86_64") {
		t.Errorf("instance %+v", i)
	}
	free := func() int32 {
		out, err := env.ec2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{SubnetIds: []string{subnet("b")}})
		if err != nil {
			t.Fatal(err)
		}
		return *out.Subnets[0].AvailableIpAddressCount
	}
	if n := free(); n != 249 {
		t.Errorf("%d addresses are free, want 249", n)
	}
	env.advanceClock(5*time.Second - 1)
	env.wantState(id, "pending")
	env.advanceClock(1)
	env.wantState(id, "running")
	out, err := env.ec2.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}})
	if err != nil || out.TerminatingInstances[0].PreviousState.Name != "running" || out.TerminatingInstances[0].CurrentState.Name != "shutting-down" || *out.TerminatingInstances[0].CurrentState.Code != 32 {
		t.Fatalf("terminate: %+v, %v", out, err)
	}
	out, err = env.ec2.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}})
	if err != nil || out.TerminatingInstances[0].PreviousState.Name != "shutting-down" {
		t.Errorf("terminate again: %+v, %v", out, err)
	}
	env.advanceClock(10 * time.Second)
	env.wantState(id, "terminated")
	if n := free(); n != 250 {
		t.Errorf("%d addresses are free after termination, want 250", n)
	}
	if code := *env.describe(id).StateReason.Code; code != "Client.UserInitiatedShutdown" {
		t.Errorf("reason %s", code)
	}
	const kind = "EC2 Instance State-change Notification "
	if diff := cmp.Diff([]string{"0s " + kind + "pending", "15s " + kind + "terminated", "5s " + kind + "running", "5s " + kind + "shutting-down"}, eventLines(env.events())); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	env.advanceClock(time.Hour)
	if _, err := env.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{id}}); apiCode(err) != "InvalidInstanceID.NotFound" {
		t.Errorf("gone: %v", err)
	}
}

func TestOneLargeStepEqualsManySmallOnes(t *testing.T) {
	t.Parallel()
	run := func(steps int) string {
		env := newEC2Env(t)
		env.createTemplate("t", nil)
		env.launch(spot, "m5.large/a")
		env.launch(spot, "m5.large/b")
		env.callControlAPI(http.MethodPost, "interrupt", `{"selector":{"zone":"eu-west-1b"}}`)
		for range steps {
			env.advanceClock(4 * time.Minute / time.Duration(steps)) // messages are kept for five
		}
		return strings.Join(eventLines(env.events()), "\n")
	}
	if diff := cmp.Diff(run(240), run(1)); diff != "" {
		t.Errorf("240 steps against one (-many +one):\n%s", diff)
	}
}

func TestInterruption(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	env.createTemplate("t", nil)
	id, other := env.launch(spot, "m5.large/a"), env.launch(onDemand, "m5.large/a")
	env.advanceClock(10 * time.Second)
	env.events()
	if got := compactXML(env.callControlAPI(http.MethodPost, "interrupt", `{"selector":{"nodepool":"def*"},"notice":"60s"}`)); got != `{"instances":["`+id+`"]}` {
		t.Errorf("interrupted %s, want %s", got, id)
	}
	events := env.events()
	if len(events) != 1 || events[0]["source"] != "aws.ec2" || events[0]["version"] != "0" || events[0]["detail"].(map[string]any)["instance-id"] != id {
		t.Fatalf("events %v", events)
	}
	env.advanceClock(59 * time.Second)
	env.wantState(id, "running")
	env.advanceClock(time.Second)
	env.wantState(id, "shutting-down")
	env.wantState(other, "running")
	if code := *env.describe(id).StateReason.Code; code != "Server.SpotInstanceTermination" {
		t.Errorf("reason %s", code)
	}
	for body, want := range map[string]string{
		`{"instance":"` + other + `"}`:       "no spot instance",
		`{"instance":"i-1"}`:                 "not alive",
		`{}`:                                 "either",
		`{"instance":"` + other + `","x":1}`: "unknown field",
		`{"instance":"x","selector":{}}`:     "either",
		`{"selector":{},"notice":"soon"}`:    "soon",
		``:                                   "EOF",
	} {
		if status, text := env.tryControl(http.MethodPost, "interrupt", body); status != http.StatusBadRequest || !strings.Contains(text, want) {
			t.Errorf("interrupt %s: %d %s, want ...%s", body, status, text, want)
		}
	}
}

func TestOtherInjections(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	env.createTemplate("t", reserve(stableID("cr-", "targeted")))
	id := env.launch(onDemand, "m5.large/a")
	env.advanceClock(5 * time.Second)
	env.events()
	one := `{"instance":"` + id + `"}`
	env.callControlAPI(http.MethodPost, "rebalance", one)
	env.callControlAPI(http.MethodPost, "health", one)
	env.callControlAPI(http.MethodPost, "reservation-interrupt", one)
	env.callControlAPI(http.MethodPost, "stop", one)
	if diff := cmp.Diff([]string{
		"5s AWS Health Event", "5s EC2 Capacity Reservation Instance Interruption Warning terminate", "5s EC2 Instance Rebalance Recommendation",
		"5s EC2 Instance State-change Notification stopping",
	}, eventLines(env.events())); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	env.advanceClock(10 * time.Second)
	env.wantState(id, "stopped")
	env.advanceClock(2 * time.Minute)
	env.wantState(id, "terminated")
	env.callControlAPI(http.MethodDelete, "launch-templates/"+env.templateID("t"), "")
	env.createTemplate("t", nil)
	victim := env.launch(onDemand, "m5.large/a")
	env.callControlAPI(http.MethodPost, "kill", `{"instance":"`+victim+`"}`)
	env.wantState(victim, "terminated")
}

func TestInstanceStatus(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	env.createTemplate("t", nil)
	ids := fleetIDs(env.createFleet(fleetInput(onDemand, 3, "m5.large/a")))
	find := func(filters []types.Filter) []types.InstanceStatus {
		t.Helper()
		out, err := env.ec2.DescribeInstanceStatus(t.Context(), &ec2.DescribeInstanceStatusInput{Filters: filters})
		if err != nil {
			t.Fatal(err)
		}
		return out.InstanceStatuses
	}
	if got := find(nil); len(got) != 0 {
		t.Errorf("pending instances have a status: %v", got)
	}
	env.advanceClock(time.Minute)
	if got := find(ec2FilterOf("instance-status.status", "ok")); len(got) != 3 {
		t.Errorf("%d are ok, want 3", len(got))
	}
	env.callControlAPI(http.MethodPost, "status-check", `{"instance":"`+ids[0]+`","check":{"system":"impaired"}}`)
	env.callControlAPI(http.MethodPost, "status-check", `{"instance":"`+ids[1]+`","check":{"events":[{"code":"instance-retirement","notBefore":"2030-01-02T00:00:00Z"}]}}`)
	got := find(ec2FilterOf("system-status.status", "impaired"))
	if len(got) != 1 || *got[0].InstanceId != ids[0] || got[0].SystemStatus.Details[0].ImpairedSince == nil || !got[0].SystemStatus.Details[0].ImpairedSince.Equal(ec2Start.Add(time.Minute)) || got[0].InstanceStatus.Status != "ok" {
		t.Errorf("impaired %+v", got)
	}
	got = find(ec2FilterOf("event.code", "instance-stop", "instance-ret*"))
	if len(got) != 1 || *got[0].InstanceId != ids[1] || got[0].Events[0].NotBefore == nil {
		t.Errorf("scheduled %+v", got)
	}
	env.callControlAPI(http.MethodDelete, "status-check", "")
	if got := find(ec2FilterOf("system-status.status", "impaired")); len(got) != 0 {
		t.Errorf("still impaired %+v", got)
	}
}

func TestDescribeLag(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	env.callControlAPI(http.MethodPut, "lag", `{"instances":"1s","tags":"3s"}`)
	env.createTemplate("t", nil)
	id := env.launch(onDemand, "m5.large/a")
	_, err := env.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
	if apiCode(err) != "InvalidInstanceID.NotFound" || !strings.Contains(err.Error(), id) {
		t.Errorf("by id at once: %v", err)
	}
	if out, err := env.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{}); err != nil || len(out.Reservations) != 0 {
		t.Errorf("list at once: %+v, %v", out, err)
	}
	env.advanceClock(time.Second)
	if tags := env.describe(id).Tags; !slices.ContainsFunc(tags, func(tag types.Tag) bool { return *tag.Key == "karpenter.sh/nodepool" }) {
		t.Errorf("tags come with the instance: %v", tags)
	}
	tag := func(value string) {
		t.Helper()
		if _, err := env.ec2.CreateTags(t.Context(), &ec2.CreateTagsInput{Resources: []string{id}, Tags: []types.Tag{{Key: aws.String("Name"), Value: &value}}}); err != nil {
			t.Fatal(err)
		}
	}
	named := func(value string) bool {
		t.Helper()
		out, err := env.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{Filters: ec2FilterOf("tag:Name", value)})
		if err != nil {
			t.Fatal(err)
		}
		return len(out.Reservations) == 1
	}
	tag("first")
	env.advanceClock(time.Second)
	tag("second")
	if named("*") {
		t.Errorf("the tag is there at once")
	}
	env.advanceClock(2 * time.Second)
	if !named("first") {
		t.Errorf("the first tag is not there after its lag")
	}
	env.advanceClock(time.Second)
	if !named("second") {
		t.Errorf("the second tag is not there after its lag")
	}
}

func TestTags(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	env.createTemplate("t", nil)
	id := env.launch(onDemand, "m5.large/a")
	tag := func(resource string, keys ...string) error {
		in := &ec2.CreateTagsInput{Resources: []string{id, resource}}
		for _, key := range keys {
			in.Tags = append(in.Tags, types.Tag{Key: aws.String(key), Value: aws.String("v")})
		}
		_, err := env.ec2.CreateTags(t.Context(), in)
		return err
	}
	var many []string
	for n := range 50 {
		many = append(many, "k"+itoa(n))
	}
	for name, tc := range map[string]struct {
		resource string
		keys     []string
		want     string
	}{
		"unknown instance":  {resource: "i-0123", keys: []string{"a"}, want: "InvalidInstanceID.NotFound"},
		"malformed":         {resource: "i-xyz", keys: []string{"a"}, want: "InvalidInstanceID.Malformed"},
		"reserved":          {resource: id, keys: []string{"aws:a"}, want: "InvalidParameterValue"},
		"too many":          {resource: id, keys: many, want: "TagLimitExceeded"},
		"unknown subnet":    {resource: "subnet-1", keys: []string{"a"}, want: "InvalidSubnetID.NotFound"},
		"unknown group":     {resource: "sg-1", keys: []string{"a"}, want: "InvalidGroup.NotFound"},
		"unknown kind":      {resource: "what", keys: []string{"a"}, want: "InvalidID"},
		"unknown template":  {resource: "lt-1", keys: []string{"a"}, want: "InvalidLaunchTemplateId.NotFound"},
		"unknown image":     {resource: "ami-1", keys: []string{"a"}, want: "InvalidAMIID.NotFound"},
		"unknown capacity":  {resource: "cr-1", keys: []string{"a"}, want: "InvalidCapacityReservationId.NotFound"},
		"unknown placement": {resource: "pg-1", keys: []string{"a"}, want: "InvalidID"},
	} {
		if err := tag(tc.resource, tc.keys...); apiCode(err) != tc.want {
			t.Errorf("%s: %v, want %s", name, err, tc.want)
		}
	}
	if tags := env.describe(id).Tags; slices.ContainsFunc(tags, func(tag types.Tag) bool { return *tag.Key == "a" }) {
		t.Errorf("a call that failed left tags: %v", tags)
	}
	for _, resource := range []string{subnet("a"), stableID("sg-", "nodes"), imageOfArch("x86_64"), env.templateID("t"), stableID("cr-", "targeted"), stableID("pg-", "partitions")} {
		if err := tag(resource, "b"); err != nil {
			t.Errorf("%s: %v", resource, err)
		}
	}
	if _, err := env.ec2.DeleteTags(t.Context(), &ec2.DeleteTagsInput{Resources: []string{id}, Tags: []types.Tag{{Key: aws.String("b")}}}); err != nil {
		t.Fatal(err)
	}
	if tags := env.describe(id).Tags; slices.ContainsFunc(tags, func(tag types.Tag) bool { return *tag.Key == "b" }) {
		t.Errorf("the tag is still there: %v", tags)
	}
}

func TestInstanceErrors(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	env.createTemplate("t", nil)
	id := env.launch(onDemand, "m5.large/a")
	_, err := env.ec2.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id, "i-0a", "i-0b"}})
	if apiCode(err) != "InvalidInstanceID.NotFound" || !strings.Contains(err.Error(), "i-0a, i-0b") {
		t.Errorf("terminate: %v", err)
	}
	env.wantState(id, "pending")
	_, err = env.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{"node-1"}})
	if apiCode(err) != "InvalidInstanceID.Malformed" {
		t.Errorf("malformed: %v", err)
	}
	_, err = env.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{id}, MaxResults: aws.Int32(5)})
	if apiCode(err) != "InvalidParameterCombination" {
		t.Errorf("page of ids: %v", err)
	}
	env.callControlAPI(http.MethodPut, "permissions", `[{"action":"ec2:*Instance*","deny":true}]`)
	_, err = env.ec2.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}})
	if apiCode(err) != "UnauthorizedOperation" {
		t.Errorf("denied: %v", err)
	}
	_, err = env.ec2.DescribeInstanceStatus(t.Context(), &ec2.DescribeInstanceStatusInput{})
	if apiCode(err) != "UnauthorizedOperation" {
		t.Errorf("denied status: %v", err)
	}
}

func TestViewsOfInstances(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	env.createTemplate("t", nil)
	changed := env.emu.Changed()
	id := env.launch(spot, "m5.large/c")
	select {
	case <-changed:
	default:
		t.Errorf("no callback reported the launch")
	}
	env.clock.Advance(5 * time.Second)
	views := env.emu.Instances()
	if len(views) != 1 {
		t.Fatalf("%d instances, want 1", len(views))
	}
	v := views[0]
	if v.ID != id || v.State != "running" || v.CapacityType != "spot" || string(v.UserData) != "#!/bin/bash\necho hello" || v.Profile != "nodes" || v.Region != "eu-west-1" ||
		v.ZoneID != "euw1-az3" || !v.Running.Equal(ec2Start.Add(5*time.Second)) || v.Tags["karpenter.sh/nodepool"] != "default" || v.Tenancy != "default" || v.SubnetID != subnet("c") {
		t.Errorf("view %+v", v)
	}
	var text string
	if err := json.Unmarshal([]byte(env.callControlAPI(http.MethodGet, "instances/"+id+"/userdata", "")), &text); err != nil || text != string(v.UserData) {
		t.Errorf("user data %q, %v", text, err)
	}
	if got := env.callControlAPI(http.MethodGet, "instances/"+id, ""); !strings.Contains(got, `"state": "running"`) {
		t.Errorf("instance %s", got)
	}
	if got := env.callControlAPI(http.MethodGet, "instances", ""); !strings.Contains(got, id) {
		t.Errorf("instances %s", got)
	}
	if status, _ := env.tryControl(http.MethodGet, "instances/i-1", ""); status != http.StatusBadRequest {
		t.Errorf("unknown instance: %d", status)
	}
}

// A reboot is accepted in any state, and done only while the instance runs.
func TestReboots(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	env.createTemplate("t", nil)
	id := env.launch(onDemand, "m5.large/a")
	reboot := func() time.Time {
		t.Helper()
		changed := env.emu.Changed()
		if _, err := env.ec2.RebootInstances(t.Context(), &ec2.RebootInstancesInput{InstanceIds: []string{id}}); err != nil {
			t.Fatal(err)
		}
		select {
		case <-changed:
		default:
			t.Error("no callback reported the reboot")
		}
		return env.emu.Instances()[0].Rebooted
	}
	if at := reboot(); !at.IsZero() {
		t.Errorf("rebooted while it was pending, at %s", at)
	}
	env.clock.Advance(time.Minute)
	if at := reboot(); !at.Equal(env.clock.Now()) {
		t.Errorf("rebooted at %s, want now", at)
	}
	if _, err := env.ec2.RebootInstances(t.Context(), &ec2.RebootInstancesInput{InstanceIds: []string{"i-00000000000000001"}}); apiCode(err) != "InvalidInstanceID.NotFound" {
		t.Errorf("an unknown instance: %v", err)
	}
}

func TestRunMovesTheWorldWithoutCalls(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	env.createTemplate("t", nil)
	id := env.launch(onDemand, "m5.large/a")
	state := func() (state string, next time.Time) {
		env.emu.mu.Lock()
		defer env.emu.mu.Unlock()
		return env.emu.ec2().Instances[id].State, env.emu.nextEC2(env.clock.Now())
	}
	if _, next := state(); !next.Equal(ec2Start.Add(5 * time.Second)) {
		t.Errorf("next %s, want five seconds after the launch", next)
	}
	go func() { _ = env.emu.Run(t.Context()) }()
	changed := env.emu.Changed()
	env.clock.Advance(5 * time.Second)
	<-changed
	if got, _ := state(); got != "running" {
		t.Errorf("the instance is %s, want running", got)
	}
}

func TestProfilesLag(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	env.createTemplate("t", func(d *types.RequestLaunchTemplateData) { d.IamInstanceProfile.Name = aws.String("fresh") })
	env.callControlAPI(http.MethodPut, "lag", `{"profiles":"10s"}`)
	env.createProfile("fresh")
	if got := fleetSummary(env.createFleet(fleetInput(onDemand, 1, "m5.large/a"))); !slices.Equal(got, []string{"InvalidParameterValue m5.large/a"}) {
		t.Errorf("with a profile that is not known everywhere: %v", got)
	}
	env.advanceClock(10 * time.Second)
	env.launch(onDemand, "m5.large/a")
}

func TestSpotNeedsItsRole(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	env.createTemplate("t", nil)
	env.callControlAPI(http.MethodPut, "roles", `["KarpenterNodeRole-sandbox"]`)
	if got := fleetSummary(env.createFleet(fleetInput(spot, 1, "m5.large/a"))); !slices.Equal(got, []string{"AuthFailure.ServiceLinkedRoleCreationNotPermitted m5.large/a"}) {
		t.Errorf("without the role: %v", got)
	}
	env.launch(onDemand, "m5.large/a")
}

// Terminated instances stay for about an hour of the user's time, at any speed of the clock.
func TestTrust_D03_TerminatedInstancesStayForAnHourAtAnySpeed(t *testing.T) {
	t.Parallel()
	for _, speed := range []float64{0, 1, 60} {
		wall := ec2Start
		env := newEC2LabWith(t, NewClock(func() time.Time { return wall }, 0))
		env.createTemplate("t", nil)
		id := env.launch(spot, "m5.large/a")
		env.clock.Set(env.clock.Now(), speed)
		if _, err := env.ec2.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}}); err != nil {
			t.Fatal(err)
		}
		pass := func(d time.Duration) {
			if speed == 0 {
				env.advanceClock(d)
			} else {
				wall = wall.Add(d)
			}
		}
		pass(59 * time.Minute)
		env.wantState(id, types.InstanceStateNameTerminated)
		pass(2 * time.Minute)
		if _, err := env.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{id}}); apiCode(err) != "InvalidInstanceID.NotFound" {
			t.Errorf("speed %v, after an hour: %v", speed, err)
		}
	}
}
