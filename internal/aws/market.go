package aws

import (
	"context"
	"fmt"
	"sync"
	"time"

	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/prometheus/client_golang/prometheus"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/offering"
	"github.com/dovetail-sh/dovetail/internal/aws/price"
	"github.com/dovetail-sh/dovetail/internal/aws/profile"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/config"
	"github.com/dovetail-sh/dovetail/internal/metric"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// Market is what can be launched and what it costs, for programs that launch nothing: it only reads. What subnets and
// images a class has is taken from its status, where the controller of the cluster wrote it.
type Market struct {
	Region string
	Stale  error // why prices could not be read; they are built-in ones of us-east-1 then, or those of on-demand

	catalog *offering.Catalog
	prices  *price.Table
	facts   awsv1.Facts
}

// OpenMarket reads instance types and prices of a region with the credentials of the user. An empty region is that of the
// configuration of the AWS SDK.
func OpenMarket(ctx context.Context, cfg config.Config, region, version string) (*Market, error) {
	clients, err := newClients(ctx, version, metric.New(prometheus.NewRegistry()), awsconfig.WithRegion(region))
	if err != nil {
		return nil, err
	}
	m := &Market{Region: clients.region, facts: awsv1.Facts{Strict: cfg.Compat.Strict, ClusterName: cfg.AWS.ClusterName}}
	m.prices = price.New(price.Options{Region: clients.region, Isolated: cfg.AWS.IsolatedVPC, Pricing: clients.pricing, EC2: clients.ec2, Now: time.Now})
	m.catalog = offering.New(offering.Options{
		EC2: clients.ec2, Prices: m.prices, Unavailable: offering.NewUnavailable(time.Now), Reservations: offering.NewReservations(time.Now),
		Risks: offering.NewRisks(cfg.Scheduling.SpotRisk, time.Now), Region: clients.region, Settings: cfg.AWS, Reserved: cfg.Gates.ReservedCapacity,
		Devices: !cfg.Scheduling.IgnoreDRARequests, Now: time.Now,
	})
	var both sync.WaitGroup
	both.Go(func() { m.Stale = m.prices.Refresh(ctx) })
	both.Go(func() { err = m.catalog.Refresh(ctx) })
	both.Wait()
	if err != nil {
		return nil, fmt.Errorf("read the instance types of %s: %w", clients.region, err)
	}
	return m, nil
}

// Lanes names the resources that instance types can have.
func (m *Market) Lanes() resources.Table { return m.catalog.Lanes() }

// Types returns the instance types of a NodePool with a class, both as stored.
func (m *Market) Types(class *awsv1.EC2NodeClass, pool *karpv1.NodePool) ([]catalog.InstanceType, error) {
	facts := m.facts
	facts.RoleIsProfile = profile.RoleIsProfile(class)
	effective, _ := class.Effective(facts)
	return m.catalog.Types(effective, pool.Spec.Template.Spec.Kubelet)
}

// Price is what an instance costs an hour.
func (m *Market) Price(instanceType, zone, capacityType string) (usd float64, known bool) {
	if capacityType == karpv1.CapacityTypeSpot {
		return m.prices.Spot(instanceType, zone)
	}
	return m.prices.OnDemand(instanceType)
}
