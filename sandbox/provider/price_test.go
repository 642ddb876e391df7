package provider

import (
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/pricing"

	"github.com/dovetail-sh/dovetail/internal/aws/price"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// prices is a table of a controller that was just started.
func (l *awsEnv) prices(isolated bool) *price.Table {
	sdk := l.sdk.Copy()
	sdk.Region = price.EndpointRegion(region)
	return price.New(price.Options{Region: region, Isolated: isolated, Pricing: pricing.NewFromConfig(sdk), EC2: ec2.NewFromConfig(l.sdk), Now: l.currentTime})
}

func (l *awsEnv) refreshPrices(table *price.Table) *price.Table {
	l.Helper()
	if err := table.Refresh(l.Context()); err != nil {
		l.Fatalf("refresh: %v", err)
	}
	return table
}

// Every type of the emulated account has the price of its price list and of its spot market, shared
// and bare metal alike (AWS provider 4).
func TestPricesOfBothMarkets(t *testing.T) {
	t.Parallel()
	l := newAWSEnv(t)
	table := l.refreshPrices(l.prices(false))
	offers, metal := decodeControl[map[string]awsemu.TypeOffer](l, "catalogue"), 0
	for name, offer := range offers {
		got, known := table.OnDemand(name)
		if want := offer.OnDemandPrice; known != (want > 0) || known && !almostEqual(got, want) {
			t.Errorf("%s on demand: %v %v, want %v", name, got, known, want)
		}
		if offer.BareMetal && known {
			metal++
		}
		for _, zone := range []string{zoneA, zoneB, zoneC} {
			got, known := table.Spot(name, zone)
			want, sold := offer.SpotPrices[zone]
			if sold = sold && slices.Contains(offer.Zones, zone); known != sold || known && (got < want/2 || got > want*2) { // spot prices wander
				t.Errorf("%s in %s as spot: %v %v, want %v %v", name, zone, got, known, want, sold)
			}
		}
	}
	if metal == 0 {
		t.Error("no bare metal has a price; the second pass is missing")
	}
}

func almostEqual(a, b float64) bool { return a-b < 1e-6 && b-a < 1e-6 }

// The price list is read page by page, and the spot prices too.
func TestPricesArePaged(t *testing.T) {
	t.Parallel()
	l := newAWSEnvWithAllTypes(t)
	l.refreshPrices(l.prices(false))
	for action, calls := range map[string][]awsemu.Call{
		"GetProducts": l.callsOf(wire.Pricing, "GetProducts"), "DescribeSpotPriceHistory": l.callsOf(wire.EC2, "DescribeSpotPriceHistory"),
	} {
		tokens := map[string]bool{}
		for _, c := range calls {
			tokens[c.Parameters["NextToken"]] = true
			if c.Code != "" {
				t.Errorf("%s failed: %s", action, c.Code)
			}
		}
		if len(tokens) < 2 {
			t.Errorf("%s was called with the tokens %v in %d calls, want pages", action, tokens, len(calls))
		}
	}
}

// A refresh that fails in part keeps what that part knew before; the other part is new.
func TestPricesStayWhenTheyCannotBeRead(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spoil         func(*awsEnv)
		wantOnDemand  float64
		wantSpot      float64
		wantMentioned string
	}{
		"the price list fails": {
			spoil: func(l *awsEnv) {
				l.injectFault(awsemu.Fault{Action: "pricing:GetProducts", Code: "InternalErrorException", Status: 500})
			},
			wantOnDemand: 1, wantSpot: 4, wantMentioned: "on-demand",
		},
		"spot prices are throttled": {
			spoil:        func(l *awsEnv) { l.throttleActions("ec2:DescribeSpotPriceHistory") },
			wantOnDemand: 3, wantSpot: 2, wantMentioned: "spot",
		},
		"the controller may not read the price list": {
			spoil:        func(l *awsEnv) { l.denyAction("pricing:GetProducts") },
			wantOnDemand: 1, wantSpot: 4, wantMentioned: "on-demand",
		},
		"half a response arrives": {
			spoil:        func(l *awsEnv) { l.injectFault(awsemu.Fault{Action: "pricing:GetProducts", Truncate: true}) },
			wantOnDemand: 1, wantSpot: 4, wantMentioned: "on-demand",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newAWSEnv(t)
			l.putControl("prices", `[{"capacityType":"on-demand","instanceType":"m5.large","price":1},{"capacityType":"spot","instanceType":"m5.large","price":2}]`)
			table := l.refreshPrices(l.prices(false))
			l.putControl("prices", `[{"capacityType":"on-demand","instanceType":"m5.large","price":3},{"capacityType":"spot","instanceType":"m5.large","price":4}]`)
			tc.spoil(l)
			if err := table.Refresh(t.Context()); err == nil || !strings.Contains(err.Error(), tc.wantMentioned) {
				t.Errorf("refresh: %v, want an error about %s prices", err, tc.wantMentioned)
			}
			if usd, known := table.OnDemand("m5.large"); !known || usd != tc.wantOnDemand {
				t.Errorf("on demand: %v %v, want %v", usd, known, tc.wantOnDemand)
			}
			if usd, known := table.Spot("m5.large", zoneA); !known || usd != tc.wantSpot {
				t.Errorf("spot: %v %v, want %v", usd, known, tc.wantSpot)
			}
		})
	}
}

// P01: without a way to the Pricing service the built-in list serves, and spot prices still come from EC2.
func TestFM_P01_BuiltInPricesWithoutThePriceList(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		isolated  bool
		wantCalls bool
		wantErr   bool
	}{
		"an isolated VPC makes no call":                  {isolated: true},
		"an unreachable service is called, and reported": {wantCalls: true, wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newAWSEnv(t)
			l.injectFault(awsemu.Fault{Action: "pricing:*", Drop: awsemu.DropBefore})
			l.putControl("prices", `[{"capacityType":"on-demand","instanceType":"m5.large","price":77},{"capacityType":"spot","instanceType":"m5.large","price":2}]`)
			table := l.prices(tc.isolated)
			if before, known := table.Spot("m5.large", zoneA); !known || before <= 0 || before >= 1 {
				t.Errorf("before the first response spot costs %v %v, want the built-in price on demand", before, known)
			}
			if err := table.Refresh(t.Context()); (err != nil) != tc.wantErr {
				t.Errorf("refresh: %v", err)
			}
			if requested := l.countCalls(wire.Pricing, "GetProducts") > 0; requested != tc.wantCalls {
				t.Errorf("the price list was called: %v, want %v", requested, tc.wantCalls)
			}
			if usd, known := table.OnDemand("m5.large"); !known || usd <= 0 || usd >= 1 {
				t.Errorf("on demand: %v %v, want the built-in price", usd, known)
			}
			if usd, known := table.Spot("m5.large", zoneA); !known || usd != 2 {
				t.Errorf("spot: %v %v, want that of EC2", usd, known)
			}
		})
	}
}

// P02: a price of zero is no price.
func TestFM_P02_ZeroIsNoPrice(t *testing.T) {
	t.Parallel()
	l := newAWSEnv(t)
	l.putControl("prices", `[{"instanceType":"m5.large","price":0}]`)
	table := l.refreshPrices(l.prices(false))
	if usd, known := table.OnDemand("m5.large"); known {
		t.Errorf("on demand: %v, want none", usd)
	}
	if usd, known := table.Spot("m5.large", zoneA); known {
		t.Errorf("spot: %v, want none", usd)
	}
}
