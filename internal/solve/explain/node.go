package explain

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/solve/bitset"
	"github.com/dovetail-sh/dovetail/internal/solve/model"
)

// miss is why a node does not take a pod, without text: there are many nodes, and only one line is written about all
// of them.
type miss struct {
	code   reason.Code
	detail int // lane, key of the table or position of the rule
}

// tally is the nodes that reject the pod for the same reason.
type tally struct {
	miss
	alternative int
	nodes       int
	shown       int   // node to show: the one with the most free, else the first
	left        int64 // of the lane
}

// explainNodes writes one line about all existing nodes. It gives the reason of most of the nearest misses, and the
// other reasons as causes. at is false without nodes; usable is true if some node would take the pod.
func (e *explainer) explainNodes() (at bool, line reason.Reason, usable bool) {
	ways, fits := e.tallyNodes()
	usable = len(fits) > 0
	if len(ways) == 0 {
		return false, line, usable
	}
	for i := range ways[:min(len(ways), 1+maxCauses)] {
		r := e.nodeReason(&ways[i])
		if i == 0 {
			line = r
		} else {
			line.Because = append(line.Because, r)
		}
	}
	return true, line, usable
}

// tallyNodes counts the nodes that reject the pod by their nearest miss, the nearest and most frequent first, and lists
// those that would take it.
func (e *explainer) tallyNodes() (ways []tally, fits []int) {
	for n := range e.s.Model.Nodes {
		one, missed := e.nodeMiss(n)
		if !missed {
			fits = append(fits, n)
			continue
		}
		i := slices.IndexFunc(ways, func(w tally) bool { return w.miss == one.miss && w.alternative == one.alternative })
		switch {
		case i < 0:
			ways = append(ways, one)
		default:
			ways[i].nodes++
			if one.left > ways[i].left {
				ways[i].shown, ways[i].left = one.shown, one.left
			}
		}
	}
	near := func(w *tally) int { return bitset.Bit(distance(w.code) > distance(reason.NoTypeSuits)) }
	slices.SortStableFunc(ways, func(a, b tally) int {
		if x := near(&a) - near(&b); x != 0 {
			return x
		}
		return b.nodes - a.nodes
	})
	return ways, fits
}

// nodeMiss returns the nearest miss of a node over the alternatives of the pod.
func (e *explainer) nodeMiss(n int) (tally, bool) {
	var best tally
	for i := range e.alternatives {
		w, missed := e.nodeMissOf(n, &e.alternatives[i])
		if !missed {
			return best, false
		}
		if i == 0 || distance(w.code) < distance(best.code) {
			best = w
			best.alternative = i
		}
	}
	best.shown, best.nodes = n, 1
	return best, true
}

// nodeMissOf checks every step of 6.1 for one node. Permanent reasons are checked first, so that the last one left is
// the nearest miss.
func (e *explainer) nodeMissOf(n int, t *alternative) (tally, bool) {
	s, m, c := e.s, e.s.Model, e.c
	x := &m.Nodes[n]
	switch {
	case !m.Tolerated(t.tolerations, x.Taints):
		return tally{miss: miss{code: reason.TaintNotTolerated}}, true
	case t.term < 0 || !m.NodeMeets(t.term, x.Signature):
		return tally{miss: miss{reason.RequirementConflict, e.nodeKey(t.term, x)}}, true
	case t.volumes != 0 && (t.profile < 0 || t.volumes < 0 || !m.NodeMeets(t.volumes, x.Signature)):
		return tally{miss: miss{e.elsewhere("", "").Code, e.nodeKey(t.volumes, x)}}, true
	case c.Moved && x.Source.Settling:
		return tally{miss: miss{code: reason.NodeSettling}}, true
	case c.Moved && !x.Source.Initialized && x.Source.Pool != "":
		return tally{miss: miss{code: reason.NodeUnready}}, true
	}
	for l, left := range s.Free[n*m.Lanes : (n+1)*m.Lanes] {
		switch volume := l >= m.View.Resources.Len(); {
		case volume && left < e.freeSlots(n, l):
			return tally{miss: miss{reason.VolumeLimit, l}, left: left}, true
		case !volume && (left < c.Requests[l] || left < 0):
			return tally{miss: miss{reason.NodeFull, l}, left: left}, true
		}
	}
	p := m.Profiles[t.profile]
	if len(p.Ports) > 0 && (model.PortsConflict(p.Ports, x.Ports) || model.PortsConflict(p.Ports, s.Ports[int32(n)])) {
		return tally{miss: miss{code: reason.HostPortConflict}}, true
	}
	if at := e.brokenNode(p, n); at >= 0 {
		return tally{miss: miss{reason.TopologyUnsatisfiable, at}}, true
	}
	if len(c.Shape.Devices) > 0 {
		if _, why := s.DevicesOnNode(c, n); why != nil {
			return tally{miss: miss{code: why.Code}}, true
		}
	}
	return tally{}, false
}

