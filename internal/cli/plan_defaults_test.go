package cli_test

import (
	"io"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/cli"
	"github.com/dovetail-sh/dovetail/internal/config"
	"github.com/dovetail-sh/dovetail/internal/drivers"
)

// A plan for a scenario is the plan that the controller would make: settings that both have, have the same default.
func TestPlanHasTheDefaultsOfTheController(t *testing.T) {
	t.Parallel()
	plan, _, err := cli.New(cli.Streams{Out: io.Discard, Err: io.Discard}).Find([]string{"plan"})
	if err != nil {
		t.Fatal(err)
	}
	shared := 0
	for _, setting := range config.Settings(drivers.Driver().Settings) {
		flag := plan.Flags().Lookup(setting.Flag)
		if flag == nil {
			continue
		}
		shared++
		if flag.DefValue != setting.Default {
			t.Errorf("--%s: the default is %s, that of the controller %s", setting.Flag, flag.DefValue, setting.Default)
		}
	}
	if shared < 3 {
		t.Errorf("%d settings of the controller found, want those that change plans", shared)
	}
}
