package catalogue

import (
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Whatever the type, the zone and the time: bounded, repeatable, steady within the hour, never a jump.
func TestSpotIsBoundedAndSmooth(t *testing.T) {
	t.Parallel()
	c, again := load(t), load(t)
	random := rand.New(rand.NewPCG(1, 2))
	names := c.Names()
	for range 50_000 {
		name, zone := names[random.IntN(len(names))], random.IntN(6)
		at := time.Unix(random.Int64N(8e9)-4e9, 0)
		price, ok := c.Spot(name, zone, at)
		kind, _ := c.Type(name)
		if ok && (!kind.Spot || !c.Offered(name, zone)) {
			t.Fatalf("%s has a spot price in zone %d but is not offered there", name, zone)
		}
		if !ok {
			continue
		}
		full, _ := c.OnDemand(name)
		if price < full/10 || price > full || price <= 0 {
			t.Fatalf("Spot(%s, %d, %v) = %v, on-demand costs %v", name, zone, at, price, full)
		}
		hour := at.Truncate(time.Hour)
		if other, _ := again.Spot(name, zone, hour.Add(59*time.Minute).In(time.FixedZone("far", 5*3600))); other != price {
			t.Fatalf("Spot(%s, %d) differs within the hour of %v: %v and %v", name, zone, at, price, other)
		}
		if next, _ := c.Spot(name, zone, hour.Add(time.Hour)); math.Abs(next-price) > 0.08*price+1e-6 {
			t.Fatalf("Spot(%s, %d) jumps after %v: from %v to %v", name, zone, at, price, next)
		}
	}
}

func TestSpotMeanIsTheBasePrice(t *testing.T) {
	t.Parallel()
	c := load(t)
	for _, name := range []string{"m5.large", "c6i.xlarge", "t4g.small", "p3.8xlarge", "a1.large"} {
		for zone := range zones {
			base := c.offers[name].SpotUSD[zone]
			if base == 0 {
				continue
			}
			sum, hours, prices := 0.0, 5*365*24, map[float64]bool{}
			for hour := range hours {
				price, _ := c.Spot(name, zone, epoch.Add(time.Duration(hour)*time.Hour))
				sum += price
				prices[price] = true
			}
			if mean := sum / float64(hours); math.Abs(mean-base) > 0.01*base {
				t.Errorf("%s in zone %d costs %v on average, want %v", name, zone, mean, base)
			}
			if full, _ := c.OnDemand(name); base < full && len(prices) < 100 {
				t.Errorf("%s in zone %d has only %d prices in five years", name, zone, len(prices))
			}
		}
	}
}

// The zones share out the published prices: none is used twice or made up.
func TestSpotBaseIsPublished(t *testing.T) {
	t.Parallel()
	doc, err := unpackDocument(packed)
	if err != nil {
		t.Fatal(err)
	}
	for i := range doc.Types {
		r := &doc.Types[i]
		left := map[float64]int{}
		for _, price := range r.Spot {
			left[price]++
		}
		for zone := range zones {
			price := r.spotIn(zone)
			if price == 0 {
				continue
			}
			if left[price]--; left[price] < 0 {
				t.Errorf("%s: price %v of zone %d is not in %v", r.Name, price, zone, r.Spot)
			}
		}
	}
}

func TestSpotDiffersByZone(t *testing.T) {
	t.Parallel()
	c := load(t)
	a, _ := c.Spot("m5.large", 0, epoch)
	b, _ := c.Spot("m5.large", 1, epoch)
	d, _ := c.Spot("m5.large", 3, epoch)
	if a == b || a == d {
		t.Errorf("zones 0, 1 and 3 cost %v, %v and %v", a, b, d)
	}
}

func TestTypesWithoutSpot(t *testing.T) {
	t.Parallel()
	c := load(t)
	count := 0
	for _, name := range c.Names() {
		kind, _ := c.Type(name)
		if kind.Spot {
			continue
		}
		count++
		for zone := range zones {
			if _, ok := c.Spot(name, zone, epoch); ok {
				t.Errorf("%s is not offered as spot but has a price", name)
			}
		}
	}
	if count != 19 {
		t.Errorf("%d types without spot, want 19", count)
	}
}

func BenchmarkSpot(b *testing.B) {
	c := load(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := c.Spot("m6idn.32xlarge", 1, epoch); !ok {
			b.Fatal("no price")
		}
	}
}
