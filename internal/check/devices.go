package check

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// checkDevices verifies what can be said of ResourceClaims without the search for devices: that they exist, that a claim is
// in one place, and that a place has at least as many devices as its claims request.
func (c *checker) checkDevices() {
	uses := slices.ContainsFunc(c.places, func(at *place) bool { return len(claimsOf(at)) > 0 })
	if !uses {
		return
	}
	if c.view.Devices == nil {
		for _, at := range c.places {
			if len(claimsOf(at)) > 0 {
				c.add(PodInvalid, "DR-01", at.name, "no pod with resource claims", claimsOf(at)[0])
			}
		}
		return
	}
	x := c.indexDevices()
	first := map[string]*place{}
	for _, at := range c.places {
		wanted := int64(0)
		for _, key := range claimsOf(at) {
			claim := x.claim(key)
			if claim == nil {
				c.add(PodInvalid, "DR-04", at.name, "claims that exist", key)
				continue
			}
			if x.isOnKeptNode(claim) {
				c.reachesDevices(at, key, claim.Status.Allocation.NodeSelector)
				continue
			}
			if other := first[key]; other != nil && x.wide == 0 {
				c.add(ClaimApart, "DR-09", at.name, key+" on "+other.name, "here")
			}
			first[key] = at
			wanted += leastDevices(claim)
		}
		if wanted == 0 {
			continue
		}
		if have := c.devicesAt(at, x) + x.wide; wanted > have {
			c.add(DevicesShort, "DR-07", at.name, strconv.FormatInt(wanted, 10)+" devices", strconv.FormatInt(have, 10))
		}
	}
}

// deviceIndex is what the plan says about devices, by name.
type deviceIndex struct {
	claims    map[string]*resourcev1.ResourceClaim
	made      map[string]*resourcev1.ResourceClaim // for extended resources
	come      map[string]bool                      // UIDs of the pods that the plan places, and of those that leave their node
	published map[string]int64                     // devices, by node; of several generations all
	held      map[string]int64                     // of these, by claims that stay
	observed  map[string]int64                     // the most that a node of an instance type publishes
	wide      int64                                // devices that more than one node can reach
}

func (c *checker) indexDevices() *deviceIndex {
	x := &deviceIndex{made: cluster.ExtendedClaims(c.view.Devices.Claims), claims: map[string]*resourcev1.ResourceClaim{}, come: map[string]bool{}, published: map[string]int64{}, held: map[string]int64{}, observed: map[string]int64{}}
	for _, at := range c.places {
		for _, p := range at.come {
			x.come[p.UID] = true
		}
	}
	for i := range c.view.Nodes {
		n := &c.view.Nodes[i]
		for j := range n.Pods {
			if p := &n.Pods[j]; p.Terminating || n.Deleting && !p.Stays {
				x.come[p.UID] = true // its successors may have its claim elsewhere (DR-11)
			}
		}
	}
	type pool struct{ driver, name string }
	nodes := map[pool]string{}
	for _, s := range c.view.Devices.Slices {
		if s.Spec.NodeName == nil || *s.Spec.NodeName == "" {
			x.wide += countDevices(s.Spec.Devices)
			continue
		}
		x.published[*s.Spec.NodeName] += countDevices(s.Spec.Devices)
		nodes[pool{s.Spec.Driver, s.Spec.Pool.Name}] = *s.Spec.NodeName
	}
	for i := range c.view.Nodes {
		n := &c.view.Nodes[i]
		x.observed[n.InstanceType] = max(x.observed[n.InstanceType], x.published[n.Name])
	}
	for _, claim := range c.view.Devices.Claims {
		x.claims[claim.Namespace+"/"+claim.Name] = claim
		if a := claim.Status.Allocation; a != nil && x.isOnKeptNode(claim) {
			for i := range a.Devices.Results {
				if r := &a.Devices.Results[i]; r.ShareID == nil {
					x.held[nodes[pool{r.Driver, r.Pool}]]++
				}
			}
		}
	}
	return x
}

// claim is the claim of a key; nil if there is none.
func (x *deviceIndex) claim(key string) *resourcev1.ResourceClaim {
	if c := x.claims[key]; c != nil {
		return c
	}
	c, _ := cluster.ExtendedClaim(key, x.made)
	return c
}

