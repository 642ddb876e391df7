package check

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// oldNode verifies the pods placed on a node that exists or is being launched (scheduling 6.1).
func (c *checker) oldNode(at *place) {
	for _, p := range at.come {
		c.podOn(at, p)
		if taint, refused := untolerated(shapeOf(p.Shape), at.node.Taints); refused {
			c.add(TaintNotTolerated, "scheduling 6.1", "pod/"+p.Key.String(), "no taint "+taint, at.name)
		}
	}
	requests := at.requestsOfArrivals()
	free := c.remainder(at)
	if lane, short := resources.Short(&requests, &free); short {
		c.add(TooSmall, "SC-11", at.name, fmt.Sprintf("%s %d", c.view.Resources.Name(lane), requests.At(lane)), strconv.FormatInt(free.At(lane), 10))
	}
	c.ports(at, slices.Concat(at.stay, at.leave), nil)
	c.checkVolumeLimits(at)
}

// remainder is what an existing node has left: allocatable less bound pods less the DaemonSet pods
// still expected, where what DaemonSets already hold is credited resource by resource.
func (c *checker) remainder(at *place) resources.Vec {
	free := at.node.Allocatable
	var expected, held resources.Vec
	for i := range c.view.Daemons {
		shape := shapeOf(c.view.Daemons[i].Shape)
		if _, refused := untolerated(shape, at.node.Taints); refused || len(shape.Invalid) > 0 || len(shape.Devices) > 0 { // DR-14: where devices are is not judged here
			continue
		}
		if slices.ContainsFunc(alternatives(shape.Required), func(term reqs.Set) bool { _, ok := at.fits(term); return ok }) {
			expected = resources.Add(expected, shape.Requests)
		}
	}
	for _, p := range slices.Concat(at.stay, at.leave) {
		requests := shapeOf(p.Shape).Requests
		free = resources.Sub(free, requests)
		if p.Daemon {
			held = resources.Add(held, requests)
		}
	}
	return resources.Sub(free, resources.Max(resources.Sub(expected, held), resources.Vec{}))
}

// podOn judges what a pod says about its node alone.
func (c *checker) podOn(at *place, p *cluster.Pod) {
	subject, shape := "pod/"+p.Key.String(), shapeOf(p.Shape)
	if len(shape.Invalid) > 0 || shape.Refuses {
		c.add(PodInvalid, "scheduling 3.4", subject, "to be left alone", "a place on "+at.name)
	}
	if len(holding(at, shape.Required)) == 0 {
		want, have := lacking(at, alternatives(shape.Required))
		c.add(RequiredUnmet, "SC-12", subject, want, have)
	}
	if len(holding(at, shape.Zones)) == 0 {
		want, have := lacking(at, shape.Zones)
		c.add(VolumeZoneUnmet, "SC-38", subject, want, have)
	}
}

// lacking says which label each alternative fails on.
func lacking(at *place, terms []reqs.Set) (want, have string) {
	var wants, haves []string
	for _, term := range terms {
		key, _ := at.fits(term)
		wants, haves = append(wants, term.String()), append(haves, key+" "+at.domainOf(key).String())
	}
	return strings.Join(wants, " or "), at.name + " with " + strings.Join(haves, " and ")
}

// holding returns the alternatives that certainly hold at a place. Which of several the planner used is not recorded,
// so callers may use any of them.
func holding(at *place, terms []reqs.Set) []reqs.Set {
	var hold []reqs.Set
	for _, term := range alternatives(terms) {
		if _, ok := at.fits(term); ok {
			hold = append(hold, term)
		}
	}
	return hold
}

// ports judges host ports of the pods that come, against each other, the pods already there and
// DaemonSets (SC-25). Conflicts among the others are not the plan's.
func (c *checker) ports(at *place, there []*cluster.Pod, daemons []*cluster.Shape) {
	for i, p := range at.come {
		others := slices.Concat(shapesOf(there), shapesOf(at.come[:i]), daemons)
		for _, port := range shapeOf(p.Shape).HostPorts {
			for _, other := range others {
				if slices.ContainsFunc(other.HostPorts, func(o cluster.HostPort) bool { return hostPortsConflict(port, o) }) {
					c.add(PortConflict, "SC-25", "pod/"+p.Key.String(), fmt.Sprintf("port %d/%s free", port.Port, port.Protocol), at.name+" where it is taken")
				}
			}
		}
	}
}

// hostPortsConflict is SC-25, empty and :: read as 0.0.0.0.
func hostPortsConflict(a, b cluster.HostPort) bool {
	unspecified := func(ip string) bool { return ip == "" || ip == "::" || ip == "0.0.0.0" }
	return a.Port == b.Port && a.Protocol == b.Protocol && (a.IP == b.IP || unspecified(a.IP) || unspecified(b.IP))
}

// checkVolumeLimits judges volume limits of an existing node. A driver that was over its limit before, and
// gets no further claim, is not the plan's fault.
func (c *checker) checkVolumeLimits(at *place) {
	before, after := claims(slices.Concat(at.stay, at.leave)), claims(slices.Concat(at.stay, at.leave, at.come))
	for _, driver := range sortedKeys(at.node.VolumeLimits) {
		limit := at.node.VolumeLimits[driver]
		if n := len(after[driver]); n > limit && n > len(before[driver]) {
			c.add(VolumeLimit, "SC-41", at.name, fmt.Sprintf("at most %d volumes of %s", limit, driver), strconv.Itoa(n))
		}
	}
}

// claims are the distinct claims of the pods by driver (SC-41).
func claims(pods []*cluster.Pod) map[string]map[string]bool {
	by := map[string]map[string]bool{}
	for _, p := range pods {
		for _, v := range shapeOf(p.Shape).Volumes {
			if by[v.Driver] == nil {
				by[v.Driver] = map[string]bool{}
			}
			by[v.Driver][v.Claim] = true
		}
	}
	return by
}
