package clients

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/sandbox/controlplane"
	"github.com/dovetail-sh/dovetail/sandbox/world"
)

// speed of the emulated clock: an instance boots in a second or two.
const speed = 20

// shell is how the commands of all tests run.
var shell struct {
	home  string   // of the commands, and their working directory
	env   []string // what points them at the world
	world *world.World
}

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	ctx := context.Background()
	bin, err := build(ctx)
	if err != nil {
		return 1, err
	}
	dir, err := os.MkdirTemp("", "dovetail-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	shell.home = filepath.Join(dir, "home")
	if err := os.Mkdir(shell.home, 0o700); err != nil {
		return 1, err
	}
	if shell.world, err = world.Start(ctx, world.Options{Dir: filepath.Join(dir, "world"), Speed: speed, Nodes: 2, Metrics: true}); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, shell.world.Stop()) }()
	if shell.env, err = environment(bin); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// build makes bin/kubectl and bin/helm. A second time it only asks whether they are fresh.
func build(ctx context.Context) (bin string, err error) {
	if bin, err = filepath.Abs("../../bin"); err != nil {
		return "", err
	}
	for _, c := range []struct{ name, module, pkg, link string }{
		// The flags of everything else in the sandbox, so that what is compiled is compiled once; kubectl
		// knows its version from the linker only, and refuses to compare without.
		{"kubectl", "..", "k8s.io/kubernetes/cmd/kubectl", kubectlVersion()},
		{"helm", "helm", "helm.sh/helm/v3/cmd/helm", ""},
	} {
		cmd := exec.CommandContext(ctx, "go", "build", "-C", c.module, "-ldflags", c.link, "-o", filepath.Join(bin, c.name), c.pkg)
		cmd.Env = append(os.Environ(), "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s: %w\n%s", cmd, err, out)
		}
	}
	return bin, nil
}

// kubectlVersion is the flags of the linker that make clients has too.
func kubectlVersion() string {
	release := controlplane.Version()
	major, rest, _ := strings.Cut(strings.TrimPrefix(release, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	const variable = "-X k8s.io/component-base/version.git"
	return variable + "Version=" + release + " " + variable + "Major=" + major + " " + variable + "Minor=" + minor
}

// environment is that of the caller without what could lead a client elsewhere.
func environment(bin string) ([]string, error) {
	testdata, err := filepath.Abs("testdata")
	if err != nil {
		return nil, err
	}
	var env []string
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if name != "KUBECONFIG" && !strings.HasPrefix(name, "AWS_") && !strings.HasPrefix(name, "HELM_") && !strings.HasPrefix(name, "XDG_") {
			env = append(env, v)
		}
	}
	env = append(env, shell.world.Environment()...)
	return append(env,
		"HOME="+shell.home,
		"PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"),
		"AWS_PAGER=", // version 2 would open one
		"TESTDATA="+testdata,
	), nil
}
