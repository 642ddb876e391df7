package awsemu

import (
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

const (
	spot     = types.DefaultTargetCapacityTypeSpot
	onDemand = types.DefaultTargetCapacityTypeOnDemand
)

func TestCreateFleetChoosesPools(t *testing.T) {
	t.Parallel()
	prioritised := func(in *ec2.CreateFleetInput) {
		in.SpotOptions.AllocationStrategy = types.SpotAllocationStrategyCapacityOptimizedPrioritized
		in.OnDemandOptions.AllocationStrategy = types.FleetOnDemandAllocationStrategyPrioritized
	}
	for name, tc := range map[string]struct {
		setup  map[string]string // control path to body; POST for ice
		market types.DefaultTargetCapacityType
		count  int32
		offers []string
		change func(*ec2.CreateFleetInput)
		want   []string
	}{
		"lowest price wins": {
			market: onDemand, count: 2, offers: []string{"m5.xlarge/a", "m5.large/b"}, want: []string{"m5.large/b=2"},
		},
		"equal prices keep the order": {
			market: onDemand, count: 1, offers: []string{"m5.large/c", "m5.large/a"}, want: []string{"m5.large/c=1"},
		},
		"an override changes the price": {
			setup:  map[string]string{"prices": `[{"capacityType":"spot","instanceType":"m5.xlarge","zone":"eu-west-1a","price":0.001}]`},
			market: spot, count: 1, offers: []string{"m5.large/a", "m5.xlarge/a"}, want: []string{"m5.xlarge/a=1"},
		},
		"low capacity is skipped": {
			setup:  map[string]string{"low-capacity": `[{"capacityType":"spot","instanceType":"m5.large"}]`},
			market: spot, count: 1, offers: []string{"m5.large/a", "m5.xlarge/a"}, want: []string{"m5.xlarge/a=1"},
		},
		"nothing but low capacity": {
			setup:  map[string]string{"low-capacity": `[{"instanceType":"m5.large"}]`},
			market: spot, count: 1, offers: []string{"m5.large/a"}, want: []string{"UnfulfillableCapacity m5.large/a"},
		},
		"low capacity does not matter on demand": {
			setup:  map[string]string{"low-capacity": `[{"instanceType":"m5.large"}]`},
			market: onDemand, count: 1, offers: []string{"m5.large/a"}, want: []string{"m5.large/a=1"},
		},
		"priority wins on demand": {
			market: onDemand, count: 1, offers: []string{"m5.large/a@2", "m5.xlarge/a@1", "c5.large/a"}, change: prioritised, want: []string{"m5.xlarge/a=1"},
		},
		"priority wins for spot": {
			market: spot, count: 1, offers: []string{"m5.large/a@2", "m5.xlarge/b@1"}, change: prioritised, want: []string{"m5.xlarge/b=1"},
		},
		"no capacity in one pool": {
			setup:  map[string]string{"ice": `{"capacityType":"on-demand","instanceType":"m5.large","zone":"eu-west-1a"}`},
			market: onDemand, count: 1, offers: []string{"m5.large/a", "m5.large/b"}, want: []string{"m5.large/b=1", "InsufficientInstanceCapacity m5.large/a"},
		},
		"no capacity at all is a response": {
			setup:  map[string]string{"ice": `{}`},
			market: spot, count: 3, offers: []string{"m5.large/a", "m5.large/b"},
			want: []string{"InsufficientInstanceCapacity m5.large/a", "InsufficientInstanceCapacity m5.large/b"},
		},
		"no spot capacity leaves on-demand alone": {
			setup:  map[string]string{"ice": `{"capacityType":"spot"}`},
			market: onDemand, count: 1, offers: []string{"m5.large/a"}, want: []string{"m5.large/a=1"},
		},
		"what is left spills over": {
			setup:  map[string]string{"ice": `{"instanceType":"m5.large","zone":"eu-west-1a","remaining":2}`},
			market: onDemand, count: 5, offers: []string{"m5.large/a", "m5.xlarge/a"},
			want: []string{"m5.large/a=2", "m5.xlarge/a=3", "InsufficientInstanceCapacity m5.large/a"},
		},
		"partly served": {
			setup:  map[string]string{"ice": `{"remaining":2}`},
			market: spot, count: 5, offers: []string{"m5.large/a"}, want: []string{"m5.large/a=2", "InsufficientInstanceCapacity m5.large/a"},
		},
		"spot quota": {
			setup:  map[string]string{"quota": `{"spotVCPU":4}`},
			market: spot, count: 3, offers: []string{"m5.large/a"}, want: []string{"m5.large/a=2", "MaxSpotInstanceCountExceeded m5.large/a"},
		},
		"on-demand quota": {
			setup:  map[string]string{"quota": `{"onDemandVCPU":3}`},
			market: onDemand, count: 1, offers: []string{"m5.xlarge/a", "m5.large/a"}, want: []string{"m5.large/a=1", "VcpuLimitExceeded m5.xlarge/a"},
		},
		"fleet quota": {
			setup:  map[string]string{"quota": `{"fleets":0}`},
			market: onDemand, count: 1, offers: []string{"m5.large/a"}, want: []string{"MaxFleetCountExceeded m5.large/a"},
		},
		"full subnet": {
			setup:  map[string]string{"subnets": `[{"id":"` + subnet("a") + `","free":1}]`},
			market: onDemand, count: 2, offers: []string{"m5.large/a", "m5.xlarge/b"},
			want: []string{"m5.large/a=1", "m5.xlarge/b=1", "InsufficientFreeAddressesInSubnet m5.large/a"},
		},
		"warm addresses": {
			setup:  map[string]string{"subnets": `[{"id":"` + subnet("a") + `","free":10}]`, "timing": `{"warmAddresses":9}`},
			market: onDemand, count: 2, offers: []string{"m5.large/a"}, want: []string{"m5.large/a=1", "InsufficientFreeAddressesInSubnet m5.large/a"},
		},
		"unknown type": {
			market: onDemand, count: 1, offers: []string{"x9.large/a", "m5.large/a"}, want: []string{"m5.large/a=1", "InvalidParameterValue x9.large/a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := newEC2Env(t)
			env.createTemplate("t", nil)
			for path, body := range tc.setup {
				method := http.MethodPut
				if path == "ice" {
					method = http.MethodPost
				}
				env.callControlAPI(method, path, body)
			}
			in := fleetInput(tc.market, tc.count, tc.offers...)
			if tc.change != nil {
				tc.change(in)
			}
			out := env.createFleet(in)
			if diff := cmp.Diff(tc.want, fleetSummary(out)); diff != "" {
				t.Errorf("fleet (-want +got):\n%s", diff)
			}
			checkFleetEchoes(t, out)
		})
	}
}

// checkFleetEchoes makes sure that the controller finds everything in the response.
func checkFleetEchoes(t *testing.T, out *ec2.CreateFleetOutput) {
	t.Helper()
	check := func(pool *types.LaunchTemplateAndOverridesResponse) {
		if pool == nil || pool.LaunchTemplateSpecification == nil || pool.Overrides == nil {
			t.Fatalf("the response does not repeat the pool")
		}
		o, spec := pool.Overrides, pool.LaunchTemplateSpecification
		if o.ImageId == nil || o.SubnetId == nil || o.AvailabilityZone == nil || *spec.LaunchTemplateName != "t" || !strings.HasPrefix(*spec.LaunchTemplateId, "lt-") || spec.Version == nil {
			t.Errorf("incomplete pool %+v %+v", o, spec)
		}
	}
	if !strings.HasPrefix(*out.FleetId, "fleet-") {
		t.Errorf("fleet id %s", *out.FleetId)
	}
	for _, i := range out.Instances {
		check(i.LaunchTemplateAndOverrides)
	}
	for _, e := range out.Errors {
		check(e.LaunchTemplateAndOverrides)
		if aws.ToString(e.ErrorMessage) == "" || e.Lifecycle == "" {
			t.Errorf("incomplete error %+v", e)
		}
	}
}

func TestCreateFleetReportsTemplateProblems(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change      func(*types.RequestLaunchTemplateData)
		offer       string
		wantCode    string
		wantMessage string
	}{
		"image unknown":        {change: func(d *types.RequestLaunchTemplateData) { d.ImageId = aws.String("ami-0123") }, wantCode: "InvalidAMIID.NotFound"},
		"image malformed":      {change: func(d *types.RequestLaunchTemplateData) { d.ImageId = aws.String("nonsense") }, wantCode: "InvalidAMIID.Malformed"},
		"wrong architecture":   {change: func(d *types.RequestLaunchTemplateData) { d.ImageId = aws.String(imageOfArch("arm64")) }, wantCode: "InvalidParameterValue", wantMessage: "architecture"},
		"profile unknown":      {change: func(d *types.RequestLaunchTemplateData) { d.IamInstanceProfile.Name = aws.String("nobody") }, wantCode: "InvalidParameterValue", wantMessage: "iamInstanceProfile.name is invalid"},
		"group unknown":        {change: func(d *types.RequestLaunchTemplateData) { d.NetworkInterfaces[0].Groups = []string{"sg-1"} }, wantCode: "InvalidGroup.NotFound"},
		"group of another vpc": {change: func(d *types.RequestLaunchTemplateData) { d.NetworkInterfaces[0].Groups = []string{"sg-other"} }, wantCode: "InvalidParameter", wantMessage: "different networks"},
		"volume too small": {
			change:   func(d *types.RequestLaunchTemplateData) { d.BlockDeviceMappings[0].Ebs.VolumeSize = aws.Int32(0) },
			wantCode: "InvalidBlockDeviceMapping",
		},
		"volume without a size": {
			change: func(d *types.RequestLaunchTemplateData) {
				d.BlockDeviceMappings[0].Ebs.VolumeSize, d.BlockDeviceMappings[0].DeviceName = nil, aws.String("/dev/xvdb")
			},
			wantCode: "InvalidBlockDeviceMapping",
		},
		"placement group unknown": {
			change: func(d *types.RequestLaunchTemplateData) {
				d.Placement = &types.LaunchTemplatePlacementRequest{GroupId: aws.String("pg-1")}
			},
			wantCode: "InvalidPlacementGroup.Unknown",
		},
		"reservation unknown":                  {change: reserve("cr-1"), wantCode: "InvalidCapacityReservationId.NotFound"},
		"reservation of another type":          {change: reserve(stableID("cr-", "targeted")), offer: "m5.xlarge/a", wantCode: "InvalidParameterValue"},
		"reservation expired":                  {change: reserve(stableID("cr-", "expired")), offer: "c5.xlarge/a", wantCode: "ReservationCapacityExceeded"},
		"only reservations, and there is none": {change: reserve(""), wantCode: "ReservationCapacityExceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := newEC2Env(t)
			env.callControlAPI(http.MethodPut, "groups", `[{"id":"sg-other","vpc":"vpc-other"}]`)
			env.createTemplate("t", tc.change)
			text := tc.offer
			if text == "" {
				text = "m5.large/a"
			}
			out := env.createFleet(fleetInput(onDemand, 1, text))
			if len(out.Instances) > 0 || len(out.Errors) != 1 {
				t.Fatalf("got %v, want one error", fleetSummary(out))
			}
			if code, message := *out.Errors[0].ErrorCode, *out.Errors[0].ErrorMessage; code != tc.wantCode || !strings.Contains(message, tc.wantMessage) {
				t.Errorf("error %s: %s, want %s: ...%s", code, message, tc.wantCode, tc.wantMessage)
			}
			checkFleetEchoes(t, out)
		})
	}
}

