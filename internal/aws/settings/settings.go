package settings

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/config"
)

// AWS is the cluster as AWS sees it, and how to deal with its services.
type AWS struct {
	ClusterName             string // never empty
	ClusterEndpoint         string // absolute URL, or empty: query EKS
	ClusterCABundle         string // base64, or empty: take the controller's own
	EKSControlPlane         bool
	IsolatedVPC             bool
	VMMemoryOverheadPercent float64 // a fraction, although the name says percent: 0.075 is 7.5 %
	InterruptionQueue       string  // name of the queue, never an ARN or URL; empty means none
	ReservedENIs            int
	DryRunDisabled          bool
	ZonalShift              bool
	AMIRefreshInterval      time.Duration // at least a minute
	SubnetRefreshInterval   time.Duration // at least a minute
	Gates                   Gates
}

// Gates switch features of the AWS provider.
type Gates struct {
	NodeClassCEL bool
}

// Of returns the settings of AWS out of those of a controller. All are zero where none were loaded, as in tests.
func Of(c config.Config) AWS {
	if c.Cloud == nil {
		return AWS{}
	}
	return c.Cloud.(AWS)
}

// Section is the table of AWS. Its rows are the frozen surface of internal/drivers/testdata/settings.txt.
func Section() (table []config.Setting, values func() any) {
	s := &AWS{}
	return slices.Concat(s.clusterSettings(), s.serviceSettings()), func() any { return *s }
}

const wantMinute = "a duration of 1m or more"

// clusterSettings say which cluster it is.
func (s *AWS) clusterSettings() []config.Setting {
	return []config.Setting{
		{
			Flag: "cluster-name", Helm: "settings.clusterName", Required: true,
			Usage: "name of the cluster, for discovery and tags of ownership; required",
			As:    config.Text(&s.ClusterName, notBlank, "the name of the cluster"),
		},
		{
			Flag: "cluster-endpoint", Helm: "settings.clusterEndpoint",
			Usage: "URL of the API server for nodes; if empty, it is read from EKS",
			As:    config.Text(&s.ClusterEndpoint, absoluteURL, "an absolute URL, such as https://api.example.com"),
		},
		{
			Flag: "cluster-ca-bundle", Helm: "settings.clusterCABundle",
			Usage: "certificate authority for nodes, base64; if empty, the controller's own",
			As:    config.Text(&s.ClusterCABundle, anyText, "any text"),
			Odd:   s.oddBundle,
		},
		{
			Flag: "eks-control-plane", Default: "false", Helm: "settings.eksControlPlane",
			Usage: "read the cluster's settings from EKS",
			As:    config.Boolean(&s.EKSControlPlane),
		},
		{
			Flag: "isolated-vpc", Default: "false", Helm: "settings.isolatedVPC",
			Usage: "call no service that lacks a VPC endpoint; on-demand prices are then not refreshed",
			As:    config.Boolean(&s.IsolatedVPC),
		},
	}
}

// serviceSettings say how to deal with the services of AWS.
func (s *AWS) serviceSettings() []config.Setting {
	return []config.Setting{
		{
			Flag: "vm-memory-overhead-percent", Default: "0.075", Helm: "settings.vmMemoryOverheadPercent",
			Usage: "part of an instance's memory that the hypervisor takes, as a fraction; used until the real value was seen",
			As:    config.Fraction(&s.VMMemoryOverheadPercent),
			Odd:   s.oddOverhead,
		},
		{
			Flag: "interruption-queue", Helm: "settings.interruptionQueue",
			Usage: "SQS queue with interruption messages: name, ARN or URL; if empty, none is read",
			As:    config.Converted(&s.InterruptionQueue, queueName, "the name of an SQS queue: up to 80 letters, digits, '-' and '_'"),
		},
		{
			Flag: "reserved-enis", Default: "0", Helm: "settings.reservedENIs",
			Usage: "network interfaces to leave out when counting how many pods fit; 1 for CNI custom networking",
			As:    config.Integer(&s.ReservedENIs, zeroOrMore, "a whole number of 0 or more"),
		},
		{
			Flag: "disable-dry-run", Default: "false", Helm: "settings.disableDryRun",
			Usage: "do not try out a NodeClass with dry-run calls",
			As:    config.Boolean(&s.DryRunDisabled),
		},
		{
			Flag: "enable-zonal-shift", Default: "false", Helm: "settings.enableZonalShift",
			Usage: "make no nodes in zones that a zonal shift moved traffic away from",
			As:    config.Boolean(&s.ZonalShift),
		},
		{
			Flag: "ami-refresh-interval", Default: "1m", Helm: "settings.amiRefreshInterval",
			Usage: "how often images are looked up; 1m or more",
			As:    config.Period(&s.AMIRefreshInterval, time.Minute, wantMinute),
		},
		{
			Flag: "subnet-refresh-interval", Default: "1m", Helm: "settings.subnetRefreshInterval",
			Usage: "how often subnets are looked up; 1m or more",
			As:    config.Period(&s.SubnetRefreshInterval, time.Minute, wantMinute),
		},
		{
			Flag: "aws-feature-gates", Default: "NodeClassCEL=false", Helm: "settings.awsFeatureGates",
			Usage: "features of the AWS provider to switch, as in feature-gates",
			As:    config.Switches(config.Gate{Name: "NodeClassCEL", On: &s.Gates.NodeClassCEL}),
		},
	}
}

func (s *AWS) oddOverhead() string {
	if s.VMMemoryOverheadPercent >= 1 {
		return "a fraction of 1 or more leaves no memory for pods; 7.5 % is 0.075"
	}
	return ""
}

func (s *AWS) oddBundle() string {
	if _, err := base64.StdEncoding.DecodeString(s.ClusterCABundle); err != nil {
		return "is not base64; nodes will not trust the API server"
	}
	return ""
}

func anyText(string) bool { return true }

func notBlank(s string) bool { return strings.TrimSpace(s) != "" }

func zeroOrMore(n int) bool { return n >= 0 }

// absoluteURL wants a host too: host:port alone would parse, as a URL of scheme "host".
func absoluteURL(s string) bool {
	if s == "" {
		return true
	}
	u, err := url.Parse(s)
	return err == nil && u.IsAbs() && u.Hostname() != ""
}
