package command

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
)

// Leftovers is what commands, running or not, have written on objects.
type Leftovers struct {
	nodes  map[string]string        // held: the command that holds it, which may not be known
	claims map[string]bool          // with condition DisruptionReason
	bounds map[string]bool          // claims with the end of a drain that a command wrote
	orders map[string]cluster.Order // of replacements that are not being deleted
	marked map[string]string        // replacements with annotations of ours: the command that ordered them, if that can be read
}

// NewLeftovers returns Leftovers to which objects can be added.
func NewLeftovers() Leftovers {
	return Leftovers{nodes: map[string]string{}, claims: map[string]bool{}, bounds: map[string]bool{}, orders: map[string]cluster.Order{}, marked: map[string]string{}}
}

// AddNode adds what is written on a Node. It keeps no reference to it.
func (l *Leftovers) AddNode(n *corev1.Node) {
	if by, named := n.Annotations[karpv1.AnnotationHeldBy]; named || karpv1.Disrupted(n) {
		l.nodes[n.Name] = by
	}
}

// AddClaim adds what is written on a claim. It keeps no reference to it.
func (l *Leftovers) AddClaim(c *karpv1.NodeClaim) {
	if condition.Find(c.Status.Conditions, karpv1.ConditionDisruptionReason) != nil {
		l.claims[c.Name] = true
	}
	if _, held := c.Annotations[karpv1.AnnotationHeldBy]; held && c.DeletionTimestamp == nil {
		l.bounds[c.Name] = true
	}
	if _, ours := c.Annotations[karpv1.AnnotationCommand]; !ours || c.DeletionTimestamp != nil {
		return
	}
	l.marked[c.Name] = ""
	if o, read := cluster.ReadOrder(c.Annotations); read {
		l.orders[c.Name], l.marked[c.Name] = o, o.Token
	}
}

// held returns the tokens of the commands that hold nodes, by claim: both taint and condition are there.
func (l *Leftovers) held(nodes []cluster.ManagedNode) map[string]string {
	out := map[string]string{}
	for i := range nodes {
		if n := &nodes[i]; l.claims[n.Claim] && l.nodes[n.Name] != "" {
			out[n.Claim] = l.nodes[n.Name]
		}
	}
	return out
}

// Resume takes over the commands of an earlier process that can go on. Each is an effect Resumed.
func (q *Queue) Resume(nodes []cluster.ManagedNode, l Leftovers) []Effect {
	if len(l.orders) == 0 {
		return nil
	}
	var out []Effect
	for _, r := range disrupt.Recover(disrupt.RecoveryInput{Nodes: nodes, Held: l.held(nodes), Orders: l.orders, Known: q.ranHere}) {
		q.add(r)
		out = append(out, Resumed{r})
	}
	return out
}

// CleanUp removes the taint and the condition from nodes that no command removes (G7), and the annotations of
// finished commands from replacements. One that cannot be written now does not block the others (G9).
func (q *Queue) CleanUp(nodes []cluster.ManagedNode, l Leftovers) []Effect {
	var out []Effect
	for i := range nodes {
		n := &nodes[i]
		if n.BeingRemoved || n.Commanded || n.Rebooting {
			continue
		}
		if _, held := l.nodes[n.Name]; held || l.claims[n.Claim] || l.bounds[n.Claim] {
			out = append(out, CleanNode{disrupt.Candidate{Node: n.Name, Claim: n.Claim}})
		}
	}
	var over []string
	for _, claim := range slices.Sorted(maps.Keys(l.marked)) {
		if q.running[l.marked[claim]] == nil {
			over = append(over, claim)
		}
	}
	if len(over) > 0 {
		out = append(out, UnmarkReplacements{over})
	}
	return out
}

// ranHere reports whether a command runs or has ended in this process.
func (q *Queue) ranHere(token string) bool {
	_, ended := q.ended[token]
	return ended || q.running[token] != nil
}
