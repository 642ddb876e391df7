package snapshot_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/snapshot"
	"github.com/dovetail-sh/dovetail/internal/snapshot/snapshottest"
)

func TestWI_25_EqualListsAreOneCatalogue(t *testing.T) {
	t.Parallel()
	types := func(price float64) []catalog.InstanceType {
		return []catalog.InstanceType{
			{Name: "a", Offerings: []catalog.Offering{{Zone: "z", Price: 1}}}, {Name: "b", Offerings: []catalog.Offering{{Zone: "z", Price: price}}},
		}
	}
	all, first := snapshot.Catalogues{Lanes: resources.NewTable()}, types(1)
	for _, pool := range []struct {
		name    string
		types   []catalog.InstanceType
		problem string
	}{
		{"one", first, ""},
		{"the-same", first, ""},
		{"equal", types(1), ""},
		{"dearer", types(2), ""},
		{"fewer", first[:1], ""},
		{"unknown", nil, "no subnets"},
		{"empty", nil, ""},
		{"unknown-too", nil, "no subnets"},
		{"dearer-too", types(2), ""},
	} {
		all.Add(pool.name, pool.types, pool.problem)
	}
	var got []string
	for _, c := range all.List() {
		got = append(got, fmt.Sprintf("%s: %d %s", strings.Join(c.NodePools, " "), len(c.InstanceTypes), c.Problem))
	}
	want := []string{"one the-same equal: 2 ", "dearer dearer-too: 2 ", "fewer: 1 ", "unknown unknown-too: 0 no subnets", "empty: 0 "}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("catalogues (-want +got):\n%s", diff)
	}
}

// How large a snapshot of a cluster with 100 NodePools is, as a file and in memory: with a catalogue for each NodePool, as it
// was before, and with one for all.
func BenchmarkCatalogues(b *testing.B) {
	f := snapshottest.New(snapshottest.Options{Nodes: 10, Families: 100})
	c, err := f.Cluster(awsv1.Vocabulary())
	if err != nil {
		b.Fatal(err)
	}
	types, table := c.View.Cluster.Pools[0].Types, c.View.Cluster.Resources
	for name, share := range map[string]bool{"each": false, "shared": true} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				var held runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&held)
				before := held.HeapAlloc
				all := []*snapshot.Catalogues{{Lanes: table}}
				for i := range 100 {
					if i > 0 && !share {
						all = append(all, &snapshot.Catalogues{Lanes: table})
					}
					all[len(all)-1].Add(fmt.Sprintf("pool-%03d", i), types, "")
				}
				file := *f
				file.Catalogues = nil
				for _, one := range all {
					file.Catalogues = slices.Concat(file.Catalogues, one.List())
				}
				runtime.GC()
				runtime.ReadMemStats(&held)
				size := &counter{}
				if err := file.Encode(size); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(size.bytes)/(1<<20), "MiB-file")
				b.ReportMetric((float64(held.HeapAlloc)-float64(before))/(1<<20), "MiB-heap")
				runtime.KeepAlive(file)
			}
		})
	}
}

type counter struct{ bytes int }

func (c *counter) Write(p []byte) (int, error) {
	c.bytes += len(p)
	return len(p), nil
}
