package flow_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/snapshot"
)

// A live cluster is read with few requests, none of which writes; its snapshot has the prices of AWS, and can be planned
// for, also without names. WI-01, WI-05, WI-16, WI-18, WI-20.
func TestPlan_OfALiveCluster(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("", onlyTypes("m5.large"))
	f.deploy("inflate", 1)
	pod := f.waitForRunningPods("inflate", 1)[0]
	node := f.ready(1)[0].Status.NodeName

	user := f.user("")
	file := filepath.Join(f.TempDir(), "cluster.json.gz")
	taken := user.Run(t, "snapshot", "-o", file)
	if taken.Code != 0 || len(taken.Requests) == 0 {
		t.Fatal(taken)
	}
	for _, r := range taken.Requests {
		if strings.HasSuffix(r.Path, "/api") || strings.HasSuffix(r.Path, "/apis") || strings.Contains(r.Path, "openapi") {
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

	planned := user.Run(t, "plan", "--live", "--set", "nodepool/"+f.name+".requirements=[{key: "+corev1.LabelInstanceTypeStable+", operator: In, values: [c5.large]}]", "-o", "json")
	if planned.Code != 0 || !strings.Contains(planned.Out, `"Drifted"`) || !strings.Contains(planned.Out, node) {
		t.Errorf("a NodePool of other types has no drifted node %s: %s", node, planned)
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
	first, second := user.Run(t, "plan", "--scenario", file, "-o", "json"), user.Run(t, "plan", "--scenario", file, "-o", "json")
	if second.Code != 0 || first.Out != second.Out || first.Out == "" {
		t.Errorf("two plans of a snapshot differ: %s\n%s", first, second)
	}
	anonymous := filepath.Join(f.TempDir(), "anonymous.json")
	if o := user.Run(t, "snapshot", "--scenario", file, "--anonymize", "-o", anonymous); o.Code != 0 {
		t.Fatal(o)
	}
	if text, err = os.ReadFile(anonymous); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{pod.Name, node, f.namespace, "inflate"} {
		if bytes.Contains(text, []byte(`"`+name+`"`)) {
			t.Errorf("the name %s is left", name)
		}
	}
	if o := user.Run(t, "plan", "--scenario", anonymous, "-o", "json"); o.Code != 0 || strings.Count(o.Out, `"reason"`) != strings.Count(first.Out, `"reason"`) {
		t.Errorf("the plan without names removes other nodes: %s\n%s", first, o)
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
	f.bind("viewer", "view")
	got := f.dovetail(token, "snapshot", "-o", filepath.Join(f.TempDir(), "cluster.json"))
	for _, want := range []string{"nodes: forbidden; nothing can be planned; request the right to list nodes", "nodepools." + karpv1.Group + ": forbidden"} {
		if !strings.Contains(got, want) {
			t.Errorf("the command prints %s\nwant %q in it", got, want)
		}
	}
}
