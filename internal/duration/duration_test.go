package duration_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/duration"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text      string
		want      time.Duration
		wantError string
	}{
		"API-2.1 seconds":                      {text: "30s", want: 30 * time.Second},
		"API-2.1 several groups":               {text: "1h30m5s", want: time.Hour + 30*time.Minute + 5*time.Second},
		"API-2.1 any order, repeated":          {text: "5s1h5s", want: time.Hour + 10*time.Second},
		"API-2.1 zero means at once":           {text: "0s"},
		"API-2.1 leading zeros":                {text: "0000000000000000000000010m", want: 10 * time.Minute},
		"API-2.1 the default expiry":           {text: "720h", want: 720 * time.Hour},
		"the longest":                          {text: "2562047h47m16s", want: 2562047*time.Hour + 47*time.Minute + 16*time.Second},
		"one second longer than the longest":   {text: "2562047h47m17s", wantError: "at most"},
		"beyond 64 bits":                       {text: "99999999999999999999s", wantError: "at most"},
		"beyond 64 bits in nanoseconds":        {text: "9223372036854775807h", wantError: "at most"},
		"API-2.1 empty":                        {text: "", wantError: "groups"},
		"API-2.1 negative":                     {text: "-5s", wantError: "groups"},
		"API-2.1 plus sign":                    {text: "+5s", wantError: "groups"},
		"API-2.1 unit missing":                 {text: "10", wantError: "groups"},
		"API-2.1 unit missing after a group":   {text: "1h10", wantError: "groups"},
		"API-2.1 number missing":               {text: "h", wantError: "groups"},
		"API-2.1 days":                         {text: "1d", wantError: "groups"},
		"API-2.1 two-letter unit":              {text: "1hr", wantError: "groups"},
		"API-2.1 milliseconds":                 {text: "10ms", wantError: "groups"},
		"API-2.1 fraction":                     {text: "1.5h", wantError: "groups"},
		"API-2.1 space":                        {text: "1h ", wantError: "groups"},
		"API-2.1 line break":                   {text: "1h\n", wantError: "groups"},
		"API-2.1 digits of another script":     {text: "٣h", wantError: "groups"},
		"API-2.1 Never has its own function":   {text: "Never", wantError: "groups"},
		"API-2.1 upper case units are foreign": {text: "1H", wantError: "groups"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := duration.Parse(tc.text)
			check(t, tc.text, got, err, tc.want, tc.wantError)
		})
	}
}

func TestParseOrNever(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text      string
		want      time.Duration
		wantNever bool
		wantError string
	}{
		"API-2.1 never":              {text: "Never", wantNever: true},
		"API-2.1 a duration":         {text: "1m", want: time.Minute},
		"API-2.1 zero is not never":  {text: "0s"},
		"API-2.1 partial match":      {text: "FooNever", wantError: "or Never"},
		"API-2.1 never and a group":  {text: "Never1h", wantError: "or Never"},
		"API-2.1 lower case":         {text: "never", wantError: "or Never"},
		"API-2.1 empty is not never": {text: "", wantError: "or Never"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, never, err := duration.ParseOrNever(tc.text)
			if never != tc.wantNever {
				t.Errorf("ParseOrNever(%q) never = %v, want %v", tc.text, never, tc.wantNever)
			}
			check(t, tc.text, got, err, tc.want, tc.wantError)
		})
	}
}

func TestParseBudget(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text      string
		want      time.Duration
		wantError string
	}{
		"API-2.1 hours":                  {text: "8h", want: 8 * time.Hour},
		"API-2.1 minutes":                {text: "90m", want: 90 * time.Minute},
		"API-2.1 hours and minutes":      {text: "1h30m", want: 90 * time.Minute},
		"API-2.1 as Go renders it":       {text: "8h0m0s", want: 8 * time.Hour},
		"API-2.1 hours and no seconds":   {text: "8h0s", want: 8 * time.Hour},
		"API-2.1 minutes and no seconds": {text: "5m0s", want: 5 * time.Minute},
		"API-2.1 zero":                   {text: "0h"},
		"API-2.1 seconds":                {text: "30s", wantError: "hours and minutes"},
		"API-2.1 zero seconds alone":     {text: "0s", wantError: "hours and minutes"},
		"API-2.1 some seconds":           {text: "1h5s", wantError: "hours and minutes"},
		"API-2.1 no seconds, spelt long": {text: "1h00s", wantError: "hours and minutes"},
		"API-2.1 no seconds, twice":      {text: "1h0s0s", wantError: "hours and minutes"},
		"API-2.1 minutes before hours":   {text: "30m1h", wantError: "hours and minutes"},
		"API-2.1 hours twice":            {text: "1h1h", wantError: "hours and minutes"},
		"API-2.1 never":                  {text: "Never", wantError: "hours and minutes"},
		"API-2.1 empty":                  {text: "", wantError: "hours and minutes"},
		"beyond 292 years":               {text: "2562048h", wantError: "at most"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := duration.ParseBudget(tc.text)
			check(t, tc.text, got, err, tc.want, tc.wantError)
		})
	}
}

func FuzzDuration(f *testing.F) {
	for _, text := range []string{"", "0s", "1h30m5s", "Never", "8h0m0s", "1h0s", "99999999999999999999h", "2562047h47m17s", "-1h", "1.5h", "1µs"} {
		f.Add(text)
	}
	groups := regexp.MustCompile(`^([0-9]+(s|m|h))+$`)
	budget := regexp.MustCompile(`^(([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?$`)
	f.Fuzz(func(t *testing.T, text string) {
		d, err := duration.Parse(text)
		checkForm(t, text, d, err, groups.MatchString(text))
		or, never, orErr := duration.ParseOrNever(text)
		if never != (text == duration.Never) || or != d || (orErr == nil) != (err == nil || never) {
			t.Errorf("ParseOrNever(%q) = %v, %v, %v; Parse gives %v, %v", text, or, never, orErr, d, err)
		}
		b, budgetErr := duration.ParseBudget(text)
		checkForm(t, text, b, budgetErr, budget.MatchString(text))
		if budgetErr == nil && (err != nil || b != d || b%time.Minute != 0) {
			t.Errorf("ParseBudget(%q) = %v; Parse gives %v, %v", text, b, d, err)
		}
	})
}

// checkForm compares with the pattern of the CRD, and with Go's own reader where that can read it.
func checkForm(t *testing.T, text string, d time.Duration, err error, matches bool) {
	t.Helper()
	theirs, theirErr := time.ParseDuration(text)
	switch {
	case !matches && err == nil:
		t.Errorf("%q was read as %v against the pattern", text, d)
	case matches && (err == nil) != (theirErr == nil):
		t.Errorf("%q: %v; Go says %v", text, err, theirErr)
	case err == nil && d != theirs:
		t.Errorf("%q was read as %v, Go reads %v", text, d, theirs)
	case d < 0 || (err != nil && d != 0):
		t.Errorf("%q gave %v with error %v", text, d, err)
	}
}

func check(t *testing.T, text string, got time.Duration, err error, want time.Duration, wantError string) {
	t.Helper()
	if got != want {
		t.Errorf("%q was read as %v, want %v", text, got, want)
	}
	if wantError == "" {
		if err != nil {
			t.Errorf("%q: unexpected %v", text, err)
		}
		return
	}
	malformed, ok := errors.AsType[*duration.Error](err)
	if !ok || malformed.Text != text || !strings.Contains(malformed.Want, wantError) {
		t.Errorf("%q: error %v, want one about %q", text, err, wantError)
	}
}
