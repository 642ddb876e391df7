package solve_test

import (
	"fmt"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// deviceFleet has nodes with eight GPUs each, some of which are held, and pods that each need one by a claim of their own.
func deviceFleet(nodes, held, pods int) *deviceWorld {
	w := newDeviceWorld()
	w.view.Pools[0].Types[2].Devices[0].Devices = gpus(8, "b")
	for i := range nodes {
		name := fmt.Sprintf("n%03d", i)
		w.node(name, "g4", 16, gpus(8, "b"), func(n *cluster.Node) { n.Price, n.Zone, n.CapacityType = 3, "z1", "on-demand" })
		for j := range held {
			allocate(w.claim(fmt.Sprintf("%s-%d", name, j), 1, ""), name, fmt.Sprint("gpu-", j), fmt.Sprintf("%s-%d", name, j))
		}
	}
	for i := range pods {
		claim := fmt.Sprintf("c%03d", i)
		w.claim(claim, 1, `device.attributes["`+gpuDriver+`"].model == "b"`)
		w.pod(fmt.Sprintf("p%03d", i), 1, claim)
	}
	return w
}

// plainFleet is the same with pods that use no claims.
func plainFleet() *deviceWorld {
	w := deviceFleet(200, 2, 500)
	for i := range w.pods {
		w.pods[i] = devicePod(w.pods[i].Key.Name, 1)
		w.pods[i].Shape = w.pods[0].Shape
	}
	return w
}

// BenchmarkDevices is a plan for pods with claims: of which nodes have free devices, of which none has, and without any
// node. The last two show what the feature costs pods without claims: switched off, and switched on.
func BenchmarkDevices(b *testing.B) {
	for _, tc := range []struct {
		name string
		make func() *deviceWorld
	}{
		{"free", func() *deviceWorld { return deviceFleet(200, 2, 500) }},
		{"held", func() *deviceWorld { return deviceFleet(200, 8, 500) }},
		{"new", func() *deviceWorld { return deviceFleet(0, 0, 500) }},
		{"one", func() *deviceWorld { return deviceFleet(1, 0, 1) }},
		{"off", func() *deviceWorld { w := plainFleet(); w.view.Devices = nil; return w }},
		{"unused", plainFleet},
	} {
		w := tc.make()
		b.Run(tc.name, func(b *testing.B) {
			b.ReportAllocs()
			var plan solve.Plan
			for b.Loop() {
				plan = w.solve()
			}
			b.ReportMetric(float64(len(plan.Bind)), "binds")
			b.ReportMetric(float64(len(plan.Create)), "nodes")
			if len(plan.Unplaced) > 0 {
				b.Errorf("%d pods have no place: %v", len(plan.Unplaced), plan.Unplaced[0].Why)
			}
		})
	}
}

// BenchmarkMovesOfDevices is consolidation of nodes whose pods hold two of eight devices each.
func BenchmarkMovesOfDevices(b *testing.B) {
	w := deviceFleet(100, 0, 0)
	var names []string
	for i := range w.view.Nodes {
		names = append(names, w.view.Nodes[i].Name)
		for j := range 2 {
			name := fmt.Sprintf("%s-%d", names[i], j)
			w.claim(name, 1, "")
			w.running(names[i], name, 1, name)
		}
	}
	q := solve.Question{View: &w.view, Candidates: names, Policy: solve.Policy{Workers: 1}}
	b.ReportAllocs()
	removed := 0
	for b.Loop() {
		removed = 0
		for _, m := range solve.Consolidate(q, nil).Moves {
			removed += len(m.Remove)
		}
	}
	b.ReportMetric(float64(removed), "removed")
}

// What is known of devices is read only for pods with claims: other plans do the same as with the feature off.
func TestDevicesCostNothingWithoutClaims(t *testing.T) {
	on, off := plainFleet(), plainFleet()
	off.view.Devices = nil
	with, without := testing.AllocsPerRun(5, func() { on.solve() }), testing.AllocsPerRun(5, func() { off.solve() })
	const few = 50 // for some structs; there are 400 claims
	if with > without+few {
		t.Errorf("%v allocations, %v with the feature off", with, without)
	}
}
