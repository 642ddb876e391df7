package app

import (
	"net/http"
	"testing"
	"time"
)

// FM N06: the clock is compared with the dates of the API server's answers.
func TestFM_N06_ClockThatIsOff(t *testing.T) {
	t.Parallel()
	server := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, tc := range map[string]struct {
		ahead time.Duration // of our clock
		took  time.Duration
		date  string // empty: the right one
		want  time.Duration
		off   bool
	}{
		"it is right":               {},
		"a second is no difference": {ahead: 900 * time.Millisecond},
		"it is a little off":        {ahead: 40 * time.Second, want: 40 * time.Second},
		"it jumped an hour":         {ahead: time.Hour, want: time.Hour, off: true},
		"it is late":                {ahead: -2 * time.Minute, want: -2 * time.Minute, off: true},
		"half of the way is ours":   {took: 4 * time.Second},
		"an answer that took long":  {ahead: time.Hour, took: time.Minute},
		"no date":                   {ahead: time.Hour, date: "today"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := server.Add(tc.ahead)
			c := &clock{now: func() time.Time { return now }}
			date := tc.date
			if date == "" {
				date = server.Add(tc.took / 2).Format(http.TimeFormat)
			}
			transport := c.wrap(roundTrip(func(*http.Request) (*http.Response, error) {
				now = now.Add(tc.took)
				return &http.Response{Header: http.Header{"Date": {date}}, Body: http.NoBody}, nil
			}))
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api", nil)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := transport.RoundTrip(request)
			if err != nil {
				t.Fatal(err)
			}
			if err := answer.Body.Close(); err != nil {
				t.Error(err)
			}
			if skew, off := c.off(); skew != tc.want || off != tc.off {
				t.Errorf("off() = %s, %t; want %s, %t", skew, off, tc.want, tc.off)
			}
		})
	}
}
