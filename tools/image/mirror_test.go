package main

import (
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
)

// What the installation page says about a registry of one's own: crane pushes the layout as it is, and the registry has the digest that the
// build told.
func TestMirror(t *testing.T) {
	digest, _ := theImage(t)
	server := httptest.NewServer(registry.New())
	defer server.Close()
	tag := strings.TrimPrefix(server.URL, "http://") + "/dovetail:" + testVersion
	for _, args := range [][]string{
		{"push", filepath.Join(scratch, "image"), tag},
		{"digest", tag},
		{"validate", "--remote", tag},
	} {
		out, err := exec.CommandContext(t.Context(), "go", append([]string{"tool", "crane"}, args...)...).Output()
		if err != nil {
			t.Fatalf("crane %v: %v", args, err)
		}
		if args[0] != "validate" && !strings.Contains(string(out), digest.String()) {
			t.Errorf("crane %v says %q, want %s", args, out, digest)
		}
	}
}
