package docs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/sandbox/awscli"
	"github.com/dovetail-sh/dovetail/sandbox/harness"
	"github.com/dovetail-sh/dovetail/sandbox/world"
)

// speed of the emulated clock: an instance boots in a second or two.
const speed = 20

// reader is who types: where, and with what around.
var reader struct {
	clone string   // a folder that looks like a clone of the repository, and may be written to
	env   []string // what points commands at the world
	world *world.World

	missing string // why there is no aws
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
	reader.clone = filepath.Join(dir, "clone")
	programs := map[harness.Program]string{}
	for _, p := range []harness.Program{harness.Dovetail, harness.Kubectl, harness.Helm} {
		if programs[p], err = p.Build(ctx); err != nil {
			return 1, err
		}
	}
	if err := linkClone(programs); err != nil {
		return 1, err
	}
	aws, err := awscli.Install(ctx, filepath.Join(reader.clone, "bin"))
	if err != nil {
		return 1, err
	}
	defer aws.Stop()
	reader.missing = aws.Missing
	if reader.world, err = harness.StartWorld(ctx, world.Options{Dir: filepath.Join(dir, "world"), Speed: speed, Nodes: 2, Metrics: true, Bare: true, Program: programs[harness.Dovetail]}); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, reader.world.Stop()) }()
	reader.env = cleanEnvironment(dir)
	return m.Run(), nil
}

// linkClone makes the folder: links to what is in the repository, and a bin of its own.
func linkClone(programs map[harness.Program]string) error {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		return err
	}
	bin := filepath.Join(reader.clone, "bin")
	if err := os.MkdirAll(bin, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() != "bin" && !strings.HasPrefix(e.Name(), ".") {
			err = errors.Join(err, os.Symlink(filepath.Join(root, e.Name()), filepath.Join(reader.clone, e.Name())))
		}
	}
	for name, text := range map[string]string{
		// What goes on until it is interrupted is interrupted.
		"kubectl": `case " $* " in
*" -w "* | *" --watch "* | *" logs -f "*) timeout 3 ` + programs[harness.Kubectl] + ` "$@" || test $? -eq 124 ;;
*) exec ` + programs[harness.Kubectl] + ` "$@" ;;
esac`,
		"helm":     `exec ` + programs[harness.Helm] + ` "$@"`,
		"dovetail": `exec ` + programs[harness.Dovetail] + ` "$@"`,
	} {
		err = errors.Join(err, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/bash\n"+text+"\n"), 0o700))
	}
	return err
}

// cleanEnvironment is that of the caller without what could lead a client elsewhere, and with an empty home.
func cleanEnvironment(dir string) []string {
	var env []string
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if name != "KUBECONFIG" && !strings.HasPrefix(name, "AWS_") && !strings.HasPrefix(name, "HELM_") && !strings.HasPrefix(name, "XDG_") {
			env = append(env, v)
		}
	}
	env = append(env, reader.world.Environment()...)
	return append(env,
		"HOME="+dir,
		"PATH="+filepath.Join(reader.clone, "bin")+string(filepath.ListSeparator)+os.Getenv("PATH"),
		"AWS_PAGER=", // version 2 would open one
		"AWS_ACCOUNT_ID=111122223333",
		"NAMESPACE=kube-system", "CHARTS=./charts", // as after the first step of the installation page
		"TEMPOUT="+filepath.Join(dir, "tempout"),
	)
}