// isOnKeptNode reports whether a claim keeps the devices it has: not all pods that it is reserved for are placed by the
// plan, or leave their node.
func (x *deviceIndex) isOnKeptNode(claim *resourcev1.ResourceClaim) bool {
	users := claim.Status.ReservedFor
	return claim.Status.Allocation != nil && (len(users) == 0 ||
		slices.ContainsFunc(users, func(user resourcev1.ResourceClaimConsumerReference) bool { return !x.come[string(user.UID)] }))
}

// reachesDevices verifies that a place matches the node selector of an allocated claim, as far as it is of names and
// lists of values.
func (c *checker) reachesDevices(at *place, key string, s *corev1.NodeSelector) {
	if s == nil {
		return
	}
	var places []reqs.Set
	for _, term := range s.NodeSelectorTerms {
		labels, known := reqs.Set{}, true
		for _, e := range term.MatchExpressions {
			labels[e.Key] = reqs.Req{Values: slices.Sorted(slices.Values(e.Values))}
			known = known && e.Operator == corev1.NodeSelectorOpIn
		}
		for _, f := range term.MatchFields {
			if f.Key == "metadata.name" && f.Operator == corev1.NodeSelectorOpIn && (at.node == nil || !slices.Contains(f.Values, at.node.Name)) {
				labels = nil
			}
		}
		if !known {
			return
		}
		if labels != nil {
			places = append(places, labels)
		}
	}
	if len(places) == 0 || len(holding(at, places)) == 0 {
		c.add(DevicesElsewhere, "DR-06", at.name, key+" where its devices are", "here")
	}
}

// claimsOf are the distinct claims of the pods that the plan puts at a place, in order.
func claimsOf(at *place) []string {
	var keys []string
	for _, p := range at.come {
		keys = append(keys, shapeOf(p.Shape).Devices...)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// leastDevices is how many devices a claim takes at least.
func leastDevices(claim *resourcev1.ResourceClaim) int64 {
	count := func(mode resourcev1.DeviceAllocationMode, n int64) int64 {
		if mode == resourcev1.DeviceAllocationModeAll {
			return 1
		}
		return max(n, 1)
	}
	total := int64(0)
	for i := range claim.Spec.Devices.Requests {
		r := &claim.Spec.Devices.Requests[i]
		switch {
		case r.Exactly != nil && (r.Exactly.AdminAccess == nil || !*r.Exactly.AdminAccess):
			total += count(r.Exactly.AllocationMode, r.Exactly.Count)
		case len(r.FirstAvailable) > 0:
			least := count(r.FirstAvailable[0].AllocationMode, r.FirstAvailable[0].Count)
			for j := range r.FirstAvailable {
				least = min(least, count(r.FirstAvailable[j].AllocationMode, r.FirstAvailable[j].Count))
			}
			total += least
		}
	}
	return total
}

// countDevices counts devices. One that can be shared counts as very many.
func countDevices(list []resourcev1.Device) int64 {
	const many = 1 << 20
	n := int64(0)
	for i := range list {
		n++
		if list[i].AllowMultipleAllocations != nil && *list[i].AllowMultipleAllocations {
			n += many
		}
	}
	return n
}

// devicesAt is the most devices that a place has or can have for the pods that the plan puts there.
func (c *checker) devicesAt(at *place, x *deviceIndex) int64 {
	switch {
	case at.node != nil && at.node.Initialized:
		return x.published[at.node.Name] - x.held[at.node.Name]
	case at.node != nil: // it may become any type of its pool
		most := int64(0)
		for i := range c.view.Pools {
			for j := range c.view.Pools[i].Types {
				if c.view.Pools[i].Name == at.node.Pool {
					most = max(most, x.expected(&c.view.Pools[i].Types[j]))
				}
			}
		}
		return most
	}
	least := int64(0)
	for i, t := range at.types { // whichever is launched must do
		if n := x.expected(t); i == 0 || n < least {
			least = n
		}
	}
	return least
}

// expected is the most devices that a node of a type can be expected to have.
func (x *deviceIndex) expected(t *catalog.InstanceType) int64 {
	n := int64(0)
	for i := range t.Devices {
		n += countDevices(t.Devices[i].Devices)
	}
	return max(n, x.observed[t.Name])
}
