package flow_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/dovetail-sh/dovetail/sandbox/harness"
)

// binary is the dovetail that the clusters run.
var binary string

// begun is how many tests may have begun: all of them. Most wait for a cluster.
const begun = 1000

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
	harness.Tune(begun, 6<<30) // of five clusters
	dir, err := os.MkdirTemp("", "dovetail-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	if binary, err = harness.Dovetail.Build(context.Background()); err != nil {
		return 1, err
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
