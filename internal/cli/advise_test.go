package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/inspect/api"
	"github.com/dovetail-sh/dovetail/internal/snapshot"
	"github.com/dovetail-sh/dovetail/internal/snapshot/snapshottest"
)

// wasteful writes a cluster that something can be advised about: amd64 and on-demand only, a PodDisruptionBudget that
// never allows an eviction, and a pod without requests.
func wasteful(t *testing.T) string {
	t.Helper()
	f := snapshottest.New(snapshottest.Options{})
	for i := range 8 {
		claim, node := snapshottest.Node(fmt.Sprintf("node-%d", i), "m5.xlarge", "us-east-1a", karpv1.CapacityTypeOnDemand)
		f.Objects.NodeClaims, f.Objects.Nodes = append(f.Objects.NodeClaims, *claim), append(f.Objects.Nodes, *node)
		for j := range 3 {
			f.Objects.Pods = append(f.Objects.Pods, *snapshottest.Pod(fmt.Sprintf("web-%d-%d", i, j), node.Name, "1", "3Gi"))
		}
	}
	spec := &f.Objects.NodePools[0].Spec.Template.Spec
	spec.Requirements = []karpv1.Requirement{
		{Key: karpv1.LabelCapacityType, Operator: corev1.NodeSelectorOpIn, Values: []string{karpv1.CapacityTypeOnDemand}},
		{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"amd64"}},
	}
	f.Objects.Pods[0].Labels["app"] = "guarded"
	f.Objects.Pods[3].Spec.Containers[0].Resources.Requests = nil
	never := intstr.FromInt32(0)
	f.Objects.Budgets = []policyv1.PodDisruptionBudget{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "never"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &never, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "guarded"}}},
		Status:     policyv1.PodDisruptionBudgetStatus{ExpectedPods: 1, CurrentHealthy: 1, DesiredHealthy: 1},
	}}
	path := filepath.Join(t.TempDir(), "cluster.json.gz")
	if err := writeSnapshot(path, f); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAD_07_AdviseOnASnapshot(t *testing.T) {
	t.Parallel()
	path := wasteful(t)
	code, stdout, stderr := runHere("", "advise", "--scenario", path)
	if code != 0 || stderr != "" {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	golden(t, "advise.txt", stdout)
	page, err := os.ReadFile("../../docs/how-to/advise.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(stdout) {
		if !strings.Contains(string(page), strings.TrimRight(line, "\n")) {
			t.Errorf("docs/how-to/advise.md lacks %q", line)
		}
	}
	_, stdout, _ = runHere("", "advise", "--scenario", path, "-o", "json")
	var a inspect.Advice
	if err := json.Unmarshal([]byte(stdout), &a); err != nil || len(a.Advised) < 3 || a.Advised[0].Saves <= 0 {
		t.Errorf("%v: %s", err, stdout)
	}
}

// The cluster is found as for every other question: a controller is requested for its snapshot, and the plans are made here;
// without one, the objects are read.
func TestAD_08_AdviseOnALiveCluster(t *testing.T) {
	t.Parallel()
	path := wasteful(t)
	file, err := readSnapshot(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	var requested []string
	controller := api.NewServer(api.Source{
		Ready: func(context.Context) error { return nil }, Snapshot: func(context.Context) (*snapshot.File, error) { return file, nil },
	}, awsv1.Vocabulary(), time.Now)
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		requested = append(requested, req.Method+" "+req.URL.Path)
		controller.ServeHTTP(w, req)
	}))
	t.Cleanup(served.Close)
	_, want, _ := runHere("", "advise", "--scenario", path)
	code, got, stderr := run("", "advise", "--kubeconfig", path+".absent", "--controller-address", served.URL)
	if diff := cmp.Diff(want, got); code != 0 || diff != "" {
		t.Errorf("exit code %d, %s (-file +controller):\n%s", code, stderr, diff)
	}
	if diff := cmp.Diff([]string{"GET /debug/inspect/snapshot"}, requested); diff != "" {
		t.Errorf("requests to the controller (-want +got):\n%s", diff)
	}
	now := snapshottest.Now()
	objects := sourceOf(&now)
	objects.objects.file = file
	a, err := objects.Advise(t.Context())
	if err != nil || len(a.Advised) < 3 || !strings.Contains(strings.Join(a.Notes, " "), "because the controller was not found") {
		t.Errorf("without a controller: %v, %d findings, notes %q", err, len(a.Advised), a.Notes)
	}
}

func TestAdviseRefusesWrongCalls(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args []string
		code int
		want string
	}{
		"two clusters":    {[]string{"--scenario", "a.json", "--context", "prod"}, 2, "use only one of them"},
		"no time":         {[]string{"--scenario", "a.json", "--timeout", "0s"}, 2, "--timeout"},
		"no such file":    {[]string{"--scenario", "none.json"}, 2, "none.json"},
		"an argument":     {[]string{"prod"}, 2, "takes no arguments"},
		"a misspelt flag": {[]string{"--scenarios", "a.json"}, 2, "did you mean --scenario?"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if code, _, stderr := runHere("", append([]string{"advise"}, tc.args...)...); code != tc.code || !strings.Contains(stderr, tc.want) {
				t.Errorf("exit code %d: %s", code, stderr)
			}
		})
	}
}
