package arch_test

import (
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dovetail-sh/dovetail/internal/drivers"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

// A metric is set somewhere, or the reference says that it is not.
func TestMetricsAreSet(t *testing.T) {
	t.Parallel()
	set, source := metric.New(prometheus.NewRegistry(), drivers.Driver().Labels), program(t, "internal/metric")
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
		if used := strings.Contains(source, "."+fields.Type().Field(i).Name); used == idle[name] {
			t.Errorf("%s: some package sets it: %v; documented as not yet set: %v", name, used, idle[name])
		}
	}
}

// Every event reason is sent somewhere.
func TestReasonsAreSent(t *testing.T) {
	t.Parallel()
	source := program(t, "internal/event")
	for _, d := range event.Docs() {
		if !strings.Contains(source, "event."+string(d.Reason)) {
			t.Errorf("%s: no package sends it", d.Reason)
		}
	}
}

// program returns the source of the program without its tests and one package.
func program(t *testing.T, without string) string {
	t.Helper()
	var all strings.Builder
	for _, file := range repository(t).sources {
		if !file.nested && file.code() && file.within("internal") && !file.within(without) {
			all.Write(file.text)
		}
	}
	return all.String()
}
