package awsemu

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/aws/aws-sdk-go-v2/service/pricing/types"
)

// priceFilters are those the controller sends.
func priceFilters(region, tenancy, family string) []types.Filter {
	var out []types.Filter
	for _, f := range [][2]string{
		{"regionCode", region},
		{"serviceCode", "AmazonEC2"},
		{"preInstalledSw", "NA"},
		{"operatingSystem", "Linux"},
		{"capacitystatus", "Used"},
		{"marketoption", "OnDemand"},
		{"tenancy", tenancy},
		{"productFamily", family},
	} {
		out = append(out, types.Filter{Field: aws.String(f[0]), Value: aws.String(f[1]), Type: types.FilterTypeTermMatch})
	}
	return out
}

func prices(t *testing.T, c *cloud, filters []types.Filter) (byType map[string]string, pages int) {
	t.Helper()
	byType = map[string]string{}
	pager := pricing.NewGetProductsPaginator(pricing.NewFromConfig(c.cfg), &pricing.GetProductsInput{
		ServiceCode: aws.String("AmazonEC2"), Filters: filters, MaxResults: aws.Int32(100),
	})
	for pager.HasMorePages() {
		page, err := pager.NextPage(t.Context())
		check(t, err)
		pages++
		if len(page.PriceList) > 100 || *page.FormatVersion != "aws_v1" {
			t.Errorf("page of %d", len(page.PriceList))
		}
		for _, text := range page.PriceList {
			var item struct {
				Product struct {
					Attributes struct {
						InstanceType string `json:"instanceType"`
					} `json:"attributes"`
				} `json:"product"`
				Terms struct {
					OnDemand map[string]struct {
						PriceDimensions map[string]struct {
							PricePerUnit map[string]string `json:"pricePerUnit"`
						} `json:"priceDimensions"`
					}
				} `json:"terms"`
			}
			check(t, json.Unmarshal([]byte(text), &item))
			for _, term := range item.Terms.OnDemand {
				for _, dimension := range term.PriceDimensions {
					byType[item.Product.Attributes.InstanceType] = dimension.PricePerUnit["USD"]
				}
			}
		}
	}
	return byType, pages
}

func TestBothPassesFindPrices(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	shared, pages := prices(t, c, priceFilters("eu-west-1", "Shared", "Compute Instance"))
	metal, _ := prices(t, c, priceFilters("eu-west-1", "Dedicated", "Compute Instance (bare metal)"))
	want, ok := c.Catalogue().OnDemand("m5.large")
	if !ok || shared["m5.large"] != fmt.Sprintf("%.10f", want) {
		t.Errorf("m5.large = %q, want %.10f", shared["m5.large"], want)
	}
	if metal["m5.metal"] == "" || shared["m5.metal"] != "" || metal["m5.large"] != "" {
		t.Errorf("m5.metal: metal %q, shared %q", metal["m5.metal"], shared["m5.metal"])
	}
	if wantPages := (len(shared) + 99) / 100; pages != wantPages || pages < 2 {
		t.Errorf("%d types on %d pages", len(shared), pages)
	}
	priced := 0
	for _, name := range c.Catalogue().Names() {
		if _, found := c.Catalogue().OnDemand(name); found {
			priced++
		}
	}
	if len(shared)+len(metal) != priced {
		t.Errorf("%d shared and %d metal of %d", len(shared), len(metal), priced)
	}
	if other, _ := prices(t, c, priceFilters("us-east-1", "Shared", "Compute Instance")); len(other) != 0 {
		t.Errorf("%d prices in another region", len(other))
	}
	one, _ := prices(t, c, []types.Filter{{Field: aws.String("instanceType"), Value: aws.String("t3.medium"), Type: types.FilterTypeTermMatch}})
	if len(one) != 1 {
		t.Errorf("by type: %v", one)
	}
}

func TestPricingErrors(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	client := pricing.NewFromConfig(c.cfg)
	for name, tc := range map[string]struct {
		in   pricing.GetProductsInput
		code string
	}{
		"page of 101":     {pricing.GetProductsInput{MaxResults: aws.Int32(101)}, "InvalidParameterException"},
		"token of ours":   {pricing.GetProductsInput{NextToken: aws.String("junk")}, "InvalidNextTokenException"},
		"negative token":  {pricing.GetProductsInput{NextToken: aws.String("-5")}, "InvalidNextTokenException"},
		"unknown field":   {pricing.GetProductsInput{Filters: []types.Filter{{Field: aws.String("colour"), Value: aws.String("x"), Type: types.FilterTypeTermMatch}}}, "InvalidParameterException"},
		"another type":    {pricing.GetProductsInput{Filters: []types.Filter{{Field: aws.String("tenancy"), Value: aws.String("x"), Type: "CONTAINS"}}}, "InvalidParameterException"},
		"another service": {pricing.GetProductsInput{ServiceCode: aws.String("AmazonS3")}, "NotFoundException"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.in.ServiceCode == nil {
				tc.in.ServiceCode = aws.String("AmazonEC2")
			}
			_, err := client.GetProducts(t.Context(), &tc.in)
			wantCode(t, err, tc.code, 400)
		})
	}
	out, err := client.GetProducts(t.Context(), &pricing.GetProductsInput{ServiceCode: aws.String("AmazonEC2"), NextToken: aws.String("9223372036854775807")})
	check(t, err)
	if len(out.PriceList) != 0 || out.NextToken != nil {
		t.Errorf("beyond the end: %d", len(out.PriceList))
	}
}
