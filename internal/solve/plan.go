package solve

import (
	"github.com/dovetail-sh/dovetail/internal/solve/consolidate"
	"github.com/dovetail-sh/dovetail/internal/solve/model"
)

// What goes in and out of Solve. The inner packages share these values, so that they are defined below them.
type (
	// Problem is everything a plan depends on.
	Problem = model.Problem
	// Policy is how to decide where the rules leave a choice.
	Policy = model.Policy
	// Plan is a decision.
	Plan = model.Plan
	// Bind is a pod that fits a node that exists or is on its way.
	Bind = model.Bind
	// NewNode is a node to buy: a NodeClaim in the making.
	NewNode = model.NewNode
	// Offer is one way to buy a node.
	Offer = model.Offer
	// Unplaced is a pod without a place, and why.
	Unplaced = model.Unplaced
)

// MaxTypes is how many instance types a NodeClaim lists (SC-48).
const MaxTypes = model.MaxTypes

// What goes in and out of Consolidate.
type (
	// Question asks which nodes can be removed.
	Question = consolidate.Question
	// Limits are the deadlines of a search.
	Limits = consolidate.Limits
	// Consolidation is the answer to a Question.
	Consolidation = consolidate.Consolidation
	// Move removes nodes, and says where their pods go.
	Move = consolidate.Move
	// Verdict is why a candidate is kept.
	Verdict = consolidate.Verdict
)
