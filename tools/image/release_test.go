package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// releaseTree is a repository with the script, the documents for IAM, and something in the place of what make builds.
func releaseTree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"dist/image/blobs", "dist/charts", "dist/sbom", "tools"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"dist/image/oci-layout", "dist/image/index.json", "dist/image/blobs/a", "dist/charts/karpenter-1.0.0.tgz", "dist/sbom/dovetail-index.spdx.json"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	script, err := os.ReadFile(filepath.Join("..", "release.sh"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tools", "release.sh"), script, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(dir, "iam"), os.DirFS(filepath.Join("..", "..", "iam"))); err != nil {
		t.Fatal(err)
	}
	return dir
}

// inTree runs a line of bash in such a tree, apart from every other repository.
func inTree(t *testing.T, dir, line string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-ec", line)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_DIR="+filepath.Join(dir, ".git"), "VERSION=1.0.0", "SOURCE_DATE_EPOCH=1800000000")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestReleaseIsCollected(t *testing.T) {
	t.Parallel()
	var sums []string
	for range 2 {
		dir := releaseTree(t)
		out, err := inTree(t, dir, "tools/release.sh && cd dist/release && sha256sum --check SHA256SUMS && tar -tzf dovetail-iam-1.0.0.tar.gz && cat SHA256SUMS")
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, want := range []string{"dovetail-image-1.0.0.tar: OK", "karpenter-1.0.0.tgz: OK", "dovetail-index-1.0.0.spdx.json: OK", "iam/policies/node-lifecycle.json", "iam/trust/node.json"} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in\n%s", want, out)
			}
		}
		text, err := os.ReadFile(filepath.Join(dir, "dist", "release", "SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		sums = append(sums, string(text))
	}
	if sums[0] != sums[1] {
		t.Errorf("two releases of the same differ:\n%s\n%s", sums[0], sums[1])
	}
}

// A tag that the charts do not have is reported, with what to do.
func TestReleaseOfAnotherTagIsRefused(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git in PATH")
	}
	dir := releaseTree(t)
	out, err := inTree(t, dir, "git init -q . && git add tools && git -c user.name=x -c user.email=x@example.com commit -qm x && git tag v2.0.0 && tools/release.sh")
	if want := "the commit has the tag v2.0.0, and the version is 1.0.0: write 2.0.0 into both charts/*/Chart.yaml"; err == nil || !strings.Contains(out, want) {
		t.Errorf("%v, want %q in\n%s", err, want, out)
	}
}
