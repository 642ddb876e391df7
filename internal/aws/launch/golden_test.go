package launch

import (
	"encoding/base64"
	"testing"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/discover"
	"github.com/dovetail-sh/dovetail/internal/catalog"
)

// scenario is one launch, with all that differs from the ordinary.
type scenario struct {
	types  []catalog.InstanceType
	needs  []karpv1.Requirement
	claim  func(*karpv1.NodeClaim)
	class  func(*awsv1.EC2NodeClass)
	group  *discover.PlacementGroup
	infos  map[string]ec2types.InstanceTypeInfo
	dns    string
	change func(*Options)
}

func scenarios() map[string]scenario {
	both := []catalog.InstanceType{kind("m5.large", spot("a", 0.04), spot("b", 0.05), onDemand("a", 0.1), onDemand("b", 0.1)), kind("c5.large", spot("a", 0.03), onDemand("a", 0.09))}
	od := in(karpv1.LabelCapacityType, "on-demand")
	partition := func(n string) catalog.Offering {
		o := onDemand("a", 0.1)
		o.Labels = map[string]string{awsv1.LabelZoneID: "a-id", awsv1.LabelPlacementGroupPartition: n}
		return o
	}
	efas := map[string]ec2types.InstanceTypeInfo{"p5.large": {NetworkInfo: &ec2types.NetworkInfo{EfaInfo: &ec2types.EfaInfo{MaximumEfaInterfaces: new(int32(3))}}}}
	p5 := kind("p5.large", onDemand("a", 9))
	p5.Capacity = lanes().Capacity(corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("29"), resourceEFA: resource.MustParse("3"),
	})
	return map[string]scenario{
		"spot":           {types: both},
		"on-demand":      {types: both, needs: []karpv1.Requirement{od}},
		"mixed":          {types: append(both, kind("m6.large", onDemand("a", 0.2)))},
		"reserved":       {types: []catalog.InstanceType{kind("m5.large", held("a", "cr-1", 2, 1e-8), held("b", "cr-2", 1, 1e-8), spot("a", 0.04))}},
		"capacity-block": {types: []catalog.InstanceType{kind("m5.large", heldBlock("a", "cr-1", 1e-8), spot("a", 0.04))}},
		"interruptible":  {types: []catalog.InstanceType{kind("m5.large", heldInterruptible("a", "cr-1", 1e-8))}},
		"gate-off":       {types: []catalog.InstanceType{kind("m5.large", held("a", "cr-1", 2, 1e-8), onDemand("a", 0.1))}, change: func(o *Options) { o.Settings.ReservedCapacity = false }},
		"overlay-spot": {types: both, claim: func(c *karpv1.NodeClaim) {
			c.Annotations = map[string]string{karpv1.AnnotationPriceOverlayApplied: "true"}
		}},
		"overlay-on-demand": {types: both, needs: []karpv1.Requirement{od}, claim: func(c *karpv1.NodeClaim) {
			c.Annotations = map[string]string{karpv1.AnnotationPriceOverlayApplied: "true"}
		}},
		"efa": {types: []catalog.InstanceType{p5}, infos: efas, claim: func(c *karpv1.NodeClaim) {
			c.Spec.Resources.Requests[resourceEFA] = resource.MustParse("1")
		}},
		"network-interfaces": {types: both, class: func(c *awsv1.EC2NodeClass) {
			c.Spec.NetworkInterfaces = []awsv1.NetworkInterface{{InterfaceType: "interface"}, {NetworkCardIndex: 1, DeviceIndex: 1, InterfaceType: "efa-only"}}
			c.Spec.AssociatePublicIPAddress = new(false)
			c.Spec.ConnectionTracking = &awsv1.ConnectionTracking{UDPTimeout: new(int32(45))}
			c.Spec.IPPrefixCount = new(int32(2))
		}},
		"partition": {
			types: []catalog.InstanceType{kind("m5.large", partition("2"), partition("1"), partition("3"))}, needs: []karpv1.Requirement{in(awsv1.LabelPlacementGroupPartition, "2", "3")},
			group: &discover.PlacementGroup{ID: "pg-1", Strategy: "partition", Partitions: 3}, class: withGroup,
		},
		"any-partition": {
			types: []catalog.InstanceType{kind("m5.large", partition("2"), partition("1"))},
			group: &discover.PlacementGroup{ID: "pg-1", Strategy: "partition", Partitions: 2}, class: withGroup,
		},
		"dedicated": {types: both, needs: []karpv1.Requirement{in(awsv1.LabelInstanceTenancy, "dedicated")}},
		"ipv6":      {types: both, dns: "fd00::a", class: func(c *awsv1.EC2NodeClass) { c.Spec.IPPrefixCount = new(int32(1)) }},
		"enclave": {types: both, claim: func(c *karpv1.NodeClaim) {
			c.Spec.Resources.Requests[resourceEnclave] = resource.MustParse("1")
		}},
		"context": {types: both, class: func(c *awsv1.EC2NodeClass) { c.Spec.Context = new("ctx") }},
		"context-relaxed": {types: both, class: func(c *awsv1.EC2NodeClass) { c.Spec.Context = new("ctx") }, claim: func(c *karpv1.NodeClaim) {
			c.Annotations = map[string]string{karpv1.AnnotationMinValuesRelaxed: "true"}
		}},
		"everything-in-the-class": {types: both, class: func(c *awsv1.EC2NodeClass) {
			c.Spec.DetailedMonitoring = new(true)
			c.Spec.CPUOptions = &awsv1.CPUOptions{NestedVirtualization: new("enabled")}
			c.Spec.Kubelet = &runtime.RawExtension{Raw: []byte(`{"kubeReserved": {"cpu": "100m"}}`)}
			c.Spec.BlockDeviceMappings = []awsv1.BlockDeviceMapping{{DeviceName: new("/dev/xvda"), RootVolume: true, EBS: &awsv1.BlockDevice{
				VolumeSize: new(resource.MustParse("20G")), VolumeType: new("gp3"), DeleteOnTermination: new(true), IOPS: new(int64(3000)), Throughput: new(int64(0)),
				KMSKeyID: new("key"), SnapshotID: new("snap-1"), VolumeInitializationRate: new(int32(200)),
			}}}
		}, change: func(o *Options) { o.Settings.Region = "us-iso-east-1" }},
	}
}

