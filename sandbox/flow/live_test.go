package flow_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/snapshot"
)

// recorder forwards requests to the API server and keeps what they were.
type recorder struct {
	mu       sync.Mutex
	requests []string
}

// recordRequests returns a kubeconfig whose requests are recorded.
func (f *flow) recordRequests() (kubeconfig string, r *recorder) {
	f.Helper()
	target, err := url.Parse(f.server.Config.Host)
	if err != nil {
		f.Fatal(err)
	}
	transport, err := rest.TransportFor(f.server.Config)
	if err != nil {
		f.Fatal(err)
	}
	r = &recorder{}
	forward := &httputil.ReverseProxy{Transport: transport, Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(target) }}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		r.requests = append(r.requests, req.Method+" "+req.URL.Path)
		r.mu.Unlock()
		forward.ServeHTTP(w, req)
	}))
	f.Cleanup(server.Close)
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: server.URL}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c"}
	config.CurrentContext = "c"
	kubeconfig = filepath.Join(f.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		f.Fatal(err)
	}
	return kubeconfig, r
}

// run runs dovetail, and returns what it prints and its exit code.
func (f *flow) run(args ...string) (out, errs string, code int) {
	f.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(f.Context(), binary, args...)
	cmd.Env = append(f.world.Environment(), "HOME="+f.TempDir())
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &stdout, &stderr, 10*time.Second
	_ = cmd.Run() // the exit code says it
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}

// A live cluster is read with few requests, none of which writes; its snapshot has the prices of AWS, and can be planned
// for, also without names. WI-01, WI-05, WI-16, WI-18, WI-20.
func TestPlan_OfALiveCluster(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("", onlyTypes("m5.large"))
	f.deploy("inflate", 1)
	pod := f.waitForRunningPods("inflate", 1)[0]
	node := f.ready(1)[0].Status.NodeName

	kubeconfig, recorded := f.recordRequests()
	file := filepath.Join(f.TempDir(), "cluster.json.gz")
	if _, errs, code := f.run("snapshot", "--kubeconfig", kubeconfig, "-o", file); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	if n := len(recorded.requests); n == 0 || n > 20 {
		t.Errorf("%d requests, want 20 at most: %q", n, recorded.requests)
	}
	for _, r := range recorded.requests {
		if !strings.HasPrefix(r, "GET ") || strings.HasSuffix(r, "/api") || strings.HasSuffix(r, "/apis") || strings.Contains(r, "openapi") {
			t.Errorf("a request is no list: %s", r)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	read, err := snapshot.Decode(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	f.nothingMissing(read)
	c := slices.IndexFunc(read.Catalogues, func(c snapshot.Catalogue) bool { return slices.Contains(c.NodePools, f.name) })
	if c < 0 || len(read.Catalogues[c].InstanceTypes) < 100 {
		t.Fatalf("NodePool %s has catalogue %d of %d, want the instance types of AWS", f.name, c, len(read.Catalogues))
	}
	i := slices.IndexFunc(read.Catalogues[c].InstanceTypes, func(it snapshot.InstanceType) bool { return it.Name == "m5.large" })
	if i < 0 || !slices.ContainsFunc(read.Catalogues[c].InstanceTypes[i].Offerings, func(o snapshot.Offering) bool { return o.Available && o.Price > 0 }) {
		t.Errorf("m5.large cannot be launched for a price: type %d of the catalogue", i)
	}
	i = slices.IndexFunc(read.Objects.Pods, func(p corev1.Pod) bool { return p.Namespace == f.namespace && p.Name == pod.Name })
	if i < 0 || read.Objects.Pods[i].Spec.NodeName != node || read.Objects.Pods[i].Spec.Containers[0].Image != "" {
		t.Errorf("pod %s is at %d, want it on node %s and without its image", pod.Name, i, node)
	}

	planned, errs, code := f.run("plan", "--live", "--kubeconfig", kubeconfig, "--set", "nodepool/"+f.name+".requirements=[{key: "+corev1.LabelInstanceTypeStable+", operator: In, values: [c5.large]}]", "-o", "json")
	if code != 0 || !strings.Contains(planned, `"Drifted"`) || !strings.Contains(planned, node) {
		t.Errorf("exit code %d: a NodePool of other types has no drifted node %s: %s%s", code, node, planned, errs)
	}
	// The rest of the cluster is in the hands of other tests. Commands that run, and pods that wait for the node they were planned
	// on, are forgotten with the names.
	file = filepath.Join(f.TempDir(), "alone.json")
	if text, err = encode(onlyPool(read, f.name)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	first, _, _ := f.run("plan", "--scenario", file, "-o", "json")
	second, errs, code := f.run("plan", "--scenario", file, "-o", "json")
	if code != 0 || first != second || first == "" {
		t.Errorf("exit code %d: two plans of a snapshot differ: %s", code, errs)
	}
	anonymous := filepath.Join(f.TempDir(), "anonymous.json")
	if _, errs, code := f.run("snapshot", "--scenario", file, "--anonymize", "-o", anonymous); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	if text, err = os.ReadFile(anonymous); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{pod.Name, node, f.namespace, "inflate"} {
		if bytes.Contains(text, []byte(`"`+name+`"`)) {
			t.Errorf("the name %s is left", name)
		}
	}
	if other, errs, code := f.run("plan", "--scenario", anonymous, "-o", "json"); code != 0 || strings.Count(other, `"reason"`) != strings.Count(first, `"reason"`) {
		t.Errorf("exit code %d: the plan without names removes other nodes: %s\n%s\n%s", code, errs, first, other)
	}
}

// onlyPool leaves one NodePool of a snapshot, with its nodes and their pods.
func onlyPool(f *snapshot.File, pool string) *snapshot.File {
	out := *f
	ofPool := func(labels map[string]string) bool { return labels[karpv1.LabelNodePool] == pool }
	out.Objects.NodePools, out.Objects.NodeClaims, out.Objects.Nodes, out.Objects.Pods = nil, nil, nil, nil
	for _, p := range f.Objects.NodePools {
		if p.Name == pool {
			out.Objects.NodePools = append(out.Objects.NodePools, p)
		}
	}
	for _, c := range f.Objects.NodeClaims {
		if ofPool(c.Labels) {
			out.Objects.NodeClaims = append(out.Objects.NodeClaims, c)
		}
	}
	nodes := map[string]bool{}
	for _, n := range f.Objects.Nodes {
		if ofPool(n.Labels) {
			nodes[n.Name] = true
			out.Objects.Nodes = append(out.Objects.Nodes, n)
		}
	}
	for _, p := range f.Objects.Pods {
		if nodes[p.Spec.NodeName] {
			out.Objects.Pods = append(out.Objects.Pods, p)
		}
	}
	return &out
}

func encode(f *snapshot.File) ([]byte, error) {
	var text bytes.Buffer
	err := f.Encode(&text)
	return text.Bytes(), err
}

// Who may only view pods is told why there is no plan, and what to request. WI-02.
func TestPlan_OfALiveClusterWithTheRoleView(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	token := f.createToken("viewer")
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: f.name + "-view"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "viewer", Namespace: f.namespace}},
	}
	f.create(binding)
	f.Cleanup(func() { f.remove(binding) })
	got := f.dovetail(token, "snapshot", "-o", filepath.Join(f.TempDir(), "cluster.json"))
	for _, want := range []string{"nodes: forbidden; nothing can be planned; request the right to list nodes", "nodepools." + karpv1.Group + ": forbidden"} {
		if !strings.Contains(got, want) {
			t.Errorf("the command prints %s\nwant %q in it", got, want)
		}
	}
}
