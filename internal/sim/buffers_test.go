package sim_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/sim"
)

// bufferRun is a run with one to three buffers, some of which are resized meanwhile.
func bufferRun(seed uint64) sim.Config {
	c := sim.Plain(seed)
	rnd := rand.New(rand.NewPCG(seed, 0xb0ff))
	for i := range 1 + rnd.IntN(3) {
		milli := []int64{250, 500, 1000, 1900}[rnd.IntN(4)]
		b := sim.Buffer{Name: fmt.Sprintf("buffer%d", i), Replicas: int32(rnd.IntN(5)), Milli: milli, MiB: milli * int64(1+rnd.IntN(4))}
		c.Buffers = append(c.Buffers, b)
		if rnd.IntN(2) == 0 {
			size := int32(rnd.IntN(6))
			c.Changes = append(c.Changes, sim.Change{
				At: time.Duration(rnd.Int64N(int64(c.Active))), What: fmt.Sprintf("%s is resized to %d", b.Name, size), Do: func(w *sim.World) { w.ResizeBuffer(b.Name, size) },
			})
		}
	}
	slices.SortStableFunc(c.Changes, func(a, b sim.Change) int { return int(a.At - b.At) })
	return c
}

// CB-12, CB-16: with buffers, too, no rule is broken in an hour of trouble: real pods run, and in three hours of quiet the
// cluster comes to rest, with room for every buffer.
func TestCB_16_BuffersComeToRest(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); seed <= bufferSeeds; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			c := bufferRun(seed)
			if *one == seed {
				c.Log = func(line string) { t.Log(line) }
			}
			report(t, seed, sim.Run(c))
		})
	}
}

const bufferSeeds = 60

// A disruption that does not know of virtual pods removes what provisioning launches for them, again and again: the
// simulator has to find that.
func TestPlantedBlindDisruption(t *testing.T) {
	t.Parallel()
	c := sim.Plain(3)
	c.Apps, c.Changes = nil, nil
	c.Pools = c.Pools[:1]
	c.Pools[0].Spec.Limits, c.Pools[0].Spec.Disruption = nil, karpv1.Disruption{ConsolidationPolicy: karpv1.ConsolidationWhenEmptyOrUnderutilized, ConsolidateAfter: "30s"}
	c.Pools[0].Spec.Template.Spec.ExpireAfter = "Never"
	c.NeverJoins = 0
	c.Buffers = []sim.Buffer{{Name: "spare", Replicas: 3, Milli: 1000, MiB: 2048}}
	if r := sim.Run(c); len(r.Violations) > 0 || r.Stats.Nodes == 0 || r.Stats.Voluntary > 0 {
		t.Fatalf("without the bug: %v, %+v", r.Violations, r.Stats)
	}
	c.Decide = func(v disrupt.View) disrupt.Decision {
		v.PodsToPlace = slices.DeleteFunc(slices.Clone(v.PodsToPlace), func(p cluster.Pod) bool { return p.Virtual })
		return disrupt.Next(v, nil)
	}
	if r := sim.Run(c); len(r.Violations) == 0 {
		t.Errorf("not found: %+v", r.Stats)
	}
}
