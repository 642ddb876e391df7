package disrupt

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

// replaceStaticDrifted replaces drifted nodes of static pools, one by one from the template (disruption 18, V15-48,
// V15-49). The pods of a node are not planned for: the pool keeps its size.
func (d *Decision) replaceStaticDrifted(v *View, _ *planningState) {
	if !v.Methods.Static {
		return
	}
	byPool := map[string][]*cluster.ManagedNode{}
	for _, n := range drifted(v, true) {
		byPool[n.Pool] = append(byPool[n.Pool], n)
		d.Eligible[karpv1.ReasonDrifted]++
	}
	left := d.remainingBudgets(karpv1.ReasonDrifted)
	for _, name := range slices.Sorted(maps.Keys(byPool)) {
		if until := v.DriftBackoff[name]; v.Now.Before(until) {
			d.refuseEach(byPool[name], reason.Reason{Code: reason.DriftRests, Have: name, Want: until.UTC().Format(time.RFC3339)})
			continue
		}
		d.staticPool(v, name, byPool[name], left[name])
	}
}

// staticPool replaces some nodes of one pool, within a budget.
func (d *Decision) staticPool(v *View, name string, nodes []*cluster.ManagedNode, most int) {
	pool := v.Pools[name]
	offered, full := reservationsFull(&pool.Pool)
	full = full && v.Methods.TerminateFirstDrift
	if full { // nodes whose reservation can be used again go first
		slices.SortStableFunc(nodes, func(a, b *cluster.ManagedNode) int {
			return cmp.Compare(btoi(offered[b.Reservation]), btoi(offered[a.Reservation]))
		})
	}
	for _, n := range nodes[min(most, len(nodes)):] {
		d.refuseOverBudget(n, karpv1.ReasonDrifted)
	}
	nodes = nodes[:min(most, len(nodes))]
	if have := pool.Running + countCommandedNodes(v, name); have > pool.Replicas {
		d.refuseEach(nodes, reason.Reason{Code: reason.StaticSurplus, Have: strconv.FormatInt(have, 10), Want: strconv.FormatInt(pool.Replicas, 10)})
		return
	}
	if !pool.Ready {
		d.reportEachBlocked(nodes, reason.Reason{Code: reason.PoolClosed, Subject: "nodepool/" + name, Have: cluster.NotReady})
		return
	}
	if full {
		for _, n := range nodes {
			if offered[n.Reservation] {
				d.addCommand(Command{Reason: karpv1.ReasonDrifted, Decision: TerminateFirst, Because: NoReservedCapacity, Remove: []Candidate{candidateOf(n)}})
			} else {
				d.reportEachBlocked([]*cluster.ManagedNode{n}, reason.Reason{Code: reason.ReservationsFull, Have: name})
			}
		}
		return
	}
	slots := int64(math.MaxInt64)
	if pool.MaxNodes >= 0 {
		slots = max(0, pool.MaxNodes-pool.Claims)
	}
	switch {
	case slots == 0 && v.Methods.TerminateFirstDrift:
		for _, n := range nodes {
			d.addCommand(Command{Reason: karpv1.ReasonDrifted, Decision: TerminateFirst, Because: StaticAtLimit, Remove: []Candidate{candidateOf(n)}})
		}
	case slots == 0:
		d.reportEachBlocked(nodes, reason.Reason{Code: reason.StaticAtLimit, Have: strconv.FormatInt(pool.Claims, 10) + " of " + strconv.FormatInt(pool.MaxNodes, 10), Want: name})
	default:
		now := min(slots, int64(len(nodes)))
		d.reportEachBlocked(nodes[now:], reason.Reason{Code: reason.StaticAtLimit, Have: strconv.FormatInt(pool.Claims+now, 10) + " of " + strconv.FormatInt(pool.MaxNodes, 10), Want: name})
		for _, n := range nodes[:now] {
			d.addCommand(Command{Reason: karpv1.ReasonDrifted, Decision: Replace, Template: []string{name}, Remove: []Candidate{candidateOf(n)}})
		}
	}
}

// countCommandedNodes counts the nodes of a pool that are part of a running command and not yet terminating.
func countCommandedNodes(v *View, pool string) int64 {
	count := int64(0)
	for i := range v.Nodes {
		if n := &v.Nodes[i]; n.Pool == pool && n.Commanded && !n.Terminating {
			count++
		}
	}
	return count
}

// refuseEach records why nodes are kept, without an event.
func (d *Decision) refuseEach(nodes []*cluster.ManagedNode, why reason.Reason) {
	for _, n := range nodes {
		why.Subject = "node/" + n.Name
		d.addRefusal(Refused{Reason: karpv1.ReasonDrifted, Nodes: []string{n.Name}, Why: why})
	}
}

// reportEachBlocked records why each node is kept, with an event.
func (d *Decision) reportEachBlocked(nodes []*cluster.ManagedNode, why reason.Reason) {
	for _, n := range nodes {
		d.reportBlocked(n, Refused{Reason: karpv1.ReasonDrifted, Why: why})
	}
}

// reservationsFull reports whether a pool can only launch reserved capacity that is in use, and which reservations
// are still offered.
func reservationsFull(pool *cluster.Pool) (offered map[string]bool, full bool) {
	offered = map[string]bool{}
	for i := range pool.Types {
		t := &pool.Types[i]
		if _, conflict := t.Labels.Conflict(pool.Requirements); conflict {
			continue
		}
		for j := range t.Offerings {
			o := &t.Offerings[j]
			if !poolAllowsOffering(pool, o) {
				continue
			}
			full = true
			if o.Reservation == "" || o.Launchable() {
				return offered, false
			}
			if o.Available {
				offered[o.Reservation] = true
			}
		}
	}
	return offered, full
}

// poolAllowsOffering reports whether the requirements of a pool allow an offering.
func poolAllowsOffering(pool *cluster.Pool, o *catalog.Offering) bool {
	for key, value := range o.Labels {
		if !pool.Requirements.Allows(key, value) {
			return false
		}
	}
	return pool.Requirements.Allows(corev1.LabelTopologyZone, o.Zone) && pool.Requirements.Allows(karpv1.LabelCapacityType, o.CapacityType)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
