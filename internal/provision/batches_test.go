package provision_test

import (
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/provision"
)

// SC-51: when a claim may be launched. Batch 1 takes until second 3, batch 2 from second 2 until second 30.
func TestSC_51_LaunchesWaitForTheLastBatch(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		requested int // second at which the launch is requested
		want      int // second at which it goes ahead
	}{
		"no batch was written yet":      {requested: 0, want: 0},
		"the batch is being written":    {requested: 1, want: 3},
		"two are, the last one counts":  {requested: 2, want: 12},
		"a batch that takes too long":   {requested: 10, want: 20},
		"it is written in the meantime": {requested: 25, want: 30},
		"all batches are written":       {requested: 31, want: 31},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b provision.Batches
			first, second, batch := 0, 0, 0
			for now := range 60 {
				switch now {
				case 1:
					first = b.Begin()
				case 2:
					second = b.Begin()
				case 3:
					b.End(first)
				case 30:
					b.End(second)
				}
				if now == tc.requested {
					batch = b.Last()
				}
				if now >= tc.requested && b.LaunchWait(batch, time.Duration(now-tc.requested)*time.Second) == 0 {
					if now != tc.want {
						t.Errorf("launched at second %d, want %d", now, tc.want)
					}
					return
				}
			}
			t.Error("never launched")
		})
	}
}
