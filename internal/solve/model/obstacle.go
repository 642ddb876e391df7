package model

import "github.com/dovetail-sh/dovetail/internal/reason"

// Obstacles is what rules out places for a pod, with nothing left out. What Unplaced has of it is cut to what a message can
// show. Both lists are empty for a pod that is not planned for at all, and if time was up.
type Obstacles struct {
	Pools []PoolObstacles `json:"pools,omitempty"` // of all pools, by weight and name
	Nodes []NodeObstacle  `json:"nodes,omitempty"` // most nodes first
	Fits  []string        `json:"fits,omitempty"`  // nodes that have room for another such pod, by name
}

// PoolObstacles is what rules out a pool.
type PoolObstacles struct {
	Pool string          `json:"pool"`
	Why  []reason.Reason `json:"why,omitempty"` // all reasons; none: it can launch a node for such a pod
}

// NodeObstacle is what rules out some existing nodes.
type NodeObstacle struct {
	Why   reason.Reason `json:"why"`
	Node  string        `json:"node"`  // one of them, which Why is about
	Nodes int           `json:"nodes"` // how many there are
}
