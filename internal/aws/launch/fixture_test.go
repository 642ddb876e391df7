package launch

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/discover"
	"github.com/dovetail-sh/dovetail/internal/aws/offering"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/metric"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

var update = flag.Bool("update", false, "write the golden files")

func lanes() resources.Table { return resources.NewTable(resourceEFA) }

// kind makes an instance type of 2 vCPU with 29 pods.
func kind(name string, offers ...catalog.Offering) catalog.InstanceType {
	family, size, _ := strings.Cut(name, ".")
	labels := reqs.Set{}
	for _, key := range awsv1.WellKnownLabels() {
		labels[key] = reqs.Req{}
	}
	for _, key := range offeringLabelKeys() {
		delete(labels, key)
	}
	one := func(key, value string) { labels[key] = reqs.Req{Values: []string{value}} }
	one(corev1.LabelInstanceTypeStable, name)
	one(corev1.LabelArchStable, "amd64")
	one(corev1.LabelOSStable, "linux")
	one(awsv1.LabelInstanceFamily, family)
	one(awsv1.LabelInstanceSize, size)
	one(awsv1.LabelInstanceCategory, family[:1])
	labels[awsv1.LabelInstanceTenancy] = reqs.Req{Values: []string{"dedicated", "default"}}
	return catalog.InstanceType{
		Name: name, Labels: labels, Offerings: offers,
		Capacity: lanes().Capacity(corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("29"),
		}),
	}
}

func spot(zone string, price float64) catalog.Offering {
	return catalog.Offering{Zone: zone, CapacityType: "spot", Price: price, Available: true, Labels: map[string]string{awsv1.LabelZoneID: zone + "-id"}}
}

func onDemand(zone string, price float64) catalog.Offering {
	o := spot(zone, price)
	o.CapacityType = "on-demand"
	return o
}

func held(zone, id string, free int, price float64) catalog.Offering {
	return catalog.Offering{
		Zone: zone, CapacityType: "reserved", Price: price, Available: true, Reservation: id, Remaining: free,
		Labels: map[string]string{
			awsv1.LabelZoneID: zone + "-id", awsv1.LabelCapacityReservationID: id,
			awsv1.LabelCapacityReservationType: "default", awsv1.LabelCapacityReservationInterrupt: "false",
		},
	}
}

func heldBlock(zone, id string, price float64) catalog.Offering {
	o := held(zone, id, 1, price)
	o.Labels[awsv1.LabelCapacityReservationType] = typeBlock
	return o
}

func heldInterruptible(zone, id string, price float64) catalog.Offering {
	o := held(zone, id, 1, price)
	o.Labels[awsv1.LabelCapacityReservationInterrupt] = "true"
	return o
}

// nodeClass is ready to launch in zones a and b.
func nodeClass() *awsv1.EC2NodeClass {
	class := &awsv1.EC2NodeClass{
		ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "class-uid"},
		Spec: awsv1.EC2NodeClassSpec{
			AMISelectorTerms: []awsv1.AMISelectorTerm{{Alias: "al2023@latest"}}, Role: "node", Tags: map[string]string{"Team": "a"},
		},
		Status: awsv1.EC2NodeClassStatus{
			Subnets:         []awsv1.Subnet{{ID: "subnet-a", Zone: "a", ZoneID: "a-id"}, {ID: "subnet-b", Zone: "b", ZoneID: "b-id"}},
			SecurityGroups:  []awsv1.SecurityGroup{{ID: "sg-1"}, {ID: "sg-2"}},
			InstanceProfile: "profile",
			AMIs: []awsv1.AMI{{ID: "ami-amd64", Requirements: []corev1.NodeSelectorRequirement{
				{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"amd64"}},
			}}},
		},
	}
	effective, _ := class.Effective(awsv1.Facts{ClusterName: "demo", KubernetesMinor: 34})
	return effective
}

func nodeClaim(name string, requirements ...karpv1.Requirement) *karpv1.NodeClaim {
	return &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{
			karpv1.LabelNodePool: "pool", "kubernetes.io/os": "linux", "team": "x",
		}},
		Spec: karpv1.NodeClaimSpec{
			Requirements: requirements,
			Resources: karpv1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourcePods: resource.MustParse("3"),
			}},
		},
	}
}

func in(key string, values ...string) karpv1.Requirement {
	return karpv1.Requirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
}

