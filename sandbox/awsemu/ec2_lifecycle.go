package awsemu

import (
	"cmp"
	"container/heap"
	"maps"
	"slices"
	"strings"
	"time"
)

// nextDue is when something happens to the instance by itself; zero means never.
func (i *Instance) nextDue() time.Time {
	var next time.Time
	sooner := func(t time.Time) {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	sooner(i.Due)
	if i.State != stateShuttingDown && i.holdsResources() {
		sooner(i.Interrupt)
		sooner(i.Warning)
	}
	if len(i.TagChanges) > 0 {
		sooner(i.TagChanges[0].At)
	}
	return next
}

// dueHeap is instances by when something happens to them, then by id.
type dueHeap []dueInstance

type dueInstance struct {
	at time.Time
	*Instance
}

func (h dueHeap) Len() int      { return len(h) }
func (h dueHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h dueHeap) Less(i, j int) bool {
	return cmp.Or(h[i].at.Compare(h[j].at), strings.Compare(h[i].ID, h[j].ID)) < 0
}

func (h *dueHeap) Push(x any) {
	if d, ok := x.(dueInstance); ok {
		*h = append(*h, d)
	}
}

func (h *dueHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// Why instances end.
const (
	spotTermination = "Server.SpotInstanceTermination"
	userShutdown    = "Client.UserInitiatedShutdown"
)

// setStateReason notes why an instance goes down.
func (i *Instance) setStateReason(at time.Time, code, message string) {
	i.ReasonCode, i.ReasonMessage, i.Transition = code, message, code
	if code == userShutdown {
		i.Transition = "User initiated (" + at.UTC().Format("2006-01-02 15:04:05") + " GMT)"
	}
}

// advanceEC2 lets everything happen that is due, in the order of time, and reports whether there was
// anything. The emulator must be locked.
func (e *Emulator) advanceEC2(now time.Time) bool {
	s := e.ec2()
	var due dueHeap
	for _, i := range s.Instances {
		if at := i.nextDue(); !at.IsZero() && !at.After(now) {
			due = append(due, dueInstance{at: at, Instance: i})
		}
	}
	heap.Init(&due)
	changed := len(due) > 0
	for len(due) > 0 {
		next, ok := heap.Pop(&due).(dueInstance)
		if !ok {
			break
		}
		e.advanceInstance(next.at, next.Instance)
		if s.Instances[next.ID] != next.Instance {
			continue
		}
		if at := next.nextDue(); !at.IsZero() && !at.After(now) {
			heap.Push(&due, dueInstance{at: at, Instance: next.Instance})
		}
	}
	before := len(s.ICE)
	s.ICE = slices.DeleteFunc(s.ICE, func(p *ICEPool) bool { return !p.Expires.IsZero() && !p.Expires.After(now) })
	return e.loseReservations(now) || changed || len(s.ICE) != before
}

// nextEC2 is when the next thing happens by itself, at most a day ahead.
func (e *Emulator) nextEC2(now time.Time) time.Time {
	next := now.Add(24 * time.Hour)
	for _, i := range e.ec2().Instances {
		if at := i.nextDue(); !at.IsZero() && at.Before(next) {
			next = at
		}
	}
	for _, r := range e.ec2().Reservations {
		if r.End.After(now) && r.End.Before(next) {
			next = r.End
		}
	}
	for _, p := range e.ec2().ICE {
		if !p.Expires.IsZero() && p.Expires.Before(next) {
			next = p.Expires
		}
	}
	return next
}

// advanceInstance lets one thing happen to an instance.
func (e *Emulator) advanceInstance(at time.Time, i *Instance) {
	switch {
	case len(i.TagChanges) > 0 && !i.TagChanges[0].At.After(at):
		tags := maps.Clone(i.Tags)
		if tags == nil {
			tags = map[string]string{}
		}
		i.TagChanges[0].apply(tags)
		i.Tags, i.TagChanges = tags, i.TagChanges[1:]
	case !i.Interrupt.IsZero() && !i.Interrupt.After(at) && i.holdsResources() && i.State != stateShuttingDown:
		code := spotTermination
		if i.CapacityType != capacitySpot {
			code = "Server.CapacityReservationTermination"
		}
		e.terminate(at, i, code, code+": the notice ended")
	case !i.Warning.IsZero() && !i.Warning.After(at) && i.holdsResources() && i.State != stateShuttingDown:
		e.sendSpotWarning(at, i, at.Add(time.Duration(e.scaledDuration(e.ec2().Timing.Notice))))
	case i.State == statePending:
		i.Running = at
		e.enterState(at, i, stateRunning, 0)
	case i.State == stateShuttingDown:
		e.terminateInstance(at, i)
	case i.State == stateStopping:
		e.enterState(at, i, stateStopped, 0)
	case i.State == stateTerminated:
		delete(e.ec2().Instances, i.ID)
		delete(e.ec2().StatusChecks, i.ID)
	default:
		i.Due = time.Time{} // imported with a date that means nothing
	}
}

// scaledDuration is how long something takes at the speed of this account, on a clock whose time stamps stay those of AWS.
func (e *Emulator) scaledDuration(d Duration) Duration { return max(1, Duration(float64(d)/e.speed)) }

// enterState brings an instance into a state that ends by itself after a while, or stays for 0.
func (e *Emulator) enterState(at time.Time, i *Instance, state string, lasts Duration) {
	i.State, i.Due = state, time.Time{}
	if lasts > 0 {
		i.Due = at.Add(time.Duration(lasts))
	}
	e.publishEvent(at, EventStateChange, []string{e.accountARN("ec2", "instance/"+i.ID)}, map[string]string{"instance-id": i.ID, "state": state})
}

// terminate begins the end of an instance; once more does nothing.
func (e *Emulator) terminate(at time.Time, i *Instance, code, message string) {
	if i.State == stateShuttingDown || !i.holdsResources() {
		return
	}
	i.setStateReason(at, code, message)
	e.enterState(at, i, stateShuttingDown, e.scaledDuration(e.ec2().Timing.ShuttingDown))
}

// terminateInstance terminates an instance and gives back what it took.
func (e *Emulator) terminateInstance(at time.Time, i *Instance) {
	if !i.holdsResources() {
		return
	}
	s := e.ec2()
	if subnet := s.Subnets[i.Subnet]; subnet != nil {
		subnet.Free += i.Addresses
	}
	if r := s.Reservations[i.Reservation]; r != nil {
		e.giveBack(r)
	}
	e.releaseVolumes(i)
	i.Terminated = at
	// An emulated hour may be over in a minute; clients that look up a terminated instance get no less time for that.
	seen := Duration(float64(s.Timing.Terminated) * max(1, e.clock.Speed()))
	e.enterState(at, i, stateTerminated, max(1, seen))
}

// stop begins to stop an instance.
func (e *Emulator) stop(at time.Time, i *Instance) {
	if i.State == statePending || i.State == stateRunning {
		i.setStateReason(at, userShutdown, userShutdown+": User initiated shutdown")
		e.enterState(at, i, stateStopping, e.scaledDuration(e.ec2().Timing.ShuttingDown))
	}
}

// start brings a stopped instance back.
func (e *Emulator) start(at time.Time, i *Instance) {
	i.ReasonCode, i.ReasonMessage, i.Transition = "", "", ""
	i.Launched, i.Running = at, time.Time{}
	e.enterState(at, i, statePending, e.scaledDuration(e.ec2().Timing.Pending))
}
