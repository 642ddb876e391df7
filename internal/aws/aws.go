package aws

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/arczonalshift"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/discover"
	"github.com/dovetail-sh/dovetail/internal/aws/eks"
	"github.com/dovetail-sh/dovetail/internal/aws/inventory"
	"github.com/dovetail-sh/dovetail/internal/aws/launch"
	"github.com/dovetail-sh/dovetail/internal/aws/offering"
	"github.com/dovetail-sh/dovetail/internal/aws/price"
	"github.com/dovetail-sh/dovetail/internal/aws/profile"
	"github.com/dovetail-sh/dovetail/internal/aws/settings"
	"github.com/dovetail-sh/dovetail/internal/aws/zonalshift"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/adopt"
	"github.com/dovetail-sh/dovetail/internal/cloud/driver"
	"github.com/dovetail-sh/dovetail/internal/config"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/risk"
)

// Cloud is EC2 as a cloud.Provider, with its controllers.
type Cloud struct {
	*provider

	o            driver.Options
	clients      *clients
	cluster      *eks.Cluster
	discoverer   *discover.Discoverer
	prices       *price.Table
	unavailable  *offering.Unavailable
	reservations *offering.Reservations
	catalog      *offering.Catalog
	inventory    *inventory.Inventory
	profiles     *profile.Profiles
	shifts       *zonalshift.Shifts
	launcher     *launch.Launcher
	loaded       time.Time // when the catalogue was read at the start
}

// New connects to AWS and finds out what launching needs (start-up, 2). Every error is final and names
// what to change.
func New(ctx context.Context, o driver.Options) (*Cloud, error) {
	clients, err := newClients(ctx, o.Version, o.Metrics)
	if err != nil {
		return nil, err
	}
	if err := checkReachable(ctx, clients.ec2, clients.region, settings.Of(o.Config).ClusterName); err != nil {
		return nil, err
	}
	c := &Cloud{o: o, clients: clients}
	if c.cluster, err = newCluster(o, clients); err != nil {
		return nil, err
	}
	if err := c.cluster.Start(ctx); err != nil {
		return nil, err
	}
	if settings.Of(o.Config).ZonalShift {
		if err := checkZonalShift(ctx, c.cluster, clients.shifts); err != nil {
			return nil, err
		}
	}
	c.composeParts()
	c.unavailable.Log = log.FromContext(ctx)
	if err := c.catalog.Refresh(ctx); err != nil {
		return nil, fmt.Errorf("load instance types: %w", err)
	}
	c.loaded = o.Now()
	return c, nil
}

func newCluster(o driver.Options, clients *clients) (*eks.Cluster, error) {
	server, err := discovery.NewDiscoveryClientForConfig(o.Kube)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	ca, err := eks.CAOf(o.Kube)
	if err != nil {
		return nil, err
	}
	return eks.New(eks.Options{
		Settings: settings.Of(o.Config), Strict: o.Config.Compat.Strict, EKS: clients.eks, Server: server, CA: ca,
		DNSAddress: func(ctx context.Context) (string, error) {
			service := &corev1.Service{}
			err := o.Reader.Get(ctx, client.ObjectKey{Namespace: "kube-system", Name: "kube-dns"}, service)
			return service.Spec.ClusterIP, err
		},
	}), nil
}

// checkZonalShift checks that zonal shifts of the cluster can be read, since it was requested.
func checkZonalShift(ctx context.Context, cluster *eks.Cluster, api *arczonalshift.Client) error {
	const fix = "enable zonal shift for the cluster and give the role of the controller arc-zonal-shift:GetManagedResource, or clear the setting enable-zonal-shift"
	arn, err := cluster.ARN(ctx)
	if err != nil {
		return fmt.Errorf("zonal shift needs the ARN of the cluster: %w", err)
	}
	if _, err := api.GetManagedResource(ctx, &arczonalshift.GetManagedResourceInput{ResourceIdentifier: &arn}); err != nil {
		return fmt.Errorf("zonal shifts of %s cannot be read; %s: %w", arn, fix, err)
	}
	return nil
}