// reserve makes a template launch into reservations only.
func reserve(id string) func(*types.RequestLaunchTemplateData) {
	return func(d *types.RequestLaunchTemplateData) {
		d.CapacityReservationSpecification = &types.LaunchTemplateCapacityReservationSpecificationRequest{
			CapacityReservationPreference: types.CapacityReservationPreferenceCapacityReservationsOnly,
		}
		if id != "" {
			d.CapacityReservationSpecification.CapacityReservationTarget = &types.CapacityReservationTarget{CapacityReservationId: &id}
		}
	}
}

func TestCreateFleetRefusesTheWholeCall(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*ec2.CreateFleetInput)
		want   string
	}{
		"template unknown": {
			change: func(in *ec2.CreateFleetInput) {
				in.LaunchTemplateConfigs[0].LaunchTemplateSpecification.LaunchTemplateName = aws.String("x")
			},
			want: "InvalidLaunchTemplateName.NotFoundException",
		},
		"template id unknown": {
			change: func(in *ec2.CreateFleetInput) {
				in.LaunchTemplateConfigs[0].LaunchTemplateSpecification = &types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateId: aws.String("lt-1")}
			},
			want: "InvalidLaunchTemplateId.NotFound",
		},
		"version unknown": {
			change: func(in *ec2.CreateFleetInput) {
				in.LaunchTemplateConfigs[0].LaunchTemplateSpecification.Version = aws.String("7")
			},
			want: "InvalidLaunchTemplateId.VersionNotFound",
		},
		"no overrides":          {change: func(in *ec2.CreateFleetInput) { in.LaunchTemplateConfigs[0].Overrides = nil }, want: "InvalidParameter"},
		"not instant":           {change: func(in *ec2.CreateFleetInput) { in.Type = types.FleetTypeMaintain }, want: "InvalidParameter"},
		"no capacity requested": {change: func(in *ec2.CreateFleetInput) { in.TargetCapacitySpecification.TotalTargetCapacity = aws.Int32(0) }, want: "InvalidParameter"},
		"too many overrides": {
			change: func(in *ec2.CreateFleetInput) {
				in.LaunchTemplateConfigs[0].Overrides = slices.Repeat(in.LaunchTemplateConfigs[0].Overrides, 301)
			},
			want: "InvalidParameter",
		},
		"reserved tag": {
			change: func(in *ec2.CreateFleetInput) { in.TagSpecifications[0].Tags[0].Key = aws.String("aws:mine") }, want: "InvalidParameterValue",
		},
		"dry run": {change: func(in *ec2.CreateFleetInput) { in.DryRun = aws.Bool(true) }, want: "DryRunOperation"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := newEC2Env(t)
			env.createTemplate("t", nil)
			in := fleetInput(onDemand, 1, "m5.large/a")
			tc.change(in)
			if _, err := env.ec2.CreateFleet(t.Context(), in); apiCode(err) != tc.want {
				t.Errorf("error %v, want %s", err, tc.want)
			}
			if n := len(env.emu.Instances()); n != 0 {
				t.Errorf("%d instances were launched", n)
			}
		})
	}
}

