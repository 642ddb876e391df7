package solve

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// miss is why a node does not take a pod, without words: there are many nodes, and only one line is
// written about all of them.
type miss struct {
	code   reason.Code
	detail int // lane, key of the table or position of the rule
}

// tally is the nodes that miss in the same way.
type tally struct {
	miss
	try   int
	nodes int
	shown int   // node to show: the one with the most left, else the first
	left  int64 // of the lane
}

// nodes writes one line about all existing nodes: the way in which most of those that came close
// missed, and the other ways as causes. at is false without nodes; usable is true if some node would
// take the pod.
func (e *explainer) nodes() (at bool, line reason.Reason, usable bool) {
	var ways []tally
	for n := range e.s.m.nodes {
		one, missed := e.nodeMiss(n)
		if !missed {
			usable = true
			continue
		}
		i := slices.IndexFunc(ways, func(w tally) bool { return w.miss == one.miss && w.try == one.try })
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
	if len(ways) == 0 {
		return false, line, usable
	}
	near := func(w *tally) int { return boolInt(distance(w.code) > distance(reason.NoTypeSuits)) }
	slices.SortStableFunc(ways, func(a, b tally) int {
		if x := near(&a) - near(&b); x != 0 {
			return x
		}
		return b.nodes - a.nodes
	})
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

// nodeMiss returns the nearest miss of a node over the alternatives of the pod.
func (e *explainer) nodeMiss(n int) (tally, bool) {
	var best tally
	for i := range e.tries {
		w, missed := e.nodeTry(n, &e.tries[i])
		if !missed {
			return best, false
		}
		if i == 0 || distance(w.code) < distance(best.code) {
			best = w
			best.try = i
		}
	}
	best.shown, best.nodes = n, 1
	return best, true
}

// nodeTry is every step of 6.1 for one node. What never changes comes first, so that what is left is
// the nearest miss.
func (e *explainer) nodeTry(n int, t *try) (tally, bool) {
	s, m, c := e.s, e.s.m, e.c
	x := &m.nodes[n]
	switch {
	case !m.tolerated(t.tol, x.taints):
		return tally{miss: miss{code: reason.TaintNotTolerated}}, true
	case t.term < 0 || !m.onNode(t.term, x.sign):
		return tally{miss: miss{reason.RequirementConflict, e.nodeKey(t.term, x)}}, true
	case t.volumes != 0 && (t.profile < 0 || t.volumes < 0 || !m.onNode(t.volumes, x.sign)):
		return tally{miss: miss{reason.VolumeZoneConflict, e.nodeKey(t.volumes, x)}}, true
	case c.moved && x.src.Settling:
		return tally{miss: miss{code: reason.NodeSettling}}, true
	case c.moved && !x.src.Initialized && x.src.Pool != "":
		return tally{miss: miss{code: reason.NodeUnready}}, true
	}
	for l, left := range s.free[n*m.lanes : (n+1)*m.lanes] {
		switch volume := l >= m.view.Resources.Len(); {
		case volume && left < e.slots(n, l):
			return tally{miss: miss{reason.VolumeLimit, l}, left: left}, true
		case !volume && (left < c.req[l] || left < 0):
			return tally{miss: miss{reason.NodeFull, l}, left: left}, true
		}
	}
	p := m.profiles[t.profile]
	if len(p.ports) > 0 && (conflicts(p.ports, x.ports) || conflicts(p.ports, s.ports[int32(n)])) {
		return tally{miss: miss{code: reason.HostPortConflict}}, true
	}
	if at := e.brokenNode(p, n); at >= 0 {
		return tally{miss: miss{reason.TopologyUnsatisfiable, at}}, true
	}
	return tally{}, false
}

// nodeKey is the label on which a node does not meet a need, -1 if that is not a matter of the node.
func (e *explainer) nodeKey(needID int, x *node) int {
	if needID < 0 {
		return -1
	}
	row := e.s.m.needs[needID].row
	if k, found := e.s.m.table.Mismatch(row, e.s.m.signs[x.sign].row, false); found {
		return int(k)
	}
	for k, v := range e.s.m.signs[x.sign].values { // not launched yet: it may turn out otherwise
		if v == open && row.Defined(reqs.KeyID(k)) {
			return k
		}
	}
	return -1
}

// slots is how many attachments of a driver's lane the pod needs on a node: claims that are attached
// already need none.
func (e *explainer) slots(n, lane int) int64 {
	if len(e.c.shared) == 0 {
		return e.c.req[lane]
	}
	m := e.s.m
	var seen []string
	for _, v := range e.c.shape.Volumes {
		if m.view.Resources.Len()+m.driver(v.Driver) != lane || slices.Contains(seen, v.Claim) {
			continue
		}
		if id, shared := m.claims[v.Claim]; !shared || !e.s.attached(n, id) {
			seen = append(seen, v.Claim)
		}
	}
	return int64(len(seen))
}

// nodeReason puts a miss into words.
func (e *explainer) nodeReason(w *tally) reason.Reason {
	m := e.s.m
	x, t := &m.nodes[w.shown], &e.tries[w.try]
	r := reason.Reason{Code: w.code, Subject: "node/" + x.src.Name}
	if w.nodes > 1 {
		r.Subject += " and " + number(w.nodes-1) + " more"
	}
	switch w.code {
	case reason.TaintNotTolerated:
		r.Have = taintText(&m.tolerations[t.tol], x.src.Taints)
	case reason.RequirementConflict, reason.VolumeZoneConflict:
		r.Want, r.Have = e.nodeLabel(w, t, x)
	case reason.NodeFull:
		r.Want, r.Have = m.amount(w.detail, e.c.req[w.detail]), m.quantity(w.detail, w.left)
	case reason.VolumeLimit:
		limit := int64(x.src.VolumeLimits[m.laneName(w.detail)])
		r.Want, r.Have = m.amount(w.detail, limit-w.left+e.slots(w.shown, w.detail)), m.amount(w.detail, limit)
	case reason.HostPortConflict:
		r.Want, r.Have = e.portHolder(w.shown)
	case reason.TopologyUnsatisfiable:
		topology := e.topology(e.rules(m.profiles[t.profile])[w.detail], nil)
		r.Want, r.Have = topology.Want, topology.Have
	default: // settling and unready say it all
	}
	return r
}

// nodeLabel writes what was asked of a label of a node, and its value.
func (e *explainer) nodeLabel(w *tally, t *try, x *node) (want, have string) {
	m := e.s.m
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
	key := m.table.KeyName(reqs.KeyID(w.detail))
	return key + " " + reqText(m.needs[needID].set[key]), valueText(m.signs[x.sign].row, reqs.KeyID(w.detail))
}

// portHolder finds a port of the pod that is taken on a node, and who has it.
func (e *explainer) portHolder(n int) (want, have string) {
	x := &e.s.m.nodes[n]
	for _, port := range e.c.shape.HostPorts {
		for i := range x.src.Pods { // of several the first by name, whatever the order they are listed in
			p := &x.src.Pods[i]
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
		if conflicts([]cluster.HostPort{port}, e.s.ports[int32(n)]) {
			return portText(port), "a pod planned there"
		}
	}
	return "", ""
}
