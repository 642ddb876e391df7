package budget

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/duration"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

// Unlimited is the number allowed when no budget is active. No number is larger: a budget that requires
// for more allows this many.
const Unlimited = math.MaxInt32

// Rules of the specification that a budget can break.
const (
	rule     = "API-5"
	pairRule = "NP-10"
)

// Limit returns the strictest of the budgets that are active and apply to the cause, Unlimited if
// there is none. If any budget cannot be read, whether or not it applies, the limit is zero and
// broken says which fields are wrong, in order.
func Limit(budgets []cluster.Budget, cause string, total int, now time.Time) (n int, broken []reason.Reason) {
	n = Unlimited
	for i := range budgets {
		read, wrong := compile(&budgets[i])
		for _, w := range wrong {
			w.Subject = "spec.disruption.budgets[" + strconv.Itoa(i) + "]." + w.Subject
			broken = append(broken, w)
		}
		if len(wrong) == 0 && appliesTo(&budgets[i], cause) && read.isActive(now) {
			n = min(n, read.nodes.Of(total))
		}
	}
	if len(broken) > 0 {
		return 0, broken
	}
	return n, nil
}

// appliesTo reports whether a budget restrains a cause. An empty list is read as an absent one.
func appliesTo(b *cluster.Budget, cause string) bool {
	return len(b.Reasons) == 0 || slices.Contains(b.Reasons, cause)
}

// compiled is a budget that could be read.
type compiled struct {
	nodes    Nodes
	always   bool
	schedule Schedule
	lasts    time.Duration
}

func (c *compiled) isActive(now time.Time) bool {
	return c.always || c.schedule.Active(now, c.lasts)
}

// compile reads a budget and names, as Subject, each field that is wrong.
func compile(b *cluster.Budget) (compiled, []reason.Reason) {
	c := compiled{always: b.Schedule == "" && b.Duration == ""}
	var wrong []reason.Reason
	note := func(field string, why *reason.Reason) {
		if why != nil {
			why.Subject = field
			wrong = append(wrong, *why)
		}
	}
	var why *reason.Reason
	c.nodes, why = ParseNodes(b.Nodes)
	note("nodes", why)
	if b.Schedule != "" {
		c.schedule, why = ParseSchedule(b.Schedule)
		note("schedule", why)
	}
	if b.Duration != "" {
		c.lasts, why = parseDuration(b.Duration)
		note("duration", why)
	}
	switch {
	case b.Schedule != "" && b.Duration == "":
		note("schedule", unreadable(pairRule, b.Schedule, "a duration must be given with it"))
	case b.Schedule == "" && b.Duration != "":
		note("duration", unreadable(pairRule, b.Duration, "a schedule must be given with it"))
	}
	return c, wrong
}

func parseDuration(text string) (time.Duration, *reason.Reason) {
	d, err := duration.ParseBudget(text)
	if err == nil {
		return d, nil
	}
	want := err.Error()
	if malformed, ok := errors.AsType[*duration.Error](err); ok {
		want = malformed.Want
	}
	return 0, unreadable(rule, text, "want "+want)
}

// Nodes is a number of nodes, or a share of a pool.
type Nodes struct {
	n       int64
	percent bool
}

// ParseNodes reads the nodes of a budget: one or two digits or 100 followed by a percent sign, or
// digits alone. A number too large to count with is Unlimited: its form is right and its meaning plain.
func ParseNodes(text string) (Nodes, *reason.Reason) {
	digits, percent := text, false
	if last := len(text) - 1; last >= 0 && text[last] == '%' {
		digits, percent = text[:last], true
	}
	legal := digits != ""
	n := int64(0)
	for i := range len(digits) {
		legal = legal && '0' <= digits[i] && digits[i] <= '9'
		n = min(n*10+int64(digits[i]-'0'), Unlimited)
	}
	if percent {
		legal = legal && (len(digits) <= 2 || digits == "100")
	}
	if !legal {
		return Nodes{}, unreadable(rule, text, "want 0% to 100%, or a number of zero or more")
	}
	return Nodes{n: n, percent: percent}, nil
}

// Of returns how many of a pool's nodes that is. Shares round up.
func (n Nodes) Of(total int) int {
	if !n.percent {
		return int(n.n)
	}
	// In two parts, so that no total overflows.
	nodes := int64(max(0, total))
	whole, rest := min(nodes/100, Unlimited), nodes%100
	return int(min(whole*n.n+(rest*n.n+99)/100, Unlimited))
}

func unreadable(broken, have, want string) *reason.Reason {
	if have == "" {
		have = `""` // visible in a sentence
	}
	return &reason.Reason{Code: reason.BudgetUnreadable, Rule: broken, Have: have, Want: want}
}
