package clients

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/dovetail-sh/dovetail/internal/rights"
)

var rewrite = flag.Bool("rewrite", false, "write what the chart renders into sandbox/world/installed.yaml")

const (
	theChart  = "../../charts/karpenter"
	crdsChart = "../../charts/karpenter-crd"
)

// runHelm runs helm without a cluster.
func runHelm(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "../../bin/helm", args...)
	cmd.Env = append(slices.Clip(shell.env), "KUBECONFIG=/nowhere")
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// rendered is what the chart makes, by kind and name.
type rendered map[string]*unstructured.Unstructured

// render renders the chart as release karpenter in kube-system for cluster sandbox; args come last and win.
func render(t *testing.T, args ...string) rendered {
	t.Helper()
	return renderChart(t, append([]string{"template", "karpenter", theChart, "--namespace", "kube-system", "--set", "settings.clusterName=sandbox"}, args...)...)
}

func renderChart(t *testing.T, args ...string) rendered {
	t.Helper()
	out, stderr, err := runHelm(t, args...)
	if err != nil {
		t.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, stderr)
	}
	objects := rendered{}
	for document := range strings.SplitSeq(out, "\n---\n") {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &u.Object); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if len(u.Object) == 0 {
			continue
		}
		key := u.GetKind() + "/" + u.GetName()
		if objects[key] != nil {
			t.Errorf("%s is there twice", key)
		}
		objects[key] = u
	}
	return objects
}

// objectAs reads one object into its type; it must be there.
func objectAs[T any](t *testing.T, r rendered, key string) *T {
	t.Helper()
	u := r[key]
	if u == nil {
		t.Fatalf("there is no %s, only %v", key, r.keys())
	}
	out := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, out, true); err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	return out
}

