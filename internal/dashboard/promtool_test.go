package dashboard_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"sigs.k8s.io/yaml"
)

// promtool runs promtool on files and fails with what it prints. CI always has it: .ci/run ends without.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("no promtool in PATH; the package prometheus of Debian and of Homebrew has it")
	}
	for _, name := range args {
		if _, err := os.ReadFile(name); err != nil && filepath.Ext(name) == ".yaml" { // read, so that a change of it is not hidden by a cached result
			t.Fatal(err)
		}
	}
	if out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %v: %v\n%s", args, err, out)
	}
}

func ruleFiles() []string {
	return []string{filepath.Join(root, "rules", "alerts.yaml"), filepath.Join(root, "rules", "recording.yaml")}
}

// The rule files are valid for the Prometheus that loads them.
func TestPromtoolChecksRules(t *testing.T) {
	t.Parallel()
	promtool(t, append([]string{"check", "rules", "--lint=all", "--lint-fatal"}, ruleFiles()...)...)
}

// Each alert fires when it should and not otherwise, and each recording rule computes what it says.
func TestPromtoolTestsRules(t *testing.T) {
	t.Parallel()
	tests, err := filepath.Glob(filepath.Join(root, "rules", "tests", "*.yaml"))
	if err != nil || len(tests) != len(ruleFiles()) {
		t.Fatalf("%d files with tests (%v), want one for each file with rules", len(tests), err)
	}
	for _, name := range ruleFiles() {
		if _, err := os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	promtool(t, append([]string{"test", "rules"}, tests...)...)
}

// No rule is without a test: each alert is seen firing with its text and seen silent, each recorded series is computed.
func TestEveryRuleHasATest(t *testing.T) {
	t.Parallel()
	var alerts struct {
		Tests []struct {
			AlertRuleTest []struct {
				AlertName string `json:"alertname"`
				ExpAlerts []any  `json:"exp_alerts"`
			} `json:"alert_rule_test"`
		}
	}
	load(t, "tests/alerts.yaml", &alerts)
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, test := range alerts.Tests {
		for _, one := range test.AlertRuleTest {
			fires[one.AlertName] = fires[one.AlertName] || len(one.ExpAlerts) > 0
			silent[one.AlertName] = silent[one.AlertName] || len(one.ExpAlerts) == 0
		}
	}
	for name := range rules(t, "alerts.yaml") {
		if !fires[name] || !silent[name] {
			t.Errorf("%s: tested firing %t, silent %t", name, fires[name], silent[name])
		}
	}
	var recording struct {
		Tests []struct {
			Expressions []struct{ Expr string } `json:"promql_expr_test"`
		}
	}
	load(t, "tests/recording.yaml", &recording)
	var tested []string
	for _, test := range recording.Tests {
		for _, one := range test.Expressions {
			tested = append(tested, recorded.FindAllString(one.Expr, -1)...)
		}
	}
	for name := range rules(t, "recording.yaml") {
		if !slices.Contains(tested, name) {
			t.Errorf("%s is computed by no test", name)
		}
	}
}

// recorded is how recorded series are called: level:metric:operation.
var recorded = regexp.MustCompile(`[a-z_]+:[a-z_]+:[a-z0-9_]+`)

func load(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "rules", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}
