package eks

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/settings"
)

// describer queries EKS; *eks.Client satisfies it.
type describer interface {
	DescribeCluster(context.Context, *eks.DescribeClusterInput, ...func(*eks.Options)) (*eks.DescribeClusterOutput, error)
}

// versioner queries the API server; a discovery client satisfies it.
type versioner interface {
	ServerVersion() (*version.Info, error)
}

// Options are what a Cluster needs.
type Options struct {
	Settings settings.AWS
	Strict   bool // strict compatibility, for Facts
	EKS      describer
	Server   versioner
	CA       []byte // certificate of the API server in PEM, as the controller itself trusts it; see CAOf
	// DNSAddress returns the cluster IP of the Service kube-system/kube-dns.
	DNSAddress func(context.Context) (string, error)
}

// Cluster has the properties of the EKS cluster. It is safe for concurrent use.
type Cluster struct {
	options Options

	mu          sync.Mutex
	endpoint    string
	dns         string
	release     release
	described   *ekstypes.Cluster // the first response of EKS that had what was requested
	unsupported string            // the version that was last complained about
}

// New returns a cluster of which only the settings are known.
func New(o Options) *Cluster {
	return &Cluster{options: o, endpoint: o.Settings.ClusterEndpoint}
}

// Start resolves what launching needs. Without an endpoint or a version there is no launching, so both
// are errors; without a DNS address nodes use their own default.
func (c *Cluster) Start(ctx context.Context) error {
	if err := c.resolveEndpoint(ctx); err != nil {
		return err
	}
	// Clusters with a DNS of their own need not have the Service: that is news, and no failure.
	if err := c.resolveDNS(ctx); apierrors.IsNotFound(err) {
		log.FromContext(ctx).Info("there is no Service kube-system/kube-dns; nodes use the cluster DNS address that is the default of their image")
	} else if err != nil {
		log.FromContext(ctx).Error(err, "cannot find the address of the cluster DNS; nodes use the default of their image")
	}
	if c.CABundle() == "" {
		log.FromContext(ctx).Error(errors.New("no certificate"), "the certificate of the API server is not known; set cluster-ca-bundle, or nodes cannot join")
	}
	return c.RefreshVersion(ctx)
}

func (c *Cluster) resolveEndpoint(ctx context.Context) error {
	if c.Endpoint() != "" {
		return nil
	}
	cluster, err := c.describe(ctx)
	if err == nil && (cluster.Endpoint == nil || *cluster.Endpoint == "") {
		err = errors.New("EKS names none")
	}
	if err != nil {
		return fmt.Errorf("endpoint of cluster %q (set cluster-endpoint to do without EKS): %w", c.Name(), err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endpoint = *cluster.Endpoint
	return nil
}

func (c *Cluster) resolveDNS(ctx context.Context) error {
	if c.options.DNSAddress == nil {
		return nil
	}
	address, err := c.options.DNSAddress(ctx)
	if err != nil {
		return fmt.Errorf("service kube-system/kube-dns: %w", err)
	}
	if _, err := netip.ParseAddr(address); err != nil {
		return fmt.Errorf("service kube-system/kube-dns: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dns = address
	return nil
}

// Name of the cluster.
func (c *Cluster) Name() string { return c.options.Settings.ClusterName }

// Endpoint is the URL of the API server, empty before Start unless it is a setting.
func (c *Cluster) Endpoint() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.endpoint
}

// CABundle is the certificate of the API server, base64: the setting, else the controller's own.
func (c *Cluster) CABundle() string {
	if c.options.Settings.ClusterCABundle != "" {
		return c.options.Settings.ClusterCABundle
	}
	return base64.StdEncoding.EncodeToString(c.options.CA)
}

// DNS is the address of the cluster DNS, empty if it is not known.
func (c *Cluster) DNS() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dns
}

// IPv6 reports whether pods have IPv6 addresses, which shows in the address of the cluster DNS.
func (c *Cluster) IPv6() bool {
	address, err := netip.ParseAddr(c.DNS())
	return err == nil && address.Is6() && !address.Is4In6()
}

// Facts are what reading a node class depends on.
func (c *Cluster) Facts() awsv1.Facts {
	minor, _ := c.Version()
	return awsv1.Facts{Strict: c.options.Strict, ClusterName: c.Name(), KubernetesMinor: minor}
}

// CAOf returns the certificate that a client of the API server trusts.
func CAOf(client *rest.Config) ([]byte, error) {
	if len(client.CAData) > 0 || client.CAFile == "" {
		return client.CAData, nil
	}
	pem, err := os.ReadFile(client.CAFile)
	if err != nil {
		return nil, fmt.Errorf("certificate of the API server: %w", err)
	}
	return pem, nil
}