func TestCreateFleetNeedsMorePermissions(t *testing.T) {
	t.Parallel()
	for _, action := range []string{"ec2:CreateFleet", "ec2:RunInstances", "ec2:CreateTags", "iam:PassRole"} {
		t.Run(action, func(t *testing.T) {
			t.Parallel()
			env := newEC2Env(t)
			env.createTemplate("t", nil)
			env.callControlAPI(http.MethodPut, "permissions", `[{"action":"`+action+`","deny":true}]`)
			in := fleetInput(spot, 1, "m5.large/a")
			out, err := env.ec2.CreateFleet(t.Context(), in)
			if action == "ec2:CreateFleet" {
				if apiCode(err) != "UnauthorizedOperation" {
					t.Fatalf("error %v, want UnauthorizedOperation", err)
				}
			} else if err != nil || !slices.Equal(fleetSummary(out), []string{"UnauthorizedOperation m5.large/a"}) || !strings.Contains(*out.Errors[0].ErrorMessage, action) {
				t.Fatalf("got %v, %v; want an error that names %s", out, err, action)
			}
			in.DryRun = aws.Bool(true)
			if _, err := env.ec2.CreateFleet(t.Context(), in); apiCode(err) != "UnauthorizedOperation" {
				t.Errorf("dry run: %v, want UnauthorizedOperation", err)
			}
		})
	}
}

