package inspect

import "time"

// WhatIf changes a cluster before it is planned for. The zero WhatIf changes nothing.
type WhatIf struct {
	Set     []string           `json:"set,omitempty"`     // nodepool/NAME.PATH=VALUE; a PATH is below spec, or requirements, which stands for those of the template; a VALUE is YAML
	AddPods string             `json:"addPods,omitempty"` // manifests of pods and workloads, as YAML documents
	Without []string           `json:"without,omitempty"` // KEY=VALUE of offerings that cannot be launched: zone, capacity-type, instance-type, or a label
	Prices  map[string]float64 `json:"prices,omitempty"`  // USD an hour; by INSTANCE-TYPE/ZONE/CAPACITY-TYPE, where * stands for all
}

// IsZero reports whether nothing is changed.
func (w *WhatIf) IsZero() bool {
	return len(w.Set) == 0 && w.AddPods == "" && len(w.Without) == 0 && len(w.Prices) == 0
}

// Changes is what would be done to a cluster, and what that comes to.
type Changes struct {
	At        time.Time `json:"at"`
	Before    Totals    `json:"before"`
	After     Totals    `json:"after"`           // once all is done; prices of new nodes are those of the plan
	Bound     float64   `json:"bound,omitempty"` // USD an hour; no nodes that hold these pods cost less; 0: not known
	Remove    []Removal `json:"remove,omitempty"`
	Launch    []Launch  `json:"launch,omitempty"`
	Moves     []PodMove `json:"moves,omitempty"`    // of running pods, by pod
	Binds     []PodMove `json:"binds,omitempty"`    // of pending pods to nodes that exist, by pod
	Evictions int       `json:"evictions"`          // of running pods, also of those that are recreated without a planned node
	Unplaced  []Pending `json:"unplaced,omitempty"` // pods that no node can be planned for, with the reasons
	Kept      []Kept    `json:"kept,omitempty"`     // nodes that stay although they might be worth removing, and why
	Later     bool      `json:"later,omitempty"`    // budgets let only a part of it begin now
	Partial   bool      `json:"partial,omitempty"`  // time was up before all was tried
	Notes     []string  `json:"notes,omitempty"`    // what the response lacks
}

// Removal is a node that would be removed.
type Removal struct {
	Node    string   `json:"node"`
	Claim   string   `json:"claim,omitempty"`
	Pool    string   `json:"pool,omitempty"`
	Type    string   `json:"instanceType,omitempty"`
	Zone    string   `json:"zone,omitempty"`
	Market  string   `json:"capacityType,omitempty"`
	Price   float64  `json:"price,omitempty"` // USD an hour
	Reason  string   `json:"reason"`          // Empty, Drifted, Underutilized, Unhealthy
	Command string   `json:"command"`         // that it is part of: one command is done as a whole
	Saves   float64  `json:"saves"`           // USD an hour, of the command
	Pods    []string `json:"pods,omitempty"`  // that have to leave, namespace/name
	Now     bool     `json:"now"`             // budgets let it begin at once
}

// Launch is a node that would be launched.
type Launch struct {
	Pool    string   `json:"pool"`
	Type    string   `json:"instanceType"` // the cheapest; Types are all that it could be
	Types   []string `json:"instanceTypes,omitempty"`
	Zone    string   `json:"zone"`
	Market  string   `json:"capacityType"`
	Price   float64  `json:"price"`             // USD an hour
	Command string   `json:"command,omitempty"` // whose nodes it replaces; empty: it is for pending pods
	Pods    []string `json:"pods"`              // namespace/name
}

// PodMove is a pod that would run elsewhere.
type PodMove struct {
	Pod  string `json:"pod"`            // namespace/name
	From string `json:"from,omitempty"` // node; empty: it is pending
	To   string `json:"to"`             // node, or the number of a Launch, counted from 1: "launch 1"
}

// Kept is a node that stays.
type Kept struct {
	Node string  `json:"node"`
	Why  Finding `json:"why"`
}

// PlanOf is what would be done to a cluster.
func PlanOf(c *Cluster) Changes { return Changes{At: c.View.Now} }

// Document lays Changes out for reading.
func (c *Changes) Document() Document { return Document{Title: "plan"} }

// AddTo adds what a plan knows to a Fleet: the lower bound, and why pods are pending.
func (c *Changes) AddTo(f *Fleet) {
	f.Totals.Bound = c.Bound
	why := make(map[string][]Finding, len(c.Unplaced))
	for i := range c.Unplaced {
		why[c.Unplaced[i].Pod] = c.Unplaced[i].Why
	}
	planned := make(map[string]string, len(c.Binds))
	for _, b := range c.Binds {
		planned[b.Pod] = b.To
	}
	for i := range f.Pending {
		p := &f.Pending[i]
		if len(p.Why) == 0 {
			p.Why = why[p.Pod]
		}
		if p.Planned == "" {
			p.Planned = planned[p.Pod]
		}
	}
}