// fixture is a launcher with everything around it made up.
type fixture struct {
	t testing.TB
	*Launcher

	mu        sync.Mutex
	types     []catalog.InstanceType
	infos     map[string]ec2types.InstanceTypeInfo
	free      map[string]int
	group     *discover.PlacementGroup
	dns       string
	templates map[string]map[string]string // by name: tags
	fleets    []*ec2.CreateFleetInput
	calls     []string // with the time
	deleted   []string // templates
	response  func(n int, in *ec2.CreateFleetInput) (*ec2.CreateFleetOutput, error)
	dryRun    func(action, subnet string) error
	ids       int
}

func newFixture(tb testing.TB, types ...catalog.InstanceType) *fixture {
	tb.Helper()
	l := &fixture{
		t: tb, types: types, infos: map[string]ec2types.InstanceTypeInfo{}, free: map[string]int{"subnet-a": 100, "subnet-b": 100},
		templates: map[string]map[string]string{}, dns: "10.100.0.10",
		dryRun: func(string, string) error { return fault("DryRunOperation", "would have worked") },
	}
	l.response = func(_ int, in *ec2.CreateFleetInput) (*ec2.CreateFleetOutput, error) { return l.serve(in, nil), nil }
	l.Launcher = New(Options{
		EC2: l, Catalog: l, Discover: l, Cluster: l, Unavailable: offering.NewUnavailable(time.Now), Reservations: offering.NewReservations(time.Now),
		Settings: Settings{Region: "eu-west-1", ReservedCapacity: true}, Metrics: metric.New(prometheus.NewRegistry()), Now: time.Now,
	})
	for _, kind := range types {
		for _, o := range kind.Offerings {
			if o.Reservation != "" {
				l.o.Reservations.Set(o.Reservation, o.Remaining, time.Now())
			}
		}
	}
	return l
}

func fault(code, text string) error { return &smithy.GenericAPIError{Code: code, Message: text} }

// serve responds to a request for a fleet: the first overrides that refuse lets pass give the instances, the others errors.
func (l *fixture) serve(in *ec2.CreateFleetInput, refuse func(kind, zone string) string) *ec2.CreateFleetOutput {
	out := &ec2.CreateFleetOutput{}
	left := int(*in.TargetCapacitySpecification.TotalTargetCapacity)
	for _, config := range in.LaunchTemplateConfigs {
		for _, o := range config.Overrides {
			at := &ec2types.LaunchTemplateAndOverridesResponse{Overrides: &ec2types.FleetLaunchTemplateOverrides{
				InstanceType: o.InstanceType, SubnetId: o.SubnetId, AvailabilityZone: o.AvailabilityZone, ImageId: o.ImageId, Priority: o.Priority,
			}}
			code := ""
			if refuse != nil {
				code = refuse(string(o.InstanceType), *o.AvailabilityZone)
			}
			if code != "" {
				out.Errors = append(out.Errors, ec2types.CreateFleetError{ErrorCode: &code, ErrorMessage: new("sorry"), LaunchTemplateAndOverrides: at})
				continue
			}
			if left == 0 {
				continue
			}
			one := ec2types.CreateFleetInstance{InstanceType: o.InstanceType, LaunchTemplateAndOverrides: at}
			for ; left > 0; left-- {
				l.ids++
				one.InstanceIds = append(one.InstanceIds, fmt.Sprintf("i-%d", l.ids))
			}
			out.Instances = append(out.Instances, one)
		}
	}
	return out
}

func (l *fixture) called(what string) {
	l.calls = append(l.calls, what)
}

func (l *fixture) CreateFleet(_ context.Context, in *ec2.CreateFleetInput, _ ...func(*ec2.Options)) (*ec2.CreateFleetOutput, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if in.DryRun != nil {
		return nil, l.dryRun("CreateFleet", "")
	}
	l.called("fleet")
	for _, config := range in.LaunchTemplateConfigs {
		if l.templates[*config.LaunchTemplateSpecification.LaunchTemplateName] == nil {
			return nil, fault("InvalidLaunchTemplateName.NotFoundException", "gone")
		}
	}
	l.fleets = append(l.fleets, in)
	return l.response(len(l.fleets), in)
}

func (l *fixture) RunInstances(_ context.Context, in *ec2.RunInstancesInput, _ ...func(*ec2.Options)) (*ec2.RunInstancesOutput, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return nil, l.dryRun("RunInstances", *in.NetworkInterfaces[0].SubnetId)
}

