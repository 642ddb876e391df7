package price

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	pricingtypes "github.com/aws/aws-sdk-go-v2/service/pricing/types"
)

const (
	serviceCode     = "AmazonEC2"
	productsPerPage = 100
	spotPerPage     = 2000
)

// pass is one query of the price list. Bare metal is a product family of its own and never shared.
type pass struct{ tenancy, family string }

func passes() []pass {
	return []pass{{"Shared", "Compute Instance"}, {"Dedicated", "Compute Instance (bare metal)"}}
}

// filters of a query: plain Linux, in use, at the list price.
func (p pass) filters(region string) []pricingtypes.Filter {
	var list []pricingtypes.Filter
	for _, term := range [][2]string{
		{"regionCode", region},
		{"serviceCode", serviceCode},
		{"preInstalledSw", "NA"},
		{"operatingSystem", "Linux"},
		{"capacitystatus", "Used"},
		{"marketoption", "OnDemand"},
		{"tenancy", p.tenancy},
		{"productFamily", p.family},
	} {
		list = append(list, pricingtypes.Filter{Type: pricingtypes.FilterTypeTermMatch, Field: new(term[0]), Value: new(term[1])})
	}
	return list
}

// readProducts adds the prices of one query to a map and counts them.
func (t *Table) readProducts(ctx context.Context, p pass, into map[string]float64) (count int, err error) {
	unit := currency(t.options.Region)
	pages := pricing.NewGetProductsPaginator(t.options.Pricing, &pricing.GetProductsInput{
		ServiceCode: new(serviceCode),
		Filters:     p.filters(t.options.Region),
		MaxResults:  new(int32(productsPerPage)),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return 0, err
		}
		for _, document := range page.PriceList {
			if name, perHour, known := parseProduct(document, unit); known {
				into[name] = max(into[name], perHour)
				count++
			}
		}
	}
	return count, nil
}

// readSpot reads the current spot prices of the region. With a start time of now the history holds
// the last price of each pool; where there are several, the newest counts.
func (t *Table) readSpot(ctx context.Context) (byType map[string]map[string]float64, offerings int, err error) {
	byType = map[string]map[string]float64{}
	changed := map[[2]string]time.Time{}
	pages := ec2.NewDescribeSpotPriceHistoryPaginator(t.options.EC2, &ec2.DescribeSpotPriceHistoryInput{
		ProductDescriptions: []string{"Linux/UNIX", "Linux/UNIX (Amazon VPC)"},
		StartTime:           new(t.options.Now()),
		MaxResults:          new(int32(spotPerPage)),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, 0, err
		}
		for i := range page.SpotPriceHistory {
			instanceType, zone, usd, known := spotPrice(&page.SpotPriceHistory[i])
			if !known {
				continue
			}
			pool, at := [2]string{instanceType, zone}, time.Time{}
			if stamp := page.SpotPriceHistory[i].Timestamp; stamp != nil {
				at = *stamp
			}
			if last, seen := changed[pool]; seen && at.Before(last) {
				continue
			}
			changed[pool] = at
			if byType[instanceType] == nil {
				byType[instanceType] = map[string]float64{}
			}
			byType[instanceType][zone] = usd
		}
	}
	return byType, len(changed), nil
}

// spotPrice reads one entry of the history.
func spotPrice(s *ec2types.SpotPrice) (instanceType, zone string, usd float64, known bool) {
	if s.SpotPrice == nil || s.AvailabilityZone == nil || s.InstanceType == "" {
		return "", "", 0, false
	}
	usd, known = parseUSD(*s.SpotPrice)
	return string(s.InstanceType), *s.AvailabilityZone, usd, known
}
