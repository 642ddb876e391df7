package disrupt

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cluster"
)

// RepairSet is the repair policies of a cloud, validated and ready for use. It is immutable.
type RepairSet struct {
	policies map[conditionKey][]policy // the specific ones
	pairs    map[conditionKey]bool     // all that some policy is about
	fallback policy
}

// conditionKey is what a policy looks for in the conditions of a node.
type conditionKey struct {
	kind   corev1.NodeConditionType
	status corev1.ConditionStatus
}

type policy struct {
	cloud.Repair
	reasons *regexp.Regexp // nil: the fallback
	rank    int            // of its priority among all that occur, from 0
}

const maxPriority = 100

// NewRepairSet checks policies. Its error names every fault of every policy (V15-17).
func NewRepairSet(list []cloud.Repair) (*RepairSet, error) {
	s := &RepairSet{policies: map[conditionKey][]policy{}, pairs: map[conditionKey]bool{}}
	if len(list) == 0 {
		return nil, errors.New("the cloud defines no repair policy; turn gate NodeRepair off")
	}
	var priorities []int
	for _, r := range list {
		priorities = append(priorities, r.Priority)
	}
	slices.Sort(priorities)
	priorities = slices.Compact(priorities)
	var faults []error
	fallbacks := 0
	for i, r := range list {
		read, wrong := readPolicy(r)
		for _, text := range wrong {
			faults = append(faults, fmt.Errorf("repair policy %d (%s=%s): %s", i+1, r.Condition, r.Status, text))
		}
		read.rank, _ = slices.BinarySearch(priorities, r.Priority)
		at := conditionKey{r.Condition, r.Status}
		s.pairs[at] = true
		if r.ReasonRegex == "" {
			s.fallback = read
			fallbacks++
			continue
		}
		s.policies[at] = append(s.policies[at], read)
	}
	if fallbacks != 1 {
		faults = append(faults, fmt.Errorf("%d repair policies have no reason regex, want exactly one: it is the fallback", fallbacks))
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return s, nil
}

// readPolicy compiles a policy and says what is wrong with it.
func readPolicy(r cloud.Repair) (out policy, wrong []string) {
	out.Repair = r
	refuse := func(bad bool, text string, args ...any) {
		if bad {
			wrong = append(wrong, fmt.Sprintf(text, args...))
		}
	}
	refuse(r.Condition == "", "the condition type is empty")
	refuse(!slices.Contains([]corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown}, r.Status), "status %q is not True, False or Unknown", r.Status)
	refuse(r.Toleration < 0, "toleration %s is below 0", r.Toleration)
	refuse(r.Bound != nil && *r.Bound < 0, "the termination grace period is below 0")
	refuse(r.Priority < 0 || r.Priority > maxPriority, "priority %d is not between 0 and %d", r.Priority, maxPriority)
	refuse(r.Action != cloud.ReplaceNode && r.Action != cloud.RebootNode, "action %q is not ReplaceNode or RebootNode", r.Action)
	if r.ReasonRegex == "" {
		refuse(r.Action == cloud.RebootNode, "the fallback must have action ReplaceNode")
		return out, wrong
	}
	reasons, err := regexp.Compile(r.ReasonRegex)
	refuse(err != nil, "reason regex %q: %v", r.ReasonRegex, err)
	out.reasons = reasons
	return out, wrong
}

// Match is a condition of a node that a policy is about.
type Match struct {
	Condition corev1.NodeCondition
	Policy    cloud.Repair
	Fallback  bool
	Due       time.Time // from when on something is to be done

	rank int
}

// Matches lists what policies say about a node, in the order of its conditions (V15-18, V15-19).
func (s *RepairSet) Matches(n *cluster.ManagedNode) []Match {
	var out []Match
	for _, c := range n.Health {
		at := conditionKey{c.Type, c.Status}
		if !s.pairs[at] {
			continue
		}
		found := false
		for _, p := range s.policies[at] {
			if p.reasons.MatchString(c.Reason) {
				out, found = append(out, p.match(n, c)), true
			}
		}
		if !found {
			out = append(out, s.fallback.match(n, c))
		}
	}
	return out
}

// match is a policy that applies. A change of the reason alone does not restart the clock.
func (p policy) match(n *cluster.ManagedNode, c corev1.NodeCondition) Match {
	since := c.LastTransitionTime.Time
	for _, other := range []time.Time{n.Joined, n.Rebooted} {
		if other.After(since) {
			since = other
		}
	}
	return Match{Condition: c, Policy: p.Repair, Fallback: p.reasons == nil, Due: since.Add(p.Toleration), rank: p.rank}
}

// unhealthy reports whether any condition of a node is one that policies are about, whatever its reason and
// however young (V15-25).
func (s *RepairSet) unhealthy(n *cluster.ManagedNode) bool {
	return slices.ContainsFunc(n.Health, func(c corev1.NodeCondition) bool { return s.pairs[conditionKey{c.Type, c.Status}] })
}

// repairVerdict is what all due matches of a node come to.
type repairVerdict struct {
	action cloud.RepairAction
	drives Match
	bound  *Match // that sets the drain bound; nil: none does
	score  float64
}

// overtakeAfter is how long a node has to be due to pass a fresh one whose priority is one rank higher.
const overtakeAfter = 30 * time.Minute

// mergeDueMatches merges the due matches of a node (V15-20, V15-21). It does not depend on their order.
func (s *RepairSet) mergeDueMatches(n *cluster.ManagedNode, now time.Time) (repairVerdict, bool) {
	due := slices.DeleteFunc(s.Matches(n), func(m Match) bool { return m.Due.After(now) })
	if len(due) == 0 {
		return repairVerdict{}, false
	}
	v := repairVerdict{action: cloud.RebootNode}
	for i := range due {
		m := &due[i]
		v.score = max(v.score, float64(m.rank)+float64(now.Sub(m.Due))/float64(overtakeAfter))
		if m.Policy.Action == cloud.ReplaceNode {
			v.action = cloud.ReplaceNode
		}
		if m.Policy.Bound != nil && (v.bound == nil || m.compareBound(v.bound) < 0) {
			v.bound = m
		}
	}
	first := true
	for _, m := range due {
		if m.Policy.Action == v.action && (first || m.compareDriving(v.drives) < 0) {
			v.drives, first = m, false
		}
	}
	return v, true
}

// compareDriving orders matches of one action: the first one drives.
func (m Match) compareDriving(other Match) int {
	return cmp.Or(cmp.Compare(other.Policy.Priority, m.Policy.Priority), m.Due.Compare(other.Due), m.breakTie(other))
}

// compareBound orders matches with a bound: the first one sets it.
func (m *Match) compareBound(other *Match) int {
	return cmp.Or(cmp.Compare(*m.Policy.Bound, *other.Policy.Bound), m.Due.Compare(other.Due), m.breakTie(*other))
}

// breakTie decides between equals by what cannot be equal twice.
func (m Match) breakTie(other Match) int {
	return cmp.Or(cmp.Compare(m.Condition.Type, other.Condition.Type), cmp.Compare(m.Policy.ReasonRegex, other.Policy.ReasonRegex))
}
