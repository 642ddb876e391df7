package disrupt

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"

	"github.com/dovetail-sh/dovetail/internal/cluster"
)

// Order is what a replacement says of the command that ordered it.
type Order struct {
	Token    string
	Replaces []string // claims
	Of       int      // replacements of the command
	Reason   karpv1.DisruptionReason
	Type     string
	ID       string
	Decided  time.Time
	Bound    *time.Duration
	Because  string
}

// order is the text of an Order, without the names of claims.
type order struct {
	ID      string                  `json:"id"`
	Reason  karpv1.DisruptionReason `json:"reason"`
	Type    string                  `json:"type,omitempty"`
	Of      int                     `json:"of"`
	Decided int64                   `json:"decided"` // milliseconds
	Bound   string                  `json:"bound,omitempty"`
	Because string                  `json:"because,omitempty"`
}

// Marks are the annotations that the replacements of a command carry, for the process that comes after
// this one.
func (c *Command) Marks() map[string]string {
	names := make([]string, 0, len(c.Remove))
	for i := range c.Remove {
		names = append(names, c.Remove[i].Claim)
	}
	o := order{ID: c.ID, Reason: c.Reason, Type: c.Type, Of: c.Replacements(), Decided: c.Decided.UnixMilli(), Because: c.Because}
	if c.Bound != nil {
		o.Bound = c.Bound.String()
	}
	text, err := json.Marshal(o)
	if err != nil {
		return nil // cannot be: numbers and text
	}
	return map[string]string{karpv1.AnnotationReplaces: strings.Join(names, ","), karpv1.AnnotationCommand: string(text)}
}

// ReadOrder reads what Marks wrote. Text of anybody else is no order.
func ReadOrder(annotations map[string]string) (Order, bool) {
	names, text := annotations[karpv1.AnnotationReplaces], annotations[karpv1.AnnotationCommand]
	if names == "" { // as of most claims; every snapshot asks about all of them
		return Order{}, false
	}
	var o order
	if json.Unmarshal([]byte(text), &o) != nil || o.ID == "" || o.Of < 1 {
		return Order{}, false
	}
	out := Order{
		Replaces: strings.Split(names, ","), Of: o.Of, Reason: o.Reason, Type: o.Type, ID: o.ID, Decided: time.UnixMilli(o.Decided), Because: o.Because,
	}
	if o.Bound != "" {
		bound, err := time.ParseDuration(o.Bound)
		if err != nil {
			return Order{}, false
		}
		out.Bound = &bound
	}
	command := Command{ID: out.ID, Decided: out.Decided}
	out.Token = command.Token()
	return out, true
}

// RecoveryInput is what a process that ended left on the objects.
type RecoveryInput struct {
	Nodes  []cluster.ManagedNode // as they are now
	Held   map[string]string     // token of the command that holds a node, by its claim; both taint and condition are there
	Orders map[string]Order      // by replacement; none of claims that are being deleted
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
			if n := &l.Nodes[i]; !n.Deleting && l.Held[n.Claim] == token && slices.Contains(o.Replaces, n.Claim) {
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
