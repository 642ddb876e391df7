package aws

import (
	"slices"
	"testing"
	"time"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/kubelet"
	"github.com/dovetail-sh/dovetail/internal/aws/settings"
	cloudport "github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/cloudtest"
	"github.com/dovetail-sh/dovetail/internal/cloud/driver"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/config"
)

type silent struct{ *world }

func (silent) Flips(client.Object, []condition.Flip) {}

func TestEverythingCanBeComposedAndRegistered(t *testing.T) {
	c, w := connect(t, &ec2Server{responses: []int{200}})
	mgr := cloudtest.NewManager(t, awsv1.AddToScheme)
	cloud := &Cloud{clients: c, o: driver.Options{
		Config:  config.Config{Cloud: settings.AWS{ClusterName: "sandbox", InterruptionQueue: "q", ZonalShift: true}},
		Version: "dev", Kube: mgr.GetConfig(), Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Events: silent{w}, Metrics: w.metrics, Now: time.Now,
	}}
	var err error
	if cloud.cluster, err = newCluster(cloud.o, c); err != nil {
		t.Fatal(err)
	}
	cloud.composeParts()
	if err := cloud.Register(mgr); err != nil {
		t.Fatal(err)
	}
	if len(cloud.Gates()) != 1 || cloud.Lanes().Len() == 0 || len(cloud.Interruptions(nil)) != 2 {
		t.Error("something is missing")
	}
}

// FM E01: what matters is how long this process has led. A standby that takes over after an hour knows as little
// of what was launched a moment ago as one that just started.
func TestFM_E01_AStandbyThatTakesOverIsNotSure(t *testing.T) {
	c, w := connect(t, &ec2Server{responses: []int{200}}) // EC2 knows no instance
	now := start
	cloud := &Cloud{clients: c, o: driver.Options{Client: w.kube, Reader: w.kube, Events: silent{w}, Metrics: w.metrics, Now: func() time.Time { return now }}}
	var err error
	if cloud.cluster, err = newCluster(driver.Options{Kube: &rest.Config{Host: "http://127.0.0.1:1"}}, c); err != nil {
		t.Fatal(err)
	}
	cloud.composeParts()
	now = now.Add(time.Hour)
	cloud.o.Ledger.Started() // it leads now
	for _, tc := range []struct {
		later time.Duration
		want  cloudport.Kind
	}{{74 * time.Second, cloudport.Unknown}, {75 * time.Second, cloudport.NotFound}} {
		now = start.Add(time.Hour + tc.later)
		if err := cloud.Terminate(t.Context(), "aws:///eu-west-1a/i-1"); cloudport.KindOf(err) != tc.want {
			t.Errorf("%s after it began to lead: %v, want kind %v", tc.later, err, tc.want)
		}
	}
}

func TestKubeletMachine(t *testing.T) {
	t.Parallel()
	got := kubeletMachine(ec2types.InstanceTypeInfo{
		InstanceType: "m5.large", VCpuInfo: &ec2types.VCpuInfo{DefaultVCpus: new(int32(2))}, MemoryInfo: &ec2types.MemoryInfo{SizeInMiB: new(int64(8192))},
		NetworkInfo: &ec2types.NetworkInfo{
			Ipv4AddressesPerInterface: new(int32(10)), MaximumNetworkInterfaces: new(int32(8)), DefaultNetworkCardIndex: new(int32(0)),
			NetworkCards: []ec2types.NetworkCardInfo{{NetworkCardIndex: new(int32(0)), MaximumNetworkInterfaces: new(int32(3))}, {NetworkCardIndex: new(int32(1)), MaximumNetworkInterfaces: new(int32(5))}},
		},
	}, 29)
	if want := (kubelet.Machine{Type: "m5.large", VCPUs: 2, MemoryMiB: 8192, DefaultENIs: 3, IPsPerENI: 10, Pods: 29}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := kubeletMachine(ec2types.InstanceTypeInfo{InstanceType: "x"}, 0); got.Type != "x" || !slices.Equal([]int{got.VCPUs, got.MemoryMiB}, []int{0, 0}) {
		t.Errorf("%+v", got)
	}
}
