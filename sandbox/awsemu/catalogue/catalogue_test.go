package catalogue

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func load(tb testing.TB) *Catalogue {
	tb.Helper()
	c, err := Load()
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func TestSourceIsTheOneThatIsDocumented(t *testing.T) {
	t.Parallel()
	const want = "github.com/cristim/ec2-instances-info v0.0.0-20250528091325-32acf84f42eb (data: ec2instances.info, MIT)"
	if got := load(t).Source(); got != want {
		t.Errorf("Source() = %q, want %q; is doc.go, NOTICE or generate/go.mod out of date?", got, want)
	}
	doc, err := unpackDocument(packed)
	if err != nil {
		t.Fatal(err)
	}
	if doc.Region != "us-east-1" {
		t.Errorf("region %q", doc.Region)
	}
	module, version, _ := strings.Cut(strings.TrimSuffix(want, " (data: ec2instances.info, MIT)"), " ")
	for _, name := range []string{"doc.go", "NOTICE", "generate/go.mod"} {
		if text := readFile(t, name); !strings.Contains(text, module+" "+version) {
			t.Errorf("%s does not name %s %s", name, module, version)
		}
	}
}

func TestDataIsSmall(t *testing.T) {
	t.Parallel()
	if len(packed) > 200<<10 {
		t.Errorf("types.json.gz has %d bytes", len(packed))
	}
}

func TestEveryTypeIsComplete(t *testing.T) {
	t.Parallel()
	c := load(t)
	names := c.Names()
	if len(names) != 897+27 {
		t.Errorf("%d types, want the 897 of the source and 27 that follow", len(names))
	}
	if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Error("names are not sorted or not unique")
	}
	for _, name := range names {
		kind, found := c.Type(name)
		if !found || kind.Name != name {
			t.Errorf("Type(%q) = %q, %v", name, kind.Name, found)
		}
		for _, flaw := range whatIsWrong(c, kind) {
			t.Errorf("%s: %s", name, flaw)
		}
	}
}

// whatIsWrong says what a type lacks or where it contradicts itself.
func whatIsWrong(c *Catalogue, kind Type) []string {
	price, priced := c.OnDemand(kind.Name)
	somewhere, enis := false, 0
	for zone := range zones {
		somewhere = somewhere || c.Offered(kind.Name, zone)
	}
	for i, card := range kind.Cards {
		enis += card.MaxENIs
		if card.Index != i || card.MaxENIs < 1 {
			enis = -1
			break
		}
	}
	var found []string
	for flaw, sound := range map[string]bool{
		"no vCPU or cores":            kind.VCPU > 0 && kind.Cores*kind.ThreadsPerCore == kind.VCPU,
		"no memory":                   kind.MemoryMiB > 0,
		"architecture":                slices.Equal(kind.Arch, []string{"x86_64"}) || slices.Equal(kind.Arch, []string{"arm64"}),
		"processor":                   slices.Contains([]string{"Intel", "AMD", "AWS"}, kind.Manufacturer) && kind.ClockGHz > 1 && kind.ClockGHz < 6,
		"Graviton and arm64 differ":   (kind.Manufacturer == "AWS") == (kind.Arch[0] == "arm64"),
		"hypervisor":                  kind.BareMetal == (kind.Hypervisor == "") && strings.Contains(kind.Name, ".metal") == kind.BareMetal,
		"ENIs":                        kind.MaxENIs > 0 && kind.IPv4PerENI > 1,
		"cards":                       len(kind.Cards) > 0 && enis == kind.MaxENIs,
		"EFA":                         kind.EFAInterfaces == 0 || kind.EFAInterfaces == len(kind.Cards) && kind.ENA,
		"NVMe":                        (kind.NVMeGB > 0) == (len(kind.NVMeDisks) == 1) && (kind.NVMeGB == 0 || kind.NVMeDisks[0].Count*kind.NVMeDisks[0].SizeGB == kind.NVMeGB),
		"strategies":                  len(kind.Strategies) >= 2,
		"price":                       priced && price > 0,
		"offered nowhere":             somewhere,
		"Nitro without EBS bandwidth": kind.Hypervisor != "nitro" || kind.EBSMbps > 0,
	} {
		if !sound {
			found = append(found, flaw)
		}
	}
	for _, gpu := range kind.GPUs {
		if gpu.Name == "" || gpu.Manufacturer == "" || gpu.Count < 1 || gpu.MemoryMiB < 8<<10 {
			found = append(found, "GPU")
		}
	}
	slices.Sort(found)
	return found
}

