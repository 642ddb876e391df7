package disrupt

import (
	"hash/fnv"
	"strconv"
	"time"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// What a command does with its nodes, as logs and metrics name it (V15-69).
const (
	Delete         = "delete"
	Replace        = "replace"
	TerminateFirst = "terminate-first"
	Reboot         = "reboot"
)

// Command is a complete decision to remove nodes: executing it needs no further decision.
type Command struct {
	ID       string                  `json:"id"`             // follows from reason and nodes
	Reason   karpv1.DisruptionReason `json:"reason"`         // Empty, Drifted, Underutilized, Unhealthy
	Type     string                  `json:"type,omitempty"` // label consolidation_type: empty, single, multi, or none
	Decision string                  `json:"decision"`
	Remove   []Candidate             `json:"remove"`
	Create   []solve.NewNode         `json:"create,omitempty"`   // planned; all must be initialized before anything is removed
	Template []string                `json:"template,omitempty"` // static pools: claims straight from the template, one for each entry
	Bind     []solve.Bind            `json:"bind,omitempty"`     // where the other pods are expected to go
	Saves    float64                 `json:"saves"`              // USD an hour
	Frees    float64                 `json:"frees,omitempty"`    // USD an hour that the reserved capacity costs on demand which others can use then
	Cost     float64                 `json:"cost"`               // of moving: the sum over nodes of 1 and the eviction costs of their pods
	Moved    int                     `json:"moved"`              // pods
	Score    float64                 `json:"score,omitempty"`    // Balanced: the lowest of the pools that vote
	Bound    *time.Duration          `json:"bound,omitempty"`    // repair: the drain takes no longer, counted from the deletion
	Because  string                  `json:"because,omitempty"`  // terminate-first: no-reserved-capacity or static-at-limit; repair: the condition
	Repair   *Diagnosis              `json:"repair,omitempty"`   // repair: what is wrong with the node, and what helps
	Decided  time.Time               `json:"decided"`
}

// id identifies a command by its reason and nodes.
func (c *Command) id() string {
	h := fnv.New64a()
	h.Write([]byte(c.Reason))
	for i := range c.Remove {
		h.Write([]byte{0})
		h.Write([]byte(c.Remove[i].Claim))
	}
	return strconv.FormatUint(h.Sum64(), 36)
}

// Candidate is a node that a command removes, in its state at the decision.
type Candidate struct {
	Node         string   `json:"node"`
	Claim        string   `json:"claim"`
	Pool         string   `json:"pool"`
	InstanceType string   `json:"instanceType"`
	Zone         string   `json:"zone"`
	CapacityType string   `json:"capacityType"`
	Price        float64  `json:"price"`
	Frees        float64  `json:"frees,omitempty"`     // what it costs on demand if it is on reserved capacity
	Cost         float64  `json:"cost"`                // moveCost (disruption 10)
	Pods         []string `json:"pods,omitempty"`      // that have to leave
	Bare         []string `json:"bare,omitempty"`      // those of them that no controller makes again
	Escalated    bool     `json:"escalated,omitempty"` // a reboot would have done, but there were too many (V15-30)
}

// candidateOf returns the node as a command records it.
func candidateOf(n *cluster.ManagedNode) Candidate {
	c := Candidate{
		Node: n.Name, Claim: n.Claim, Pool: n.Pool, InstanceType: n.InstanceType, Zone: n.Zone, CapacityType: n.CapacityType, Price: n.Price, Frees: n.Frees, Cost: moveCost(n),
	}
	for i := range n.Pods {
		p := &n.Pods[i]
		if !p.Moves {
			continue
		}
		name := p.Key.String()
		c.Pods = append(c.Pods, name)
		if p.Bare {
			c.Bare = append(c.Bare, name)
		}
	}
	return c
}

// moveCost is the cost of moving the pods of a node (disruption 10).
func moveCost(n *cluster.ManagedNode) float64 {
	cost := 1.0
	for i := range n.Pods {
		if n.Pods[i].Moves {
			cost += max(0, n.Pods[i].EvictCost)
		}
	}
	return cost
}

// Decision is the result of one pass: commands, events about nodes that are kept, and the data behind both.
type Decision struct {
	At         time.Time     `json:"at"`
	Commands   []Command     `json:"commands,omitempty"` // independent of each other; to be started in this order
	Events     []ObjectEvent `json:"-"`
	Refused    []Refused     `json:"refused,omitempty"` // all nodes that are blocked until a user acts; then, bounded, those blocked temporarily, candidates that are kept and moves that were not made
	Kept       int           `json:"-"`                 // how many are of the first kind
	MaxRefused int           `json:"-"`                 // bound of the others, as the view has it
	Nodes      []string      `json:"-"`                 // all that were looked at: there, and not on their way out

	Allowed  map[karpv1.DisruptionReason]map[string]int `json:"-"`        // budgets of the pools by reason, before terminating nodes are subtracted
	Busy     map[karpv1.DisruptionReason]map[string]int `json:"-"`        // nodes that use budgets up
	Eligible map[karpv1.DisruptionReason]int            `json:"eligible"` // candidates of each reason
	Scores   []Score                                    `json:"scores,omitempty"`
	Limited  bool                                       `json:"limited,omitempty"` // budgets kept more from being done
	Partial  bool                                       `json:"partial,omitempty"` // time was up before consolidation had tried everything

	Unreached []string `json:"-"` // pools that it had no time for

	Before float64 `json:"before"` // USD an hour of all nodes with a price that are not terminating
	After  float64 `json:"after"`  // once every command is done
	Bound  float64 `json:"bound"`  // no cluster that holds the pods costs less; 0: not known
}

// Refused is a set of nodes that is kept, and why.
type Refused struct {
	Reason karpv1.DisruptionReason `json:"reason"`
	Nodes  []string                `json:"nodes"`
	Why    reason.Reason           `json:"why"`
	Saves  float64                 `json:"saves,omitempty"`
	Cost   float64                 `json:"cost,omitempty"`
}

// Score is what policy Balanced made of a move for one pool (disruption 15a).
type Score struct {
	Pool     string   `json:"pool"`
	Nodes    []string `json:"nodes"`
	Value    float64  `json:"value"`
	Approved bool     `json:"approved"`
	Savings  float64  `json:"savings"`    // share of the pool's cost
	Moving   float64  `json:"disruption"` // share of the pool's move cost

	Decision  string  `json:"decision,omitempty"` // what the move does
	Saves     float64 `json:"saves"`              // USD an hour, of the pool; what is freed of reserved capacity counts as what it costs on demand
	Cost      float64 `json:"cost"`               // of moving the pods of the pool's removed nodes
	PoolPrice float64 `json:"poolPrice"`          // USD an hour of all its nodes, reserved ones at their on-demand price
	PoolCost  float64 `json:"poolCost"`           // of moving all of it
	Least     float64 `json:"least"`              // score that is approved
	K         int     `json:"k"`                  // how many times the share of its saving a move may disrupt
}

// ObjectEvent is an event about a node and its claim, or about a pool.
type ObjectEvent struct {
	Node, Claim, Pool string
	Event             event.Event
}
