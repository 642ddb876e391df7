package config_test

import (
	"errors"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/config"
)

func TestV15_01_Gates(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text string
		want config.Gates
	}{
		"one, the rest keeps its default": {text: "NodeRepair=true", want: config.Gates{NodeOverlay: true, ReservedCapacity: true, CapacityBuffer: true, NodeRepair: true}},
		"a default switched off":          {text: "ReservedCapacity=false,NodeOverlay=false", want: config.Gates{CapacityBuffer: true}},
		"spaces and empty parts": {
			text: " NodeRepair = true , ,StaticCapacity=true,",
			want: config.Gates{NodeOverlay: true, ReservedCapacity: true, CapacityBuffer: true, NodeRepair: true, StaticCapacity: true},
		},
		"the last one counts":      {text: "NodeRepair=true,NodeRepair=false", want: config.Gates{NodeOverlay: true, ReservedCapacity: true, CapacityBuffer: true}},
		"an unknown one among all": {text: "Drift=true,CapacityBuffer=false", want: config.Gates{NodeOverlay: true, ReservedCapacity: true}},
		"nothing":                  {text: "  ", want: config.Gates{NodeOverlay: true, ReservedCapacity: true, CapacityBuffer: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, _, err := load(t, nil, map[string]string{"CLUSTER_NAME": "prod", "FEATURE_GATES": tc.text})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got.Gates); diff != "" {
				t.Errorf("gates (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzGates: any text is gates or faults of this one setting, and gates written out read the same.
func FuzzGates(f *testing.F) {
	for _, s := range config.Settings(section) {
		if s.Kind() == "gates" {
			f.Add(s.Default)
		}
	}
	for _, text := range []string{"", ",", "=", "NodeRepair", "NodeRepair=true", "Drift=1", "NodeRepair=true=false", " NodeOverlay = false ", "\x00=\xff"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, warnings, err := load(t, []string{"--cluster-name=prod", "--feature-gates=" + text}, nil)
		if err != nil {
			onlyFaultsOf(t, err, "feature-gates")
			return
		}
		again, _, err := load(t, []string{"--cluster-name=prod", "--feature-gates=" + render(got.Gates)}, nil)
		if err != nil || again.Gates != got.Gates {
			t.Errorf("%q gave %+v with warnings %q; written out %+v, %v", text, got.Gates, warnings, again.Gates, err)
		}
	})
}

func render(g config.Gates) string {
	return "NodeRepair=" + strconv.FormatBool(g.NodeRepair) + ",ReservedCapacity=" + strconv.FormatBool(g.ReservedCapacity) +
		",SpotToSpotConsolidation=" + strconv.FormatBool(g.SpotToSpotConsolidation) + ",NodeOverlay=" + strconv.FormatBool(g.NodeOverlay) +
		",StaticCapacity=" + strconv.FormatBool(g.StaticCapacity) + ",CapacityBuffer=" + strconv.FormatBool(g.CapacityBuffer) +
		",TerminateFirstDrift=" + strconv.FormatBool(g.TerminateFirstDrift) + ",TerminateFirstRepair=" + strconv.FormatBool(g.TerminateFirstRepair) +
		",PodDeletionCostManagement=" + strconv.FormatBool(g.PodDeletionCostManagement)
}

func onlyFaultsOf(t *testing.T, err error, flag string) {
	t.Helper()
	invalid, ok := errors.AsType[*config.Error](err)
	if !ok || len(invalid.Faults) == 0 {
		t.Fatalf("error %v, want faults", err)
	}
	for _, fault := range invalid.Faults {
		if fault.Flag != flag || fault.Want == "" {
			t.Errorf("fault %+v, want one of --%s", fault, flag)
		}
	}
}
