package flow_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/snapshot"
	"github.com/dovetail-sh/dovetail/sandbox/commands"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// commandFlow is a user with all rights on a cluster with one node, one pod that runs, and one that fits nothing.
type commandFlow struct {
	*flow
	*commands.User

	names            map[string]string // that differ from run to run, with what stands for them
	node, claim      string
	running, pending string // pods
	dir              string
}

// newCommandFlow makes the cluster. Nobody else uses it, so that responses about all of it are the same in every run.
func newCommandFlow(t *testing.T) *commandFlow {
	t.Helper()
	f := newFlow(t, exclusive)
	f.pool("", onlyTypes("m5.large"), withRequirement(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, "eu-west-1a"))
	f.deploy("inflate", 1)
	running := f.waitForRunningPods("inflate", 1)[0].Name
	claim := f.ready(1)[0]
	f.deploy("huge", 1, withRequests("500", "1Gi"))
	var pending string
	f.waitUntil(soon, "the large pod is found unschedulable", func() (bool, string) {
		for _, p := range f.pods("huge") {
			if slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse
			}) {
				pending = p.Name
			}
		}
		return pending != "", "it is not"
	})
	token := f.createToken("operator")
	f.bind("operator", "cluster-admin")
	commands.OnlyReads(t, f.world.AWS)
	a := &commandFlow{
		flow: f, node: claim.Status.NodeName, claim: claim.Name, running: running, pending: pending, dir: t.TempDir(),
		User: f.user(token),
	}
	a.names = map[string]string{
		f.namespace: "NAMESPACE", f.name: "POOL", a.node: "NODE", a.claim: "CLAIM", running: "inflate-POD", pending: "huge-POD",
		strings.TrimSuffix(running, running[strings.LastIndexByte(running, '-'):]): "inflate-SET",
		strings.TrimSuffix(pending, pending[strings.LastIndexByte(pending, '-'):]): "huge-SET",
		a.dir: "DIR",
	}
	return a
}

// bind binds a ClusterRole to a service account of the test.
func (f *flow) bind(account, role string) {
	f.Helper()
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: f.name + "-" + account}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: f.namespace}},
	}
	f.create(binding)
	f.Cleanup(func() { f.remove(binding) })
}

// golden runs commands and compares what a terminal shows with a file.
func (a *commandFlow) golden(name string, calls ...[]string) {
	a.Helper()
	var all strings.Builder
	for _, args := range calls {
		all.WriteString(a.Run(a.T, args...).String() + "\n")
	}
	text := history().ReplaceAllString(all.String(), "")
	commands.Golden(a.T, *rewrite, "commands/"+name, commands.Normalize(text, a.names))
}