func TestUnsupportedInZone(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	name, zone := env.somethingNotEverywhere("x86_64")
	env.createTemplate("t", nil)
	if got := fleetSummary(env.createFleet(fleetInput(onDemand, 1, name+"/"+zone))); !slices.Equal(got, []string{"Unsupported " + name + "/" + zone}) {
		t.Errorf("got %v, want Unsupported", got)
	}
}

// somethingNotEverywhere finds a type that a zone does not offer.
func (l *ec2Env) somethingNotEverywhere(arch string) (name, zone string) {
	l.Helper()
	for _, name := range l.emu.Catalogue().Names() {
		for i, zone := range []string{"a", "b", "c"} {
			if info, _ := l.emu.Catalogue().Type(name); slices.Contains(info.Arch, arch) && !l.emu.Catalogue().Offered(name, i) {
				return name, zone
			}
		}
	}
	l.Skip("every type is offered everywhere")
	return "", ""
}

func TestSpreadGroupsTakeSevenPerZone(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	env.callControlAPI(http.MethodPut, "placement-groups", `[{"id":"pg-spread","strategy":"spread"}]`)
	env.createTemplate("t", func(d *types.RequestLaunchTemplateData) {
		d.Placement = &types.LaunchTemplatePlacementRequest{GroupId: aws.String("pg-spread")}
	})
	out := env.createFleet(fleetInput(onDemand, 9, "m5.large/a", "m5.large/b"))
	if diff := cmp.Diff([]string{"m5.large/a=7", "m5.large/b=2", "InsufficientInstanceCapacity m5.large/a"}, fleetSummary(out)); diff != "" {
		t.Fatalf("fleet (-want +got):\n%s", diff)
	}
	if !strings.Contains(*out.Errors[0].ErrorMessage, "limit") || !strings.Contains(*out.Errors[0].ErrorMessage, "spread placement group") {
		t.Errorf("message %q", *out.Errors[0].ErrorMessage)
	}
}

