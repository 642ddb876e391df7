package disrupt

import (
	"slices"
	"time"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Running is a command in progress: its nodes are tainted and its replacements are created.
type Running struct {
	Command

	ReplacementClaims []string        // claims of the replacements
	InitializedClaims map[string]bool // replacements that have been seen initialized
	Failed            bool            // a claim could not be deleted at the first try
}

// Token identifies a command, also among commands for the same nodes at other times.
func (c *Command) Token() string {
	return cluster.CommandToken(c.ID, c.Decided)
}

// Replacements is how many nodes must be initialized before any node is removed.
func (c *Command) Replacements() int { return len(c.Create) + len(c.Template) }

// Without returns the command without the nodes for which stays is true. It is only for commands without
// replacements, since replacements are planned for all nodes together.
func (c Command) Without(stays func(Candidate) bool) Command {
	gone, pods := c.Remove, map[string]bool{}
	c.Remove = nil
	for _, n := range gone {
		if !stays(n) {
			c.Remove = append(c.Remove, n)
			continue
		}
		for _, p := range n.Pods {
			pods[p] = true
		}
		c.Saves, c.Cost, c.Moved = c.Saves-n.Price, c.Cost-n.Cost, c.Moved-len(n.Pods)
		c.Frees = max(0, c.Frees-n.Frees)
	}
	c.Bind = slices.DeleteFunc(slices.Clone(c.Bind), func(b solve.Bind) bool { return pods[b.Pod.String()] })
	return c
}

// ClaimStatus is the current state of a claim.
type ClaimStatus struct {
	NotFound    bool // neither the API server nor the cache has it
	Deleting    bool // it is being deleted
	Launched    bool
	Initialized bool
	ProtectedBy string // what protects its Node, as text; empty: nothing
	Leading     bool   // its Node is that of the leader, and no other replica could take over (FM C17)
}

// Stage is how far a command is.
type Stage int8

// Stages of a command.
const (
	Waiting Stage = iota // for replacements
	Ready                // to delete the claims
	Broken               // it has failed; everything is rolled back
	Over                 // nothing is left to do
)

// Progress is the next step of a command.
type Progress struct {
	Stage       Stage
	Why         string      // of Broken
	Replacement bool        // a replacement caused the failure
	Pending     []string    // replacements that are not initialized
	Retained    []Candidate // nodes that are kept while the command continues
}

// The timeout of a command grows with the queue, between a minimum and a maximum (disruption 17).
const (
	timeoutPerNode    = 80 * time.Millisecond
	minCommandTimeout = 10 * time.Minute
	maxCommandTimeout = time.Hour
)

// CommandTimeout is the timeout of a command while this many nodes are queued.
func CommandTimeout(nodes int) time.Duration {
	return min(max(time.Duration(nodes)*timeoutPerNode, minCommandTimeout), maxCommandTimeout)
}

// Advance decides the next step of a command from the state of its claims. Nodes that something else deleted
// are dropped from the command (FM K09).
func (r *Running) Advance(seen map[string]ClaimStatus, queued int, now time.Time) Progress {
	r.Remove = slices.DeleteFunc(slices.Clone(r.Remove), func(c Candidate) bool { return seen[c.Claim].NotFound || seen[c.Claim].Deleting })
	if len(r.Remove) == 0 {
		return Progress{Stage: Over}
	}
	var p Progress
	for _, claim := range r.ReplacementClaims {
		switch s := seen[claim]; {
		case s.NotFound || s.Deleting:
			return Progress{Stage: Broken, Why: "replacement " + claim + " is gone", Replacement: true}
		case s.Initialized:
			r.InitializedClaims[claim] = true
		}
		if !r.InitializedClaims[claim] {
			p.Pending = append(p.Pending, claim)
		}
	}
	if limit := CommandTimeout(queued); now.Sub(r.Decided) > limit && (len(p.Pending) > 0 || r.Failed) {
		return Progress{Stage: Broken, Why: "it is not done after " + limit.String(), Replacement: len(p.Pending) > 0, Pending: p.Pending}
	}
	if len(p.Pending) > 0 {
		return p
	}
	return r.retainProtected(seen)
}

// retainProtected keeps nodes that users have protected since the decision, and the node of a leader without a
// standby. An Empty command continues without them. Any other command is rolled back, because its parts depend
// on each other. Repair ignores protection.
func (r *Running) retainProtected(seen map[string]ClaimStatus) Progress {
	p := Progress{Stage: Ready}
	for _, c := range r.Remove {
		s := seen[c.Claim]
		switch {
		case r.Reason == karpv1.ReasonUnhealthy || s.ProtectedBy == "" && !s.Leading:
		case r.Reason == karpv1.ReasonEmpty:
			p.Retained = append(p.Retained, c)
		case s.ProtectedBy != "":
			return Progress{Stage: Broken, Why: s.ProtectedBy + " now"}
		default:
			return Progress{Stage: Broken, Why: reason.Reason{Code: reason.LeaderAlone, Subject: "node/" + c.Node}.Text()}
		}
	}
	r.Remove = slices.DeleteFunc(r.Remove, func(c Candidate) bool {
		return slices.ContainsFunc(p.Retained, func(s Candidate) bool { return s.Claim == c.Claim })
	})
	if len(r.Remove) == 0 {
		p.Stage = Over
	}
	return p
}
