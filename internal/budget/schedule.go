package budget

import (
	"slices"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/dovetail-sh/dovetail/internal/reason"
)

// Schedule is a cron expression in UTC. The zero Schedule never hits.
type Schedule struct {
	spec cron.SpecSchedule
}

// ParseSchedule reads five cron fields or one of @annually, @yearly, @monthly, @weekly, @daily,
// @midnight and @hourly. Time zones, seconds and @every, which the cron library also reads, are
// refused, and so is a field of nothing but commas, with which the library searches for seconds.
func ParseSchedule(text string) (Schedule, *reason.Reason) {
	const form = "want five cron fields in UTC, or @annually, @yearly, @monthly, @weekly, @daily, @midnight or @hourly"
	if strings.HasPrefix(text, "TZ=") || strings.HasPrefix(text, "CRON_TZ=") {
		return Schedule{}, unreadable(rule, text, "time zones are not supported; "+form)
	}
	empty := func(field string) bool { return strings.Trim(field, ",") == "" }
	if slices.ContainsFunc(strings.Fields(text), empty) {
		return Schedule{}, unreadable(rule, text, form)
	}
	parsed, err := cron.ParseStandard(text)
	if err != nil {
		return Schedule{}, unreadable(rule, text, err.Error()+"; "+form)
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok { // @every is a schedule of another kind
		return Schedule{}, unreadable(rule, text, form)
	}
	return Schedule{spec: *spec}, nil
}

// The longest pause of a schedule that hits at all is from one 29 February to the next over a
// century that is no leap year: eight years. A longer window holds a hit if any window does.
const (
	year       = 365 * 24 * time.Hour
	longestGap = 9 * year
	// searched is how far one call of the cron library looks, at least.
	searched = 5 * year
)

// Active reports whether a hit lies in (now - lasts, now]: at the second of a hit it is active, lasts
// later it no longer is. It requests the first hit of the window only, so that its cost does not grow
// with the number of hits. A time outside the years 0 to 9999 is always active: fail closed.
func (s Schedule) Active(now time.Time, lasts time.Duration) bool {
	if lasts <= 0 {
		return false
	}
	now = now.UTC().Round(0) // the wall clock; a monotonic reading has no date
	if now.Year() < 0 || now.Year() > 9999 {
		return true
	}
	spec := s.spec
	spec.Location = time.UTC
	for from := now.Add(-min(lasts, longestGap)); from.Before(now); from = from.Add(searched) {
		if hit := spec.Next(from); !hit.IsZero() {
			return !hit.After(now)
		}
	}
	return false
}
