package budget_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/budget"
	"github.com/dovetail-sh/dovetail/internal/cluster"
)

func TestParseSchedule(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		texts []string
		want  bool
	}{
		"API-5 five fields":                {texts: []string{"0 9 * * mon-fri", "*/5 0-23/2 1,15 jan-MAR ?", "  0 9 * * 1 ", "0\t9\t*\t*\t0"}, want: true},
		"API-5 names of schedules":         {texts: []string{"@annually", "@yearly", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}, want: true},
		"API-5 a date that never comes":    {texts: []string{"0 0 30 2 *", "0 0 31 4,6,9,11 *"}, want: true},
		"API-5 other names":                {texts: []string{"@every 1h", "@every 1s", "@every x", "@reboot", "@Daily", "@daily ", "@", "@every "}},
		"API-5 time zones":                 {texts: []string{"TZ=UTC 0 9 * * *", "CRON_TZ=Asia/Tokyo 0 9 * * *", "TZ=", "TZ=UTC", "CRON_TZ=", "CRON_TZ=UTC\t0 9 * * *", " TZ=UTC 0 9 * * *", "TZ=UTC @daily"}},
		"API-5 seconds":                    {texts: []string{"0 0 9 * * *"}},
		"API-5 too few fields":             {texts: []string{"", " ", "*", "0 9 * *"}},
		"API-5 out of range":               {texts: []string{"60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *", "* * * 0 *", "* * * 13 *", "* * * * 7"}},
		"API-5 malformed fields":           {texts: []string{"5-1 * * * *", "*/0 * * * *", "1-2-3 * * * *", "1/2/3 * * * *", "-1 * * * *", "a * * * *", "* * * * noday", "99999999999999999999 * * * *"}},
		"API-5 fields of commas":           {texts: []string{", * * * *", "* , * * *", "* * ,, * *", "* * * , *", "* * * * ,", ", , , , ,"}},
		"API-5 steps beyond the last hour": {texts: []string{"*/9223372036854775807 * * * *"}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, text := range tc.texts {
				if _, broken := budget.ParseSchedule(text); (broken == nil) != tc.want {
					t.Errorf("ParseSchedule(%q) broken: %v, want readable %v", text, broken, tc.want)
				}
			}
		})
	}
}