// What the catalogue says of the types that the emulator must offer, to the last field.
func TestNamedTypes(t *testing.T) {
	t.Parallel()
	c := load(t)
	for name, want := range namedTypes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, found := c.Type(name)
			if !found {
				t.Fatal("not in the catalogue")
			}
			want.Name = name
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("Type(%q) (-want +got):\n%s", name, diff)
			}
		})
	}
}

// Pods per node, as AWS publishes them, come from the first card alone.
func TestPodsOfTheDefaultCard(t *testing.T) {
	t.Parallel()
	c := load(t)
	for name, want := range map[string]int{
		"m5.large": 29, "t3.medium": 17, "t4g.small": 11, "a1.large": 29, "m5.metal": 737, "inf2.xlarge": 58, "p3.8xlarge": 234,
		"m6idn.32xlarge": 394, "c6in.metal": 394, "p4d.24xlarge": 737, "p5.48xlarge": 100, "p5en.48xlarge": 198,
		"g6e.24xlarge": 492, "g6e.48xlarge": 492, "trn1.32xlarge": 247, "dl1.24xlarge": 737,
	} {
		kind, _ := c.Type(name)
		if got := kind.Cards[0].MaxENIs*(kind.IPv4PerENI-1) + 2; got != want {
			t.Errorf("%s: %d pods, want %d", name, got, want)
		}
	}
}

func TestSeedTypesAreEverywhere(t *testing.T) {
	t.Parallel()
	c := load(t)
	for _, name := range c.Names() {
		family, _, _ := strings.Cut(name, ".")
		if !has("t3 t4g m5 c5 c6i r5", family) {
			continue
		}
		for zone := range 7 {
			if _, priced := c.Spot(name, zone, epoch); !c.Offered(name, zone) || !priced {
				t.Errorf("%s is missing in zone %d: offered %v, spot %v", name, zone, c.Offered(name, zone), priced)
			}
		}
	}
}

// A catalogue is never changed; one that differs is made.
func TestWithMakesAnotherCatalogue(t *testing.T) {
	t.Parallel()
	c := load(t)
	old, found := c.Offer("m5.large")
	if !found {
		t.Fatal("no m5.large")
	}
	retired, made := old, Offer{Type: Type{Name: "x9.large", VCPU: 2}, OnDemand: 1, Offered: []bool{true, false}, SpotUSD: []float64{0.5, 0.5}}
	retired.Retired = true
	other := c.With(retired, made)
	if _, launched := other.Type("m5.large"); launched || other.Offered("m5.large", 0) || slices.Contains(other.Names(), "m5.large") {
		t.Error("a retired type can be launched")
	}
	if machine, runs := other.Machine("m5.large"); !runs || machine.VCPU != 2 {
		t.Errorf("a machine of a retired type is %+v, %v", machine, runs)
	}
	if _, priced := other.OnDemand("m5.large"); priced {
		t.Error("a retired type has a price")
	}
	for zone, want := range []bool{true, false, true, false} {
		if _, spot := other.Spot("x9.large", zone, epoch); spot != want || other.Offered("x9.large", zone) != want {
			t.Errorf("zone %d offers a new type: %v, as spot %v, want %v", zone, other.Offered("x9.large", zone), spot, want)
		}
	}
	if !slices.IsSorted(other.Names()) || len(other.Names()) != len(c.Names()) {
		t.Errorf("%d names after one came and one went, want %d", len(other.Names()), len(c.Names()))
	}
	if _, launched := c.Type("x9.large"); launched || !c.Offered("m5.large", 0) {
		t.Error("the first catalogue changed")
	}
}

// A type without an on-demand price may still be offered as spot.
func TestSpotWithoutOnDemand(t *testing.T) {
	t.Parallel()
	c := load(t).With(Offer{Type: Type{Name: "x9.large"}, Offered: []bool{true}, SpotUSD: []float64{0.5}})
	for hour := range 48 {
		if price, sold := c.Spot("x9.large", 0, epoch.Add(time.Duration(hour)*time.Hour)); !sold || price < 0.4 || price > 0.6 {
			t.Errorf("hour %d: %v, %v", hour, price, sold)
		}
	}
	if _, priced := c.OnDemand("x9.large"); priced {
		t.Error("there is an on-demand price")
	}
}

