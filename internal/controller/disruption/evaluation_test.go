package disruption_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/dovetail-sh/dovetail/internal/disrupt"
)

// Operations 8.4: each method that has its turn is measured by itself.
func TestEachMethodIsMeasured(t *testing.T) {
	t.Parallel()
	d, _, _ := emptying(t, interceptor.Funcs{})
	if err := d.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := testutil.CollectAndCount(d.Metrics.DisruptionEvaluationDuration); n != 3 {
		t.Errorf("%d series, want one for emptiness, one for drift and one for consolidation", n)
	}
}

// Disruption 3, step 1: a method that others keep from its turn for a quarter of an hour is named, once.
func TestMethodsWithoutATurnAreNamed(t *testing.T) {
	t.Parallel()
	d, _, _ := emptying(t, interceptor.Funcs{})
	clock := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	d.Now = func() time.Time { return clock }
	d.Decide = func(v disrupt.View, _ func() bool) disrupt.Decision {
		at := slices.IndexFunc(disrupt.EnabledMethods(v.Methods), func(m disrupt.Method) bool { return m.Name == "emptiness" })
		v.OnMethod(disrupt.EnabledMethods(v.Methods)[at])
		return disrupt.Decision{At: v.Now}
	}
	var lines []string
	ctx := log.IntoContext(t.Context(), funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{Verbosity: 1}))
	for range 17 {
		if _, err := d.Turn(ctx); err != nil {
			t.Fatal(err)
		}
		clock = clock.Add(time.Minute)
	}
	said := strings.Join(lines, "\n")
	if len(lines) != 2 || !strings.Contains(said, `"method"="drift"`) || !strings.Contains(said, `"method"="consolidation"`) {
		t.Errorf("the log says %q, want drift and consolidation", lines)
	}
}
