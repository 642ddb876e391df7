package app

import (
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/dovetail-sh/dovetail/internal/aws"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/config"
	"github.com/dovetail-sh/dovetail/internal/controller/pools"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

// roll is a manager that writes down who works in it, with the number of workers if it has one.
type roll struct {
	ctrl.Manager
	workers map[string]int64
}

func (r *roll) Add(one manager.Runnable) error {
	v := reflect.Indirect(reflect.ValueOf(one))
	if v.Kind() != reflect.Struct {
		return nil
	}
	name, many := "", int64(1)
	for i := range v.NumField() {
		switch field := v.Type().Field(i).Name; {
		case strings.EqualFold(field, "name"):
			name = v.Field(i).String()
		case field == "MaxConcurrentReconciles":
			many = v.Field(i).Int()
		}
	}
	if name != "" {
		r.workers[name] = many
	}
	return nil
}

// V15-06, operations 7: the names that logs and metrics carry, who works only with a gate, and with how many
// hands on one core. No test predicts what the VerticalPodAutoscaler will do.
func TestV15_06_ControllersAndTheirNames(t *testing.T) {
	t.Parallel()
	always := []string{
		"annotation.deprecated", "disruption", "disruption.queue", "eviction-queue", "node.hydration", "node.termination", "node.termination.waiting", "nodeclaim.consistency",
		"nodeclaim.disruption", "nodeclaim.expiration", "nodeclaim.garbagecollection", "nodeclaim.hydration", "nodeclaim.lifecycle", "nodeclaim.podevents",
		"nodeclaim.reboot", "nodepool.counter", "nodepool.hash", "poddisruptionbudget.impossible",
	}
	for name, tc := range map[string]struct {
		gates  config.Gates
		legacy bool
		more   []string
	}{
		"no gate":              {},
		"repair":               {gates: config.Gates{NodeRepair: true}},
		"legacy repair":        {gates: config.Gates{NodeRepair: true}, legacy: true, more: []string{"node.health"}},
		"legacy, without gate": {legacy: true},
		"deletion costs":       {gates: config.Gates{PodDeletionCostManagement: true}, more: []string{"pod.deletioncost", "pod.deletioncost.queue"}},
		"static pools":         {gates: config.Gates{StaticCapacity: true}, more: []string{"static.provisioning", "static.deprovisioning"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scheme, err := newScheme(aws.Driver())
			if err != nil {
				t.Fatal(err)
			}
			mgr, err := ctrl.NewManager(&rest.Config{Host: "http://localhost:1"}, ctrl.Options{
				Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Controller: ctrlconfig.Controller{SkipNameValidation: new(true)},
				MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return meta.NewDefaultRESTMapper(nil), nil },
			})
			if err != nil {
				t.Fatal(err)
			}
			seen := &roll{Manager: mgr, workers: map[string]int64{}}
			c := &core{
				mgr: seen, driver: aws.Driver(), connected: healer{list: []cloud.Repair{{Condition: "Ready", Status: "False", Action: cloud.ReplaceNode}}},
				metrics: metric.New(prometheus.NewRegistry()), clock: &clock{}, health: pools.NewHealth(),
				cfg: config.Config{Gates: tc.gates, Compat: config.Compat{LegacyNodeRepair: tc.legacy}, Process: config.Process{CPUMillis: 1000}},
			}
			if err := c.readRepairs(); err != nil {
				t.Fatal(err)
			}
			for _, r := range slices.Concat(c.lifeCycle(), c.legacyRepair(), c.pools(), c.deletionCosts()) {
				if err := r.Register(seen); err != nil {
					t.Fatal(err)
				}
			}
			var got []string
			for one := range seen.workers {
				got = append(got, one)
			}
			want := slices.Concat(always, tc.more)
			slices.Sort(got)
			slices.Sort(want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("controllers (-want +got):\n%s", diff)
			}
			for one, workers := range map[string]int64{"nodeclaim.reboot": 10, "pod.deletioncost": 1, "pod.deletioncost.queue": 100} {
				if have, works := seen.workers[one]; works && have != workers {
					t.Errorf("%s has %d workers, want %d", one, have, workers)
				}
			}
		})
	}
}
