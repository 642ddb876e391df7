package disrupt_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/disrupt"
)

// FM P05: a new leader waits for prices, once and not for ever.
func TestPriceWait(t *testing.T) {
	t.Parallel()
	start := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	type pass struct {
		at     time.Duration
		priced bool
	}
	for name, tc := range map[string]struct {
		passes []pass
		want   []string // whether it waits, what changed, for how long
	}{
		"prices are there":               {[]pass{{0, true}, {time.Minute, false}}, []string{"false  0s", "false  0s"}},
		"prices come":                    {[]pass{{0, false}, {time.Minute, false}, {90 * time.Second, true}, {2 * time.Minute, false}}, []string{"true began 0s", "true  1m0s", "false ended 1m30s", "false  0s"}},
		"prices do not come":             {[]pass{{0, false}, {2*time.Minute - 1, false}, {2 * time.Minute, false}, {time.Hour, false}}, []string{"true began 0s", "true  1m59.999999999s", "false timed out 2m0s", "false  0s"}},
		"prices come in the last moment": {[]pass{{0, false}, {2 * time.Minute, true}}, []string{"true began 0s", "false ended 2m0s"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var w disrupt.PriceWait
			var got []string
			for _, p := range tc.passes {
				wait, change, waited := w.Advance(p.priced, start.Add(p.at))
				got = append(got, fmt.Sprintf("%v %s %s", wait, change, waited))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
