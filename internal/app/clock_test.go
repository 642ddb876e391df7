package app

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// FM N06: the clock is compared with the dates of the API server's responses.
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
		"a response that took long": {ahead: time.Hour, took: time.Minute},
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
			transport := c.wrapTransport(roundTrip(func(*http.Request) (*http.Response, error) {
				now = now.Add(tc.took)
				return &http.Response{Header: http.Header{"Date": {date}}, Body: http.NoBody}, nil
			}))
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api", nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := transport.RoundTrip(request)
			if err != nil {
				t.Fatal(err)
			}
			if err := response.Body.Close(); err != nil {
				t.Error(err)
			}
			if skew, off := c.skewBeyondLimit(); skew != tc.want || off != tc.off {
				t.Errorf("off() = %s, %t; want %s, %t", skew, off, tc.want, tc.off)
			}
		})
	}
}

// What is older than five minutes on the API server's clock is so here, however far ours is off, and also between
// the moment when ours is set and the next response. What is measured from one moment to another does not notice.
func TestTrust_C07_AgesAreCountedWithTheTimeOfTheAPIServer(t *testing.T) {
	t.Parallel()
	m := newMachine()
	server := m.begun.Round(0).Truncate(time.Second)
	c := &clock{now: m.now}
	if got := c.apiServerTime(); !got.Equal(m.begun.Round(0)) {
		t.Errorf("before any response it is %s, want %s", got, m.begun)
	}
	near := func(step string, want time.Time) {
		t.Helper()
		if got := c.apiServerTime(); got.Sub(want).Abs() > 2*time.Second {
			t.Errorf("%s: it is %s, want %s", step, got, want)
		}
	}
	respond := func() {
		at := m.now()
		c.recordDate(at, at, server.Add(m.passed).Format(http.TimeFormat))
	}
	respond()
	near("it is right", server)
	first := c.apiServerTime()
	m.passed, m.set = time.Minute, 20*time.Minute
	near("it was set ahead, and no answer came yet", server.Add(m.passed))
	respond()
	near("it is ahead", server.Add(m.passed))
	m.passed, m.set = 2*time.Minute, -time.Hour
	near("it was set back, and no answer came yet", server.Add(m.passed))
	respond()
	near("it is behind", server.Add(m.passed))
	if took := c.apiServerTime().Sub(first); (took - 2*time.Minute).Abs() > 2*time.Second {
		t.Errorf("%s passed, want two minutes", took)
	}
}

// Code that compares times of objects or instances with now uses the corrected clock.
func TestTrust_C07_ControllersHaveTheCorrectedClock(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"core.go", "repair.go", "observe.go", "app.go"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for n, line := range strings.Split(string(text), "\n") {
			if strings.Contains(line, "Now: time.Now") {
				t.Errorf("%s:%d has the clock of the machine: %s", name, n+1, strings.TrimSpace(line))
			}
		}
	}
}
