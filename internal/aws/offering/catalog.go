package offering

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/discover"
	"github.com/dovetail-sh/dovetail/internal/aws/settings"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// describer is where instance types come from; *ec2.Client satisfies it.
type describer interface {
	DescribeInstanceTypes(context.Context, *ec2.DescribeInstanceTypesInput, ...func(*ec2.Options)) (*ec2.DescribeInstanceTypesOutput, error)
	DescribeInstanceTypeOfferings(context.Context, *ec2.DescribeInstanceTypeOfferingsInput, ...func(*ec2.Options)) (*ec2.DescribeInstanceTypeOfferingsOutput, error)
}

// prices is what instance types cost; *price.Table satisfies it.
type prices interface {
	OnDemand(instanceType string) (usd float64, known bool)
	Spot(instanceType, zone string) (usd float64, known bool)
	Version() uint64
}

// Options are what a Catalog needs. The functions may be nil.
type Options struct {
	EC2          describer
	Prices       prices
	Unavailable  *Unavailable
	Reservations *Reservations
	Risks        *Risks // nil: none
	Region       string
	Settings     settings.AWS // memory overhead, reserved interfaces, gate NodeClassCEL
	Reserved     bool         // gate ReservedCapacity
	Devices      bool         // types say which devices DRA drivers will publish for them (DR-07)
	Now          func() time.Time

	// Shifted reports whether a zone, by id, is shifted away from.
	Shifted func(zoneID string) bool
	// Group returns the placement group that a class resolved to, if it is known. It must not call EC2.
	Group func(class *awsv1.EC2NodeClass) (discover.PlacementGroup, bool)
	// OverlayPrices are prices that NodeOverlays give to types that have none, by type; the version
	// rises when they change.
	OverlayPrices func() (prices map[string]float64, version uint64)
}

// Catalog is every instance type and offering that can be launched. It is safe for concurrent use.
type Catalog struct {
	options Options
	lanes   resources.Table
	limits  map[string]limit

	mu     sync.Mutex
	region *regionTypes
	shapes map[uint64]*shape // by what of the class they depend on
	seen   observations
}

// New returns an empty catalogue; Refresh fills it.
func New(o Options) *Catalog {
	if o.Shifted == nil {
		o.Shifted = func(string) bool { return false }
	}
	if o.Group == nil {
		o.Group = func(*awsv1.EC2NodeClass) (discover.PlacementGroup, bool) { return discover.PlacementGroup{}, false }
	}
	if o.OverlayPrices == nil {
		o.OverlayPrices = func() (map[string]float64, uint64) { return nil, 0 }
	}
	return &Catalog{
		options: o, lanes: lanes(), limits: readLimits(limitLines), region: &regionTypes{}, shapes: map[uint64]*shape{}, seen: observations{},
	}
}

// Lanes names the resources that the vectors of this catalogue hold. It never changes.
func (c *Catalog) Lanes() resources.Table { return c.lanes }

// Raw is an instance type as EC2 describes it.
func (c *Catalog) Raw(instanceType string) (ec2types.InstanceTypeInfo, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i, known := c.region.index[instanceType]
	if !known {
		return ec2types.InstanceTypeInfo{}, false
	}
	return c.region.machines[i].info, true
}

// shapeFor is how long the sizes for a class stay in the cache after their last use.
const shapeFor = 5 * time.Minute

// Types returns every instance type as a class would launch it, those included that it cannot launch:
// they have no available offering. The kubelet block of an old pool or claim replaces the class's. The
// slice is shared and stays the same while nothing changes.
func (c *Catalog) Types(class *awsv1.EC2NodeClass, kubelet *runtime.RawExtension) ([]catalog.InstanceType, error) {
	group := discover.PlacementGroup{}
	if class.Spec.PlacementGroupSelector != nil {
		group, _ = c.options.Group(class)
	}
	key := shapeKey(class, kubelet, group)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.listable(class); err != nil {
		return nil, &cloud.Error{Kind: cloud.NotReady, Op: "list instance types", Reason: "InstanceTypeResolutionFailed", Err: err}
	}
	now := c.options.Now()
	s := c.shapes[key]
	if s == nil || s.region != c.region || s.seen != c.seen.version(s.images, now) || s.seenDisks != c.seen.version(s.disks, now) {
		c.dropUnusedShapes(now)
		s = c.newShape(class, kubelet, group, s, now)
		c.shapes[key] = s
	}
	s.used = now
	return c.refreshOfferings(s), nil
}

// listable returns an error if nothing can be listed. An empty list is never returned: it would look as if all types
// had been withdrawn (E11).
func (c *Catalog) listable(class *awsv1.EC2NodeClass) error {
	switch {
	case len(c.region.machines) == 0:
		return errors.New("no instance types are known yet; EC2 was not queried yet or did not respond")
	case len(c.region.zones) == 0:
		return errors.New("no zone is known to offer an instance type")
	case len(class.Status.Subnets) == 0:
		return fmt.Errorf("EC2NodeClass %s has no subnets in its status; instance types need a zone", class.Name)
	}
	return nil
}

// dropUnusedShapes drops the shapes that were not used lately, so that edited classes do not pile up.
func (c *Catalog) dropUnusedShapes(now time.Time) {
	for key, s := range c.shapes {
		if now.Sub(s.used) > shapeFor || s.region != c.region {
			delete(c.shapes, key)
		}
	}
}

// ObserveMemory records the memory of a node of a type with the images of a class. The caller has made sure that the
// node runs the image that is now chosen for the type.
func (c *Catalog) ObserveMemory(instanceType string, class *awsv1.EC2NodeClass, memory resource.Quantity) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen.add(imagesKey(class), instanceType, resources.Whole(memory), c.options.Now())
}

// ObserveStorage records the ephemeral storage of a node of a type with the images and devices of a class. The caller
// has made sure that the node was launched with them.
func (c *Catalog) ObserveStorage(instanceType string, class *awsv1.EC2NodeClass, storage resource.Quantity) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen.add(disksKey(class), instanceType, resources.Whole(storage), c.options.Now())
}
