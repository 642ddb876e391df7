package disrupt

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// Text is a command in one line, as logs have it (disruption 23).
func (c *Command) Text() string {
	pools, nodes := map[string]bool{}, make([]string, 0, len(c.Remove))
	for i := range c.Remove {
		pools[c.Remove[i].Pool] = true
		nodes = append(nodes, c.Remove[i].Node)
	}
	return fmt.Sprintf("%s/%s: %s, nodepools [%s], nodes [%s], %d replacement(s)%s",
		c.Reason, c.ID, c.Decision, strings.Join(slices.Sorted(maps.Keys(pools)), ", "), strings.Join(nodes, ", "), c.Replacements(), c.savingsText()+c.freesText())
}

// savingsText is what the command saves, or costs. It is silent where that is nothing, as it mostly is with drift, and
// where it is not known.
func (c *Command) savingsText() string {
	const shown = 0.00005 // what rounds to a digit
	switch {
	case math.Abs(c.Saves) < shown || slices.ContainsFunc(c.Remove, func(n Candidate) bool { return n.Price <= 0 }):
		return ""
	case c.Saves < 0:
		return fmt.Sprintf(", costs $%.4f an hour more", -c.Saves)
	}
	return fmt.Sprintf(", saves $%.4f an hour", c.Saves)
}

// freesText is what others can use of reserved capacity. It is no saving: the reservation is paid for in any case.
func (c *Command) freesText() string {
	if c.Frees <= 0 {
		return ""
	}
	return fmt.Sprintf(", frees reserved capacity that costs $%.4f an hour on demand", c.Frees)
}

// Why returns why a node of the command is removed, and what happens to its pods, as an event has it.
func (c *Command) Why(n *Candidate) string {
	if c.Reason == karpv1.ReasonEmpty {
		return "no pod on it would have to move"
	}
	text := n.podOutcomesText()
	if c.Reason == karpv1.ReasonUnhealthy {
		text = "condition " + c.Cause() + "; " + text
	}
	if c.Decision == TerminateFirst {
		text += "; the replacement comes afterwards (" + c.Because + ")"
	}
	return text
}

// Cause names the condition that a node is repaired for, and its reason.
func (c *Command) Cause() string {
	if c.Repair == nil {
		return c.Because
	}
	text := c.Repair.Condition + "=" + c.Repair.Status
	if c.Repair.Reason != "" {
		text += " (" + c.Repair.Reason + ")"
	}
	return text
}

// UnhealthyCondition is the condition that nodes are repaired for; empty: the command is no repair.
func (c *Command) UnhealthyCondition() string {
	switch {
	case c.Reason != karpv1.ReasonUnhealthy:
		return ""
	case c.Repair == nil:
		return c.Because
	}
	return c.Repair.Condition
}

// FirstBecause is why nodes are removed before their replacements come; empty: they are not.
func (c *Command) FirstBecause() string {
	if c.Decision != TerminateFirst {
		return ""
	}
	return c.Because
}

// podOutcomesText says what happens to the pods of a node.
func (n *Candidate) podOutcomesText() string {
	text := strconv.Itoa(len(n.Pods)-len(n.Bare)) + " pod(s) move"
	if len(n.Bare) == 0 {
		return text
	}
	const named = 3
	text += fmt.Sprintf("; %d end(s), since no controller makes them again: %s", len(n.Bare), strings.Join(n.Bare[:min(len(n.Bare), named)], ", "))
	if more := len(n.Bare) - named; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
