package disrupt

import (
	"slices"
	"strconv"
	"time"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Running is a command that was started: its nodes are held and its replacements are ordered.
type Running struct {
	Command

	ReplacementClaims []string        // claims of the replacements
	InitializedClaims map[string]bool // those that were initialized, once seen
	Failed            bool            // a claim could not be deleted at the first try
}

// Token tells a command from every other one, also from one for the same nodes at another time.
func (c *Command) Token() string {
	return c.ID + "-" + strconv.FormatInt(c.Decided.UnixMilli(), 36)
}

// Replacements is how many nodes must be up before anything is removed.
func (c *Command) Replacements() int { return len(c.Create) + len(c.Template) }

// Without is a command that leaves some nodes where they are, and their pods. It is for commands without
// replacements: those are planned for all nodes together.
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

// ClaimStatus is what is known of a claim now.
type ClaimStatus struct {
	NotFound    bool // neither the API server nor memory has it
	Deleting    bool // is being deleted
	Launched    bool
	Initialized bool
	Protected   string // what forbids to disrupt its Node; empty: nothing does
	Leading     bool   // its Node is that of the leader, and no other replica could take over (FM C17)
}

// Stage is how far a command is.
type Stage int8

// Stages of a command.
const (
	Waiting Stage = iota // for replacements
	Ready                // to delete the claims
	Broken               // it cannot end well; everything is undone
	Over                 // nothing is left to do
)

// Progress is what becomes of a command next.
type Progress struct {
	Stage       Stage
	Why         string      // of Broken
	Replacement bool        // is to blame for that
	Pending     []string    // replacements that are not up
	Retained    []Candidate // nodes that stay, although the command goes on
}

// Shortest and longest time that a command may take (disruption 17).
const (
	timeoutPerNode    = 80 * time.Millisecond
	minCommandTimeout = 10 * time.Minute
	maxCommandTimeout = time.Hour
)

// CommandTimeout is how long commands may take while so many nodes are in the queue.
func CommandTimeout(nodes int) time.Duration {
	return min(max(time.Duration(nodes)*timeoutPerNode, minCommandTimeout), maxCommandTimeout)
}

// Advance looks at the claims of a command and says what comes next. Nodes that went without it are
// dropped from the command (FM K09).
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

// retainProtected keeps nodes that users have protected since, and that of the leader if its standby was lost: an
// empty one stays alone, else the whole command is undone, as its parts depend on each other. Repair does
// not ask.
func (r *Running) retainProtected(seen map[string]ClaimStatus) Progress {
	p := Progress{Stage: Ready}
	for _, c := range r.Remove {
		s := seen[c.Claim]
		switch {
		case r.Reason == karpv1.ReasonUnhealthy || s.Protected == "" && !s.Leading:
		case r.Reason == karpv1.ReasonEmpty:
			p.Retained = append(p.Retained, c)
		case s.Protected != "":
			return Progress{Stage: Broken, Why: s.Protected + " now"}
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
