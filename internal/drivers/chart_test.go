package drivers_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"github.com/dovetail-sh/dovetail/internal/config"
	"github.com/dovetail-sh/dovetail/internal/drivers"
)

// charted is the environment that the chart gives the controller, from what helm makes of it; variables whose value only a node
// knows are empty.
func charted(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../sandbox/world/installed.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		d := &appsv1.Deployment{}
		if err := yaml.Unmarshal(document, d); err != nil || d.Kind != "Deployment" {
			continue
		}
		env := map[string]string{}
		for _, e := range d.Spec.Template.Spec.Containers[0].Env {
			if _, ok := env[e.Name]; ok {
				t.Errorf("%s is given twice", e.Name)
			}
			env[e.Name] = e.Value
		}
		return env
	}
	t.Fatal("there is no Deployment")
	return nil
}

// S-115: every setting is reached by the value of the chart that the reference names, has the same default there, and what the
// chart sets by default is what the program would do anyway.
func TestS_115_ChartKnowsEverySetting(t *testing.T) {
	t.Parallel()
	env := charted(t)
	text, err := os.ReadFile("../../charts/karpenter/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{}
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{"KUBERNETES_MIN_VERSION": true} // unused, and set by Karpenter's chart too
	for _, s := range config.Settings(drivers.Driver().Settings) {
		known[s.Env()] = true
		given, set := env[s.Env()]
		if s.Helm == "controller.env" || strings.HasPrefix(s.Helm, "controller.resources.") {
			continue
		}
		if s.Helm != "" && !hasValue(values, strings.Split(s.Helm, ".")) {
			t.Errorf("--%s: values.yaml has no %s", s.Flag, s.Helm)
		}
		switch {
		case set && !sameDefault(s, given):
			t.Errorf("--%s: the chart gives %q, want %q", s.Flag, given, s.Default)
		case !set && s.Default != "":
			t.Errorf("--%s: the chart does not set %s", s.Flag, s.Env())
		}
	}
	for name := range env {
		if !known[name] {
			t.Errorf("the chart sets %s, which is no setting", name)
		}
	}
}

// sameDefault compares what the chart gives by default with what the program would take. What depends on the release differs, and
// nominations need a right that the chart does not give by default.
func sameDefault(s config.Setting, given string) bool {
	switch s.Flag {
	case "cluster-name", "interruption-queue", "karpenter-service", "system-namespace", "memory-limit", "cpu-requests":
		return true
	case "nominate-pods":
		return given == "false"
	case "feature-gates", "aws-feature-gates":
		for gate := range strings.SplitSeq(s.Default, ",") {
			if !strings.Contains(","+given+",", ","+gate+",") {
				return false
			}
		}
		return strings.Count(given, ",") == strings.Count(s.Default, ",")
	}
	return given == s.Default
}

func hasValue(values map[string]any, path []string) bool {
	inner, ok := values[path[0]]
	if len(path) == 1 || !ok {
		return ok
	}
	next, ok := inner.(map[string]any)
	return ok && hasValue(next, path[1:])
}

// The program starts with what the chart gives it, and has nothing to say about it.
func TestChartStartsWithoutWarnings(t *testing.T) {
	t.Parallel()
	env := charted(t)
	if _, warnings, err := load(t, nil, env); err != nil || len(warnings) > 0 {
		t.Errorf("warnings %q, error %v", warnings, err)
	}
}
