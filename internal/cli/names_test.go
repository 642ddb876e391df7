package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EX-12: names of a live cluster are completed with one request for them alone, in the namespace of the context.
func TestEX_12_NamesOfALiveCluster(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var requested []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		requested = append(requested, r.URL.Path)
		mu.Unlock()
		list := metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"}}
		for _, name := range []string{"web-1", "web-2"} {
			list.Items = append(list.Items, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(list) // a test that gets less fails
	}))
	t.Cleanup(server.Close)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := "apiVersion: v1\nkind: Config\ncurrent-context: here\nclusters: [{name: c, cluster: {server: \"" + server.URL + "\"}}]\n" +
		"contexts: [{name: here, context: {cluster: c, namespace: shop}}]\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"pod", ""}, {"-n", "other", "pod", ""}, {"node", ""}, {"nodeclaim", ""}, {"nodepool", ""}} {
		if code, stdout, stderr := run("", append([]string{"__complete", "explain", "--kubeconfig", path}, args...)...); code != 0 || stdout != "web-1\nweb-2\n:4\n" {
			t.Errorf("%v: exit code %d: %s%s", args, code, stdout, stderr)
		}
	}
	server.Close()
	if code, stdout, stderr := run("", "__complete", "explain", "--kubeconfig", path, "pod", ""); code != 0 || stdout != ":4\n" {
		t.Errorf("without the cluster: exit code %d: %s%s", code, stdout, stderr)
	}
	want := []string{
		"/api/v1/namespaces/shop/pods", "/api/v1/namespaces/other/pods", "/api/v1/nodes", "/apis/karpenter.sh/v1/nodeclaims", "/apis/karpenter.sh/v1/nodepools",
	}
	if !slices.Equal(requested, want) {
		t.Errorf("asked for %v, want %v", requested, want)
	}
}
