package invariant

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// Budgets are read here once more, apart from the controller and in another way: what both get wrong in the
// same way would else never show. A schedule is tried minute by minute.

// unlimited is what a pool without budgets allows.
const unlimited = math.MaxInt32

// allowedDisruptions is how many of a pool's nodes may be disrupted for a reason.
func allowedDisruptions(d karpv1.Disruption, why string, nodes int, at time.Time) int {
	least := unlimited
	budgets := d.Budgets
	if budgets == nil {
		budgets = []karpv1.Budget{tenPercent()}
	}
	for i := range budgets {
		value, readable := budgetNodes(&budgets[i], nodes)
		active, understood := open(&budgets[i], at)
		if !readable || !understood {
			return 0
		}
		reasons := budgets[i].Reasons
		if active && (len(reasons) == 0 || slices.Contains(reasons, karpv1.DisruptionReason(why))) {
			least = min(least, value)
		}
	}
	return least
}

func tenPercent() karpv1.Budget {
	b := karpv1.Budget{}
	b.Nodes.StrVal, b.Nodes.Type = "10%", 1
	return b
}

// budgetNodes is how many nodes a budget is; parts of a node are a node.
func budgetNodes(b *karpv1.Budget, nodes int) (int, bool) {
	text := b.Nodes.String()
	number, percent := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || percent && n > 100 {
		return 0, false
	}
	if !percent {
		return n, true
	}
	whole := nodes * n / 100
	if whole*100 < nodes*n {
		whole++
	}
	return whole, true
}

// open says whether a budget is in force: always, or for its duration after each hit of its schedule.
func open(b *karpv1.Budget, at time.Time) (active, understood bool) {
	if b.Schedule == nil && b.Duration == nil {
		return true, true
	}
	if b.Schedule == nil || b.Duration == nil {
		return false, false
	}
	lasts, err := time.ParseDuration(string(*b.Duration))
	fields, known := parseCron(*b.Schedule)
	if err != nil || !known {
		return false, false
	}
	at = at.UTC()
	for hit := at.Truncate(time.Minute); hit.After(at.Add(-lasts)); hit = hit.Add(-time.Minute) {
		if fields.matchesTime(hit) {
			return true, true
		}
	}
	return false, true
}

// schedule is which minutes, hours, days, months and days of the week a cron line means.
type schedule struct {
	minutes, hours, days, months, weekdays map[int]bool
	anyDay, anyWeekday                     bool
}

func (s schedule) matchesTime(t time.Time) bool {
	day, weekday := s.days[t.Day()], s.weekdays[int(t.Weekday())]
	if !s.anyDay && !s.anyWeekday {
		day, weekday = day || weekday, true // either of the two, if both are restricted
	}
	return s.minutes[t.Minute()] && s.hours[t.Hour()] && s.months[int(t.Month())] && day && weekday
}

// parseCron reads a line of five fields or a name for one.
func parseCron(line string) (schedule, bool) {
	switch strings.TrimSpace(line) {
	case "@hourly":
		line = "0 * * * *"
	case "@daily", "@midnight":
		line = "0 0 * * *"
	case "@weekly":
		line = "0 0 * * 0"
	case "@monthly":
		line = "0 0 1 * *"
	case "@yearly", "@annually":
		line = "0 0 1 1 *"
	}
	parts := strings.Fields(strings.ToLower(line))
	if len(parts) != 5 {
		return schedule{}, false
	}
	s := schedule{anyDay: strings.HasPrefix(parts[2], "*") || parts[2] == "?", anyWeekday: strings.HasPrefix(parts[4], "*") || parts[4] == "?"}
	understood := true
	read := func(text string, low, high int, names ...string) map[int]bool {
		set, ok := parseCronField(text, low, high, names)
		understood = understood && ok
		return set
	}
	s.minutes, s.hours, s.days = read(parts[0], 0, 59), read(parts[1], 0, 23), read(parts[2], 1, 31)
	s.months = read(parts[3], 1, 12, "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
	s.weekdays = read(parts[4], 0, 7, "sun", "mon", "tue", "wed", "thu", "fri", "sat")
	if s.weekdays[7] {
		s.weekdays[0] = true
	}
	return s, understood
}

// parseCronField reads one field: lists of values, ranges and steps. The first name stands for the lowest number.
func parseCronField(text string, low, high int, names []string) (map[int]bool, bool) {
	set := map[int]bool{}
	number := func(text string) (int, bool) {
		if i := slices.Index(names, text); i >= 0 {
			return low + i, true
		}
		n, err := strconv.Atoi(text)
		return n, err == nil && n >= low && n <= high
	}
	for part := range strings.SplitSeq(text, ",") {
		span, by, stepped := strings.Cut(part, "/")
		step := 1
		if stepped {
			n, err := strconv.Atoi(by)
			if err != nil || n < 1 {
				return nil, false
			}
			step = n
		}
		from, to := low, high
		if span != "*" && span != "?" {
			first, last, ranged := strings.Cut(span, "-")
			ok1, ok2 := false, true
			from, ok1 = number(first)
			if to = from; ranged {
				to, ok2 = number(last)
			} else if stepped {
				to = high
			}
			if !ok1 || !ok2 || to < from {
				return nil, false
			}
		}
		for n := from; n <= to; n += step {
			set[n] = true
		}
	}
	return set, true
}
