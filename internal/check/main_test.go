package check_test

import (
	"flag"
	"os"
	"testing"
)

// A plain run replays the same problems every time, so that a red build is news of a change and not of
// chance. Looking for new ones is what `make prop` is for: with a number of checks the seed is fresh,
// and printed with a failure.
func TestMain(m *testing.M) {
	flag.Parse()
	given := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if !given["rapid.seed"] && !given["rapid.checks"] {
		if err := flag.Set("rapid.seed", "1"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