func TestReservationsFillUpAndAreReleased(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	id := stableID("cr-", "targeted")
	env.createTemplate("t", reserve(id))
	out := env.createFleet(fleetInput(onDemand, 4, "m5.large/a"))
	if diff := cmp.Diff([]string{"m5.large/a=3", "ReservationCapacityExceeded m5.large/a"}, fleetSummary(out)); diff != "" {
		t.Fatalf("fleet (-want +got):\n%s", diff)
	}
	i := env.describe(fleetIDs(out)[0])
	if *i.CapacityReservationId != id || i.CapacityReservationSpecification.CapacityReservationPreference != "capacity-reservations-only" || i.InstanceLifecycle != "" {
		t.Errorf("instance %+v", i)
	}
	available := func() int32 {
		out, err := env.ec2.DescribeCapacityReservations(t.Context(), &ec2.DescribeCapacityReservationsInput{CapacityReservationIds: []string{id}})
		if err != nil {
			t.Fatal(err)
		}
		return *out.CapacityReservations[0].AvailableInstanceCount
	}
	if n := available(); n != 0 {
		t.Errorf("%d are available, want 0", n)
	}
	env.callControlAPI(http.MethodPost, "kill", `{"instance":"`+*i.InstanceId+`"}`)
	if n := available(); n != 1 {
		t.Errorf("%d are available after an instance died, want 1", n)
	}
}

func TestReservedMarkets(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	env.callControlAPI(http.MethodPut, "reservations", `[
		{"id":"cr-b","instanceType":"m5.large","zone":"eu-west-1a","total":1,"available":1,"type":"capacity-block","end":"2030-01-02T00:00:00Z"},
		{"id":"cr-i","instanceType":"m5.large","zone":"eu-west-1b","total":1,"available":1,"interruptible":true},
		{"id":"cr-o","instanceType":"m5.large","zone":"eu-west-1c","total":1,"available":1,"match":"open"}]`)
	env.createTemplate("t", reserve("cr-b"))
	block := env.describe(env.launch(types.DefaultTargetCapacityTypeCapacityBlock, "m5.large/a"))
	if block.InstanceLifecycle != types.InstanceLifecycleTypeCapacityBlock || *block.CapacityReservationId != "cr-b" {
		t.Errorf("block %+v", block)
	}
	env.callControlAPI(http.MethodDelete, "launch-templates/"+env.templateID("t"), "")
	env.createTemplate("t", reserve("cr-i"))
	interruptible := env.describe(env.launch("reserved-capacity", "m5.large/b"))
	if interruptible.InstanceLifecycle != "interruptible-capacity-reservation" {
		t.Errorf("interruptible %+v", interruptible)
	}
	env.callControlAPI(http.MethodDelete, "launch-templates/"+env.templateID("t"), "")
	env.createTemplate("t", nil)
	out := env.createFleet(fleetInput(onDemand, 2, "m5.large/c"))
	open, plain := env.describe(fleetIDs(out)[0]), env.describe(fleetIDs(out)[1])
	if aws.ToString(open.CapacityReservationId) != "cr-o" || open.CapacityReservationSpecification == nil || plain.CapacityReservationId != nil {
		t.Errorf("open %v, then %v", open.CapacityReservationId, plain.CapacityReservationId)
	}
}