func withGroup(c *awsv1.EC2NodeClass) {
	c.Spec.PlacementGroupSelector = &awsv1.PlacementGroupSelector{Name: "group"}
}

// The requests of AWS provider 5.3 and 5.4, written out. S-071, S-072, S-135, S-141, S-200, F10.
func TestRequests(t *testing.T) {
	t.Parallel()
	for name, sc := range scenarios() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newFixture(t, sc.types...)
			l.group, l.infos = sc.group, sc.infos
			if sc.dns != "" {
				l.dns = sc.dns
			}
			if sc.change != nil {
				sc.change(&l.o)
			}
			r := l.request(nodeClaim("x", sc.needs...))
			if sc.claim != nil {
				sc.claim(r.Claim)
			}
			if sc.class != nil {
				sc.class(r.Class)
			}
			w := wants(t, r.Claim)
			ticket, err := l.prepareTicket(t.Context(), r, w)
			if err != nil {
				t.Fatal(err)
			}
			again, err := l.prepareTicket(t.Context(), r, w)
			if err != nil || again.key != ticket.key {
				t.Errorf("the same request has another key, or fails: %v", err)
			}
			var templates []any
			for _, recipe := range ticket.recipes {
				readable := *recipe.template
				data := *readable.LaunchTemplateData
				text, err := base64.StdEncoding.DecodeString(*data.UserData)
				if err != nil {
					t.Fatal(err)
				}
				data.UserData = new(string(text))
				readable.LaunchTemplateData = &data
				templates = append(templates, readable)
			}
			golden(t, name, map[string]any{"fleet": ticket.input, "templates": templates})
		})
	}
}

// Types with different kubelet settings get templates of their own; equal ones share (5.3).
func TestTypesAreGroupedByTemplate(t *testing.T) {
	t.Parallel()
	large := kind("m5.xlarge", spot("a", 2))
	large.Capacity = lanes().Capacity(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourcePods: resource.MustParse("58")})
	l := newFixture(t, kind("m5.large", spot("a", 1), spot("b", 1)), kind("c5.large", spot("a", 1)), large)
	ticket, err := l.prepareTicket(t.Context(), l.request(nodeClaim("x")), wants(t, nodeClaim("x")))
	if err != nil {
		t.Fatal(err)
	}
	if len(ticket.recipes) != 2 || len(ticket.recipes[0].picks) != 3 || len(ticket.recipes[1].picks) != 1 {
		t.Errorf("%d templates", len(ticket.recipes))
	}
}

// Reservations that expressions compute differ by type, and so do the templates.
func TestExpressionsInTemplates(t *testing.T) {
	t.Parallel()
	l := newFixture(t, kind("m5.large", spot("a", 1)), kind("c5.large", spot("a", 1)))
	l.o.Settings.NodeClassCEL = true
	l.infos = map[string]ec2types.InstanceTypeInfo{
		"m5.large": {VCpuInfo: &ec2types.VCpuInfo{DefaultVCpus: new(int32(2))}}, "c5.large": {VCpuInfo: &ec2types.VCpuInfo{DefaultVCpus: new(int32(4))}},
	}
	r := l.request(nodeClaim("x"))
	r.Class.Spec.Kubelet = &runtime.RawExtension{Raw: []byte(`{"maxPods": "5", "kubeReserved": {"cpu": "vcpus * 10 + max_pods"}}`)}
	ticket, err := l.prepareTicket(t.Context(), r, wants(t, r.Claim))
	if err != nil {
		t.Fatal(err)
	}
	if len(ticket.recipes) != 2 {
		t.Errorf("%d templates, want one for each type", len(ticket.recipes))
	}
}
