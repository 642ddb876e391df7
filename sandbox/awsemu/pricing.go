package awsemu

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// priceService is the only service with a price list here.
const priceService = "AmazonEC2"

// pricePage is the largest page of the price list.
const pricePage = 100

func (e *Emulator) registerPricing() {
	e.register(wire.Pricing, "GetProducts", e.getProducts)
}

type priceFilter struct{ Field, Type, Value string }

func (e *Emulator) getProducts(c *call) (any, error) {
	var in struct {
		ServiceCode string
		Filters     []priceFilter
		MaxResults  *int
		NextToken   string
	}
	if err := c.JSON(&in); err != nil {
		return nil, err
	}
	size, from := pricePage, 0
	if in.MaxResults != nil {
		size = *in.MaxResults
	}
	if size < 1 || size > pricePage {
		return nil, wire.Errorf("InvalidParameterException", "Input Parameters are invalid. Reason: MaxResults must be between 1 and %d", pricePage)
	}
	if in.NextToken != "" {
		n, err := strconv.Atoi(in.NextToken)
		if err != nil || n < 0 {
			return nil, wire.Errorf("InvalidNextTokenException", "The pagination token is invalid. Try again without a pagination token.")
		}
		from = n
	}
	if in.ServiceCode != priceService {
		return nil, wire.Errorf("NotFoundException", "The service %s is not in the price list.", in.ServiceCode)
	}
	items, err := e.priceList(in.Filters)
	if err != nil {
		return nil, err
	}
	out := struct {
		FormatVersion string
		PriceList     []string
		NextToken     string `json:",omitempty"`
	}{FormatVersion: "aws_v1", PriceList: []string{}}
	from = min(from, len(items))
	if len(items)-from > size {
		out.NextToken = strconv.Itoa(from + size)
	}
	for _, item := range items[from:min(from+size, len(items))] {
		out.PriceList = append(out.PriceList, item.jsonDocument())
	}
	return out, nil
}

// product is one type in the price list.
type product struct {
	attributes map[string]string // by name in lower case, as filters are compared
	instance   string
	currency   string
	price      float64
}

// priceList is the on-demand products that pass every filter, sorted by type. Shared tenancy holds
// what can be shared; bare metal is a family of its own, offered as dedicated.
func (e *Emulator) priceList(filters []priceFilter) ([]product, error) {
	var out []product
	for _, name := range e.Catalogue().Names() {
		kind, found := e.Catalogue().Type(name)
		price, priced := e.listPrice(name)
		if !found || !priced {
			continue
		}
		p := product{instance: name, price: price, currency: "USD", attributes: map[string]string{
			"instancetype": name, "regioncode": e.fixture.Region, "servicecode": priceService, "preinstalledsw": "NA", "operatingsystem": "Linux",
			"capacitystatus": "Used", "marketoption": "OnDemand", "tenancy": "Shared", "productfamily": "Compute Instance",
		}}
		if kind.BareMetal {
			p.attributes["tenancy"], p.attributes["productfamily"] = "Dedicated", "Compute Instance (bare metal)"
		}
		if strings.HasPrefix(e.fixture.Region, "cn-") {
			p.currency = "CNY"
		}
		passes, err := p.matchesFilters(filters)
		if err != nil {
			return nil, err
		}
		if passes {
			out = append(out, p)
		}
	}
	return out, nil
}

// listPrice is what a type costs in the price list. The list has no zones: an override counts if it
// is for all of them.
func (e *Emulator) listPrice(name string) (float64, bool) {
	for _, o := range slices.Backward(e.ec2().PriceOverrides) {
		if !slices.ContainsFunc(e.fixture.Zones, func(z Zone) bool { return !o.matches(capacityOnDemand, name, z.Name) }) {
			return o.Price, true
		}
	}
	return e.Catalogue().OnDemand(name)
}

func (p product) matchesFilters(filters []priceFilter) (bool, error) {
	passes := true
	for _, f := range filters {
		value, known := p.attributes[strings.ToLower(f.Field)]
		if f.Type != "TERM_MATCH" || !known {
			return false, wire.Errorf("InvalidParameterException", "Input Parameters are invalid. Reason: the filter %s %s is not emulated", f.Type, f.Field)
		}
		passes = passes && value == f.Value
	}
	return passes, nil
}

// jsonDocument renders the product as the JSON text that the list is made of.
func (p product) jsonDocument() string {
	type object = map[string]any
	term := strings.ToUpper(strings.ReplaceAll(p.instance, ".", "")) + ".JRTCKXETXF"
	dimension := term + ".6YS6EN2CT7"
	document, err := json.Marshal(object{
		"serviceCode": priceService,
		"product": object{"productFamily": p.attributes["productfamily"], "sku": strings.TrimSuffix(term, ".JRTCKXETXF"), "attributes": object{
			"instanceType": p.instance, "regionCode": p.attributes["regioncode"], "tenancy": p.attributes["tenancy"], "operatingSystem": "Linux",
			"preInstalledSw": "NA", "capacitystatus": "Used", "marketoption": "OnDemand", "servicecode": priceService,
		}},
		"terms": object{"OnDemand": object{term: object{"priceDimensions": object{dimension: object{
			"unit": "Hrs", "pricePerUnit": object{p.currency: fmt.Sprintf("%.10f", p.price)},
		}}}}},
	})
	if err != nil {
		return "{}" // cannot happen: texts only
	}
	return string(document)
}
