package price

import (
	"encoding/json"
	"strings"
)

// product is the part of one item of the price list that is read. Each item is a JSON document of its
// own, sent as a string.
type product struct {
	Product struct {
		Attributes struct {
			InstanceType string `json:"instanceType"`
		} `json:"attributes"`
	} `json:"product"`
	Terms struct {
		OnDemand map[string]struct {
			PriceDimensions map[string]struct {
				PricePerUnit map[string]json.RawMessage `json:"pricePerUnit"`
			} `json:"priceDimensions"`
		} `json:"OnDemand"`
	} `json:"terms"`
}

// parseProduct returns the type and hourly price of one item. An item without either, or with a price of zero, is not
// known. Of several prices the highest counts: which of them applies is not known, and a type must not look cheaper
// than it is.
func parseProduct(document, currency string) (instanceType string, perHour float64, known bool) {
	var p product
	if err := json.Unmarshal([]byte(document), &p); err != nil {
		return "", 0, false
	}
	instanceType = p.Product.Attributes.InstanceType
	if instanceType == "" {
		return "", 0, false
	}
	for _, term := range p.Terms.OnDemand {
		for _, dimension := range term.PriceDimensions {
			// The amount is a string; a bare number is understood too.
			amount := strings.Trim(string(dimension.PricePerUnit[currency]), `"`)
			if one, ok := parseUSD(amount); ok {
				perHour, known = max(perHour, one), true
			}
		}
	}
	return instanceType, perHour, known
}

// currency is the one that the price list of a region is in.
func currency(region string) string {
	if strings.HasPrefix(region, "cn-") {
		return "CNY"
	}
	return "USD"
}

// EndpointRegion is the region whose Pricing endpoint serves the price list of a region: the service
// is in few of them.
func EndpointRegion(region string) string {
	switch {
	case strings.HasPrefix(region, "ap-"):
		return "ap-south-1"
	case strings.HasPrefix(region, "eu-"):
		return "eu-central-1"
	case strings.HasPrefix(region, "cn-"):
		return "cn-northwest-1"
	default:
		return "us-east-1"
	}
}
