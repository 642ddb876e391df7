package eks

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/go-logr/logr/funcr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/settings"
)

type fakeEKS struct {
	cluster *ekstypes.Cluster
	err     error
	calls   int
}

func (f *fakeEKS) DescribeCluster(_ context.Context, in *eks.DescribeClusterInput, _ ...func(*eks.Options)) (*eks.DescribeClusterOutput, error) {
	f.calls++
	if f.err != nil {
		return nil, f.err
	}
	if *in.Name != "demo" {
		return nil, errors.New("ResourceNotFoundException")
	}
	return &eks.DescribeClusterOutput{Cluster: f.cluster}, nil
}

type fakeServer struct {
	major, minor string
	err          error
}

func (f *fakeServer) ServerVersion() (*version.Info, error) {
	return &version.Info{Major: f.major, Minor: f.minor}, f.err
}

func described() *ekstypes.Cluster {
	return &ekstypes.Cluster{
		Endpoint: new("https://eks.example"), Version: new("1.33"), Arn: new("arn:aws:eks:us-east-1:1:cluster/demo"),
		KubernetesNetworkConfig: &ekstypes.KubernetesNetworkConfigResponse{ServiceIpv4Cidr: new("10.100.0.0/16"), ServiceIpv6Cidr: new("fd00::/108")},
		ResourcesVpcConfig:      &ekstypes.VpcConfigResponse{ClusterSecurityGroupId: new("sg-1")},
	}
}

func options() Options {
	return Options{
		Settings: settings.AWS{ClusterName: "demo"}, EKS: &fakeEKS{cluster: described()}, Server: &fakeServer{major: "1", minor: "34+"}, CA: []byte("pem"),
		DNSAddress: func(context.Context) (string, error) { return "10.100.0.10", nil },
	}
}

// logged returns a context whose logger collects lines.
func logged(t *testing.T) (context.Context, *[]string) {
	t.Helper()
	lines := &[]string{}
	logger := funcr.New(func(_, args string) { *lines = append(*lines, args) }, funcr.Options{})
	return log.IntoContext(t.Context(), logger), lines
}

// Start-up as in AWS provider 2 and 9.
func TestStart(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change                        func(*Options)
		wantEndpoint, wantDNS, wantCA string
		wantVersion                   string
		wantIPv6                      bool
		wantError, wantLine           string
	}{
		"all from EKS and the API server": {wantEndpoint: "https://eks.example", wantDNS: "10.100.0.10", wantCA: "cGVt", wantVersion: "1.34"},
		"endpoint and certificate are settings": {
			change: func(o *Options) {
				o.Settings.ClusterEndpoint, o.Settings.ClusterCABundle, o.EKS = "https://own.example", "b3du", nil
			},
			wantEndpoint: "https://own.example", wantDNS: "10.100.0.10", wantCA: "b3du", wantVersion: "1.34",
		},
		"the version is EKS's to say": {
			change:       func(o *Options) { o.Settings.EKSControlPlane, o.Server = true, nil },
			wantEndpoint: "https://eks.example", wantDNS: "10.100.0.10", wantCA: "cGVt", wantVersion: "1.33",
		},
		"an IPv6 cluster": {
			change: func(o *Options) {
				o.DNSAddress = func(context.Context) (string, error) { return "fd00::a", nil }
			},
			wantEndpoint: "https://eks.example", wantDNS: "fd00::a", wantCA: "cGVt", wantVersion: "1.34", wantIPv6: true,
		},
		"no DNS service is logged only": {
			change: func(o *Options) {
				o.DNSAddress = func(context.Context) (string, error) { return "", errors.New("not found") }
			},
			wantEndpoint: "https://eks.example", wantCA: "cGVt", wantVersion: "1.34", wantLine: "kube-dns: not found",
		},
		"a headless DNS service is no address": {
			change: func(o *Options) {
				o.DNSAddress = func(context.Context) (string, error) { return "None", nil }
			},
			wantEndpoint: "https://eks.example", wantCA: "cGVt", wantVersion: "1.34", wantLine: "kube-dns",
		},
		"EKS does not respond": {
			change: func(o *Options) { o.EKS = &fakeEKS{err: errors.New("AccessDenied")} }, wantError: `endpoint of cluster "demo"`,
		},
		"EKS names no endpoint": {
			change: func(o *Options) { o.EKS = &fakeEKS{cluster: &ekstypes.Cluster{}} }, wantError: "EKS names none",
		},
		"the API server does not respond": {
			change: func(o *Options) { o.Server = &fakeServer{err: errors.New("refused")} }, wantError: "kubernetes version: refused",
		},
		"a version that is none": {
			change: func(o *Options) { o.Server = &fakeServer{major: "1", minor: "x"} }, wantError: "kubernetes version",
		},
		"an old version is reported, nothing stops": {
			change:       func(o *Options) { o.Server = &fakeServer{major: "1", minor: "25"} },
			wantEndpoint: "https://eks.example", wantDNS: "10.100.0.10", wantCA: "cGVt", wantVersion: "1.25", wantLine: "1.26 to 1.37",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options()
			if tc.change != nil {
				tc.change(&o)
			}
			ctx, lines := logged(t)
			c := New(o)
			err := c.Start(ctx)
			if tc.wantError != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantError) {
					t.Fatalf("Start() = %v, want an error about %s", err, tc.wantError)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, v := c.Version(); c.Endpoint() != tc.wantEndpoint || c.DNS() != tc.wantDNS || c.CABundle() != tc.wantCA || v != tc.wantVersion || c.IPv6() != tc.wantIPv6 {
				t.Errorf("endpoint %s, DNS %s, CA %s, version %s, IPv6 %v", c.Endpoint(), c.DNS(), c.CABundle(), v, c.IPv6())
			}
			if text := strings.Join(*lines, "\n"); (tc.wantLine == "") != (text == "") || !strings.Contains(text, tc.wantLine) {
				t.Errorf("logged %q, want a line about %q", text, tc.wantLine)
			}
		})
	}
}

