package clients

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/sandbox/harness"
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
	harness.Tune(0, 0)
	ctx := context.Background()
	bin, err := buildClients(ctx)
	if err != nil {
		return 1, err
	}
	program, err := harness.Dovetail.Build(ctx)
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
	if shell.world, err = harness.StartWorld(ctx, world.Options{Dir: filepath.Join(dir, "world"), Speed: speed, Nodes: 2, Metrics: true, Program: program}); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, shell.world.Stop()) }()
	if shell.env, err = clientEnvironment(bin); err != nil {
		return 1, err
	}
	shell.env = append(shell.env, "DOVETAIL="+program)
	return m.Run(), nil
}

// buildClients makes bin/kubectl and bin/helm, and returns their folder.
func buildClients(ctx context.Context) (bin string, err error) {
	for _, p := range []harness.Program{harness.Kubectl, harness.Helm} {
		path, err := p.Build(ctx)
		if err != nil {
			return "", err
		}
		bin = filepath.Dir(path)
	}
	return bin, nil
}

// clientEnvironment is that of the caller without what could lead a client elsewhere.
func clientEnvironment(bin string) ([]string, error) {
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