// nodeKey is the label on which a node does not meet a need, -1 if the reason is not a label of the node.
func (e *explainer) nodeKey(needID int, x *model.Node) int {
	if needID < 0 {
		return -1
	}
	row := e.s.Model.Needs[needID].Row
	if k, found := e.s.Model.Table.Mismatch(row, e.s.Model.Signatures[x.Signature].Row, false); found {
		return int(k)
	}
	for k, v := range e.s.Model.Signatures[x.Signature].Values { // not launched yet: the value may differ
		if v == model.Open && row.Defined(reqs.KeyID(k)) {
			return k
		}
	}
	return -1
}

// freeSlots is how many attachments of a driver's lane the pod needs on a node: claims that are attached
// already need none.
func (e *explainer) freeSlots(n, lane int) int64 {
	if len(e.c.SharedClaims) == 0 {
		return e.c.Requests[lane]
	}
	m := e.s.Model
	var seen []string
	for _, v := range e.c.Shape.Volumes {
		if m.View.Resources.Len()+m.DriverIndex(v.Driver) != lane || slices.Contains(seen, v.Claim) {
			continue
		}
		if id, shared := m.SharedClaims[v.Claim]; !shared || !e.s.IsAttached(n, id) {
			seen = append(seen, v.Claim)
		}
	}
	return int64(len(seen))
}

// nodeReason converts a miss into a reason.
func (e *explainer) nodeReason(w *tally) reason.Reason {
	m := e.s.Model
	x, t := &m.Nodes[w.shown], &e.alternatives[w.alternative]
	r := reason.Reason{Code: w.code, Subject: "node/" + x.Source.Name}
	if w.nodes > 1 {
		r.Subject += " and " + number(w.nodes-1) + " more"
	}
	switch w.code {
	case reason.TaintNotTolerated:
		r.Have = taintText(&m.Tolerations[t.tolerations], x.Source.Taints)
	case reason.RequirementConflict, reason.VolumeZoneConflict:
		r.Want, r.Have = e.nodeLabel(w, t, x)
	case reason.NodeFull:
		r.Want, r.Have = amountText(m, w.detail, e.c.Requests[w.detail]), quantityText(m, w.detail, w.left)
	case reason.VolumeLimit:
		limit := int64(x.Source.VolumeLimits[laneName(m, w.detail)])
		r.Want, r.Have = amountText(m, w.detail, limit-w.left+e.freeSlots(w.shown, w.detail)), amountText(m, w.detail, limit)
	case reason.HostPortConflict:
		r.Want, r.Have = e.portHolder(w.shown)
	case reason.TopologyUnsatisfiable:
		topology := e.explainRule(e.rules(m.Profiles[t.profile])[w.detail], nil)
		r.Want, r.Have = topology.Want, topology.Have
	case reason.DeviceClaimUnusable, reason.DeviceSearchCut, reason.DevicesMissing, reason.DevicesElsewhere, reason.DevicesUnsupported:
		if _, why := e.s.DevicesOnNode(e.c, w.shown); why != nil {
			r.Have, r.Want = why.Have, why.Want
		}
	default: // settling and unready need no detail
	}
	return r
}

// nodeLabel writes the required values of a label of a node, and its actual value.
func (e *explainer) nodeLabel(w *tally, t *alternative, x *model.Node) (want, have string) {
	m := e.s.Model
	needID := t.term
	if w.code == reason.VolumeZoneConflict {
		if t.profile < 0 {
			away := e.volumesAway(t)
			return away.Want, away.Have
		}
		needID = t.volumes
	}
	if w.detail < 0 || needID < 0 {
		return "what no node has", "none"
	}
	key := m.Table.KeyName(reqs.KeyID(w.detail))
	return key + " " + reqText(m.Needs[needID].Set[key]), valueText(m.Signatures[x.Signature].Row, reqs.KeyID(w.detail))
}

// portHolder finds a host port of the pod that is in use on a node, and the pod that uses it.
func (e *explainer) portHolder(n int) (want, have string) {
	x := &e.s.Model.Nodes[n]
	for _, port := range e.c.Shape.HostPorts {
		for i := range x.Source.Pods { // if several use it, the first by name, whatever the order of the list
			p := &x.Source.Pods[i]
			if p.Shape == nil || !slices.ContainsFunc(p.Shape.HostPorts, port.Conflicts) {
				continue
			}
			if name := "pod/" + p.Key.String(); have == "" || name < have {
				want, have = portText(port), name
			}
		}
		if have != "" {
			return want, have
		}
		if model.PortsConflict([]cluster.HostPort{port}, e.s.Ports[int32(n)]) {
			return portText(port), "a pod planned there"
		}
	}
	return "", ""
}
