package offering

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	_ "github.com/dovetail-sh/dovetail/internal/seed" // the same values in every run
)

// Whatever happened before, the list is the one that a new catalogue would make.
func TestCachedListsAreRight(t *testing.T) {
	t.Parallel()
	infos := allTypes(t)[:8] // a1.large among them
	infos = append(infos, described(t, "m5.large", nil), described(t, "m5.xlarge", nil))
	rapid.Check(t, func(r *rapid.T) {
		l := newFixture(t, nil, infos...)
		c := class(awsv1.FamilyAL2023, reserve)
		pick := func(name string, list ...string) string { return rapid.SampledFrom(list).Draw(r, name) }
		kind := func() string { return pick("type", "m5.large", "m5.xlarge", "a1.large") }
		zone := func() string { return pick("zone", labZones()...) }
		steps := map[string]func(){
			"mark":    func() { l.unavailable.Mark(pick("as", "spot", "on-demand"), kind(), zone(), Group{}, "") },
			"no spot": func() { l.unavailable.MarkCapacityType("spot", "") },
			"subnet":  func() { l.unavailable.MarkSubnet(pick("subnet", "subnet-a", "subnet-b"), "") },
			"wait":    func() { l.clock = l.clock.Add(time.Duration(rapid.IntRange(1, 150).Draw(r, "s")) * time.Second) },
			"price": func() {
				l.prices.onDemand = map[string]float64{kind(): float64(rapid.IntRange(0, 3).Draw(r, "usd"))}
				l.prices.version++
			},
			"spot":     func() { l.prices.spot = map[string]float64{kind() + "/" + zone(): 0}; l.prices.version++ },
			"shift":    func() { id := pick("id", "use1-az1", "use1-az2"); l.shifted[id] = !l.shifted[id] },
			"reserved": func() { l.reservations.Set("cr-1", rapid.IntRange(0, 2).Draw(r, "free"), l.clock) },
			"took":     func() { l.reservations.Took("cr-1", pick("claim", "one", "two")) },
			"observed": func() {
				l.ObserveMemory(kind(), c, *resource.NewQuantity(int64(rapid.IntRange(1, 5).Draw(r, "Gi"))<<30, resource.BinarySI))
			},
			"overlay": func() { l.overlay = map[string]float64{kind(): 9}; l.overlays++ },
			"image":   func() { c.Status.AMIs[0].ID += "x" },
		}
		names := []string{"mark", "no spot", "subnet", "wait", "price", "spot", "shift", "reserved", "took", "observed", "overlay", "image"}
		for range rapid.IntRange(1, 12).Draw(r, "steps") {
			steps[pick("step", names...)]()
			got := l.types(t, c)
			fresh := New(l.options)
			fresh.region, fresh.seen = l.region, l.seen
			want, err := fresh.Types(c, nil)
			if err != nil {
				r.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				r.Fatalf("cached list (-fresh +cached):\n%s", diff)
			}
		}
	})
}

// A plan that is being made keeps its list, whatever happens meanwhile; for the race detector.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	l := newFixture(t, nil, allTypes(t)[:60]...)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 20 {
				l.unavailable.Mark("spot", "a1.large", "us-east-1a", Group{}, "ICE")
				l.reservations.Set("cr-1", 1, l.clock)
				for _, it := range l.types(t, class(awsv1.FamilyAL2023, reserve)) {
					_ = sold(&it)
				}
				l.ObserveMemory("a1.large", class(awsv1.FamilyAL2023), resource.MustParse("3Gi"))
				l.Raw("a1.large")
			}
		})
		group.Go(func() {
			for range 5 {
				if err := l.Refresh(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
}

// S-101: a search of the log for "instance type" finds what had no capacity.
func TestMarksAreLogged(t *testing.T) {
	t.Parallel()
	var lines []string
	u := NewUnavailable(func() time.Time { return time.Time{} })
	u.Log = funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{Verbosity: 1})
	u.Mark("spot", "m5.large", "us-east-1a", Group{ID: "pg-1", Partition: "2"}, "ICE")
	u.MarkCapacityType("spot", "quota")
	u.MarkSubnet("subnet-a", "full")
	for i, want := range []string{
		"instance type m5.large is not available as spot in zone us-east-1a in placement group pg-1 partition 2",
		"instance type of any name is not available as spot",
		"instance type of any name is not available in subnet subnet-a",
	} {
		if !strings.Contains(lines[i], want) || !strings.Contains(lines[i], "removing offering from offerings") {
			t.Errorf("line %d is %s, want %s", i, lines[i], want)
		}
	}
}
