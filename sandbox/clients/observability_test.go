package clients

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// withPrometheusOperator says that the cluster has the Prometheus Operator.
func withPrometheusOperator() []string { return []string{"--api-versions", "monitoring.coreos.com/v1"} }

// ruleGroups are the groups of rules of a document.
func ruleGroups(t *testing.T, text []byte) []any {
	t.Helper()
	var document struct{ Groups []any }
	if err := yaml.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	return document.Groups
}

// install.md 3: a PrometheusRule with all rules, word for word, if it is requested and the cluster knows the kind.
func TestPrometheusRule(t *testing.T) {
	t.Parallel()
	if render(t, withPrometheusOperator()...)["PrometheusRule/karpenter"] != nil {
		t.Error("there is a PrometheusRule that was not requested")
	}
	if render(t, "--set", "prometheusRule.enabled=true")["PrometheusRule/karpenter"] != nil {
		t.Error("there is a PrometheusRule although the cluster does not know the kind")
	}
	if render(t, append(withPrometheusOperator(), "--set", "prometheusRule=null")...)["PrometheusRule/karpenter"] != nil {
		t.Error("there is a PrometheusRule although the values were removed")
	}
	values := valuesFile(t, `
prometheusRule:
  enabled: true
  additionalLabels: {release: prometheus}
  additionalGroups:
  - name: ours
    rules: [{record: "x:y:sum", expr: sum(y)}]`)
	object := render(t, append(withPrometheusOperator(), "--values", values)...)["PrometheusRule/karpenter"]
	if object == nil {
		t.Fatal("there is no PrometheusRule")
	}
	if object.GetNamespace() != "kube-system" || object.GetLabels()["release"] != "prometheus" || object.GetLabels()["app.kubernetes.io/name"] != "karpenter" {
		t.Errorf("%s %v", object.GetNamespace(), object.GetLabels())
	}
	spec, err := yaml.Marshal(object.Object["spec"])
	if err != nil {
		t.Fatal(err)
	}
	var want []any
	for _, name := range []string{"alerts.yaml", "recording.yaml"} {
		text, err := os.ReadFile(filepath.Join("../../observability/rules", name))
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, ruleGroups(t, text)...)
	}
	groups := ruleGroups(t, spec)
	if diff := gocmp.Diff(want, groups[:len(want)]); diff != "" || len(groups) != len(want)+1 {
		t.Errorf("%d groups, want those of observability/rules and one more (-want +got):\n%s", len(groups), diff)
	}
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("no promtool in PATH, to check what was rendered; Debian's package prometheus has it, and .ci/run installs it")
	}
	path := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(path, spec, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), promtool, "check", "rules", "--lint=all", "--lint-fatal", path).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// A ConfigMap with all dashboards, if it is requested, as Grafana's sidecar looks for it.
func TestDashboards(t *testing.T) {
	t.Parallel()
	const name = "ConfigMap/karpenter-dashboards"
	if render(t)[name] != nil {
		t.Error("there are dashboards that was not requested")
	}
	plain := objectAs[corev1.ConfigMap](t, render(t, "--set", "grafanaDashboards.enabled=true"), name)
	if plain.Namespace != "kube-system" || plain.Labels["grafana_dashboard"] != "1" {
		t.Errorf("%s %v", plain.Namespace, plain.Labels)
	}
	files, err := filepath.Glob("../../observability/dashboards/*.json")
	if err != nil || len(files) != 5 || len(plain.Data) != len(files) {
		t.Fatalf("%d dashboards in %d files: %v", len(plain.Data), len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var want, have any
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(plain.Data[filepath.Base(file)]), &have); err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(want, have); diff != "" {
			t.Errorf("%s (-file +ConfigMap):\n%s", file, diff)
		}
	}
	moved := objectAs[corev1.ConfigMap](t, render(t, "--set", "grafanaDashboards.enabled=true,grafanaDashboards.namespace=monitoring,grafanaDashboards.annotations.grafana_folder=Nodes,grafanaDashboards.additionalLabels.team=x"), name)
	if moved.Namespace != "monitoring" || moved.Annotations["grafana_folder"] != "Nodes" || moved.Labels["grafana_dashboard"] != "1" || moved.Labels["team"] != "x" {
		t.Errorf("%s %v %v", moved.Namespace, moved.Labels, moved.Annotations)
	}
}

// With the Prometheus Operator in the cluster a release has all of it, and takes it away again.
func TestObservabilityInstalls(t *testing.T) {
	t.Parallel()
	const crd = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: KINDs.monitoring.coreos.com}
spec:
  group: monitoring.coreos.com
  scope: Namespaced
  names: {plural: KINDs, singular: KIND, kind: NAME}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}`
	var manifests []string
	for _, kind := range []string{"ServiceMonitor", "PrometheusRule"} {
		manifests = append(manifests, strings.NewReplacer("KIND", strings.ToLower(kind), "NAME", kind).Replace(crd))
	}
	path := filepath.Join(t.TempDir(), "crds.yaml")
	if err := os.WriteFile(path, []byte(strings.Join(manifests, "\n---\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	chart, err := filepath.Abs(theChart)
	if err != nil {
		t.Fatal(err)
	}
	const kinds = "servicemonitors,prometheusrules,configmaps -l app.kubernetes.io/instance=watched"
	performSteps(t, slices.Concat([]step{
		{name: "the kinds of the Prometheus Operator", run: "kubectl apply -f " + path + " && kubectl wait crd --for=condition=Established --timeout=60s servicemonitors.monitoring.coreos.com prometheusrules.monitoring.coreos.com"},
	}, inNewNamespace("watched", []step{
		{
			name: "install", want: []string{"STATUS: deployed"},
			run: "helm install watched " + chart + " --skip-crds --set replicas=0,settings.clusterName=sandbox,serviceMonitor.enabled=true,prometheusRule.enabled=true,grafanaDashboards.enabled=true",
		},
		{name: "all is there", run: "kubectl get " + kinds, want: []string{"servicemonitor.monitoring.coreos.com/watched-karpenter", "prometheusrule.monitoring.coreos.com/watched-karpenter", "configmap/watched-karpenter-dashboards"}},
		{name: "uninstall", run: "helm uninstall watched --wait --timeout 60s", want: []string{"uninstalled"}},
		{name: "nothing is left", run: "kubectl get " + kinds, want: []string{"No resources found"}},
		{name: "the kinds are removed", run: "kubectl delete --timeout=60s -f " + path},
	})))
}