func (l *ec2Env) templateID(name string) string {
	l.Helper()
	out, err := l.ec2.DescribeLaunchTemplates(l.Context(), &ec2.DescribeLaunchTemplatesInput{LaunchTemplateNames: []string{name}})
	if err != nil {
		l.Fatal(err)
	}
	return *out.LaunchTemplates[0].LaunchTemplateId
}

func TestPartitionsAreFilledEvenly(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	group := stableID("pg-", "partitions")
	env.createTemplate("t", func(d *types.RequestLaunchTemplateData) {
		d.Placement = &types.LaunchTemplatePlacementRequest{GroupId: &group, Tenancy: types.TenancyDedicated}
	})
	count := map[int32]int{}
	for _, id := range fleetIDs(env.createFleet(fleetInput(onDemand, 6, "m5.large/a"))) {
		p := env.describe(id).Placement
		count[*p.PartitionNumber]++
		if *p.GroupId != group || p.GroupName == nil || p.Tenancy != types.TenancyDedicated {
			t.Errorf("placement %+v", p)
		}
	}
	if diff := cmp.Diff(map[int32]int{1: 2, 2: 2, 3: 2}, count); diff != "" {
		t.Errorf("partitions (-want +got):\n%s", diff)
	}
	env.callControlAPI(http.MethodDelete, "launch-templates/"+env.templateID("t"), "")
	env.createTemplate("t", func(d *types.RequestLaunchTemplateData) {
		d.Placement = &types.LaunchTemplatePlacementRequest{GroupId: &group, PartitionNumber: aws.Int32(2)}
	})
	if p := env.describe(env.launch(onDemand, "m5.large/a")).Placement; *p.PartitionNumber != 2 {
		t.Errorf("partition %d, want 2", *p.PartitionNumber)
	}
}

func TestCapacityBlocksEnd(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	env.callControlAPI(http.MethodPut, "reservations", `[{"id":"cr-b","instanceType":"m5.large","zone":"eu-west-1a","total":1,"available":1,"type":"capacity-block","end":"2030-01-01T02:00:00Z"}]`)
	env.createTemplate("t", reserve("cr-b"))
	id := env.launch(types.DefaultTargetCapacityTypeCapacityBlock, "m5.large/a")
	env.advanceClock(90*time.Minute - time.Second)
	env.wantState(id, types.InstanceStateNameRunning)
	env.advanceClock(time.Second)
	env.wantState(id, types.InstanceStateNameShuttingDown)
}

func TestFleetResponsesAreDelayed(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	env.createTemplate("t", nil)
	env.callControlAPI(http.MethodPut, "timing", `{"fleetResponse":"1h"}`)
	env.clock.Set(ec2Start, 1) // it runs, but the wall below it stands still
	changed, done := env.emu.Changed(), make(chan error, 1)
	go func() {
		_, err := env.ec2.CreateFleet(t.Context(), fleetInput(onDemand, 1, "m5.large/a"))
		done <- err
	}()
	<-changed
	select {
	case err := <-done:
		t.Fatalf("the fleet answered at once: %v", err)
	default:
	}
	if n := len(env.emu.Instances()); n != 1 {
		t.Errorf("%d instances before the response, want 1", n)
	}
	env.clock.Advance(time.Hour)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
