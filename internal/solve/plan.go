package solve

import (
	"github.com/dovetail-sh/dovetail/internal/solve/consolidate"
	"github.com/dovetail-sh/dovetail/internal/solve/model"
)

// Input and output of Solve. The types are defined in package model, which the inner packages share.
type (
	// Problem is everything a plan depends on.
	Problem = model.Problem
	// Policy decides where the rules leave a choice.
	Policy = model.Policy
	// Plan is a decision.
	Plan = model.Plan
	// Bind is a pod that fits a node that exists or is being launched.
	Bind = model.Bind
	// NewNode is a node to launch: a NodeClaim in the making.
	NewNode = model.NewNode
	// Offer is one offering that a node can be launched as.
	Offer = model.Offer
	// Unplaced is an unschedulable pod, with reasons.
	Unplaced = model.Unplaced
	// Obstacles is all that rules out places for a pod.
	Obstacles = model.Obstacles
	// PoolObstacles is what rules out a pool.
	PoolObstacles = model.PoolObstacles
	// NodeObstacle is what rules out some existing nodes.
	NodeObstacle = model.NodeObstacle
)

// MaxTypes is how many instance types a NodeClaim lists (SC-48).
const MaxTypes = model.MaxTypes

// Input and output of Consolidate.
type (
	// Question is the input of a search for nodes that can be removed.
	Question = consolidate.Question
	// Limits are the deadlines of a search.
	Limits = consolidate.Limits
	// Consolidation is the result of a Question.
	Consolidation = consolidate.Consolidation
	// Move removes nodes, and says where their pods go.
	Move = consolidate.Move
	// Verdict is why a candidate is kept.
	Verdict = consolidate.Verdict
)
