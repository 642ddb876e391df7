package determinism_test

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/ami"
	"github.com/dovetail-sh/dovetail/internal/aws/classhash"
	"github.com/dovetail-sh/dovetail/internal/aws/discover"
	"github.com/dovetail-sh/dovetail/internal/aws/kubelet"
	"github.com/dovetail-sh/dovetail/internal/aws/launch"
	"github.com/dovetail-sh/dovetail/internal/aws/nodeclass"
	"github.com/dovetail-sh/dovetail/internal/aws/offering"
	"github.com/dovetail-sh/dovetail/internal/aws/userdata"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/metric"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// clouds are requests to EC2, user data, and what is written on node classes.
func clouds() []decision {
	list := []decision{
		{"launch: requests", 5, func() string { return launched(nodeClass()) }},
		{"nodeclass: conditions", 20, classSteps},
	}
	for _, family := range []string{ami.AL2, ami.AL2023, ami.Bottlerocket, ami.Windows2022} {
		list = append(list, decision{"user data: " + family, 20, func() string { return userData(family) }})
	}
	return list
}

const kubeletDocument = `{"maxPods": 50, "evictionHard": {"nodefs.available": "5%", "memory.available": "5%", "imagefs.available": "5%"}, "evictionSoft": {"memory.available": "10%", "nodefs.available": "10%"},
	"evictionSoftGracePeriod": {"memory.available": "1m", "nodefs.available": "2m"}, "kubeReserved": {"memory": "1Gi", "cpu": "100m", "ephemeral-storage": "1Gi"}, "systemReserved": {"memory": "1Gi", "cpu": "100m"},
	"featureGates": {"B": true, "A": false}, "shutdownGracePeriod": "30s"}`

func userData(family string) string {
	config, problems := kubelet.Parse(&runtime.RawExtension{Raw: []byte(kubeletDocument)})
	user := map[string]string{
		ami.Bottlerocket: "[settings.kubernetes]\n\"odd\" = 1\n[settings.kubernetes.node-labels]\n\"z\" = \"1\"\n\"y\" = \"2\"\n[settings.host-containers.admin]\nenabled = true\n[settings.kernel.sysctl]\n\"b\" = \"1\"\n\"a\" = \"2\"\n",
		ami.AL2:          "MIME-Version: 1.0\nContent-Type: text/x-shellscript; charset=us-ascii\nContent-B: x\nContent-A: y\n\necho hello\n",
	}[family]
	text, err := userdata.Render(userdata.Input{
		Family: ami.Of(family), Cluster: "demo", Endpoint: "https://demo.example", CABundle: "Y2E=", ServiceCIDR: "10.100.0.0/16", DNS: "10.100.0.10", Kubelet: config, User: user, RAID0: true, BottlerocketVersion: "1.46.0",
		Labels: map[string]string{"d": "1", "c": "2", "b": "3", "a": "4", "karpenter.sh/capacity-type": "spot"}, Taints: []corev1.Taint{{Key: "b", Value: "x", Effect: "NoSchedule"}, {Key: "a", Effect: "NoExecute"}},
	})
	return fmt.Sprint(text, err, problems)
}

// nodeClass is ready to launch, with much that has names of its own.
func nodeClass() *awsv1.EC2NodeClass {
	class := read[awsv1.EC2NodeClass](`{metadata: {name: default, uid: class-uid, annotations: {b: "1", a: "2"}}, spec: {role: node, amiSelectorTerms: [{alias: al2023@latest}], tags: {Team: a, Cost: b, Env: c, Owner: d},
		subnetSelectorTerms: [{tags: {b: "1", a: "2"}}], securityGroupSelectorTerms: [{tags: {d: "1", c: "2"}}]}}`)
	class.Spec.Kubelet = &runtime.RawExtension{Raw: []byte(kubeletDocument)}
	class.Status = awsv1.EC2NodeClassStatus{
		Subnets: []awsv1.Subnet{
			{ID: "subnet-a", Zone: "zone-a", ZoneID: "zone-a-id"}, {ID: "subnet-a2", Zone: "zone-a", ZoneID: "zone-a-id"}, {ID: "subnet-b", Zone: "zone-b", ZoneID: "zone-b-id"}, {ID: "subnet-c", Zone: "zone-c", ZoneID: "zone-c-id"},
		},
		SecurityGroups: []awsv1.SecurityGroup{{ID: "sg-1"}, {ID: "sg-2"}}, InstanceProfile: "profile",
		AMIs: []awsv1.AMI{{ID: "ami-1", Requirements: []corev1.NodeSelectorRequirement{{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"amd64"}}}}},
	}
	effective, _ := class.Effective(awsv1.Facts{ClusterName: "demo", KubernetesMinor: 34})
	return effective
}

