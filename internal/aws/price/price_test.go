package price

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/google/go-cmp/cmp"
)

const document = `{"product":{"productFamily":"Compute Instance","attributes":{"instanceType":%q,"regionCode":"us-east-1"},"sku":"S"},
	"serviceCode":"AmazonEC2","terms":{"OnDemand":{"S.T":{"priceDimensions":{"S.T.R":{"unit":"Hrs","pricePerUnit":{%q:%q}}},"sku":"S"}}},"version":"1"}`

func TestParseProduct(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		document, currency string
		wantType           string
		want               float64
	}{
		"as AWS sends it":         {document: fmt.Sprintf(document, "m5.large", "USD", "0.0960000000"), currency: "USD", wantType: "m5.large", want: 0.096},
		"China":                   {document: fmt.Sprintf(document, "m5.large", "CNY", "0.77"), currency: "CNY", wantType: "m5.large", want: 0.77},
		"another currency":        {document: fmt.Sprintf(document, "m5.large", "CNY", "0.77"), currency: "USD", wantType: "m5.large"},
		"P02 zero":                {document: fmt.Sprintf(document, "m5.large", "USD", "0.0000000000"), currency: "USD", wantType: "m5.large"},
		"P02 negative":            {document: fmt.Sprintf(document, "m5.large", "USD", "-1"), currency: "USD", wantType: "m5.large"},
		"P02 not a number":        {document: fmt.Sprintf(document, "m5.large", "USD", "NaN"), currency: "USD", wantType: "m5.large"},
		"P02 infinite":            {document: fmt.Sprintf(document, "m5.large", "USD", "+Inf"), currency: "USD", wantType: "m5.large"},
		"no type":                 {document: fmt.Sprintf(document, "", "USD", "1"), currency: "USD"},
		"no terms":                {document: `{"product":{"attributes":{"instanceType":"m5.large"}}}`, currency: "USD", wantType: "m5.large"},
		"not JSON":                {document: `{`, currency: "USD"},
		"JSON of another shape":   {document: `{"product":[],"terms":7}`, currency: "USD"},
		"a number without quotes": {document: `{"product":{"attributes":{"instanceType":"x"}},"terms":{"OnDemand":{"a":{"priceDimensions":{"b":{"pricePerUnit":{"USD":0.5}}}}}}}`, currency: "USD", wantType: "x", want: 0.5},
		"of two prices the higher": {
			document: `{"product":{"attributes":{"instanceType":"x"}},"terms":{"OnDemand":{"a":{"priceDimensions":{"b":{"pricePerUnit":{"USD":"0.5"}},"c":{"pricePerUnit":{"USD":"0.7"}}}}}}}`,
			currency: "USD", wantType: "x", want: 0.7,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gotType, got, known := parseProduct(tc.document, tc.currency)
			if gotType != tc.wantType || got != tc.want || known != (tc.want > 0) {
				t.Errorf("parseProduct() = %q, %v, %v; want %q, %v", gotType, got, known, tc.wantType, tc.want)
			}
		})
	}
}

func FuzzParseProduct(f *testing.F) {
	f.Add(fmt.Sprintf(document, "m5.large", "USD", "0.096"))
	f.Add(`{"product":{"attributes":{"instanceType":"x"}},"terms":{"OnDemand":{"a":{"priceDimensions":{"b":{"pricePerUnit":{"USD":1e999}}}}}}}`)
	f.Add(`null`)
	f.Fuzz(func(t *testing.T, text string) {
		name, usd, known := parseProduct(text, "USD")
		if known && (name == "" || !(usd > 0) || math.IsInf(usd, 0)) {
			t.Errorf("%q costs %v", name, usd)
		}
		if !known && usd != 0 {
			t.Errorf("an unknown price of %v", usd)
		}
	})
}

func TestEndpointRegion(t *testing.T) {
	t.Parallel()
	for region, want := range map[string]string{
		"us-east-1": "us-east-1", "us-west-2": "us-east-1", "sa-east-1": "us-east-1", "me-south-1": "us-east-1", "ap-northeast-1": "ap-south-1",
		"eu-west-1": "eu-central-1", "cn-north-1": "cn-northwest-1", "": "us-east-1",
	} {
		if got := EndpointRegion(region); got != want {
			t.Errorf("EndpointRegion(%q) = %q, want %q", region, got, want)
		}
	}
}

// The built-in list is sorted, without doubles, and every line is a price.
func TestBuiltInList(t *testing.T) {
	t.Parallel()
	last, lines := "", 0
	for line := range strings.Lines(builtIn) {
		lines++
		name, text, found := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if _, known := parseUSD(text); !found || !known || name <= last || !strings.Contains(name, ".") {
			t.Errorf("line %q after %q", line, last)
		}
		last = name
	}
	if known := fallback(); len(known) != lines || lines < 800 || known["m5.large"] != 0.096 || known["m5.metal"] == 0 {
		t.Errorf("%d lines, %d prices, m5.large %v", lines, len(known), known["m5.large"])
	}
}