func (r rendered) keys() []string {
	var keys []string
	for key := range r {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func (r rendered) controllerDeployment(t *testing.T) *appsv1.Deployment {
	t.Helper()
	return objectAs[appsv1.Deployment](t, r, "Deployment/karpenter")
}

// environmentVariable is the value of an environment variable of the controller, and whether it is there.
func environmentVariable(d *appsv1.Deployment, name string) (string, bool) {
	for _, v := range slices.Backward(d.Spec.Template.Spec.Containers[0].Env) { // the last one counts
		if v.Name == name {
			return v.Value, true
		}
	}
	return "", false
}

// The world that all flows live in has what the chart makes, and nothing else.
func TestInstalledIsTheChart(t *testing.T) {
	t.Parallel()
	const path = "../world/installed.yaml"
	out, stderr, err := runHelm(t, "template", "karpenter", theChart, "--namespace", "kube-system", "--skip-tests", "--no-hooks", "--set", "settings.clusterName=sandbox,settings.interruptionQueue=Karpenter-sandbox")
	if err != nil {
		t.Fatal(stderr)
	}
	if *rewrite {
		if err := os.WriteFile(path, []byte(out), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(string(have), out); diff != "" {
		t.Errorf("%s is not what the chart makes; run go test ./clients -run TestInstalledIsTheChart -rewrite (-have +want):\n%s", path, diff)
	}
}

func TestChartLint(t *testing.T) {
	t.Parallel()
	for _, chart := range []string{theChart, crdsChart} {
		out, stderr, err := runHelm(t, "lint", "--strict", chart, "--set", "settings.clusterName=x")
		if err != nil || !strings.Contains(out, "1 chart(s) linted, 0 chart(s) failed") {
			t.Errorf("%s: %v\n%s\n%s", chart, err, out, stderr)
		}
	}
}

// install.md 3: the objects there are, and no others.
func TestChartObjects(t *testing.T) {
	t.Parallel()
	want := []string{
		"ClusterRole/karpenter", "ClusterRole/karpenter-admin", "ClusterRole/karpenter-core", "ClusterRoleBinding/karpenter", "ClusterRoleBinding/karpenter-core", "Deployment/karpenter",
		"PodDisruptionBudget/karpenter", "Role/karpenter", "Role/karpenter-dns", "RoleBinding/karpenter", "RoleBinding/karpenter-dns", "Service/karpenter", "ServiceAccount/karpenter",
	}
	r := render(t, "--no-hooks", "--set", "additionalLabels.team=infra,additionalAnnotations.owner=me,podLabels.pod=yes,podAnnotations.note=yes")
	if diff := gocmp.Diff(want, r.keys()); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	for key, u := range r {
		labels := u.GetLabels()
		for name, value := range map[string]string{
			"app.kubernetes.io/name": "karpenter", "app.kubernetes.io/instance": "karpenter", "app.kubernetes.io/managed-by": "Helm",
			"app.kubernetes.io/version": "0.1.0", "helm.sh/chart": "karpenter-0.1.0", "team": "infra",
		} {
			if labels[name] != value {
				t.Errorf("%s has label %s=%q, want %q", key, name, labels[name], value)
			}
		}
		if u.GetAnnotations()["owner"] != "me" {
			t.Errorf("%s has annotations %v", key, u.GetAnnotations())
		}
	}
	pod := r.controllerDeployment(t).Spec.Template
	if diff := gocmp.Diff(map[string]string{"app.kubernetes.io/name": "karpenter", "app.kubernetes.io/instance": "karpenter", "pod": "yes"}, pod.Labels); diff != "" {
		t.Errorf("labels of the pods (-want +got):\n%s", diff)
	}
	if diff := gocmp.Diff(map[string]string{"note": "yes"}, pod.Annotations); diff != "" {
		t.Errorf("annotations of the pods (-want +got):\n%s", diff)
	}
}

// install.md 6, S-034, S-118, S-119: two replicas on two nodes in two zones, never on a node that the controller manages, and
// hardened.
func TestS_119_ChartKeepsTheControllerOffItsOwnNodes(t *testing.T) {
	t.Parallel()
	r := render(t)
	d := r.controllerDeployment(t)
	pod := d.Spec.Template.Spec
	if *d.Spec.Replicas != 2 || pod.PriorityClassName != "system-cluster-critical" {
		t.Errorf("%d replicas of class %s", *d.Spec.Replicas, pod.PriorityClassName)
	}
	term := pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions[0]
	if term.Key != "karpenter.sh/nodepool" || term.Operator != corev1.NodeSelectorOpDoesNotExist {
		t.Errorf("node affinity %+v", term)
	}
	selector := d.Spec.Selector.MatchLabels
	if apart := pod.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0]; apart.TopologyKey != "kubernetes.io/hostname" || !gocmp.Equal(apart.LabelSelector.MatchLabels, selector) {
		t.Errorf("anti-affinity %+v", apart)
	}
	if spread := pod.TopologySpreadConstraints[0]; spread.TopologyKey != "topology.kubernetes.io/zone" || spread.WhenUnsatisfiable != corev1.DoNotSchedule || !gocmp.Equal(spread.LabelSelector.MatchLabels, selector) {
		t.Errorf("spread %+v", spread)
	}
	if tolerated := pod.Tolerations[0]; tolerated.Key != "CriticalAddonsOnly" || tolerated.Operator != corev1.TolerationOpExists || tolerated.Effect != "" {
		t.Errorf("toleration %+v", tolerated)
	}
	if budget := objectAs[policyv1.PodDisruptionBudget](t, r, "PodDisruptionBudget/karpenter"); budget.Spec.MaxUnavailable.IntValue() != 1 || !gocmp.Equal(budget.Spec.Selector.MatchLabels, selector) {
		t.Errorf("budget %+v", budget.Spec)
	}
	c := pod.Containers[0]
	if s := c.SecurityContext; *s.Privileged || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !*s.RunAsNonRoot || *s.RunAsUser != 65532 || *s.RunAsGroup != 65532 || s.Capabilities.Drop[0] != "ALL" {
		t.Errorf("security context %+v", s)
	}
	if c.Name != "controller" || c.LivenessProbe.HTTPGet.Path != "/healthz" || c.ReadinessProbe.HTTPGet.Path != "/readyz" || c.LivenessProbe.HTTPGet.Port.StrVal != "http" || c.Ports[0].Name != "http-metrics" {
		t.Errorf("container %+v", c)
	}
	if account := objectAs[corev1.ServiceAccount](t, r, "ServiceAccount/karpenter"); *account.AutomountServiceAccountToken || !*pod.AutomountServiceAccountToken {
		t.Error("the token is mounted by the account, or not by the pod")
	}
}

// rightsOf is a list of "where group resource[names]: verb", one for each verb.
func rightsOf(where string, rules []rbacv1.PolicyRule) []string {
	var out []string
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					name := ""
					if len(rule.ResourceNames) > 0 {
						name = "[" + strings.Join(rule.ResourceNames, ",") + "]"
					}
					out = append(out, where+" "+cmp.Or(group, "core")+" "+resource+name+": "+verb)
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// explainedRights are the rights that internal/rights explains, in the form of rights.
func explainedRights(about func(rights.Right) bool) []string {
	where := map[rights.Role]string{rights.Core: "cluster", rights.Classes: "cluster", rights.Release: "release", rights.DNS: "kube-system"}
	var out []string
	for _, r := range rights.All() {
		if !about(r) {
			continue
		}
		rule := rbacv1.PolicyRule{APIGroups: []string{r.Group}, Resources: []string{r.Resource}, Verbs: r.Verbs}
		if r.Name != "" {
			rule.ResourceNames = strings.Split(r.Name, ", ")
		}
		out = append(out, rightsOf(where[r.Role], []rbacv1.PolicyRule{rule})...)
	}
	return sorted(out)
}

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }

func (r rendered) grantedRights(t *testing.T) []string {
	t.Helper()
	return slices.Concat(
		rightsOf("cluster", slices.Concat(objectAs[rbacv1.ClusterRole](t, r, "ClusterRole/karpenter").Rules, objectAs[rbacv1.ClusterRole](t, r, "ClusterRole/karpenter-core").Rules)),
		rightsOf("kube-system", objectAs[rbacv1.Role](t, r, "Role/karpenter-dns").Rules), rightsOf("release", objectAs[rbacv1.Role](t, r, "Role/karpenter").Rules),
	)
}

// tableOfRights is the table of install.md 4: where, group, resources, verbs.
const tableOfRights = `
cluster karpenter.sh nodepools,nodepools/status,nodeclaims,nodeclaims/status,nodeoverlays,nodeoverlays/status get,list,watch
cluster karpenter.sh nodeclaims,nodeclaims/status create,delete,update,patch
cluster karpenter.sh nodepools,nodepools/status,nodeoverlays/status update,patch
cluster autoscaling.x-k8s.io capacitybuffers,capacitybuffers/status get,list,watch
cluster autoscaling.x-k8s.io capacitybuffers/status update,patch
cluster core pods,nodes,persistentvolumes,persistentvolumeclaims,replicationcontrollers,namespaces,podtemplates,events get,list,watch
cluster core events create,patch
cluster core nodes patch,update,delete
cluster core pods/eviction create
cluster core pods delete
cluster storage.k8s.io storageclasses,csinodes,volumeattachments get,list,watch
cluster apps daemonsets,deployments,replicasets,statefulsets get,list,watch
cluster policy poddisruptionbudgets get,list,watch
cluster karpenter.k8s.aws ec2nodeclasses get,list,watch,patch,update
cluster karpenter.k8s.aws ec2nodeclasses/status patch,update
release coordination.k8s.io leases get,watch,create
release coordination.k8s.io leases[karpenter-leader-election] patch,update
kube-system core services[kube-dns] get
`

// deviceRights are the rights to read what Dynamic Resource Allocation is about.
func deviceRights(verbs ...string) string {
	var list []string
	for _, resource := range []string{"deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices"} {
		for _, verb := range verbs {
			list = append(list, "cluster resource.k8s.io "+resource+": "+verb)
		}
	}
	return strings.Join(list, ",")
}

// ledgerRights are the rights to the ConfigMaps of the ledger.
func ledgerRights() string {
	var names []string
	for i := range 8 {
		names = append(names, fmt.Sprintf("dovetail-ledger-%02d", i))
	}
	these := "release core configmaps[" + strings.Join(names, ",") + "]"
	return "release core configmaps: create," + these + ": get," + these + ": update"
}

// S-116, install.md 4: the rights of the table, and not one verb more; further ones are requested by name.
func TestS_116_ChartRequestsTheRightsOfTheTable(t *testing.T) {
	t.Parallel()
	var want []string
	for line := range strings.Lines(strings.TrimSpace(tableOfRights)) {
		f := strings.Fields(line)
		for resource := range strings.SplitSeq(f[2], ",") {
			for verb := range strings.SplitSeq(f[3], ",") {
				want = append(want, f[0]+" "+f[1]+" "+resource+": "+verb)
			}
		}
	}
	slices.Sort(want)
	want = slices.Compact(want)
	plain := render(t)
	if diff := gocmp.Diff(want, plain.grantedRights(t)); diff != "" {
		t.Errorf("rights (-table +chart):\n%s", diff)
	}
	for name, tc := range map[string]struct{ set, more string }{
		"nominations":            {"optionalRights.nominatePods=true", "cluster core pods/status: patch"},
		"limit ranges":           {"optionalRights.limitRanges=true", "cluster core limitranges: list,cluster core limitranges: watch"},
		"foreign leases":         {"optionalRights.foreignLeases=true", "cluster coordination.k8s.io leases: list"},
		"devices":                {"settings.ignoreDRARequests=false", deviceRights("get", "list", "watch")},
		"default spread":         {"settings.schedulerConfig=podTopologySpread: {}", "cluster core services: list,cluster core services: watch"},
		"V15-05: deletion costs": {"settings.featureGates.podDeletionCostManagement=true", "cluster core pods: patch"},
		"LG-01: the ledger":      {"settings.ledger=true", ledgerRights()},
		"rules of the user":      {"additionalClusterRoleRules[0].apiGroups[0]=x,additionalClusterRoleRules[0].resources[0]=y,additionalClusterRoleRules[0].verbs[0]=get", "cluster x y: get"},
		"nothing for a string":   {"optionalRights.nominatePods=false", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var more []string
			for _, right := range render(t, "--set", tc.set).grantedRights(t) {
				if !slices.Contains(want, right) {
					more = append(more, right)
				}
			}
			if got := strings.Join(more, ","); got != tc.more {
				t.Errorf("more rights: %q, want %q", got, tc.more)
			}
		})
	}
	if diff := gocmp.Diff(explainedRights(func(r rights.Right) bool { return r.Value == "" }), plain.grantedRights(t)); diff != "" {
		t.Errorf("rights (-internal/rights +chart):\n%s", diff)
	}
	for _, r := range rights.All() {
		if r.Value == "" {
			continue
		}
		value := r.Value
		if !strings.Contains(value, "=") {
			value += "=podTopologySpread: {}" // that of the scheduler, which is on if it says anything
		}
		granted := slices.Concat(want, explainedRights(func(x rights.Right) bool { return x.Value == r.Value }))
		slices.Sort(granted)
		if diff := gocmp.Diff(granted, sorted(render(t, "--set", value).grantedRights(t))); diff != "" {
			t.Errorf("%s (-internal/rights +chart):\n%s", value, diff)
		}
	}
	admin := objectAs[rbacv1.ClusterRole](t, plain, "ClusterRole/karpenter-admin")
	if admin.Labels["rbac.authorization.k8s.io/aggregate-to-admin"] != "true" || len(rightsOf("", admin.Rules)) != 5*6 {
		t.Errorf("admin: %v", rightsOf("", admin.Rules))
	}
	for _, key := range []string{"ClusterRoleBinding/karpenter", "ClusterRoleBinding/karpenter-core", "RoleBinding/karpenter", "RoleBinding/karpenter-dns"} {
		binding := objectAs[rbacv1.ClusterRoleBinding](t, rendered{key: plain[key]}, key)
		if len(binding.Subjects) != 1 || binding.Subjects[0].Name != "karpenter" || binding.Subjects[0].Namespace != "kube-system" || binding.RoleRef.Name != binding.Name {
			t.Errorf("%s: %+v to %+v", key, binding.RoleRef, binding.Subjects)
		}
	}
}

// values are written into a file, as users have them.
func valuesFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// S-114: the command of the guides, with an archive of the chart instead of a registry; it has the same names.
func TestS_114_InstalledAsTyped(t *testing.T) {
	t.Parallel()
	chart, err := filepath.Abs(theChart)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	performSteps(t, []step{
		{name: "archive", run: "helm package " + chart + " --version 1.0.1 --destination " + dir, want: []string{"karpenter-1.0.1.tgz"}},
		{
			name: "as typed", want: []string{
				"NAME: karpenter\n", "NAMESPACE: kube-system\n", "kind: Deployment", "name: CLUSTER_NAME", "name: INTERRUPTION_QUEUE", "memory: 1Gi", "helm.sh/chart: karpenter-1.0.1",
			},
			run: "helm install karpenter " + dir + "/karpenter-1.0.1.tgz --version 1.0.1 --namespace kube-system --create-namespace --dry-run=client " +
				"--set settings.clusterName=sandbox --set settings.interruptionQueue=sandbox --set controller.resources.requests.cpu=1 --set controller.resources.requests.memory=1Gi " +
				"--set controller.resources.limits.cpu=1 --set controller.resources.limits.memory=1Gi --wait",
		},
	})
}

// install.md 2, S-115, S-202: what values become.
func TestS_115_ChartValues(t *testing.T) {
	t.Parallel()
	env := func(name, want string) func(*testing.T, rendered) {
		return func(t *testing.T, r rendered) {
			t.Helper()
			if got, _ := environmentVariable(r.controllerDeployment(t), name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
	}
	pod := func(ok func(corev1.PodSpec) bool) func(*testing.T, rendered) {
		return func(t *testing.T, r rendered) {
			t.Helper()
			if spec := r.controllerDeployment(t).Spec.Template.Spec; !ok(spec) {
				t.Errorf("pods are %+v", spec)
			}
		}
	}
	image := func(want string) func(*testing.T, rendered) {
		return pod(func(p corev1.PodSpec) bool { return p.Containers[0].Image == want })
	}
	for name, tc := range map[string]struct {
		set    string
		values string
		args   []string
		check  func(*testing.T, rendered)
	}{
		"false is rendered":             {set: "settings.ignoreDRARequests=false", check: env("IGNORE_DRA_REQUESTS", "false")},
		"zero is rendered":              {set: "settings.vmMemoryOverheadPercent=0", check: env("VM_MEMORY_OVERHEAD_PERCENT", "0")},
		"a gate that is on by default":  {set: "settings.featureGates.reservedCapacity=false", check: func(t *testing.T, r rendered) { t.Helper(); has(t, r, "FEATURE_GATES", "ReservedCapacity=false") }},
		"an unknown gate":               {set: "settings.featureGates.drift=true", check: func(t *testing.T, r rendered) { t.Helper(); has(t, r, "FEATURE_GATES", "Drift=true") }},
		"S-156: a queue":                {set: "settings.interruptionQueue=karpenter-sandbox", check: env("INTERRUPTION_QUEUE", "karpenter-sandbox")},
		"a template":                    {values: "global: {env: prod}\nsettings: {interruptionQueue: 'queue-{{ .Values.global.env }}'}", check: env("INTERRUPTION_QUEUE", "queue-prod")},
		"a cluster named like a number": {set: "settings.clusterName=42", check: env("CLUSTER_NAME", "42")},
		"text for a number and a bool":  {args: []string{"--set-string", "replicas=1,settings.isolatedVPC=true"}, check: env("ISOLATED_VPC", "true")},
		"an empty setting is left out":  {set: "settings.batchMaxDuration=", check: wantAbsent("BATCH_MAX_DURATION")},
		"the environment of the user":   {set: "controller.env[0].name=NODE_FEE,controller.env[0].value=1", check: env("NODE_FEE", "1")},
		"the user's environment wins":   {set: "controller.env[0].name=LOG_LEVEL,controller.env[0].value=debug", check: env("LOG_LEVEL", "debug")},
		"log paths":                     {set: "logOutputPaths={stdout,/tmp/a}", check: env("LOG_OUTPUT_PATHS", "stdout,/tmp/a")},
		"nominations":                   {set: "optionalRights.nominatePods=true", check: env("NOMINATE_PODS", "true")},
		"S-033: the size of the guide":  {set: "controller.resources.requests.cpu=1,controller.resources.requests.memory=1Gi,controller.resources.limits.cpu=1,controller.resources.limits.memory=1Gi", check: pod(func(p corev1.PodSpec) bool { return p.Containers[0].Resources.Limits.Memory().String() == "1Gi" })},
		"S-033: a small one":            {set: "controller.resources.requests.cpu=100m,controller.resources.requests.memory=256Mi", check: pod(func(p corev1.PodSpec) bool { return p.Containers[0].Resources.Requests.Cpu().String() == "100m" })},
		"S-034: one replica":            {set: "replicas=1", check: func(t *testing.T, r rendered) { t.Helper(); equal(t, *r.controllerDeployment(t).Spec.Replicas, 1) }},
		"no replica":                    {set: "replicas=0", check: func(t *testing.T, r rendered) { t.Helper(); equal(t, *r.controllerDeployment(t).Spec.Replicas, 0) }},
		"S-116: another account": {set: "serviceAccount.name=auto", check: func(t *testing.T, r rendered) {
			t.Helper()
			objectAs[corev1.ServiceAccount](t, r, "ServiceAccount/auto")
		}},
		"an account of another owner":  {set: "serviceAccount.create=false,serviceAccount.name=auto", check: noAccount("auto")},
		"the account of the namespace": {set: "serviceAccount.create=false", check: noAccount("default")},
		"S-123: a role":                {args: []string{"--set", `serviceAccount.annotations.eks\.amazonaws\.com/role-arn=arn:aws:iam::111122223333:role/karpenter`}, check: checkAnnotations},
		"S-118: a toleration":          {set: "tolerations[0].key=CriticalAddonsOnly,tolerations[0].operator=Exists,tolerations[0].effect=NoSchedule", check: pod(func(p corev1.PodSpec) bool { return p.Tolerations[0].Effect == "NoSchedule" && len(p.Tolerations) == 1 })},
		"the image":                    {check: image("ghcr.io/dovetail-sh/dovetail:0.1.0")},
		"a tag":                        {set: "controller.image.tag=v2", check: image("ghcr.io/dovetail-sh/dovetail:v2")},
		"a digest":                     {set: "controller.image.tag=v2,controller.image.digest=sha256:" + strings.Repeat("0a", 32), check: image("ghcr.io/dovetail-sh/dovetail:v2@sha256:" + strings.Repeat("0a", 32))},
		"ports":                        {set: "controller.metrics.port=9090,controller.healthProbe.port=9091", check: env("HEALTH_PROBE_PORT", "9091")},
		"DNS of the node":              {set: "dnsPolicy=Default", check: pod(func(p corev1.PodSpec) bool { return p.DNSPolicy == corev1.DNSDefault })},
		"a grace period of nothing":    {set: "terminationGracePeriodSeconds=0", check: pod(func(p corev1.PodSpec) bool { return *p.TerminationGracePeriodSeconds == 0 })},
		"the network of the node":      {set: "hostNetwork=true", check: pod(func(p corev1.PodSpec) bool { return p.HostNetwork })},
		"a profile, merged":            {set: "controller.securityContext.seccompProfile.type=Localhost,controller.securityContext.privileged=true", check: pod(isHardened)},
		"preferred terms get a selector": {values: "affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: zone}}]}}", check: pod(func(p corev1.PodSpec) bool {
			return p.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].PodAffinityTerm.LabelSelector.MatchLabels["app.kubernetes.io/name"] == "karpenter"
		})},
		"a selector that is there stays": {values: "topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {a: b}}}]", check: pod(func(p corev1.PodSpec) bool {
			return p.TopologySpreadConstraints[0].LabelSelector.MatchLabels["a"] == "b"
		})},
		"nowhere in particular": {values: "affinity: null\ntopologySpreadConstraints: null\ntolerations: []\nnodeSelector: null", check: pod(func(p corev1.PodSpec) bool {
			return p.Affinity == nil && p.TopologySpreadConstraints == nil && p.Tolerations == nil
		})},
		"a sidecar": {values: "controller: {extraVolumeMounts: [{name: a, mountPath: /a}], sidecarVolumeMounts: [{name: b, mountPath: /b}], sidecarContainer: [{name: s, image: i, volumeMounts: [{name: c, mountPath: /c}]}]}", check: pod(func(p corev1.PodSpec) bool {
			return len(p.Containers) == 2 && len(p.Containers[1].VolumeMounts) == 3 && len(p.Containers[0].VolumeMounts) == 1
		})},
		"an init container": {values: "initContainers: [{name: wait, image: i}]", check: pod(func(p corev1.PodSpec) bool { return len(p.InitContainers) == 1 })},
		"another base name": {set: "nameOverride=scaler", check: func(t *testing.T, r rendered) {
			t.Helper()
			objectAs[appsv1.Deployment](t, r, "Deployment/karpenter-scaler")
		}},
		"another full name": {set: "fullnameOverride=scaler", check: func(t *testing.T, r rendered) {
			t.Helper()
			objectAs[rbacv1.ClusterRole](t, r, "ClusterRole/scaler-core")
		}},
		"another budget": {set: "podDisruptionBudget.name=pdb,podDisruptionBudget.maxUnavailable=50%", check: func(t *testing.T, r rendered) {
			t.Helper()
			objectAs[policyv1.PodDisruptionBudget](t, r, "PodDisruptionBudget/pdb")
		}},
		"no monitor without its API":    {set: "serviceMonitor.enabled=true,prometheusRule.enabled=true", check: wantWithout("ServiceMonitor/karpenter", "PrometheusRule/karpenter")},
		"a monitor":                     {set: "serviceMonitor.enabled=true,serviceMonitor.sampleLimit=5,serviceMonitor.endpointConfig.interval=30s,serviceMonitor.additionalLabels.release=prom", args: []string{"--api-versions", "monitoring.coreos.com/v1"}, check: checkMonitoring},
		"a network policy":              {set: "networkPolicy.enabled=true", check: wantPresent("NetworkPolicy/karpenter")},
		"flow schemas":                  {set: "flowSchemas.enabled=true", check: wantPresent("FlowSchema/karpenter", "FlowSchema/karpenter-leader-election")},
		"S-202 FM-C15: values of 1.0.x": {values: values10, check: env("CLUSTER_NAME", "eks-cluster-dev"), args: []string{"--set", "settings.clusterName=eks-cluster-dev"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := slices.Clone(tc.args)
			if tc.set != "" {
				args = append(args, "--set", tc.set)
			}
			if tc.values != "" {
				args = append(args, "--values", valuesFile(t, tc.values))
			}
			tc.check(t, render(t, args...))
		})
	}
}

// values10 has what users of chart 1.0.x have in their files: values that are gone, unknown values, and gates of then.
const values10 = `
webhook: {enabled: true, serviceName: "", port: 8443, metrics: {port: 8001}}
logConfig: {enabled: true}
postInstallHook: {image: {repository: public.ecr.aws/bitnami/kubectl}}
service: {annotations: {}}
controller:
  resources: {requests: {cpu: 1, memory: 1Gi}, limits: {cpu: 1, memory: 1Gi}}
  sidecarContainer: []
  metrics: {port: 8080}
settings:
  clusterName: eks-cluster-dev
  clusterEndpoint: https://ABC.gr7.us-west-2.eks.amazonaws.com
  interruptionQueue: karpenter-eks-cluster-dev
  assumeRoleARN: ""
  featureGates: {drift: true, spotToSpotConsolidation: false}
  nobodyKnows: {this: 1}
`

func equal[T comparable](t *testing.T, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func has(t *testing.T, r rendered, name, part string) {
	t.Helper()
	if got, _ := environmentVariable(r.controllerDeployment(t), name); !slices.Contains(strings.Split(got, ","), part) {
		t.Errorf("%s is %s, want %s in it", name, got, part)
	}
}

func wantAbsent(name string) func(*testing.T, rendered) {
	return func(t *testing.T, r rendered) {
		t.Helper()
		if got, ok := environmentVariable(r.controllerDeployment(t), name); ok {
			t.Errorf("%s is %q, want none", name, got)
		}
	}
}

func wantPresent(keys ...string) func(*testing.T, rendered) {
	return func(t *testing.T, r rendered) {
		t.Helper()
		for _, key := range keys {
			if r[key] == nil {
				t.Errorf("there is no %s", key)
			}
		}
	}
}

func wantWithout(keys ...string) func(*testing.T, rendered) {
	return func(t *testing.T, r rendered) {
		t.Helper()
		for _, key := range keys {
			if r[key] != nil {
				t.Errorf("there is a %s", key)
			}
		}
	}
}

func noAccount(used string) func(*testing.T, rendered) {
	return func(t *testing.T, r rendered) {
		t.Helper()
		if slices.ContainsFunc(r.keys(), func(key string) bool { return strings.HasPrefix(key, "ServiceAccount/") }) {
			t.Error("there is an account")
		}
		equal(t, r.controllerDeployment(t).Spec.Template.Spec.ServiceAccountName, used)
		equal(t, objectAs[rbacv1.ClusterRoleBinding](t, r, "ClusterRoleBinding/karpenter-core").Subjects[0].Name, used)
	}
}

func checkAnnotations(t *testing.T, r rendered) {
	t.Helper()
	equal(t, objectAs[corev1.ServiceAccount](t, r, "ServiceAccount/karpenter").Annotations["eks.amazonaws.com/role-arn"], "arn:aws:iam::111122223333:role/karpenter")
}

func isHardened(p corev1.PodSpec) bool {
	s := p.Containers[0].SecurityContext
	return s.SeccompProfile.Type == "Localhost" && !*s.Privileged && *s.RunAsNonRoot
}

func checkMonitoring(t *testing.T, r rendered) {
	t.Helper()
	monitor := r["ServiceMonitor/karpenter"]
	if monitor == nil {
		t.Fatal("there is no monitor")
	}
	equal(t, monitor.GetLabels()["release"], "prom")
	limit, _, _ := unstructured.NestedFieldNoCopy(monitor.Object, "spec", "sampleLimit")
	equal[any](t, limit, int64(5))
	endpoints, _, _ := unstructured.NestedSlice(monitor.Object, "spec", "endpoints")
	if diff := gocmp.Diff([]any{map[string]any{"port": "http-metrics", "path": "/metrics", "interval": "30s"}}, endpoints); diff != "" {
		t.Errorf("endpoints (-want +got):\n%s", diff)
	}
}

// Names of install.md 1, which the selector of a Deployment and every guide rely on.
func TestChartNames(t *testing.T) {
	t.Parallel()
	for release, want := range map[string]string{
		"karpenter": "karpenter", "my-karpenter": "my-karpenter", "scaler": "scaler-karpenter",
		"a-release-with-a-name-that-is-long-enough-to-be-cut": "a-release-with-a-name-that-is-long-enough-to-be-cut-karpenter",
	} {
		r := renderChart(t, "template", release, theChart, "--set", "settings.clusterName=x")
		d := objectAs[appsv1.Deployment](t, r, "Deployment/"+want)
		equal(t, d.Spec.Selector.MatchLabels["app.kubernetes.io/name"], "karpenter")
		equal(t, d.Spec.Selector.MatchLabels["app.kubernetes.io/instance"], release)
	}
}

// A wrong value is reported by its name, with what to write instead.
func TestChartRefuses(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]string{
		"settings.clusterName=":                                               "settings.clusterName is empty; give the name of the EKS cluster",
		"settings.clusterEndpoint=api:443":                                    `settings.clusterEndpoint is "api:443"; give an absolute URL`,
		"settings.clusterCABundle=-----BEGIN":                                 "settings.clusterCABundle is not base64",
		"settings.interruptionQueue=my queue":                                 `settings.interruptionQueue is "my queue"; give the name of an SQS queue`,
		"settings.batchMaxDuration=10":                                        `settings.batchMaxDuration is "10"; give a duration, such as 10s`,
		"settings.consolidationHorizon=1d":                                    `settings.consolidationHorizon is "1d"; give a duration`,
		"settings.amiRefreshInterval=30s":                                     `settings.amiRefreshInterval is "30s"; give 1m or more`,
		"settings.preferencePolicy=respect":                                   `settings.preferencePolicy is "respect"; give Respect or Ignore`,
		"settings.minValuesPolicy=Best":                                       `settings.minValuesPolicy is "Best"; give Strict or BestEffort`,
		"settings.vmMemoryOverheadPercent=7%":                                 `settings.vmMemoryOverheadPercent is "7%"; give a number`,
		"settings.reservedENIs=one":                                           `settings.reservedENIs is "one"; give a whole number`,
		"settings.isolatedVPC=yes":                                            `settings.isolatedVPC is "yes"; give true or false`,
		"settings.featureGates.nodeRepair=on":                                 `settings.featureGates.nodeRepair is "on"; give true or false`,
		"optionalRights.limitRanges=some":                                     `optionalRights.limitRanges is "some"; give true or false`,
		"logLevel=trace":                                                      `logLevel is "trace"; give debug, info or error`,
		"hostNetwork=yes":                                                     `hostNetwork is "yes"; give true or false`,
		"serviceAccount.create=no":                                            `serviceAccount.create is "no"; give true or false`,
		"networkPolicy.enabled=on":                                            `networkPolicy.enabled is "on"; give true or false`,
		"flowSchemas.enabled=1":                                               "at '/flowSchemas/enabled': got number",
		"imagePullPolicy=always":                                              `imagePullPolicy is "always"; give Always or IfNotPresent or Never`,
		"dnsPolicy=None":                                                      "dnsPolicy is None and dnsConfig.nameservers is empty; give the addresses of name servers",
		"dnsPolicy=default":                                                   `dnsPolicy is "default"; give ClusterFirst or`,
		"revisionHistoryLimit=ten":                                            `revisionHistoryLimit is "ten"; give a whole number`,
		"terminationGracePeriodSeconds=30s":                                   `terminationGracePeriodSeconds is "30s"; give a whole number`,
		"podDisruptionBudget.maxUnavailable=half":                             `podDisruptionBudget.maxUnavailable is "half"; give a whole number or a percentage`,
		"controller.resources.requests.cpu=lots":                              `controller.resources.requests.cpu is "lots"; give a quantity, such as 500m`,
		"controller.resources.request.cpu=1":                                  "controller.resources.request is unknown; give requests and limits",
		"controller.metrics.port=http":                                        "controller.metrics.port is http; give a port from 1 to 65535",
		"controller.image.repository=mirror/dovetail:v1":                      `controller.image.repository is "mirror/dovetail:v1"; give the part before the tag`,
		"controller.image.tag=a/b":                                            `controller.image.tag is "a/b"; give letters, digits`,
		"replicas=-1":                                                         `replicas is "-1"; give a whole number`,
		"controller.metrics.port=8081":                                        "controller.metrics.port and controller.healthProbe.port are both 8081",
		"controller.metrics.port=70000":                                       "controller.metrics.port is 70000; give a port from 1 to 65535",
		"controller.image.digest=latest":                                      `controller.image.digest is "latest"; give sha256:`,
		"serviceAccount.annotations.eks\\.amazonaws\\.com/role-arn=karpenter": `eks.amazonaws.com/role-arn "karpenter"; give the ARN of a role`,
		"controller.image.repository=public.ecr.aws/karpenter/controller":     "the image of Karpenter: --reuse-values has kept it",
		"tolerations=CriticalAddonsOnly":                                      "at '/tolerations': got string, want null or array",
		"settings=sandbox":                                                    "at '/settings': got string, want null or object",
		"settings.clusterName[0]=x":                                           "at '/settings/clusterName': got array",
	} {
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			args := []string{"template", "karpenter", theChart, "--set", set}
			if !strings.Contains(set, "settings.clusterName") && set != "settings=sandbox" {
				args = append(args, "--set", "settings.clusterName=x")
			}
			if _, stderr, err := runHelm(t, args...); err == nil || !strings.Contains(stderr, want) {
				t.Errorf("error %v, want %q in\n%s", err, want, stderr)
			}
		})
	}
	t.Run("all at once", func(t *testing.T) {
		t.Parallel()
		if _, stderr, _ := runHelm(t, "template", "karpenter", theChart, "--set", "logLevel=trace,replicas=two"); !strings.Contains(stderr, "3 values cannot be used:") {
			t.Errorf("the message is\n%s", stderr)
		}
	})
}

// S-117, install.md 5: both charts have all CRDs; the chart of CRDs keeps them when it goes.
func TestS_117_ChartsHaveTheCRDs(t *testing.T) {
	t.Parallel()
	want := []string{
		"CustomResourceDefinition/capacitybuffers.autoscaling.x-k8s.io", "CustomResourceDefinition/ec2nodeclasses.karpenter.k8s.aws", "CustomResourceDefinition/nodeclaims.karpenter.sh",
		"CustomResourceDefinition/nodeoverlays.karpenter.sh", "CustomResourceDefinition/nodepools.karpenter.sh",
	}
	r := renderChart(t, "template", "karpenter-crd", crdsChart, "--set", "additionalAnnotations.a=b")
	if diff := gocmp.Diff(want, r.keys()); diff != "" {
		t.Errorf("the chart of CRDs (-want +got):\n%s", diff)
	}
	for key, u := range r {
		if a := u.GetAnnotations(); a["helm.sh/resource-policy"] != "keep" || a["a"] != "b" {
			t.Errorf("%s has annotations %v", key, a)
		}
	}
	var crds []string
	for _, key := range render(t, "--include-crds").keys() {
		if strings.HasPrefix(key, "CustomResourceDefinition/") {
			crds = append(crds, key)
		}
	}
	if diff := gocmp.Diff(want, crds); diff != "" {
		t.Errorf("the chart of the controller (-want +got):\n%s", diff)
	}
}
