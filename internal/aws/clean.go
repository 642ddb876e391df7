package aws

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/launch"
	"github.com/dovetail-sh/dovetail/internal/aws/profile"
	"github.com/dovetail-sh/dovetail/internal/aws/settings"
	"github.com/dovetail-sh/dovetail/internal/config"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

// cleaner deletes what was made in AWS for node classes. It is for programs that launch nothing.
type cleaner struct {
	clients  *clients
	cluster  string
	profiles *profile.Profiles
}

// newCleaner connects to AWS. It makes no API call yet.
func newCleaner(ctx context.Context, cfg config.Config, version string, m *metric.Set) (*cleaner, error) {
	clients, err := newClients(ctx, version, m)
	if err != nil {
		return nil, err
	}
	set := settings.Of(cfg)
	return &cleaner{clients: clients, cluster: set.ClusterName, profiles: profile.New(profile.Options{
		IAM: clients.iam, Cluster: set.ClusterName, Region: clients.region, Isolated: set.IsolatedVPC, Strict: cfg.Compat.Strict, Now: time.Now,
	})}, nil
}

// clean deletes the instance profiles and launch templates of a class that no claim uses.
func (c *cleaner) clean(ctx context.Context, object client.Object) error {
	class, ours := object.(*awsv1.EC2NodeClass)
	if !ours {
		return fmt.Errorf("%T is no node class of AWS", object)
	}
	return errors.Join(c.profiles.Remove(ctx, class), launch.DeleteTemplates(ctx, c.clients.ec2, c.cluster, class))
}