// composeParts builds the parts. None of them makes an API call yet.
func (c *Cloud) composeParts() {
	if c.o.Ledger == nil {
		c.o.Ledger = adopt.NewLedger(c.o.Now)
	}
	o, set, now := c.o, settings.Of(c.o.Config), c.o.Now
	c.shifts = zonalshift.New(zonalshift.Options{Enabled: set.ZonalShift, API: c.clients.shifts, ARN: c.cluster.ARN, Objects: o.Client, Events: o.Events, Now: now})
	c.prices = price.New(price.Options{Region: c.clients.region, Isolated: set.IsolatedVPC, Pricing: c.clients.pricing, EC2: c.clients.ec2, Now: now})
	c.unavailable, c.reservations = offering.NewUnavailable(now), offering.NewReservations(now)
	c.unavailable.Risks = offering.NewRisks(o.Config.Scheduling.SpotRisk, now)
	c.discoverer = discover.New(discover.Options{
		EC2: c.clients.ec2, SSM: c.clients.ssm, Now: now, SubnetsEvery: set.SubnetRefreshInterval, ImagesEvery: set.AMIRefreshInterval,
		ClusterGroup: c.cluster.SecurityGroup, ReservationSeen: c.reservations.Set,
	})
	c.catalog = offering.New(offering.Options{
		EC2: c.clients.ec2, Prices: c.prices, Unavailable: c.unavailable, Reservations: c.reservations, Risks: c.unavailable.Risks, Region: c.clients.region,
		Settings: set, Reserved: o.Config.Gates.ReservedCapacity, Devices: !o.Config.Scheduling.IgnoreDRARequests, Now: now,
		Shifted: c.shifts.Shifted, Group: c.discoverer.KnownPlacementGroup, OverlayPrices: o.OverlayPrices,
	})
	c.inventory = inventory.New(inventory.Options{
		Started: o.Ledger.Started,
		EC2:     c.clients.ec2, Cluster: set.ClusterName, Reserved: o.Config.Gates.ReservedCapacity, Shifted: c.shifts.Shifted, Metrics: o.Metrics, Now: now,
		Ended: c.releaseReservationSlot,
	})
	c.profiles = profile.New(profile.Options{
		IAM: c.clients.iam, Cluster: set.ClusterName, Region: c.clients.region, Isolated: set.IsolatedVPC, Strict: o.Config.Compat.Strict,
		NewID: func() string { return string(uuid.NewUUID()) }, Now: now,
	})
	c.launcher = launch.New(launch.Options{
		EC2: c.clients.ec2, Catalog: c.catalog, Discover: c.discoverer, Cluster: c.cluster, Unavailable: c.unavailable, Reservations: c.reservations,
		Settings: launch.Settings{
			Region: c.clients.region, ReservedCapacity: o.Config.Gates.ReservedCapacity, NodeClassCEL: set.Gates.NodeClassCEL,
			BestEffortMinValues: o.Config.Scheduling.MinValuesPolicy == config.BestEffortMinValues, DryRunDisabled: set.DryRunDisabled,
		},
		Metrics: o.Metrics, Now: now, Pools: c.poolsOf,
	})
	drifter := &drifter{inventory: c.inventory, types: c.catalog, lookup: c.discoverer}
	c.provider = &provider{
		reader: o.Client, types: c.catalog, launcher: c.launcher, inventory: c.inventory, place: c.cluster, events: o.Events, ledger: o.Ledger,
		adopter: newAdopter(c.inventory, o.Client, o.Ledger, now),
		lanes:   c.catalog.Lanes(), drifted: drifter.drifted, holds: c.reservations.Found, expressions: set.Gates.NodeClassCEL, overlaid: o.Overlaid,
		tags: func(class *awsv1.EC2NodeClass, pool string) map[string]string {
			return launch.Tags(set.ClusterName, class, pool)
		},
	}
}

// releaseReservationSlot gives the slot of an instance back to its reservation (EC2NodeClass 17).
func (c *Cloud) releaseReservationSlot(instance inventory.Instance, seen time.Time) {
	if instance.CapacityType == karpv1.CapacityTypeReserved && instance.Reservation != "" {
		c.reservations.Returned(instance.Reservation, seen)
	}
}

// poolsOf are the pools that use a class, in effective form, by name: the cache lists them in any order.
func (c *Cloud) poolsOf(ctx context.Context, class *awsv1.EC2NodeClass) ([]karpv1.NodePool, error) {
	list := &karpv1.NodePoolList{}
	if err := c.o.Client.List(ctx, list); err != nil {
		return nil, err
	}
	var out []karpv1.NodePool
	for i := range list.Items {
		pool, _ := list.Items[i].Effective(c.o.Config.Compat.Strict)
		if ref := pool.Spec.Template.Spec.NodeClassRef; ref.Group == awsv1.Group && ref.Kind == awsv1.Kind && ref.Name == class.Name {
			out = append(out, *pool)
		}
	}
	slices.SortFunc(out, func(a, b karpv1.NodePool) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// Priced reports whether prices were requested since this process leads, even if it failed. Before that they are
// built-in ones, which are another region's (FM P05).
func (c *Cloud) Priced() bool { return c.prices.Refreshed() }

// Lanes names the resources that instance types can have. It never changes.
func (c *Cloud) Lanes() resources.Table { return c.catalog.Lanes() }

// Gates hold the registration of nodes until EC2 has returned everything about them (LC-09).
func (c *Cloud) Gates() []cloud.Gate {
	return []cloud.Gate{&partitionGate{inventory: c.inventory, strategy: func(ctx context.Context, claim *karpv1.NodeClaim) (string, error) {
		class, _, err := c.class(ctx, claim.Spec.NodeClassRef, nil)
		if err != nil {
			return "", ignoreNotFound(err)
		}
		group, _ := c.discoverer.KnownPlacementGroup(class)
		return group.Strategy, nil
	}}}
}

// SpotLost takes a spot offering out of the market for a while.
func (c *Cloud) SpotLost(instanceType, zone string) {
	c.unavailable.MarkInterrupted(instanceType, zone)
}

// SpotAtRisk says that EC2 may soon take back spot instances of a type in a zone.
func (c *Cloud) SpotAtRisk(instanceType, zone string) {
	c.unavailable.Risks.Record(risk.RebalanceRecommended, karpv1.CapacityTypeSpot, instanceType, zone)
}

// ReservationLost says that nothing is left in a capacity reservation.
func (c *Cloud) ReservationLost(id string) { c.reservations.Exhausted(id) }
