package flow_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"testing"
)

// binary is the dovetail that the clusters run.
var binary string

// begun is how many tests may have begun: all of them. Most wait for a cluster.
const begun = "1000"

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// run builds the controller, runs the tests, and has the clusters that they needed stopped and judged.
func run(m *testing.M) (code int, err error) {
	if err := flag.Set("test.parallel", begun); err != nil {
		return 1, err
	}
	// A quarter of the CPU time would else go into collecting garbage of the control planes.
	debug.SetGCPercent(400)
	debug.SetMemoryLimit(6 << 30) // of five clusters
	dir, err := os.MkdirTemp("", "dovetail-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "dovetail")
	build := exec.CommandContext(context.Background(), "go", "build", "-C", filepath.Join("..", ".."), "-o", binary, "./cmd/dovetail")
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return 1, fmt.Errorf("%s: %w\n%s", build, err, out)
	}
	all.dir = dir
	code = m.Run()
	for _, c := range all.list {
		violations, stopErr := c.stop()
		err = errors.Join(err, stopErr)
		for _, v := range violations {
			fmt.Fprintln(os.Stderr, v)
			code = max(code, 1)
		}
	}
	return code, err
}
