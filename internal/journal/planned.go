package journal

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

const (
	mostUnplaced = 50
	mostReasons  = 3
)

// plan is a plan for pods without a node, in short.
type plan struct {
	Nodes         []newNode     `json:"nodes,omitempty"`
	NodeCount     int           `json:"nodeCount"` // all of the nodes
	Price         float64       `json:"price"`
	Bound         float64       `json:"bound,omitempty"` // no plan costs less; 0: not known
	Pods          int           `json:"pods"`            // that go to new nodes
	Existing      int           `json:"existing"`        // pods that are placed on nodes which exist or are on their way
	Unplaced      []unplacedPod `json:"unplaced,omitempty"`
	UnplacedCount int           `json:"unplacedCount"` // all of the unplaced
	Partial       bool          `json:"partial,omitempty"`
}

// newNode is a node that a plan launches.
type newNode struct {
	Pool   string      `json:"pool"`
	Offer  solve.Offer `json:"offer"` // the cheapest; what the cloud has may differ
	Types  int         `json:"types"` // how many it may be
	Pods   int         `json:"pods"`
	Spread string      `json:"spread,omitempty"` // why it may not be anything else, or what it shares a spot pool with
}

// unplacedPod is a pod that the plan has no node for.
type unplacedPod struct {
	Pod string `json:"pod"`
	Why string `json:"why"`
}

// Planned takes a plan for pending pods in. One that launches nothing is left out if it says what the last
// one said.
func (j *Journal) Planned(p solve.Plan, at time.Time) {
	if j == nil || len(p.Create)+len(p.Bind)+len(p.Unplaced) == 0 {
		return
	}
	out := plan{NodeCount: len(p.Create), Price: finite(p.Cost), Bound: finite(p.Bound), Existing: len(p.Bind), UnplacedCount: len(p.Unplaced), Partial: p.Partial}
	for i := range p.Create {
		n := &p.Create[i]
		out.Pods += len(n.Pods)
		if i < mostNodes {
			out.Nodes = append(out.Nodes, newNode{Pool: n.Pool, Offer: n.Offer, Types: len(n.Types), Pods: len(n.Pods), Spread: reason.Join(n.Spread, mostReasons)})
		}
	}
	for _, u := range first(p.Unplaced, mostUnplaced, new(bool)) {
		why := reason.Join(u.Why, mostReasons)
		if u.Deferred {
			why = "waits for reserved capacity"
		}
		out.Unplaced = append(out.Unplaced, unplacedPod{Pod: u.Pod.String(), Why: why})
	}
	var nodes []string
	for _, b := range first(p.Bind, mostBinds, new(bool)) {
		nodes = append(nodes, b.Node)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if e := (Entry{At: at, Kind: Plan, Value: j.encoded(out), nodes: nodes}); !j.repeats(e) || len(p.Create) > 0 {
		j.add(e)
	}
}
