package drivers_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/dovetail-sh/dovetail/internal/config"
	"github.com/dovetail-sh/dovetail/internal/drivers"
)

// load is one start.
func load(t *testing.T, args []string, env map[string]string) (config.Config, []string, error) {
	t.Helper()
	fs := pflag.NewFlagSet("controller", pflag.ContinueOnError)
	loader := config.Bind(fs, drivers.Driver().Settings)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return loader.Load(func(name string) (string, bool) {
		value, ok := env[name]
		return value, ok
	})
}

// SC-01, operations 1: names and defaults of settings do not change.
func TestSurfaceIsFrozen(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("testdata/settings.txt")
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for line := range strings.Lines(string(file)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			want = append(want, line)
		}
	}
	for _, s := range config.Settings(drivers.Driver().Settings) {
		def := `"` + s.Default + `"`
		if s.Required {
			def = "required"
		}
		got = append(got, "--"+s.Flag+" "+s.Env()+" "+def)
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the settings differ from testdata/settings.txt (-frozen +code):\n%s", diff)
	}
}

func TestEverySettingIsDescribed(t *testing.T) {
	t.Parallel()
	kinds := []string{"bool", "int", "float", "duration", "string", "list", "gates", "yaml"}
	derived := []string{"karpenter-service", "system-namespace"} // the chart knows them without a value
	for _, s := range config.Settings(drivers.Driver().Settings) {
		if s.Usage == "" || strings.ContainsAny(s.Usage, "\n`") || strings.HasSuffix(s.Usage, ".") {
			t.Errorf("--%s: usage %q must be one line without back quotes and full stop", s.Flag, s.Usage)
		}
		if !slices.Contains(kinds, s.Kind()) {
			t.Errorf("--%s: unknown kind %q", s.Flag, s.Kind())
		}
		if (s.Helm == "") != slices.Contains(derived, s.Flag) {
			t.Errorf("--%s: Helm value %q", s.Flag, s.Helm)
		}
	}
}