// fakePricing lists the products of the two passes, one per page.
type fakePricing struct {
	shared, metal map[string]string
	err           error
	requested     []map[string]string
}

func (f *fakePricing) GetProducts(_ context.Context, in *pricing.GetProductsInput, _ ...func(*pricing.Options)) (*pricing.GetProductsOutput, error) {
	if f.err != nil {
		return nil, f.err
	}
	question := map[string]string{"service": *in.ServiceCode, "page": strconv.Itoa(int(*in.MaxResults))}
	for _, filter := range in.Filters {
		question[*filter.Field] = string(filter.Type) + " " + *filter.Value
	}
	list := f.shared
	if question["tenancy"] == "TERM_MATCH Dedicated" {
		list = f.metal
	}
	from := 0
	if in.NextToken != nil {
		from, _ = strconv.Atoi(*in.NextToken)
	} else {
		f.requested = append(f.requested, question)
	}
	out := &pricing.GetProductsOutput{}
	i := 0
	for name, price := range list {
		if i == from {
			out.PriceList = []string{fmt.Sprintf(document, name, "USD", price), `broken`}
		}
		i++
	}
	if from+1 < len(list) {
		out.NextToken = new(strconv.Itoa(from + 1))
	}
	return out, nil
}

type fakeSpot struct {
	list      []ec2types.SpotPrice
	err       error
	requested *ec2.DescribeSpotPriceHistoryInput
}

func (f *fakeSpot) DescribeSpotPriceHistory(_ context.Context, in *ec2.DescribeSpotPriceHistoryInput, _ ...func(*ec2.Options)) (*ec2.DescribeSpotPriceHistoryOutput, error) {
	f.requested = in
	if f.err != nil {
		return nil, f.err
	}
	out := &ec2.DescribeSpotPriceHistoryOutput{SpotPriceHistory: f.list}
	if in.NextToken == nil && len(f.list) > 1 {
		out.SpotPriceHistory, out.NextToken = f.list[:1], new("1")
	} else if in.NextToken != nil {
		out.SpotPriceHistory = f.list[1:]
	}
	return out, nil
}

func spot(instanceType, zone, usd string, at time.Time) ec2types.SpotPrice {
	return ec2types.SpotPrice{InstanceType: ec2types.InstanceType(instanceType), AvailabilityZone: &zone, SpotPrice: &usd, Timestamp: &at}
}

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func newTable(change func(*Options)) (*Table, *fakePricing, *fakeSpot) {
	// One product per page in map order: with one product per pass the fake stays simple.
	list := &fakePricing{shared: map[string]string{"m5.large": "0.1"}, metal: map[string]string{"m5.metal": "5"}}
	market := &fakeSpot{list: []ec2types.SpotPrice{spot("m5.large", "a", "0.03", noon), spot("m5.large", "b", "0.04", noon)}}
	o := Options{Region: "us-east-1", Pricing: list, EC2: market, Now: func() time.Time { return noon }}
	if change != nil {
		change(&o)
	}
	return New(o), list, market
}

func prized(usd float64, known bool) string {
	if !known {
		return "unknown"
	}
	return strconv.FormatFloat(usd, 'g', -1, 64)
}

func TestRefresh(t *testing.T) {
	t.Parallel()
	table, list, market := newTable(nil)
	if got := prized(table.OnDemand("m5.large")); got != "0.096" {
		t.Errorf("before the first refresh m5.large costs %s, want the built-in price", got)
	}
	if got := prized(table.Spot("m5.large", "a")); got != "0.096" {
		t.Errorf("before the first refresh m5.large as spot costs %s, want the on-demand price", got)
	}
	if got := prized(table.Spot("no.such", "a")); got != "unknown" {
		t.Errorf("before the first refresh an unknown type costs %s", got)
	}
	if err := table.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	for what, got := range map[string]string{
		"0.1": prized(table.OnDemand("m5.large")), "5": prized(table.OnDemand("m5.metal")), "0.03": prized(table.Spot("m5.large", "a")), "0.04": prized(table.Spot("m5.large", "b")),
	} {
		if got != what {
			t.Errorf("price %s, want %s", got, what)
		}
	}
	for name, got := range map[string]string{"another zone": prized(table.Spot("m5.large", "c")), "another type": prized(table.Spot("m5.metal", "a")), "no longer listed": prized(table.OnDemand("c5.large"))} {
		if got != "unknown" {
			t.Errorf("%s: %s, want unknown", name, got)
		}
	}
	common := map[string]string{
		"service": "AmazonEC2", "page": "100", "regionCode": "TERM_MATCH us-east-1", "serviceCode": "TERM_MATCH AmazonEC2", "preInstalledSw": "TERM_MATCH NA",
		"operatingSystem": "TERM_MATCH Linux", "capacitystatus": "TERM_MATCH Used", "marketoption": "TERM_MATCH OnDemand",
	}
	for i, want := range [][2]string{{"Shared", "Compute Instance"}, {"Dedicated", "Compute Instance (bare metal)"}} {
		common["tenancy"], common["productFamily"] = "TERM_MATCH "+want[0], "TERM_MATCH "+want[1]
		if diff := cmp.Diff(common, list.requested[i]); diff != "" {
			t.Errorf("query %d (-want +got):\n%s", i, diff)
		}
	}
	if in := market.requested; !in.StartTime.Equal(noon) || *in.MaxResults != 2000 || strings.Join(in.ProductDescriptions, ";") != "Linux/UNIX;Linux/UNIX (Amazon VPC)" {
		t.Errorf("spot query %v from %v by %d", in.ProductDescriptions, in.StartTime, *in.MaxResults)
	}
}

