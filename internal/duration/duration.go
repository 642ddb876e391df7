package duration

import (
	"math"
	"time"
)

// Never is the text that switches a feature off where ParseOrNever accepts it.
const Never = "Never"

// Forms accepted, in words, as Error.Want gives them.
const (
	groupsForm  = "groups of a number and s, m or h, such as 1h30m"
	neverForm   = groupsForm + ", or Never"
	budgetForm  = "hours and minutes, such as 8h, 90m or 1h30m"
	shorterForm = "at most 2562047h"
)

// Error says that a text is not a duration. It has no fields that depend on where the text came
// from: the caller knows the field.
type Error struct {
	Text string // as given
	Want string // the accepted form, in words
}

// Error renders the text and the form wanted.
func (e *Error) Error() string {
	return "\"" + e.Text + "\" is not a duration; want " + e.Want
}

// Parse reads one or more groups of digits followed by s, m or h, in any order: 30s, 1h30m5s, 0s.
// Signs, fractions, other units and durations beyond 292 years are errors.
func Parse(text string) (time.Duration, error) {
	return parse(text, groupsForm)
}

// ParseOrNever reads what Parse reads, or exactly Never.
func ParseOrNever(text string) (d time.Duration, never bool, err error) {
	if text == Never {
		return 0, true, nil
	}
	d, err = parse(text, neverForm)
	return d, false, err
}

// ParseBudget reads the duration of a disruption budget: hours, minutes, or hours then minutes, each
// at most once, then optionally the 0s that Go's own rendering appends.
func ParseBudget(text string) (time.Duration, error) {
	const start = time.Duration(math.MaxInt64)
	var total time.Duration
	last := start // units only ever get smaller
	for rest := text; rest != ""; {
		g, ok := cut(rest)
		if !ok || g.unit >= last || (g.unit == time.Second && (last == start || g.text != "0s")) {
			return 0, &Error{Text: text, Want: budgetForm}
		}
		if total, ok = g.addTo(total); !ok {
			return 0, &Error{Text: text, Want: shorterForm}
		}
		last, rest = g.unit, g.rest
	}
	if last == start {
		return 0, &Error{Text: text, Want: budgetForm}
	}
	return total, nil
}

func parse(text, want string) (time.Duration, error) {
	if text == "" {
		return 0, &Error{Text: text, Want: want}
	}
	var total time.Duration
	for rest := text; rest != ""; {
		g, ok := cut(rest)
		if !ok {
			return 0, &Error{Text: text, Want: want}
		}
		if total, ok = g.addTo(total); !ok {
			return 0, &Error{Text: text, Want: shorterForm}
		}
		rest = g.rest
	}
	return total, nil
}

// group is one number and its unit.
type group struct {
	text, rest string // of this group, and what follows it
	count      int64  // saturates
	unit       time.Duration
}

// cut takes the first group off a text.
func cut(text string) (group, bool) {
	g := group{}
	i := 0
	for ; i < len(text) && '0' <= text[i] && text[i] <= '9'; i++ {
		digit := int64(text[i] - '0')
		if g.count > (math.MaxInt64-digit)/10 {
			g.count = math.MaxInt64 // too long in any unit, but perhaps well formed
			continue
		}
		g.count = g.count*10 + digit
	}
	if i == 0 || i == len(text) {
		return group{}, false
	}
	switch text[i] {
	case 's':
		g.unit = time.Second
	case 'm':
		g.unit = time.Minute
	case 'h':
		g.unit = time.Hour
	default:
		return group{}, false
	}
	g.text, g.rest = text[:i+1], text[i+1:]
	return g, true
}

// addTo adds the group to a total; ok is false if the sum has no representation.
func (g group) addTo(total time.Duration) (sum time.Duration, ok bool) {
	if g.count > int64((math.MaxInt64-total)/g.unit) {
		return 0, false
	}
	return total + time.Duration(g.count)*g.unit, true
}
