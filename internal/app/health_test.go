package app_test

import (
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/app"
)

// operations 4: a loop that has work and makes no progress for 15 minutes is dead; one that waits for work is not, and
// neither is one that advances (Trust C04).
func TestFM_D12_StuckLoopsAreSeen(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		steps string // b: begin, p: progress, d: done, each letter a minute after the one before
		after time.Duration
		stuck bool
	}{
		"never had work":                        {steps: "", after: 100 * time.Hour},
		"at work":                               {steps: "b", after: 15 * time.Minute},
		"at work for too long":                  {steps: "b", after: 15*time.Minute + time.Second, stuck: true},
		"more work does not hide it":            {steps: "bbbbbbbbbbbbbbbbb", after: 15*time.Minute + time.Second, stuck: true},
		"finished, and idle since":              {steps: "bd", after: 100 * time.Hour},
		"finished a pass, and busy again":       {steps: "bdb", after: 17 * time.Minute},
		"finished a pass, and then got stuck":   {steps: "bdb", after: 17*time.Minute + time.Second, stuck: true},
		"a pass that ends without work is fine": {steps: "d", after: time.Hour},
		"at work for long, and it advances":     {steps: "bppppppppppppppppppp", after: 34 * time.Minute},
		"it advanced, and then got stuck":       {steps: "bppppppppppppppppppp", after: 34*time.Minute + time.Second, stuck: true},
		"progress without work is none":         {steps: "bdp", after: 100 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := start
			pulse := app.NewPulse("provisioner", func() time.Time { return now })
			for i, step := range tc.steps {
				now = start.Add(time.Duration(i) * time.Minute)
				switch step {
				case 'b':
					pulse.Begin()
				case 'p':
					pulse.Beat()
				default:
					pulse.Done()
				}
			}
			err := pulse.Check(start.Add(tc.after))
			if (err != nil) != tc.stuck {
				t.Errorf("Check() = %v, want stuck %v", err, tc.stuck)
			}
			if err != nil && !strings.HasPrefix(err.Error(), "provisioner has had work for ") {
				t.Errorf("Check() = %v does not name the loop", err)
			}
		})
	}
}
