package aws

import (
	"context"
	"fmt"
	"sync"
	"time"

	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/discover"
	"github.com/dovetail-sh/dovetail/internal/aws/offering"
	"github.com/dovetail-sh/dovetail/internal/aws/price"
	"github.com/dovetail-sh/dovetail/internal/aws/profile"
	"github.com/dovetail-sh/dovetail/internal/aws/settings"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/config"
	"github.com/dovetail-sh/dovetail/internal/metric"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// market is a driver.Market. What subnets and images a class has is taken from its status, where the controller of the
// cluster wrote it.
type market struct {
	stale      error // why prices could not be read
	catalog    *offering.Catalog
	prices     *price.Table
	discoverer *discover.Discoverer
	facts      awsv1.Facts
	reserved   bool // capacity reservations are used
}

// openMarket reads instance types and prices of a region with the credentials of the user. An empty region is that of the
// configuration of the AWS SDK.
func openMarket(ctx context.Context, cfg config.Config, region, version string) (*market, error) {
	clients, err := newClients(ctx, version, metric.New(prometheus.NewRegistry()), awsconfig.WithRegion(region))
	if err != nil {
		return nil, err
	}
	set := settings.Of(cfg)
	m := &market{facts: awsv1.Facts{Strict: cfg.Compat.Strict, ClusterName: set.ClusterName}, reserved: cfg.Gates.ReservedCapacity}
	m.prices = price.New(price.Options{Region: clients.region, Isolated: set.IsolatedVPC, Pricing: clients.pricing, EC2: clients.ec2, Now: time.Now})
	reservations := offering.NewReservations(time.Now)
	m.discoverer = discover.New(discover.Options{EC2: clients.ec2, Now: time.Now, ReservationSeen: reservations.Set})
	m.catalog = offering.New(offering.Options{
		EC2: clients.ec2, Prices: m.prices, Unavailable: offering.NewUnavailable(time.Now), Reservations: reservations,
		Risks: offering.NewRisks(cfg.Scheduling.SpotRisk, time.Now), Region: clients.region, Settings: set, Reserved: m.reserved,
		Devices: !cfg.Scheduling.IgnoreDRARequests, Now: time.Now,
	})
	var both sync.WaitGroup
	both.Go(func() { m.stale = m.prices.Refresh(ctx) })
	both.Go(func() { err = m.catalog.Refresh(ctx) })
	both.Wait()
	if err != nil {
		return nil, fmt.Errorf("read the instance types of %s: %w", clients.region, err)
	}
	return m, nil
}

// Lanes implements driver.Market.
func (m *market) Lanes() resources.Table { return m.catalog.Lanes() }

// Types implements driver.Market.
func (m *market) Types(object client.Object, pool *karpv1.NodePool) ([]catalog.InstanceType, error) {
	class := object.(*awsv1.EC2NodeClass)
	facts := m.facts
	facts.RoleIsProfile = profile.RoleIsProfile(class)
	effective, _ := class.Effective(facts)
	return m.catalog.Types(effective, pool.Spec.Template.Spec.Kubelet)
}

// CountReserved implements driver.Market.
func (m *market) CountReserved(ctx context.Context, object client.Object) error {
	class := object.(*awsv1.EC2NodeClass)
	if !m.reserved || len(class.Spec.CapacityReservationSelectorTerms) == 0 {
		return nil
	}
	_, err := m.discoverer.FreshReservations(ctx, class)
	return err
}

// Price implements driver.Market.
func (m *market) Price(instanceType, zone, capacityType string) (usd float64, known bool) {
	if capacityType == karpv1.CapacityTypeSpot {
		return m.prices.Spot(instanceType, zone)
	}
	return m.prices.OnDemand(instanceType)
}

// Stale implements driver.Market.
func (m *market) Stale() (instead string, why error) {
	return "on-demand prices that are not known are those of us-east-1, and spot prices those of on-demand", m.stale
}