// A cluster may do without the Service kube-dns, as the sandbox did: that is news, and nothing that failed. Kubernetes
// 1.37, which the sandbox runs, is tested.
func TestTrust_B08_AFreshLogBeginsWithoutErrors(t *testing.T) {
	t.Parallel()
	for name, dns := range map[string]func(context.Context) (string, error){
		"there is a DNS service": func(context.Context) (string, error) { return "10.100.0.10", nil },
		"there is none": func(context.Context) (string, error) {
			return "", apierrors.NewNotFound(schema.GroupResource{Resource: "services"}, "kube-dns")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options()
			o.Server, o.DNSAddress = &fakeServer{major: "1", minor: "37"}, dns
			ctx, lines := logged(t)
			if err := New(o).Start(ctx); err != nil {
				t.Fatal(err)
			}
			for _, line := range *lines {
				if strings.Contains(line, `"error"=`) {
					t.Errorf("the log of a fresh start has an error: %s", line)
				}
			}
		})
	}
}

// 9: reported once per change.
func TestUnsupportedVersionIsReportedOncePerChange(t *testing.T) {
	t.Parallel()
	server := &fakeServer{major: "1", minor: "37"}
	o := options()
	o.Server = server
	c := New(o)
	ctx, lines := logged(t)
	for _, step := range []struct {
		minor string
		want  int
	}{{"37", 0}, {"38", 1}, {"38", 1}, {"39+", 2}, {"37", 2}, {"38", 3}} {
		server.minor = step.minor
		if err := c.RefreshVersion(ctx); err != nil {
			t.Fatal(err)
		}
		if len(*lines) != step.want {
			t.Errorf("1.%s: %d lines, want %d: %v", step.minor, len(*lines), step.want, *lines)
		}
	}
	server.err = errors.New("refused")
	if err := c.RefreshVersion(ctx); err == nil {
		t.Error("an API server that refuses is no error")
	}
	want := awsv1.Facts{ClusterName: "demo", KubernetesMinor: 38}
	if got := c.Facts(); got != want {
		t.Errorf("Facts() = %+v, want the last version, %+v", got, want)
	}
}

func TestServiceCIDR(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		network *ekstypes.KubernetesNetworkConfigResponse
		want    string
	}{
		"IPv4 first": {network: described().KubernetesNetworkConfig, want: "10.100.0.0/16"},
		"IPv6":       {network: &ekstypes.KubernetesNetworkConfigResponse{ServiceIpv6Cidr: new("fd00::/108")}, want: "fd00::/108"},
		"none yet":   {network: nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requested := &fakeEKS{cluster: described()}
			requested.cluster.KubernetesNetworkConfig = tc.network
			o := options()
			o.EKS = requested
			c := New(o)
			got, err := c.ServiceCIDR(t.Context())
			if got != tc.want || (err == nil) != (tc.want != "") {
				t.Errorf("ServiceCIDR() = %q, %v; want %q", got, err, tc.want)
			}
			requested.cluster = described()
			if again, err := c.ServiceCIDR(t.Context()); err != nil || (tc.want != "" && (again != tc.want || requested.calls != 1)) {
				t.Errorf("again: %q, %v, %d calls; it is kept once it is known", again, err, requested.calls)
			}
		})
	}
}

func TestLastingFacts(t *testing.T) {
	t.Parallel()
	requested := &fakeEKS{cluster: described()}
	o := options()
	o.EKS = requested
	c := New(o)
	arn, err := c.ARN(t.Context())
	group, second := c.SecurityGroup(t.Context())
	if err := errors.Join(err, second); err != nil || arn != "arn:aws:eks:us-east-1:1:cluster/demo" || group != "sg-1" || requested.calls != 1 {
		t.Errorf("%s, %s, %v after %d calls", arn, group, err, requested.calls)
	}
	requested.err = errors.New("throttled")
	if _, err := New(Options{Settings: o.Settings, EKS: requested}).ARN(t.Context()); err == nil {
		t.Error("EKS does not respond, yet there is an ARN")
	}
}

func TestCAOf(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, []byte("from file"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		tls  rest.TLSClientConfig
		want string
		fail bool
	}{
		"in memory":     {tls: rest.TLSClientConfig{CAData: []byte("data"), CAFile: file}, want: "data"},
		"in a file":     {tls: rest.TLSClientConfig{CAFile: file}, want: "from file"},
		"none":          {},
		"a file astray": {tls: rest.TLSClientConfig{CAFile: file + "x"}, fail: true},
	} {
		got, err := CAOf(&rest.Config{TLSClientConfig: tc.tls})
		if string(got) != tc.want || (err != nil) != tc.fail {
			t.Errorf("%s: %q, %v; want %q", name, got, err, tc.want)
		}
	}
}
