package metric_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dovetail-sh/dovetail/internal/metric"
)

// A metric is set somewhere, or the reference says that it is not.
func TestMetricsAreSet(t *testing.T) {
	t.Parallel()
	set, source := metric.New(prometheus.NewRegistry()), readSource(t)
	idle := map[string]bool{}
	for _, d := range set.Docs() {
		idle[d.Name] = d.Idle
	}
	fields := reflect.ValueOf(set).Elem()
	for i := range fields.NumField() {
		if !fields.Type().Field(i).IsExported() {
			continue
		}
		vec, ok := reflect.TypeAssert[prometheus.Collector](fields.Field(i))
		if !ok {
			continue // made from objects, or one per kind
		}
		descs := make(chan *prometheus.Desc, 1)
		vec.Describe(descs)
		name := regexp.MustCompile(`fqName: "(\w+)"`).FindStringSubmatch((<-descs).String())[1]
		if name == "karpenter_voluntary_disruption_consolidation_timeouts_total" {
			continue // stays 0: nothing runs out of time
		}
		if used := strings.Contains(source, "."+fields.Type().Field(i).Name); used == idle[name] {
			t.Errorf("%s: some package sets it: %v; documented as not yet set: %v", name, used, idle[name])
		}
	}
}

// readSource returns the program without its tests and this package.
func readSource(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "../metric/") {
			return err
		}
		text, err := os.ReadFile(path)
		all.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}
