package price

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// productLister is the price list; *pricing.Client made for EndpointRegion satisfies it.
type productLister interface {
	GetProducts(context.Context, *pricing.GetProductsInput, ...func(*pricing.Options)) (*pricing.GetProductsOutput, error)
}

// spotLister is where spot prices come from; *ec2.Client satisfies it.
type spotLister interface {
	DescribeSpotPriceHistory(context.Context, *ec2.DescribeSpotPriceHistoryInput, ...func(*ec2.Options)) (*ec2.DescribeSpotPriceHistoryOutput, error)
}

// Options are what a Table needs.
type Options struct {
	Region   string
	Isolated bool          // no endpoint of the Pricing service can be reached; it is not called
	Pricing  productLister // may be nil where it is not called
	EC2      spotLister
	Now      func() time.Time
}

// Table holds the last known prices. It is safe for concurrent use, and reading it never waits.
type Table struct {
	options   Options
	writing   sync.Mutex
	known     atomic.Pointer[prices]
	refreshed atomic.Bool
}

// prices are one state of a Table; they never change.
type prices struct {
	version  uint64
	onDemand map[string]float64
	spot     map[string]map[string]float64 // by type, then zone; nil until the first response
}

// New returns a table of the built-in prices.
func New(o Options) *Table {
	t := &Table{options: o}
	t.known.Store(&prices{version: 1, onDemand: fallback()})
	return t
}

// OnDemand is the price of an hour on demand, in the currency of the region.
func (t *Table) OnDemand(instanceType string) (usd float64, known bool) {
	usd, known = t.known.Load().onDemand[instanceType]
	return usd, known
}

// Spot is the hourly spot price in a zone. Before the first response of EC2 it is the on-demand price, so that spot
// can be used at once. Later, an offering that EC2 does not list is not available.
func (t *Table) Spot(instanceType, zone string) (usd float64, known bool) {
	now := t.known.Load()
	if now.spot == nil {
		usd, known = now.onDemand[instanceType]
		return usd, known
	}
	usd, known = now.spot[instanceType][zone]
	return usd, known
}

// Version rises whenever a price changed.
func (t *Table) Version() uint64 { return t.known.Load().version }

// Refreshed reports whether a refresh has ended, well or not. Before, all prices are built-in ones; and where none
// can be read they stay so (P01), so that there is nothing more to wait for.
func (t *Table) Refreshed() bool { return t.refreshed.Load() }

// Refresh reads both kinds of prices, each whether or not the other fails. What cannot be read keeps
// its last value. The errors name instance types, which operators search the log for (S-101).
func (t *Table) Refresh(ctx context.Context) error {
	t.writing.Lock()
	defer t.writing.Unlock()
	defer t.refreshed.Store(true)
	return errors.Join(t.refreshOnDemand(ctx), t.refreshSpot(ctx))
}

func (t *Table) refreshOnDemand(ctx context.Context) error {
	if t.options.Isolated || strings.HasPrefix(t.options.Region, "us-gov") || t.options.Pricing == nil {
		log.FromContext(ctx).Info("on-demand prices of instance types come from the built-in list", "region", t.options.Region)
		return nil
	}
	fresh := map[string]float64{}
	for _, pass := range passes() {
		count, err := t.readProducts(ctx, pass, fresh)
		if err == nil && count == 0 {
			err = errors.New("the price list is empty")
		}
		if err != nil {
			return fmt.Errorf("on-demand prices of instance types (%s) keep their last values; where the price list cannot be reached, such as in a private subnet, set isolated-vpc (ISOLATED_VPC, settings.isolatedVPC): %w", pass.family, err)
		}
	}
	before := t.known.Load()
	if !maps.Equal(before.onDemand, fresh) {
		t.known.Store(&prices{version: before.version + 1, onDemand: fresh, spot: before.spot})
	}
	log.FromContext(ctx).Info("updated on-demand pricing", "instance-type-count", len(fresh))
	return nil
}

func (t *Table) refreshSpot(ctx context.Context) error {
	fresh, offerings, err := t.readSpot(ctx)
	if err == nil && offerings == 0 {
		err = errors.New("EC2 lists none")
	}
	if err != nil {
		return fmt.Errorf("spot prices of instance types: %w", err)
	}
	before := t.known.Load()
	if before.spot == nil || !maps.EqualFunc(before.spot, fresh, maps.Equal) {
		t.known.Store(&prices{version: before.version + 1, onDemand: before.onDemand, spot: fresh})
	}
	log.FromContext(ctx).Info("updated spot pricing with instance types and offerings", "instance-type-count", len(fresh), "offering-count", offerings)
	return nil
}
