package disruption_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/dovetail-sh/dovetail/internal/disrupt"
)

// FM P05: a process that begins to lead replaces nothing before it has requested prices, or failed to get
// them, or waited long enough; the log says so. Afterwards consolidation looks at once, although nothing else
// changed.
func TestFM_P05_ANewLeaderWaitsForPrices(t *testing.T) {
	t.Parallel()
	const begun, over, vain = "wait until prices", "were queried; consolidation and drift begin", "with the built-in ones"
	for name, tc := range map[string]struct {
		priced []bool // at each pass, 10 s apart
		waits  []bool
		lines  []string
	}{
		"they are there":    {priced: []bool{true, true}, waits: []bool{false, false}},
		"they come":         {priced: []bool{false, false, true, true}, waits: []bool{true, true, false, false}, lines: []string{begun, over}},
		"they do not come":  {priced: make([]bool, 14), waits: append(slices.Repeat([]bool{true}, 12), false, false), lines: []string{begun, vain}},
		"they are not read": {waits: []bool{false}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture(t, interceptor.Funcs{})
			s.node("a", "web")
			pass := 0
			if tc.priced != nil {
				s.Priced = func() bool { return tc.priced[pass] }
			}
			var waits, quiet []bool
			s.Decide = func(v disrupt.View, _ func() bool) disrupt.Decision {
				waits, quiet = append(waits, v.Unpriced), append(quiet, v.Unchanged)
				return disrupt.Decision{}
			}
			var lines []string
			ctx := log.IntoContext(t.Context(), funcr.New(func(_, text string) { lines = append(lines, text) }, funcr.Options{}))
			for pass = range tc.waits {
				if err := s.Pass(ctx); err != nil {
					t.Fatal(err)
				}
				s.clock = s.clock.Add(10 * time.Second)
			}
			if !slices.Equal(waits, tc.waits) {
				t.Errorf("waits %v, want %v", waits, tc.waits)
			}
			if first := slices.Index(waits, false); quiet[first] {
				t.Error("the first pass with prices leaves consolidation out")
			}
			lines = slices.DeleteFunc(lines, func(line string) bool { return !strings.Contains(line, "prices") })
			if len(lines) != len(tc.lines) {
				t.Fatalf("said %q", lines)
			}
			for i, want := range tc.lines {
				if !strings.Contains(lines[i], want) {
					t.Errorf("said %q, want %q", lines[i], want)
				}
			}
		})
	}
}
