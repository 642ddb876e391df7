package sim

import (
	"time"
)

// faults are the faults that are injected.
func (m *maker) faults() {
	for _, f := range []struct {
		share float64
		most  int
		what  string
		do    func(*World)
	}{
		{0.5, 3, "fault: the controller dies", (*World).crash},
		{0.5, 3, "fault: the controller will die at some write", (*World).crashSoon},
		{0.4, 3, "fault: offerings run out", (*World).exhaustOfferings},
		{0.2, 1, "fault: launches fail", func(w *World) { w.market.failing = w.now.Add(w.between(time.Minute, 12*time.Minute)) }},
		{0.2, 1, "fault: the cloud does not respond", func(w *World) { w.market.mute = w.now.Add(w.between(10*time.Second, 5*time.Minute)) }},
		{0.5, 4, "fault: a spot machine is taken back", (*World).interruptOne},
		{0.3, 1, "fault: a machine breaks", (*World).breakOne},
		{0.4, 3, "fault: a node flaps", (*World).flapReadiness},
		{0.4, 3, "fault: a watch stands still", (*World).stallWatch},
	} {
		if !m.chance(f.share) {
			continue
		}
		for range 1 + m.IntN(f.most) {
			m.change(f.what, f.do)
		}
	}
}

// crashSoon lets the process die between two of its next writes.
func (w *World) crashSoon() {
	if w.process != nil {
		w.process.writesUntilCrash = 1 + w.rnd.IntN(25)
	}
}

// exhaustOfferings removes the capacity of some offerings for some time.
func (w *World) exhaustOfferings() {
	until := w.now.Add(w.between(time.Minute, 20*time.Minute))
	share := w.rnd.Float64()
	for i := range w.market.machines {
		for _, zone := range Zones() {
			for _, o := range w.market.machines[i].offers(zone) {
				if w.rnd.Float64() < share {
					w.market.gone[offering(w.market.machines[i].Name, zone, o.CapacityType)] = until
				}
			}
		}
	}
}

// interruptOne takes a spot machine back.
func (w *World) interruptOne() {
	for _, i := range w.market.running() {
		if i.capacityType == "spot" && w.rnd.IntN(2) == 0 {
			w.market.interrupt(i)
			return
		}
	}
}

// breakOne ends a machine without a word.
func (w *World) breakOne() {
	if list := w.market.running(); len(list) > 0 {
		i := list[w.rnd.IntN(len(list))]
		w.logf("fault: %s is gone", i.id)
		w.market.removeInstance(i)
	}
}

// flapReadiness has a node be not ready for a while.
func (w *World) flapReadiness() {
	names := sorted(w.api.nodes)
	if len(names) == 0 {
		return
	}
	name := names[w.rnd.IntN(len(names))]
	w.logf("fault: node %s is not ready", name)
	w.setReady(name, false)
	w.after(w.between(10*time.Second, 7*time.Minute), func() { w.setReady(name, true) })
}

// stallWatch stops a watch for a while; then everything comes at once.
func (w *World) stallWatch() {
	if w.process != nil {
		k := kind(w.rnd.IntN(int(kinds)))
		w.logf("fault: the watch of %ss stands still", k)
		w.process.stalled[k] = w.now.Add(w.between(5*time.Second, 2*time.Minute))
	}
}
