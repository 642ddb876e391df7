package eks

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
)

// ServiceCIDR is the range of service addresses: IPv4 if there is one, else IPv6. EKS is queried until
// it responds, then never again: the range cannot change.
func (c *Cluster) ServiceCIDR(ctx context.Context) (string, error) {
	cidr, err := c.readLasting(ctx, func(cluster *ekstypes.Cluster) string {
		network := cluster.KubernetesNetworkConfig
		switch {
		case network == nil:
			return ""
		case network.ServiceIpv4Cidr != nil && *network.ServiceIpv4Cidr != "":
			return *network.ServiceIpv4Cidr
		default:
			return text(network.ServiceIpv6Cidr)
		}
	})
	if err != nil {
		return "", fmt.Errorf("service addresses of cluster %q: %w", c.Name(), err)
	}
	return cidr, nil
}

// ARN names the cluster to other services of AWS.
func (c *Cluster) ARN(ctx context.Context) (string, error) {
	arn, err := c.readLasting(ctx, func(cluster *ekstypes.Cluster) string { return text(cluster.Arn) })
	if err != nil {
		return "", fmt.Errorf("ARN of cluster %q: %w", c.Name(), err)
	}
	return arn, nil
}

// SecurityGroup is the group that EKS made for the cluster, which classes without terms use (L-08).
func (c *Cluster) SecurityGroup(ctx context.Context) (string, error) {
	group, err := c.readLasting(ctx, func(cluster *ekstypes.Cluster) string {
		if cluster.ResourcesVpcConfig == nil {
			return ""
		}
		return text(cluster.ResourcesVpcConfig.ClusterSecurityGroupId)
	})
	if err != nil {
		return "", fmt.Errorf("security group of cluster %q: %w", c.Name(), err)
	}
	return group, nil
}

// readLasting returns something that never changes in the life of a cluster. A response without it, as EKS
// gives while a cluster is being created, is not kept.
func (c *Cluster) readLasting(ctx context.Context, read func(*ekstypes.Cluster) string) (string, error) {
	c.mu.Lock()
	kept := c.described
	c.mu.Unlock()
	if kept != nil {
		if value := read(kept); value != "" {
			return value, nil
		}
	}
	cluster, err := c.describe(ctx)
	if err != nil {
		return "", err
	}
	value := read(cluster)
	if value == "" {
		return "", errors.New("EKS names none")
	}
	return value, nil
}

// describe queries EKS and caches the response for what never changes.
func (c *Cluster) describe(ctx context.Context) (*ekstypes.Cluster, error) {
	if c.options.EKS == nil {
		return nil, errors.New("there is no client for EKS")
	}
	response, err := c.options.EKS.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: new(c.Name())})
	if err != nil {
		return nil, fmt.Errorf("describe cluster: %w", err)
	}
	if response == nil || response.Cluster == nil {
		return nil, errors.New("describe cluster: the response is empty")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.described = response.Cluster
	return response.Cluster, nil
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
