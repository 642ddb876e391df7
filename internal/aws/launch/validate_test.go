package launch

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	passed := fault("DryRunOperation", "would have worked")
	denied := fault("UnauthorizedOperation", "not authorized to perform: ec2:RunInstances with an explicit deny in a service control policy")
	profile := fault("InvalidParameterValue", "Value (x) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name")
	only := func(what string, err error) func(action, subnet string) error {
		return func(action, subnet string) error {
			if action == what || action+" "+subnet == what {
				return err
			}
			return passed
		}
	}
	for name, tc := range map[string]struct {
		dryRun          func(action, subnet string) error
		class           func(*awsv1.EC2NodeClass)
		reason, message string
		retry, fails    bool
	}{
		"fine":                          {dryRun: only("", nil)},
		"template denied":               {dryRun: only("CreateLaunchTemplate", denied), reason: "CreateLaunchTemplateAuthCheckFailed", message: "ec2:CreateLaunchTemplate"},
		"fleet denied":                  {dryRun: only("CreateFleet", denied), reason: "CreateFleetAuthCheckFailed", message: "service control policy"},
		"fleet denied for what it runs": {dryRun: only("CreateFleet", fault("UnauthorizedOperation", "User: x is not authorized to perform: ec2:RunInstances on resource: y")), reason: "CreateFleetAuthCheckFailed", message: "may not call ec2:RunInstances, which ec2:CreateFleet needs"},
		"instances denied":              {dryRun: only("RunInstances", denied), reason: "RunInstancesAuthCheckFailed", message: "ec2:RunInstances"},
		"denied in one subnet":          {dryRun: only("RunInstances subnet-a", denied)},
		"E17 throttled":                 {dryRun: only("CreateFleet", fault("RequestLimitExceeded", "slow")), retry: true, fails: true},
		"E17 throttled later":           {dryRun: only("RunInstances", fault("RequestLimitExceeded", "slow")), retry: true, fails: true},
		"EC2 fails":                     {dryRun: only("CreateLaunchTemplate", fault("InternalError", "x")), retry: true, fails: true},
		"a lost response":               {dryRun: only("CreateFleet", errors.New("timeout")), retry: true, fails: true},
		"something else":                {dryRun: only("RunInstances", fault("Unsupported", "not in this zone"))},
		"A11 own profile not seen yet":  {dryRun: only("RunInstances", profile), retry: true, fails: true},
		"profile of the user not there": {dryRun: only("RunInstances", profile), class: func(c *awsv1.EC2NodeClass) { c.Spec.InstanceProfile = new("x") }, reason: "InstanceProfileNotFound", message: "spec.instanceProfile", retry: true},
		"A15 EC2 finds it too long":     {dryRun: only("CreateLaunchTemplate", fault("InvalidUserData.Malformed", "User data is limited to 16384 bytes")), reason: "UserDataSizeLimitExceeded", message: "16384"},
		"A15 we find it too long":       {dryRun: only("", nil), class: func(c *awsv1.EC2NodeClass) { c.Spec.UserData = new(strings.Repeat("a", 20000)) }, reason: "UserDataSizeLimitExceeded", message: "16384"},
		"user data that is no MIME":     {dryRun: only("", nil), class: func(c *awsv1.EC2NodeClass) { c.Spec.UserData = new("Content-Type: multipart/mixed\n\nx") }, reason: "InvalidUserData", message: "boundary"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newFixture(t, twoZones()...)
			l.dryRun = tc.dryRun
			class := nodeClass()
			if tc.class != nil {
				tc.class(class)
			}
			reason, message, retry, err := l.Validate(t.Context(), class)
			if reason != tc.reason || !strings.Contains(message, tc.message) || retry != tc.retry || (err != nil) != tc.fails {
				t.Errorf("got %q, %q, retry %v, %v", reason, message, retry, err)
			}
		})
	}
}

func TestDryRunsCanBeTurnedOff(t *testing.T) {
	t.Parallel()
	l := newFixture(t, twoZones()...)
	l.o.Settings.DryRunDisabled = true
	l.dryRun = func(action, _ string) error {
		t.Errorf("%s was called", action)
		return nil
	}
	if reason, _, _, err := l.Validate(t.Context(), nodeClass()); reason != "" || err != nil {
		t.Error(reason, err)
	}
}

// The dry run carries the tags that permissions require, and the pool's name.
func TestTrial(t *testing.T) {
	t.Parallel()
	l := newFixture(t, twoZones()...)
	l.o.Pools = func(context.Context, *awsv1.EC2NodeClass) ([]karpv1.NodePool, error) {
		var pool karpv1.NodePool
		pool.Name = "web"
		return []karpv1.NodePool{pool}, nil
	}
	trial, err := l.newTrialLaunch(t.Context(), nodeClass())
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "dry-run", map[string]any{"fleet": fleetRequest(trial.order, []recipe{trial.recipe}), "run": trial.run("subnet-a")})
}

func TestSampleType(t *testing.T) {
	t.Parallel()
	types := []catalog.InstanceType{kind("c5.large"), kind("m5.large"), kind("p3.metal"), kind("t3.large")}
	pool := func(requirements ...karpv1.Requirement) karpv1.NodePool {
		var p karpv1.NodePool
		p.Spec.Template.Spec.Requirements = requirements
		return p
	}
	for name, tc := range map[string]struct {
		family  awsv1.AMIFamily
		pools   []karpv1.NodePool
		want    string
		tenancy string
	}{
		"no pool":            {awsv1.FamilyAL2, nil, "m5.large", "default"},
		"of the pool":        {awsv1.FamilyAL2, []karpv1.NodePool{pool(in(awsv1.LabelInstanceCategory, "t", "p"))}, "t3.large", "default"},
		"exotic if it must":  {awsv1.FamilyAL2, []karpv1.NodePool{pool(in(awsv1.LabelInstanceCategory, "p"))}, "p3.metal", "default"},
		"nothing fits":       {awsv1.FamilyAL2, []karpv1.NodePool{pool(in(awsv1.LabelInstanceCategory, "z"))}, "m5.large", "default"},
		"Windows":            {awsv1.FamilyWindows2022, []karpv1.NodePool{pool(in(awsv1.LabelInstanceCategory, "c"))}, "m5.large", "default"},
		"zones do not count": {awsv1.FamilyAL2, []karpv1.NodePool{pool(in(corev1.LabelTopologyZone, "a"), in(awsv1.LabelInstanceCategory, "c"))}, "c5.large", "default"},
		"dedicated":          {awsv1.FamilyAL2, []karpv1.NodePool{pool(in(awsv1.LabelInstanceTenancy, "dedicated"))}, "m5.large", "dedicated"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			class := nodeClass()
			class.Spec.AMIFamily = tc.family
			got, tenancy, found := sampleType(class, types, tc.pools)
			if !found || got.Name != tc.want || tenancy != tc.tenancy {
				t.Errorf("got %v %s", got, tenancy)
			}
		})
	}
}

func TestIsolatedRegions(t *testing.T) {
	t.Parallel()
	for region, want := range map[string]bool{
		"us-iso-east-1": true, "us-isob-east-1": true, "us-isof-south-1": true, "us-east-1": false, "eu-west-1": false, "us-gov-west-1": false, "eu-isoe-west-1": false,
	} {
		if got := metadata(nodeClass(), region).HttpProtocolIpv6 == ""; got != want {
			t.Errorf("%s: left out %v, want %v", region, got, want)
		}
	}
}