func (l *fixture) DescribeLaunchTemplates(_ context.Context, in *ec2.DescribeLaunchTemplatesInput, _ ...func(*ec2.Options)) (*ec2.DescribeLaunchTemplatesOutput, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.called("describe")
	out := &ec2.DescribeLaunchTemplatesOutput{}
	for _, name := range in.LaunchTemplateNames {
		if l.templates[name] == nil {
			return nil, fault("InvalidLaunchTemplateName.NotFoundException", "gone")
		}
		out.LaunchTemplates = append(out.LaunchTemplates, ec2types.LaunchTemplate{LaunchTemplateName: &name})
	}
	if len(in.LaunchTemplateNames) > 0 {
		return out, nil
	}
	for name, tags := range l.templates {
		if !slices.ContainsFunc(in.Filters, func(f ec2types.Filter) bool {
			return tags[strings.TrimPrefix(*f.Name, "tag:")] != f.Values[0]
		}) {
			out.LaunchTemplates = append(out.LaunchTemplates, ec2types.LaunchTemplate{LaunchTemplateName: &name})
		}
	}
	return out, nil
}

func (l *fixture) CreateLaunchTemplate(_ context.Context, in *ec2.CreateLaunchTemplateInput, _ ...func(*ec2.Options)) (*ec2.CreateLaunchTemplateOutput, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.dryRun("CreateLaunchTemplate", ""); err != nil && !strings.Contains(err.Error(), "DryRunOperation") {
		return nil, err
	}
	l.called("create")
	tags := map[string]string{}
	for _, tag := range in.TagSpecifications[0].Tags {
		tags[*tag.Key] = *tag.Value
	}
	l.templates[*in.LaunchTemplateName] = tags
	return &ec2.CreateLaunchTemplateOutput{}, nil
}

func (l *fixture) DeleteLaunchTemplate(_ context.Context, in *ec2.DeleteLaunchTemplateInput, _ ...func(*ec2.Options)) (*ec2.DeleteLaunchTemplateOutput, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.called("delete")
	if l.templates[*in.LaunchTemplateName] == nil {
		return nil, fault("InvalidLaunchTemplateName.NotFoundException", "gone")
	}
	l.deleted = append(l.deleted, *in.LaunchTemplateName)
	delete(l.templates, *in.LaunchTemplateName)
	return &ec2.DeleteLaunchTemplateOutput{}, nil
}

func (l *fixture) Raw(name string) (ec2types.InstanceTypeInfo, bool) {
	info, known := l.infos[name]
	return info, known
}

func (l *fixture) Lanes() resources.Table { return lanes() }

func (l *fixture) Types(*awsv1.EC2NodeClass, *runtime.RawExtension) ([]catalog.InstanceType, error) {
	return l.types, nil
}

func (l *fixture) Subnets(_ context.Context, class *awsv1.EC2NodeClass) ([]discover.Subnet, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []discover.Subnet
	for _, s := range class.Status.Subnets {
		list = append(list, discover.Subnet{ID: s.ID, Zone: s.Zone, ZoneID: s.ZoneID, Free: l.free[s.ID]})
	}
	return list, nil
}

func (l *fixture) PlacementGroup(context.Context, *awsv1.EC2NodeClass) (*discover.PlacementGroup, error) {
	return l.group, nil
}

func (l *fixture) Name() string                                { return "demo" }
func (l *fixture) Endpoint() string                            { return "https://demo.example" }
func (l *fixture) CABundle() string                            { return "Y2E=" }
func (l *fixture) DNS() string                                 { return l.dns }
func (l *fixture) IPv6() bool                                  { return strings.Contains(l.dns, ":") }
func (l *fixture) ServiceCIDR(context.Context) (string, error) { return "10.100.0.0/16", nil }

// request is a launch of a claim with the types of the lab.
func (l *fixture) request(claim *karpv1.NodeClaim) Request {
	return Request{Claim: claim, Class: nodeClass(), Types: l.types}
}

func (l *fixture) must(r Request) Result {
	l.t.Helper()
	got, err := l.Launch(l.t.Context(), r)
	if err != nil {
		l.t.Fatal(err)
	}
	return got
}

// golden compares the JSON of a value with a file.
func golden(t *testing.T, name string, got any) {
	t.Helper()
	text, err := json.MarshalIndent(plain(t, got), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name+".json")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.TrimSpace(string(want)), string(text)); diff != "" {
		t.Errorf("%s (run with -update to accept)\n%s", path, diff)
	}
}

// plain leaves members out that are not set: most of an SDK input.
func plain(t *testing.T, v any) any {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	return prune(tree)
}

func prune(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, member := range v {
			if member = prune(member); member == nil || member == "" {
				delete(v, key)
				continue
			}
			v[key] = member
		}
	case []any:
		for i := range v {
			v[i] = prune(v[i])
		}
	}
	return v
}
