package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// chartField is a field of a chart's Chart.yaml.
func chartField(t *testing.T, chart, field string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "charts", chart, "Chart.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^` + field + `: *(\S+)$`).FindSubmatch(text)
	if found == nil {
		t.Fatalf("%s has no %s", chart, field)
	}
	return string(found[1])
}

// Charts, image and program have one version, which charts/karpenter/Chart.yaml says.
func TestChartsHaveOneVersion(t *testing.T) {
	t.Parallel()
	version := chartField(t, "karpenter", "version")
	if !regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+$`).MatchString(version) {
		t.Errorf("version %s of the chart is not that of a release", version)
	}
	for _, chart := range []string{"karpenter", "karpenter-crd"} {
		for _, field := range []string{"version", "appVersion"} {
			if got := chartField(t, chart, field); got != version {
				t.Errorf("%s of %s is %s, want %s", field, chart, got, version)
			}
		}
	}
}

// The version of a build, from the state of a repository.
func TestVersionOfABuild(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git in PATH")
	}
	dir := t.TempDir()
	for _, name := range []string{"tools/version.sh", "charts/karpenter/Chart.yaml"} {
		text, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	chart := chartField(t, "karpenter", "version")
	const commit = `\.g[0-9a-f]{12}`
	for _, step := range []struct{ name, run, want string }{
		{"without git", "true", "-dev"},
		{"a commit", "git init -q . && git add . && git -c user.name=x -c user.email=x@example.com commit -qm x", "-dev" + commit},
		{"a tag of something else", "git tag v99.0.0", "-dev" + commit},
		{"its tag", "git tag v" + chart, ""},
		{"its tag, and a change", "echo '# x' >> tools/version.sh", "-dev" + commit + `\.dirty`},
	} {
		t.Run(step.name, func(t *testing.T) {
			out, err := inTree(t, dir, step.run+"; tools/version.sh")
			got := strings.TrimSpace(out)
			if rest, ok := strings.CutPrefix(got, chart); err != nil || !ok || !regexp.MustCompile("^"+step.want+"$").MatchString(rest) {
				t.Errorf("%v, the version is %q, want %s%s", err, got, chart, step.want)
			}
		})
	}
}