// account is EC2 and what is known of the cluster; it writes down what it is requested.
type account struct {
	launch.EC2
	requested []any
}

func (a *account) note(what string, in any) { a.requested = append(a.requested, what, in) }

func (a *account) DescribeLaunchTemplates(_ context.Context, in *ec2.DescribeLaunchTemplatesInput, _ ...func(*ec2.Options)) (*ec2.DescribeLaunchTemplatesOutput, error) {
	a.note("DescribeLaunchTemplates", in)
	return nil, &smithy.GenericAPIError{Code: "InvalidLaunchTemplateName.NotFoundException"}
}

func (a *account) CreateLaunchTemplate(_ context.Context, in *ec2.CreateLaunchTemplateInput, _ ...func(*ec2.Options)) (*ec2.CreateLaunchTemplateOutput, error) {
	a.note("CreateLaunchTemplate", in)
	return &ec2.CreateLaunchTemplateOutput{}, nil
}

func (a *account) CreateFleet(_ context.Context, in *ec2.CreateFleetInput, _ ...func(*ec2.Options)) (*ec2.CreateFleetOutput, error) {
	a.note("CreateFleet", in)
	if in.DryRun != nil {
		return nil, &smithy.GenericAPIError{Code: "DryRunOperation"}
	}
	out := &ec2.CreateFleetOutput{}
	for i, override := range in.LaunchTemplateConfigs[0].Overrides {
		at := &ec2types.LaunchTemplateAndOverridesResponse{Overrides: &ec2types.FleetLaunchTemplateOverrides{InstanceType: override.InstanceType, SubnetId: override.SubnetId, AvailabilityZone: override.AvailabilityZone}}
		if in.TargetCapacitySpecification.DefaultTargetCapacityType == ec2types.DefaultTargetCapacityTypeSpot {
			out.Errors = append(out.Errors, ec2types.CreateFleetError{ErrorCode: new("InsufficientInstanceCapacity"), ErrorMessage: new("none"), LaunchTemplateAndOverrides: at})
		} else if i == 0 {
			out.Instances = append(out.Instances, ec2types.CreateFleetInstance{InstanceType: override.InstanceType, InstanceIds: []string{"i-1"}, LaunchTemplateAndOverrides: at})
		}
	}
	return out, nil
}

func (a *account) RunInstances(_ context.Context, in *ec2.RunInstancesInput, _ ...func(*ec2.Options)) (*ec2.RunInstancesOutput, error) {
	a.note("RunInstances", in)
	return nil, &smithy.GenericAPIError{Code: "UnauthorizedOperation", Message: "not authorized"}
}

func (*account) Raw(string) (ec2types.InstanceTypeInfo, bool) {
	return ec2types.InstanceTypeInfo{}, false
}
func (*account) Lanes() resources.Table { return resources.NewTable() }
func (*account) Types(*awsv1.EC2NodeClass, *runtime.RawExtension) ([]catalog.InstanceType, error) {
	return offers()["a"], nil
}

func (*account) Subnets(_ context.Context, class *awsv1.EC2NodeClass) ([]discover.Subnet, error) {
	var list []discover.Subnet
	for _, s := range class.Status.Subnets {
		list = append(list, discover.Subnet{ID: s.ID, Zone: s.Zone, ZoneID: s.ZoneID, Free: 100})
	}
	return list, nil
}

