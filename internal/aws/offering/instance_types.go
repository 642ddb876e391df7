package offering

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/dovetail-sh/dovetail/internal/reqs"
)

const (
	typesPerPage     = 100
	offeringsPerPage = 1000
	maxZones         = 64 // of a region, so that a set of them is one word
)

// regionTypes are the instance types of the region. It is immutable; Refresh makes another one. Only the
// Catalog that owns it adds labels, as classes need them.
type regionTypes struct {
	machines []machine // by name
	index    map[string]int
	zones    []string // sorted
	labels   map[appearance][]reqs.Set
}

// Refresh requests all instance types and where they are offered from EC2. If either response is missing or empty,
// the last ones are kept (E10, E11).
func (c *Catalog) Refresh(ctx context.Context) error {
	infos, err := c.describeTypes(ctx)
	if err == nil && len(infos) == 0 {
		err = errors.New("EC2 lists no instance type")
	}
	if err != nil {
		return fmt.Errorf("describe instance types: %w", err)
	}
	offered, err := c.describeOfferings(ctx)
	if err == nil && len(offered) == 0 {
		err = errors.New("EC2 offers no instance type in any zone")
	}
	if err != nil {
		return fmt.Errorf("describe instance type offerings: %w", err)
	}
	fresh := newRegionTypes(infos, offered)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.region.equalTo(fresh) {
		c.region = fresh
		log.FromContext(ctx).Info("discovered instance types", "count", len(fresh.machines), "zones", fresh.zones)
	}
	return nil
}

func (c *Catalog) describeTypes(ctx context.Context) ([]ec2types.InstanceTypeInfo, error) {
	var infos []ec2types.InstanceTypeInfo
	pages := ec2.NewDescribeInstanceTypesPaginator(c.options.EC2, &ec2.DescribeInstanceTypesInput{
		Filters: []ec2types.Filter{
			{Name: new("supported-virtualization-type"), Values: []string{"hvm"}},
			{Name: new("processor-info.supported-architecture"), Values: []string{"x86_64", "arm64"}},
		},
		MaxResults: new(int32(typesPerPage)),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		infos = append(infos, page.InstanceTypes...)
	}
	return infos, nil
}

// describeOfferings returns the zones that offer a type, by type.
func (c *Catalog) describeOfferings(ctx context.Context) (map[string][]string, error) {
	offered := map[string][]string{}
	pages := ec2.NewDescribeInstanceTypeOfferingsPaginator(c.options.EC2, &ec2.DescribeInstanceTypeOfferingsInput{
		LocationType: ec2types.LocationTypeAvailabilityZone,
		MaxResults:   new(int32(offeringsPerPage)),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, o := range page.InstanceTypeOfferings {
			if o.Location != nil {
				offered[string(o.InstanceType)] = append(offered[string(o.InstanceType)], *o.Location)
			}
		}
	}
	return offered, nil
}

func newRegionTypes(infos []ec2types.InstanceTypeInfo, offered map[string][]string) *regionTypes {
	s := &regionTypes{index: make(map[string]int, len(infos)), labels: map[appearance][]reqs.Set{}}
	zones := map[string]bool{}
	for _, list := range offered {
		for _, zone := range list {
			zones[zone] = true
		}
	}
	s.zones = slices.Sorted(maps.Keys(zones))
	s.zones = s.zones[:min(len(s.zones), maxZones)]
	for _, info := range infos {
		m := newMachine(info)
		if m.arch == "" {
			continue
		}
		for _, zone := range offered[m.name] {
			if i, known := slices.BinarySearch(s.zones, zone); known {
				m.zones |= 1 << i
			}
		}
		s.machines = append(s.machines, m)
	}
	slices.SortFunc(s.machines, func(a, b machine) int {
		switch {
		case a.name < b.name:
			return -1
		case a.name > b.name:
			return 1
		}
		return 0
	})
	s.machines = slices.CompactFunc(s.machines, func(a, b machine) bool { return a.name == b.name })
	for i := range s.machines {
		s.index[s.machines[i].name] = i
	}
	return s
}

func (s *regionTypes) equalTo(other *regionTypes) bool {
	return slices.Equal(s.zones, other.zones) && reflect.DeepEqual(s.machines, other.machines)
}

// labelsFor are the labels of all machines for classes of this appearance. Most classes look the
// same, so the sets are made once.
func (s *regionTypes) labelsFor(a appearance, region string, limits map[string]limit) []reqs.Set {
	if made, known := s.labels[a]; known {
		return made
	}
	l := labeller{region: region, limits: limits, values: map[string][]string{}}
	list := make([]reqs.Set, len(s.machines))
	for i := range s.machines {
		list[i] = l.labels(&s.machines[i], a)
	}
	s.labels[a] = list
	return list
}
