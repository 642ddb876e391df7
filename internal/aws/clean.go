package aws

import (
	"context"
	"errors"
	"time"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/launch"
	"github.com/dovetail-sh/dovetail/internal/aws/profile"
	"github.com/dovetail-sh/dovetail/internal/config"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

// Cleaner deletes what was made in AWS for node classes. It is for programs that launch nothing.
type Cleaner struct {
	clients  *clients
	cluster  string
	profiles *profile.Profiles
}

// NewCleaner connects to AWS. It asks nothing yet.
func NewCleaner(ctx context.Context, cfg config.Config, version string, m *metric.Set) (*Cleaner, error) {
	clients, err := newClients(ctx, version, m)
	if err != nil {
		return nil, err
	}
	return &Cleaner{clients: clients, cluster: cfg.AWS.ClusterName, profiles: profile.New(profile.Options{
		IAM: clients.iam, Cluster: cfg.AWS.ClusterName, Region: clients.region, Isolated: cfg.AWS.IsolatedVPC, Strict: cfg.Compat.Strict, Now: time.Now,
	})}, nil
}

// Clean deletes the instance profiles and launch templates of a class that no claim uses.
func (c *Cleaner) Clean(ctx context.Context, class *awsv1.EC2NodeClass) error {
	return errors.Join(c.profiles.Remove(ctx, class), launch.ForgetTemplates(ctx, c.clients.ec2, c.cluster, class))
}