func (*account) PlacementGroup(context.Context, *awsv1.EC2NodeClass) (*discover.PlacementGroup, error) {
	return nil, nil
}
func (*account) Name() string                                { return "demo" }
func (*account) Endpoint() string                            { return "https://demo.example" }
func (*account) CABundle() string                            { return "Y2E=" }
func (*account) DNS() string                                 { return "10.100.0.10" }
func (*account) IPv6() bool                                  { return false }
func (*account) ServiceCIDR(context.Context) (string, error) { return "10.100.0.0/16", nil }

// launched is all that EC2 is requested a dry run of a class and for the launch of a claim that finds no spot.
func launched(class *awsv1.EC2NodeClass) string {
	a := &account{}
	l := launch.New(launch.Options{
		EC2: a, Catalog: a, Discover: a, Cluster: a, Unavailable: offering.NewUnavailable(noon), Reservations: offering.NewReservations(noon), Metrics: metric.New(prometheus.NewRegistry()), Now: noon,
		Settings: launch.Settings{Region: "eu-west-1"},
		Pools: func(context.Context, *awsv1.EC2NodeClass) ([]karpv1.NodePool, error) {
			return []karpv1.NodePool{*nodePool("a"), *nodePool("b")}, nil
		},
	})
	ctx := context.Background()
	why, message, retry, err := l.Validate(ctx, class)
	claim, _ := running(2)
	claim.UID = types.UID("claim-uid")
	claim.Spec.Requirements = []karpv1.Requirement{{Key: karpv1.LabelCapacityType, Operator: "In", Values: []string{"spot", "on-demand"}}}
	got, failed := l.Launch(ctx, launch.Request{Claim: claim, Class: class, Types: offers()["a"]})
	return dump(append(a.requested, why, message, retry, fmt.Sprint(err), got, fmt.Sprint(failed))...)
}

// classSteps are what is written on a class that is ready, and on one with many faults.
func classSteps() string {
	bad := read[awsv1.EC2NodeClass](`{metadata: {name: bad, generation: 2}, spec: {role: a, instanceProfile: b, tags: {karpenter.sh/nodepool: a, karpenter.sh/nodeclaim: b, kubernetes.io/cluster/x: c, "": d},
		amiSelectorTerms: [{alias: odd@x}, {id: ami-1, name: x}, {tags: {"": "", b: ""}}], subnetSelectorTerms: [{id: x, tags: {a: "", b: ""}}, {}], securityGroupSelectorTerms: [{name: x, id: "y"}]}}`)
	bad.Spec.Kubelet = &runtime.RawExtension{Raw: []byte(`{"maxPods": -1, "evictionHard": {"d": "x", "c": "x", "memory.available": "many"}, "evictionSoft": {"b": "5%", "a": "5%"}, "kubeReserved": {"f": "1", "e": "2", "cpu": "-1"}, "systemReserved": {"h": "1", "g": "2"}, "odd": {"b": 1, "a": 2}}`)}
	var parts []any
	for _, class := range []*awsv1.EC2NodeClass{bad, nodeClass()} {
		f := nodeclass.Facts{
			Class: class, Cluster: awsv1.Facts{ClusterName: "demo", KubernetesMinor: 34}, Kubernetes: "1.34", Now: metav1.NewTime(noon()),
			Claims: []string{"a", "b"}, DryRun: &nodeclass.Verdict{Reason: "RunInstancesAuthCheckFailed", Message: "not authorized"},
		}
		f.SecurityGroups.Value, f.Images.Value, f.Profile.Value, f.ServiceCIDR.Value = []awsv1.SecurityGroup{{ID: "sg-1"}}, class.Status.AMIs, "profile", "10.100.0.0/16"
		for _, s := range class.Status.Subnets {
			f.Subnets.Value = append(f.Subnets.Value, discover.Subnet{ID: s.ID, Zone: s.Zone, ZoneID: s.ZoneID, Free: 10})
		}
		step := nodeclass.Next(f)
		hash, err := classhash.Of(class, f.Cluster, "Y2E=")
		parts = append(parts, step, fmt.Sprint(step.Err), step.After/time.Second, hash, fmt.Sprint(err))
	}
	return dump(parts...)
}
