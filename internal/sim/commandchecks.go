package sim

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
)

// What the rules of commands say, written down a second time: a check that read the constants of the controller would
// agree with whatever they are.
const (
	firstBackoff    = 10 * time.Second // of a node whose command failed; it doubles with each failure
	longestBackoff  = 5 * time.Minute
	backoffReset    = 20 * time.Minute // without a failure, after which the back-off may begin anew
	rebootsPerDay   = 2                // of one node (V15-30)
	lossNoticed     = time.Second      // from the event about a replacement until its command ends (G8)
	rebootsCountFor = 24 * time.Hour
)

// commandChecks is what one process did with its commands. It ends with the process, as the state of the controller
// does.
type commandChecks struct {
	failures map[string]failure        // by claim: commands for its node that failed
	repairs  map[string]failure        // by claim: repairs among them
	known    map[string]bool           // tokens of commands that the process began or resumed
	reboots  map[types.UID][]time.Time // by claim: when reboots were requested
}

func newCommandChecks() commandChecks {
	return commandChecks{failures: map[string]failure{}, repairs: map[string]failure{}, known: map[string]bool{}, reboots: map[types.UID][]time.Time{}}
}

// failure is the last failure of the commands for a node.
type failure struct {
	at    time.Time
	count int // in a row
}

// until is the earliest end of the back-off: its length is drawn from the upper half of a window that doubles.
func (f failure) until() time.Time {
	if f.count == 0 {
		return time.Time{}
	}
	return f.at.Add(min(firstBackoff<<min(f.count-1, 10), longestBackoff) / 2)
}

// next is a failure after this one. A node cannot fail twice in one back-off, unless one command fails in two ways.
func (f failure) next(now time.Time) failure {
	switch {
	case now.Before(f.until()):
		return f
	case now.Sub(f.at) >= backoffReset:
		return failure{now, 1}
	}
	return failure{now, f.count + 1}
}

// recordFailure records nodes that stay although a command was to remove them, and reboots.
func (c *commandChecks) recordFailure(why karpv1.DisruptionReason, now time.Time, nodes ...disrupt.Candidate) {
	for _, n := range nodes {
		c.failures[n.Claim] = c.failures[n.Claim].next(now)
		if why == karpv1.ReasonUnhealthy {
			c.repairs[n.Claim] = c.repairs[n.Claim].next(now)
		}
	}
}

// backedOff checks that a decision leaves out the nodes whose last command has just failed (G12). Repair waits for
// failed repairs only.
func (c *checks) backedOff(cmd *disrupt.Command, n disrupt.Candidate) {
	last := c.commands.repairs[n.Claim]
	if other := c.commands.failures[n.Claim]; cmd.Reason != karpv1.ReasonUnhealthy && other.until().After(last.until()) {
		last = other
	}
	if c.w.now.Before(last.until()) {
		c.w.broken("back-off", "%s of node %s, %s after the last of %d commands for it that failed", cmd.Reason, n.Node, c.w.now.Sub(last.at), last.count)
	}
}

// resumed checks that a process resumes no command that it began, and none twice.
func (c *checks) resumed(cmd *disrupt.Running) {
	if c.commands.known[cmd.Token()] {
		c.w.broken("queue", "%s of %v is resumed by the process that had it already", cmd.Reason, names(cmd.Remove))
	}
	c.commands.known[cmd.Token()] = true
}

// losesReplacement checks that a command ends as soon as the process knows that one of its replacements is terminating
// or gone: its nodes stay, and until it has ended their pods are planned onto other nodes (G8).
func (c *checks) losesReplacement(p *process, claim string) {
	awaits := func(r disrupt.Running) bool { return slices.Contains(r.ReplacementClaims, claim) }
	running := p.commands.Running()
	at := slices.IndexFunc(running, awaits)
	if at < 0 {
		return
	}
	token := running[at].Token()
	p.after(lossNoticed, func() {
		if slices.ContainsFunc(p.commands.Running(), func(r disrupt.Running) bool { return r.Token() == token && awaits(r) }) {
			c.w.broken("queue", "%s of %v goes on %s after replacement %s was lost", running[at].Reason, names(running[at].Remove), lossNoticed, claim)
		}
	})
}

// requestsReboot checks that a process has no node rebooted for ever: after two reboots a day it is replaced (V15-30).
func (c *checks) requestsReboot(claim *karpv1.NodeClaim) {
	list := slices.DeleteFunc(c.commands.reboots[claim.UID], func(at time.Time) bool { return c.w.now.Sub(at) >= rebootsCountFor })
	if c.commands.reboots[claim.UID] = append(list, c.w.now); len(list) >= rebootsPerDay {
		c.w.broken("V15-30", "the node of claim %s is rebooted %d times a day", claim.Name, len(list)+1)
	}
}
