package terraform

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/sandbox/harness"
	"github.com/dovetail-sh/dovetail/sandbox/world"
)

// speed of the emulated clock: an instance boots in a second or two.
const speed = 20

// setting is what the tests run in.
var setting struct {
	world   *world.World
	tofu    string   // the program
	env     []string // of the programs
	sources string   // the folder terraform of the repository
	charts  string
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
	harness.Tune(0, 0)
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "dovetail-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	bin, err := installMirror(ctx, dir)
	if err != nil {
		return 1, err
	}
	program, err := harness.Dovetail.Build(ctx)
	if err != nil {
		return 1, err
	}
	if setting.world, err = harness.StartWorld(ctx, world.Options{Dir: filepath.Join(dir, "world"), Speed: speed, Nodes: 2, Program: program, Bare: true}); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, setting.world.Stop()) }()
	setting.env = cleanEnvironment(bin, dir)
	for _, s := range []struct {
		path   *string
		folder string
	}{{&setting.sources, "terraform"}, {&setting.charts, "charts"}} {
		if *s.path, err = filepath.Abs(filepath.Join("..", "..", s.folder)); err != nil {
			return 1, err
		}
	}
	return m.Run(), nil
}

// Versions of providers in the mirror. Those of the test doubles are the ones whose arguments they have.
func mirroredProviders() map[string]harness.Program {
	return map[string]harness.Program{
		"hashicorp/aws/6.20.0": harness.TofuProviders, "hashicorp/helm/3.1.0": harness.TofuProviders,
		"hashicorp/time/0.14.2": harness.TofuTime, "gavinbunney/kubectl/1.19.0": harness.TofuKubectl,
	}
}

// installMirror builds the programs and writes a folder that tofu installs providers from, and a configuration that says so.
func installMirror(ctx context.Context, dir string) (bin string, err error) {
	for _, p := range []harness.Program{harness.Kubectl, harness.Helm, harness.Tofu} {
		if setting.tofu, err = p.Build(ctx); err != nil {
			return "", err
		}
	}
	mirror := filepath.Join(dir, "mirror")
	for provider, p := range mirroredProviders() {
		program, err := p.Build(ctx)
		if err != nil {
			return "", err
		}
		folder := filepath.Join(mirror, "registry.opentofu.org", provider, runtime.GOOS+"_"+runtime.GOARCH)
		if err := os.MkdirAll(folder, 0o750); err != nil {
			return "", err
		}
		if err := os.Symlink(program, filepath.Join(folder, "terraform-provider-"+strings.Split(provider, "/")[1])); err != nil {
			return "", err
		}
	}
	configuration := fmt.Sprintf("provider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", mirror)
	return filepath.Dir(setting.tofu), os.WriteFile(filepath.Join(dir, "tofurc"), []byte(configuration), 0o600)
}

// cleanEnvironment is that of the caller without what could lead a client elsewhere. There is no kubeconfig in it: providers find
// the cluster as the examples say.
func cleanEnvironment(bin, dir string) []string {
	var env []string
	for _, v := range append(os.Environ(), setting.world.Environment()...) {
		name, _, _ := strings.Cut(v, "=")
		foreign := strings.HasPrefix(name, "HELM_") || strings.HasPrefix(name, "XDG_") || strings.HasPrefix(name, "TF_") || name == "KUBECONFIG"
		if !foreign {
			env = append(env, v)
		}
	}
	return append(env,
		"HOME="+dir, "PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"), "TF_CLI_CONFIG_FILE="+filepath.Join(dir, "tofurc"), "TF_IN_AUTOMATION=1", "CHECKPOINT_DISABLE=1")
}
