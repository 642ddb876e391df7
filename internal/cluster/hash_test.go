package cluster_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/cluster"
)

// What HashPods writes is read again, in few characters, whatever order the pods come in; text of others is
// nothing.
func TestHashPods(t *testing.T) {
	t.Parallel()
	var pods, reversed []cluster.PodKey
	known := map[uint32]bool{}
	for i := range 110 {
		pods = append(pods, cluster.PodKey{Namespace: "default", Name: fmt.Sprintf("web-%d", i)})
		reversed = append([]cluster.PodKey{pods[i]}, reversed...)
		known[pods[i].Hash()] = true
	}
	text := cluster.HashPods(pods)
	if text != cluster.HashPods(reversed) || len(text) > 6*len(pods) {
		t.Errorf("%d characters: %s", len(text), text)
	}
	got := map[uint32]bool{}
	for _, hash := range cluster.ReadHashes(text) {
		got[hash] = true
	}
	if diff := cmp.Diff(known, got); diff != "" || len(known) != len(pods) {
		t.Errorf("hashes (-want +got):\n%s", diff)
	}
	for _, text := range []string{"", "a", "AAAA", "not base64!", cluster.HashPods(nil)} {
		if hashes := cluster.ReadHashes(text); len(hashes) > 0 {
			t.Errorf("%q is read as %v", text, hashes)
		}
	}
}
