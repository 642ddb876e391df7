package store

import (
	"testing"

	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
)

// FM P02, OV-12: the price of a node that is 0 is known if a NodeOverlay made it so, and only then.
func TestFM_P02_PricesOfNodes(t *testing.T) {
	t.Parallel()
	at := newIndex(map[string][]catalog.InstanceType{"general": {{Name: "small", Offerings: []catalog.Offering{
		{Zone: "a", CapacityType: "on-demand", Price: 0.1}, {Zone: "b", CapacityType: "on-demand", Free: true}, {Zone: "c", CapacityType: "on-demand"},
	}}}})
	for zone, want := range map[string]struct {
		usd    float64
		priced bool
	}{"a": {0.1, true}, "b": {0, true}, "c": {0, false}, "d": {0, false}} {
		n := cluster.Node{Pool: "general", InstanceType: "small", Zone: zone, CapacityType: "on-demand"}
		if n.Price, n.Free = at.price(&n); n.Price != want.usd || n.Priced() != want.priced {
			t.Errorf("zone %s: price %v, known %v; want %v, %v", zone, n.Price, n.Priced(), want.usd, want.priced)
		}
	}
}
