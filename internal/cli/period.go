package cli

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// longestAgo is how many days ago a period may begin.
const longestAgo = 36500

// periodFlags say which time a question is about.
type periodFlags struct {
	since, until string
}

func (f *periodFlags) bind(flags *pflag.FlagSet) {
	flags.StringVar(&f.since, "since", "", "from this time on: how long ago, such as 24h or 7d, a date such as 2026-11-18, or a time such as 2026-11-18T12:00:00Z; dates are in UTC")
	flags.StringVar(&f.until, "until", "", "before this time, written in the same way")
}

// read returns the period. A time that is not given is zero.
func (f *periodFlags) read(now time.Time) (since, until time.Time, err error) {
	if since, err = readTime("--since", f.since, now); err != nil {
		return since, until, err
	}
	if until, err = readTime("--until", f.until, now); err != nil {
		return since, until, err
	}
	if !since.IsZero() && !until.IsZero() && !since.Before(until) {
		return since, until, usagef("--since %s is not before --until %s", f.since, f.until)
	}
	return since, until, nil
}

func readTime(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if days, found := strings.CutSuffix(text, "d"); found {
		if n, err := strconv.Atoi(days); err == nil && n > 0 && n <= longestAgo {
			return now.AddDate(0, 0, -n), nil
		}
	}
	if ago, err := time.ParseDuration(text); err == nil && ago > 0 {
		return now.Add(-ago), nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, usagef("%s %q is not a time; want how long ago, such as 24h or 7d, a date such as 2026-11-18, or a time such as 2026-11-18T12:00:00Z", flag, text)
}