// The version rises when a price changes, and only then.
func TestVersion(t *testing.T) {
	t.Parallel()
	table, list, market := newTable(nil)
	version := table.Version()
	for _, step := range []struct {
		name   string
		change func()
		want   uint64
	}{
		{"the first responses", func() {}, 2},
		{"the same again", func() {}, 0},
		{"an on-demand price", func() { list.shared["m5.large"] = "0.2" }, 1},
		{"a spot price", func() { market.list[0].SpotPrice = new("0.05") }, 1},
		{"a spot pool is gone", func() { market.list = market.list[:1] }, 1},
	} {
		step.change()
		if err := table.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := table.Version(); got != version+step.want {
			t.Errorf("%s: version %d after %d, want %d more", step.name, got, version, step.want)
		}
		version = table.Version()
	}
}

// P01, S-101: what cannot be read keeps its price, the other kind is read all the same, and the error
// names instance types.
func TestFM_P01_RefreshFails(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		breakIt                func(*fakePricing, *fakeSpot)
		wantOnDemand, wantSpot string
	}{
		"price list out of reach": {func(p *fakePricing, _ *fakeSpot) { p.err = errors.New("no route") }, "0.096", "0.03"},
		"no shared products":      {func(p *fakePricing, _ *fakeSpot) { p.shared = nil }, "0.096", "0.03"},
		"no metal products":       {func(p *fakePricing, _ *fakeSpot) { p.metal = nil }, "0.096", "0.03"},
		"P02 only zero prices":    {func(p *fakePricing, _ *fakeSpot) { p.shared["m5.large"] = "0.0" }, "0.096", "0.03"},
		"no spot history":         {func(_ *fakePricing, s *fakeSpot) { s.list = nil }, "0.1", "0.1"},
		"EC2 out of reach":        {func(_ *fakePricing, s *fakeSpot) { s.err = errors.New("no route") }, "0.1", "0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			table, list, market := newTable(nil)
			tc.breakIt(list, market)
			if table.Refreshed() {
				t.Error("P05: called before any request")
			}
			if err := table.Refresh(t.Context()); err == nil || !strings.Contains(err.Error(), "instance type") {
				t.Errorf("Refresh() = %v, want an error that names instance types", err)
			}
			if !table.Refreshed() {
				t.Error("P05: a response is waited for that does not come")
			}
			if got := prized(table.OnDemand("m5.large")); got != tc.wantOnDemand {
				t.Errorf("on demand %s, want %s", got, tc.wantOnDemand)
			}
			if got := prized(table.Spot("m5.large", "a")); got != tc.wantSpot {
				t.Errorf("spot %s, want %s", got, tc.wantSpot)
			}
		})
	}
}

func TestPricingIsNotCalledInRegionsWithoutIt(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Options){
		"isolated VPC": func(o *Options) { o.Isolated = true },
		"GovCloud":     func(o *Options) { o.Region = "us-gov-west-1" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			table, list, _ := newTable(change)
			if err := table.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := prized(table.OnDemand("m5.large")); len(list.requested) != 0 || got != "0.096" {
				t.Errorf("called %d times, m5.large costs %s", len(list.requested), got)
			}
			if got := prized(table.Spot("m5.large", "b")); got != "0.04" {
				t.Errorf("spot %s, want what EC2 says", got)
			}
		})
	}
}

// Of several entries for one pool the newest counts; what is no price is left out (P02).
func TestSpotEntries(t *testing.T) {
	t.Parallel()
	table, _, market := newTable(nil)
	market.list = []ec2types.SpotPrice{
		spot("m5.large", "a", "0.05", noon), spot("m5.large", "a", "0.09", noon.Add(-time.Hour)), spot("m5.large", "a", "0.06", noon.Add(time.Minute)),
		spot("m5.large", "b", "0", noon), spot("m5.large", "c", "free", noon),
		{InstanceType: "m5.large"},
	}
	if err := table.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	for zone, want := range map[string]string{"a": "0.06", "b": "unknown", "c": "unknown"} {
		if got := prized(table.Spot("m5.large", zone)); got != want {
			t.Errorf("zone %s: %s, want %s", zone, got, want)
		}
	}
}

func TestChina(t *testing.T) {
	t.Parallel()
	if currency("cn-north-1") != "CNY" || currency("us-east-1") != "USD" {
		t.Error("prices of China are in CNY, all others in USD")
	}
}

func BenchmarkSpot(b *testing.B) {
	table, _, _ := newTable(nil)
	if err := table.Refresh(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		table.Spot("m5.large", "a")
	}
}