func TestActive(t *testing.T) {
	t.Parallel()
	const forever = math.MaxInt64
	for name, tc := range map[string]struct {
		schedule string
		lasts    time.Duration
		now      string
		want     bool
	}{
		"API-5, disruption 25.3 the second of the hit":      {schedule: "0 9 * * *", lasts: 8 * time.Hour, now: "2024-05-15T09:00:00Z", want: true},
		"API-5 just before the hit":                         {schedule: "0 9 * * *", lasts: 8 * time.Hour, now: "2024-05-15T08:59:59.999999999Z"},
		"API-5, disruption 25.3 just before the end":        {schedule: "0 9 * * *", lasts: 8 * time.Hour, now: "2024-05-15T16:59:59.999999999Z", want: true},
		"API-5, disruption 25.3 the second of the end":      {schedule: "0 9 * * *", lasts: 8 * time.Hour, now: "2024-05-15T17:00:00Z"},
		"API-5, FM N09 UTC, whatever the zone of the clock": {schedule: "0 9 * * *", lasts: time.Hour, now: "2024-05-15T18:30:00+09:00", want: true},
		"API-5 not at nine o'clock elsewhere":               {schedule: "0 9 * * *", lasts: time.Hour, now: "2024-05-15T09:30:00+09:00"},
		"API-5 not on a Sunday":                             {schedule: "0 9 * * mon-fri", lasts: 8 * time.Hour, now: "2024-05-19T10:00:00Z"},
		"API-5 Friday's window on Saturday":                 {schedule: "0 20 * * fri", lasts: 12 * time.Hour, now: "2024-05-18T07:00:00Z", want: true},
		"API-5 either day field counts: day of month":       {schedule: "0 0 13 * fri", lasts: time.Hour, now: "2024-05-13T00:30:00Z", want: true},
		"API-5 either day field counts: day of week":        {schedule: "0 0 13 * fri", lasts: time.Hour, now: "2024-05-17T00:30:00Z", want: true},
		"API-5 neither day field":                           {schedule: "0 0 13 * fri", lasts: time.Hour, now: "2024-05-14T00:30:00Z"},
		"API-5 overlapping windows merge":                   {schedule: "@hourly", lasts: 90 * time.Minute, now: "2024-05-15T09:59:59Z", want: true},
		"API-5 no duration, no window":                      {schedule: "* * * * *", now: "2024-05-15T09:00:00Z"},
		"API-5 negative duration, no window":                {schedule: "* * * * *", lasts: -time.Hour, now: "2024-05-15T09:00:00Z"},
		"API-5 a date that never comes":                     {schedule: "0 0 30 2 *", lasts: forever, now: "2024-05-15T09:00:00Z"},
		"API-5 every minute for ever":                       {schedule: "* * * * *", lasts: forever, now: "2024-05-15T09:00:00Z", want: true},
		"API-5 a leap day four years ago":                   {schedule: "0 0 29 2 *", lasts: 5 * 365 * 24 * time.Hour, now: "2028-02-28T00:00:00Z", want: true},
		"API-5 a leap day not that long ago":                {schedule: "0 0 29 2 *", lasts: 365 * 24 * time.Hour, now: "2028-02-28T00:00:00Z"},
		"API-5 a leap day eight years ago over 2100":        {schedule: "0 0 29 2 *", lasts: 2922 * 24 * time.Hour, now: "2104-02-28T23:00:00Z", want: true},
		"API-5 no leap day in seven years over 2100":        {schedule: "0 0 29 2 *", lasts: 7 * 365 * 24 * time.Hour, now: "2104-02-28T23:00:00Z"},
		"API-5 a leap day for ever, in the year of none":    {schedule: "0 0 29 2 *", lasts: forever, now: "2103-12-31T23:00:00Z", want: true},
		"the first day of the calendar":                     {schedule: "0 9 * * *", lasts: time.Hour, now: "0001-01-01T00:00:00Z"},
		"the last day of the calendar":                      {schedule: "0 9 * * *", lasts: time.Hour, now: "9999-12-31T09:30:00Z", want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			schedule, broken := budget.ParseSchedule(tc.schedule)
			if broken != nil {
				t.Fatal(broken.Text())
			}
			if got := schedule.Active(at(t, tc.now), tc.lasts); got != tc.want {
				t.Errorf("Active() = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestActiveIsTotal(t *testing.T) {
	t.Parallel()
	if (budget.Schedule{}).Active(at(t, "2024-05-15T09:00:00Z"), time.Hour) {
		t.Error("a schedule of nothing is active")
	}
	daily, _ := budget.ParseSchedule("@daily")
	for _, seconds := range []int64{math.MinInt64, math.MaxInt64, math.MaxInt64 / 2} {
		if !daily.Active(time.Unix(seconds, 0), time.Minute) {
			t.Errorf("a clock of %d does not close the budget", seconds)
		}
	}
}

// A slow model: look at every minute of the window.
func TestActiveAgreesWithScanningMinutes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		minute, hour := drawField(t, "minute", 0, 59), drawField(t, "hour", 0, 23)
		day, month, weekday := drawField(t, "day", 1, 31), drawField(t, "month", 1, 12), drawField(t, "weekday", 0, 6)
		hits := func(m time.Time) bool {
			dayHit, weekdayHit := day.has(m.Day()), weekday.has(int(m.Weekday()))
			either := dayHit || weekdayHit
			if day.star || weekday.star {
				either = dayHit && weekdayHit
			}
			return minute.has(m.Minute()) && hour.has(m.Hour()) && month.has(int(m.Month())) && either
		}
		text := strings.Join([]string{minute.text, hour.text, day.text, month.text, weekday.text}, " ")
		schedule, broken := budget.ParseSchedule(text)
		if broken != nil {
			t.Fatal(broken.Text())
		}
		now := time.Unix(rapid.Int64Range(1<<30, 1<<32).Draw(t, "now"), rapid.SampledFrom([]int64{0, 1, 999_999_999}).Draw(t, "nanoseconds")).UTC()
		if rapid.Bool().Draw(t, "on the minute") {
			now = now.Truncate(time.Minute)
		}
		lasts := time.Duration(rapid.Int64Range(0, 5000).Draw(t, "minutes")) * time.Minute
		want := false
		for m := now.Truncate(time.Minute); m.After(now.Add(-lasts)); m = m.Add(-time.Minute) {
			want = want || hits(m)
		}
		if got := schedule.Active(now, lasts); got != want {
			t.Fatalf("%q at %v for %v: active %v, want %v", text, now, lasts, got, want)
		}
	})
}

func FuzzSchedule(f *testing.F) {
	for _, text := range []string{"@daily", "@every 1h", "TZ=UTC 0 9 * * *", "CRON_TZ=", "0 9 * * mon-fri", "*/5 1-3/2 1,15 ? jan", ", * * * *", "0 0 30 2 *", "*-x * * * *", "0 0 29 2 *"} {
		f.Add(text, int64(1715767200), int64(8*time.Hour))
	}
	names := []string{"@annually", "@yearly", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}
	f.Fuzz(func(t *testing.T, text string, now, lasts int64) {
		schedule, broken := budget.ParseSchedule(text)
		if broken == nil && len(strings.Fields(text)) != 5 && !slices.Contains(names, text) {
			t.Fatalf("%q was read", text)
		}
		if broken != nil && broken.Text() == "" {
			t.Fatal("refused without a word")
		}
		clock, window := time.Unix(now, 0), time.Duration(lasts)
		active := schedule.Active(clock, window)
		if active && window <= 0 {
			t.Fatalf("%q is active for %v", text, window)
		}
		if active && !schedule.Active(clock, math.MaxInt64) {
			t.Fatalf("%q is active for %v but not for longer", text, window)
		}
		if year := clock.UTC().Year(); broken == nil && year > 0 && year < 9999 && schedule.Active(clock, time.Minute) != schedule.Active(clock.Truncate(time.Minute), time.Minute) {
			t.Fatalf("%q changes within the minute of %v", text, clock)
		}
	})
}

func BenchmarkActive(b *testing.B) {
	now := time.Unix(1715767200, 0)
	for _, bc := range []struct {
		text  string
		lasts time.Duration
	}{
		{"* * * * *", math.MaxInt64},
		{"0 9 * * mon-fri", 8 * time.Hour},
		{"59 23 31 12 *", time.Hour},
		{"0 0 30 2 *", math.MaxInt64},
	} {
		b.Run(fmt.Sprintf("%s for %s", bc.text, bc.lasts), func(b *testing.B) {
			schedule, _ := budget.ParseSchedule(bc.text)
			b.ReportAllocs()
			for b.Loop() {
				schedule.Active(now, bc.lasts)
			}
		})
	}
}

func BenchmarkLimit(b *testing.B) {
	budgets := []cluster.Budget{{Nodes: "20%", Reasons: []string{"Empty", "Drifted"}}, {Nodes: "5"}, {Nodes: "0", Schedule: "0 9 * * mon-fri", Duration: "8h"}}
	now := time.Unix(1715767200, 0)
	b.ReportAllocs()
	for b.Loop() {
		budget.Limit(budgets, "Empty", 100, now)
	}
}

// field is one cron field and what it means.
type field struct {
	text   string
	star   bool
	values map[int]bool
}

func (f field) has(n int) bool { return f.values[n] }

func drawField(t *rapid.T, name string, least, most int) field {
	f := field{values: map[int]bool{}}
	first := rapid.IntRange(least, most).Draw(t, name+" from")
	last := rapid.IntRange(first, most).Draw(t, name+" to")
	step := rapid.IntRange(1, 20).Draw(t, name+" step")
	switch rapid.IntRange(0, 4).Draw(t, name+" form") {
	case 0:
		f.text, f.star = rapid.SampledFrom([]string{"*", "?"}).Draw(t, name+" star"), true
		first, last, step = least, most, 1
	case 1:
		f.text, f.star = fmt.Sprintf("*/%d", step), step == 1
		first, last = least, most
	case 2:
		f.text, step = fmt.Sprintf("%d-%d", first, last), 1
	case 3:
		f.text = fmt.Sprintf("%d-%d/%d", first, last, step)
	default:
		f.text = fmt.Sprintf("%d,%d", last, first)
		f.values[last] = true
		last = first
	}
	for n := first; n <= last; n += step {
		f.values[n] = true
	}
	return f
}