// history is a part of an explanation. What was recorded until now, and in which order within a second, differs from run to run.
func history() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^\nHistory:\n(  .*\n)+|,\n  "history": \[\n(   .*\n)*  \]`)
}

// sameInYAML checks that YAML says what JSON says. Its lines break where they are long, so that no file could be compared with it.
func (a *commandFlow) sameInYAML(args ...string) {
	a.Helper()
	read := func(format string) string {
		o := a.Run(a.T, append(slices.Clone(args), "-o", format)...)
		var value map[string]any
		if err := yaml.Unmarshal([]byte(o.Out), &value); err != nil {
			a.Fatalf("%v: %s", err, o)
		}
		delete(value, "history")
		text, err := json.MarshalIndent(value, "", "  ")
		if err != nil {
			a.Fatal(err)
		}
		return commands.Normalize(string(text), a.names)
	}
	if diff := cmp.Diff(read("json"), read("yaml")); diff != "" {
		a.Errorf("%q in JSON and YAML (-JSON +YAML):\n%s", args, diff)
	}
}

// Every command, on a live cluster and on its snapshot: what it prints, that it writes nothing, and that it takes at most
// 20 requests. EX-01, EX-02, EX-05, EX-37, WI-01, WI-06, WI-09, WI-11, WI-13, WI-18, WI-20, TV-14, RP-01, AD-07.
func TestQuestions_GoldenOutputs(t *testing.T) {
	t.Parallel()
	a := newCommandFlow(t)
	leader := func(args ...string) []string { return append(args, "--controller-address", a.served) }
	pod := func(name string, more ...string) []string {
		return append([]string{"explain", "pod", name, "-n", a.namespace}, more...)
	}
	a.golden("explain.txt",
		leader(pod(a.pending)...), leader(pod(a.running)...), leader("explain", "node", a.node), leader("explain", "nodeclaim/"+a.claim), leader("explain", "nodepool", a.flow.name))
	a.golden("explain-wide.txt", leader(pod(a.pending, "-o", "wide")...), leader("explain", "node", a.node, "-o", "wide"))
	a.golden("explain.json", leader(pod(a.pending, "-o", "json")...))
	a.golden("explain-node.json", leader("explain", "node", a.node, "-o", "json"))
	a.sameInYAML(leader("explain", "node", a.node)...)
	a.golden("explain-objects.txt", pod(a.pending), []string{"explain", "node", a.node}, []string{"explain", "nodepool", a.flow.name})
	// A plan is shared for seconds, also that of the test before in this cluster.
	a.waitUntil(soon, "the leader has planned since the large pod is there", func() (bool, string) {
		top := a.Run(a.T, leader("top")...)
		return strings.Contains(top.Out, "no instance type has room"), top.String()
	})
	a.golden("top.txt", leader("top"), []string{"top"})
	if advice := a.Run(a.T, "advise"); advice.Code != 0 || !strings.Contains(advice.Out, "nodepool/"+a.flow.name+": with karpenter.sh/capacity-type spot as well") || !strings.Contains(advice.Out, "RequirementCosts") {
		a.Error(advice) // no file: spot prices change, and with them what saves most
	}
	a.plans()
	a.snapshots()
	a.console()
}

// plans prints plans, also for what if.
func (a *commandFlow) plans() {
	a.Helper()
	pods, prices := filepath.Join(a.dir, "pods.yaml"), filepath.Join(a.dir, "prices.csv")
	a.write(pods, "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: more, namespace: "+a.namespace+"}\nspec:\n  replicas: 3\n"+
		"  selector: {matchLabels: {app: more}}\n  template:\n    metadata: {labels: {app: more}}\n    spec:\n      nodeSelector: {karpenter.sh/nodepool: "+a.flow.name+"}\n"+
		"      containers: [{name: more, resources: {requests: {cpu: 1, memory: 1Gi}}}]\n")
	a.write(prices, "instanceType,zone,capacityType,price\nm5.large,*,on-demand,0.05\n")
	plan := func(args ...string) []string { return append([]string{"plan", "--live"}, args...) }
	a.golden("plan.txt", plan(), plan("-o", "wide"), plan("--controller-address", a.served))
	a.golden("plan.json", plan("-o", "json"))
	a.sameInYAML(plan()...)
	a.golden("what-if.txt",
		plan("--set", "nodepool/"+a.flow.name+".requirements=[{key: node.kubernetes.io/instance-type, operator: In, values: [c5.large]}, {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}, {key: topology.kubernetes.io/zone, operator: In, values: [eu-west-1a]}]"),
		plan("--add-pods", pods), plan("--add-pods", pods, "--without", "zone=eu-west-1a"), plan("--add-pods", pods, "--price-file", prices))
}

func (a *commandFlow) write(name, text string) {
	a.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		a.Fatal(err)
	}
}

// snapshots takes snapshots, plans for them and replays one.
func (a *commandFlow) snapshots() {
	a.Helper()
	file, record := filepath.Join(a.dir, "cluster.json"), filepath.Join(a.dir, "record.json.gz")
	taken := a.Run(a.T, "snapshot", "-o", file)
	text, err := os.ReadFile(file)
	if err != nil {
		a.Fatalf("%v; %s", err, taken)
	}
	commands.Golden(a.T, *rewrite, "commands/snapshot.txt", commands.Normalize(taken.String()+"\n"+a.outline(text), a.names))
	live, later := a.Run(a.T, "plan", "--live", "-o", "json"), a.Run(a.T, "plan", "--scenario", file, "-o", "json")
	if got, want := commands.Normalize(later.Out, a.names), commands.Normalize(live.Out, a.names); got != want || len(later.Requests) > 0 {
		a.Errorf("the plan for the snapshot, with %d requests:\n%s\nwant that for the cluster:\n%s", len(later.Requests), got, want)
	}
	a.golden("replay.txt", []string{"snapshot", "--with-plan", "-o", record}, []string{"replay", record})
}

// outline is a snapshot with one instance type without its spot prices, which change, and with the names of the objects of the test in place of these.
// internal/snapshot/testdata/kept.txt has the fields.
func (a *commandFlow) outline(text []byte) string {
	a.Helper()
	read, err := snapshot.Decode(bytes.NewReader(text))
	if err != nil {
		a.Fatal(err)
	}
	o := &read.Objects
	names := map[string][]string{}
	add := func(kind string, obj metav1.ObjectMeta) {
		if obj.Namespace == a.namespace || slices.Contains([]string{a.namespace, a.flow.name, a.node, a.claim}, obj.Name) {
			names[kind] = append(names[kind], obj.Name)
		}
	}
	for i := range o.Pods {
		add("pods", o.Pods[i].ObjectMeta)
	}
	for i := range o.Nodes {
		add("nodes", o.Nodes[i].ObjectMeta)
	}
	for i := range o.NodeClaims {
		add("nodeClaims", o.NodeClaims[i].ObjectMeta)
	}
	for i := range o.NodePools {
		add("nodePools", o.NodePools[i].ObjectMeta)
	}
	for i := range o.Namespaces {
		add("namespaces", o.Namespaces[i].ObjectMeta)
	}
	slices.SortFunc(names["pods"], func(x, y string) int { return strings.Compare(a.names[x], a.names[y]) })
	for i := range read.Catalogues {
		types := read.Catalogues[i].InstanceTypes
		if len(types) < 100 {
			a.Errorf("%d instance types, want those of AWS", len(types))
		}
		types = slices.DeleteFunc(types, func(it snapshot.InstanceType) bool { return it.Name != "m5.large" })
		for j := range types {
			types[j].Offerings = slices.DeleteFunc(types[j].Offerings, func(o snapshot.Offering) bool { return o.CapacityType != karpv1.CapacityTypeOnDemand })
		}
		read.Catalogues[i].InstanceTypes = types
	}
	read.Objects = snapshot.Objects{}
	short, err := json.MarshalIndent(map[string]any{"file": read, "objects of the test": names}, "", "  ")
	if err != nil {
		a.Fatal(err)
	}
	return string(short)
}

// console sends the requests of a browser to the page of this machine.
func (a *commandFlow) console() {
	a.Helper()
	cmd := a.Command(a.T, "console")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		a.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		a.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	address := regexp.MustCompile(`^Open (http://[^/]+)(/\S*)#token=(\S+)\n$`).FindStringSubmatch(line)
	if address == nil {
		a.Fatalf("no address: %q, %v: %s", line, err, &errs)
	}
	get := func(path, token string) (int, string) {
		request, err := http.NewRequestWithContext(a.Context(), http.MethodGet, address[1]+path, nil)
		if err != nil {
			a.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			a.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			a.Fatal(err)
		}
		return response.StatusCode, string(text)
	}
	if status, page := get(address[2], ""); status != http.StatusOK || !strings.Contains(page, "<script") {
		a.Errorf("the page: status %d: %s", status, page)
	}
	if status, said := get("/debug/inspect/fleet", "wrong"); status != http.StatusUnauthorized || strings.Contains(said, a.node) {
		a.Errorf("without the token, the page says with status %d: %s", status, said)
	}
	a.Take()
	status, fleet := get("/debug/inspect/fleet", address[3])
	if status != http.StatusOK {
		a.Errorf("the fleet: status %d: %s", status, fleet)
	}
	commands.Check(a.T, "console", a.Take(), 20)
	var indented bytes.Buffer
	if err := json.Indent(&indented, []byte(fleet), "", "  "); err != nil {
		a.Fatal(err)
	}
	commands.Golden(a.T, *rewrite, "commands/console-fleet.json", commands.Normalize(indented.String(), a.names))
	if err := errors.Join(cmd.Process.Signal(syscall.SIGINT), cmd.Wait()); err != nil {
		a.Errorf("Ctrl-C: %v: %s", err, &errs)
	}
}
