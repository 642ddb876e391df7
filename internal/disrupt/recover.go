package disrupt

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/cluster"
)

// Marks are the annotations that the replacements of a command carry, for the process that comes after
// this one.
func (c *Command) Marks() map[string]string {
	o := cluster.Order{Of: c.Replacements(), Reason: c.Reason, Type: c.Type, ID: c.ID, Decided: c.Decided, Bound: c.Bound, Because: c.Because}
	for i := range c.Remove {
		o.Replaces = append(o.Replaces, c.Remove[i].Claim)
	}
	return o.Annotations()
}

// RecoveryInput is what a process that ended left on the objects.
type RecoveryInput struct {
	Nodes  []cluster.ManagedNode    // as they are now
	Held   map[string]string        // token of the command that holds a node, by its claim; both taint and condition are there
	Orders map[string]cluster.Order // by replacement; none of claims that are being deleted
	Known  func(token string) bool
}

// Recover returns the commands that can go on, by token: every replacement is there, and a node that
// one stands for is still held by the same command. What cannot go on is not in the list, so that its
// nodes are released and keep running (disruption 25.7, 25.8).
func Recover(l RecoveryInput) []Running {
	byToken := map[string][]string{}
	// any order: the claims of each command are sorted below
	for claim, o := range l.Orders {
		if !l.Known(o.Token) {
			byToken[o.Token] = append(byToken[o.Token], claim)
		}
	}
	var out []Running
	// any order: commands are sorted below
	for token, claims := range byToken {
		slices.Sort(claims)
		o := l.Orders[claims[0]]
		if len(claims) != o.Of {
			continue
		}
		r := Running{ReplacementClaims: claims, InitializedClaims: map[string]bool{}, Command: Command{
			ID: o.ID, Reason: o.Reason, Type: o.Type, Decision: Replace, Decided: o.Decided, Bound: o.Bound, Because: o.Because,
		}}
		for i := range l.Nodes {
			if n := &l.Nodes[i]; !n.BeingRemoved && l.Held[n.Claim] == token && slices.Contains(o.Replaces, n.Claim) {
				r.Remove = append(r.Remove, candidateOf(n))
			}
		}
		if len(r.Remove) > 0 {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b Running) int { return cmp.Compare(a.Token(), b.Token()) })
	return out
}