func TestOfferings(t *testing.T) {
	t.Parallel()
	c := load(t)
	for name, tc := range map[string]struct {
		kind string
		zone int
		want bool
	}{
		"a type that is everywhere":       {kind: "m5.large", zone: 0, want: true},
		"trn1 is in the third zone":       {kind: "trn1.2xlarge", zone: 2, want: true},
		"trn1 is not in the first":        {kind: "trn1.2xlarge", zone: 0},
		"p3 is not in the second":         {kind: "p3.8xlarge", zone: 1},
		"the fifth zone is as the second": {kind: "p3.8xlarge", zone: 4},
		"the sixth zone is as the third":  {kind: "p3.8xlarge", zone: 5, want: true},
		"no such type":                    {kind: "m5.tiny", zone: 0},
		"no such zone":                    {kind: "m5.large", zone: -1},
	} {
		if got := c.Offered(tc.kind, tc.zone); got != tc.want {
			t.Errorf("%s: Offered(%s, %d) = %v", name, tc.kind, tc.zone, got)
		}
	}
}

func TestUnknownType(t *testing.T) {
	t.Parallel()
	c := load(t)
	if _, found := c.Type("m5.tiny"); found {
		t.Error("Type() found it")
	}
	if _, found := c.OnDemand("m5.tiny"); found {
		t.Error("OnDemand() found it")
	}
	if _, found := c.Spot("m5.tiny", 0, epoch); found {
		t.Error("Spot() found it")
	}
}

// A rule about a type that does not exist is a typing error.
func TestRulesNameTypesThatExist(t *testing.T) {
	t.Parallel()
	c := load(t)
	check := func(name string) {
		if _, found := c.Type(name); !found {
			t.Errorf("a rule names %s, which is not in the catalogue", name)
		}
	}
	for name := range cardCounts {
		check(name)
		if kind, _ := c.Type(name); kind.EFAInterfaces == 0 {
			t.Errorf("%s has several cards but no EFA", name)
		}
	}
	for _, table := range []map[string]string{efaSizes, sevSizes} {
		for family, sizes := range table {
			for size := range strings.FieldsSeq(sizes) {
				check(family + "." + size)
			}
		}
	}
	families := map[string]bool{}
	for _, name := range c.Names() {
		family, _, _ := strings.Cut(name, ".")
		families[family] = true
	}
	for family := range strings.FieldsSeq(xenWithENA + " " + plainTraffic + " " + noEnclaves + " " + singleThread) {
		if !families[family] {
			t.Errorf("a rule names family %s, which is not in the catalogue", family)
		}
	}
}

func TestNamesAreACopy(t *testing.T) {
	t.Parallel()
	c := load(t)
	c.Names()[0] = "changed"
	if c.Names()[0] == "changed" {
		t.Error("a caller changed the catalogue")
	}
}

func TestDamagedDataIsAnError(t *testing.T) {
	t.Parallel()
	for name, data := range map[string][]byte{"not packed": []byte("{}"), "cut short": packed[:len(packed)/2]} {
		if _, err := unpackDocument(data); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func BenchmarkLoad(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		load(b)
	}
}

func TestTrust_D03_NestedVirtualizationIsOffered(t *testing.T) {
	t.Parallel()
	c := load(t)
	for name, want := range map[string]bool{"m8i.large": true, "c8i.4xlarge": true, "r8i.48xlarge": true, "m7i.large": false, "m5.metal": false, "m6a.large": false} {
		kind, found := c.Type(name)
		if !found || slices.Contains(kind.Features, "nested-virtualization") != want {
			t.Errorf("%s: found %v with %q, want nested virtualization %v", name, found, kind.Features, want)
		}
	}
	if usd, _ := c.OnDemand("m8i.large"); math.Abs(usd-0.10584) > 1e-9 {
		t.Errorf("m8i.large costs %v", usd)
	}
	if spot, ok := c.Spot("m8i.large", 0, time.Unix(0, 0)); !ok || spot > 0.10584 {
		t.Errorf("m8i.large costs %v as spot, %v", spot, ok)
	}
}
