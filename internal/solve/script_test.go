package solve_test

import (
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/dovetail-sh/dovetail/internal/script"
)

// What plans must be, as scripts; go test ./internal/solve -run TestScripts -rewrite
func TestScripts(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		t.Helper()
		world := script.New()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			t.Helper()
			printed, err := world.Run(text(d))
			if err != nil {
				return err.Error() + "\n"
			}
			return printed
		})
	})
}

// text puts the first line, which datadriven has taken apart, back in front of the others.
func text(d *datadriven.TestData) string {
	words := []string{d.Cmd}
	for _, arg := range d.CmdArgs {
		words = append(words, arg.String())
	}
	return strings.Join(words, " ") + "\n" + d.Input
}
