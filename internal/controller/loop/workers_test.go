package loop_test

import (
	"testing"

	"github.com/dovetail-sh/dovetail/internal/controller/loop"
)

func TestWorkers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ millicores, want int }{
		"one core":         {millicores: 1_000, want: 10},
		"less than a core": {millicores: 100, want: 10},
		"nothing known":    {millicores: 0, want: 10},
		"sixty cores":      {millicores: 60_000, want: 1000},
		"more than sixty":  {millicores: 600_000, want: 1000},
		"half way between": {millicores: 30_500, want: 505},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := loop.Workers(10, 1000, tc.millicores); got != tc.want {
				t.Errorf("%d workers, want %d", got, tc.want)
			}
		})
	}
}
