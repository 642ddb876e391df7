package arch_test

import (
	"maps"
	"slices"
	"strconv"
	"testing"
)

// Property tests draw the same values in every run: a package whose tests use rapid imports the package that
// fixes its seed.
func TestPropertyTestsHaveAFixedSeed(t *testing.T) {
	t.Parallel()
	draws, fixed := map[string]bool{}, map[string]bool{}
	for _, file := range repository(t).sources {
		if file.nested {
			continue
		}
		for _, spec := range file.syntax.Imports {
			target, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			switch target {
			case "pgregory.net/rapid":
				if !file.test() && file.dir() != "internal/seed" {
					t.Errorf("%s imports %s: only tests draw values", file.path, target)
				}
				draws[file.dir()] = true
			case module + "/internal/seed":
				fixed[file.dir()] = true
			}
		}
	}
	if len(draws) < 10 {
		t.Fatalf("%d packages use rapid: the test looks at the wrong files", len(draws))
	}
	for _, dir := range slices.Sorted(maps.Keys(draws)) {
		if !fixed[dir] && dir != "internal/seed" {
			t.Errorf("%s: tests use rapid and draw other values in every run; add to one of them\n\timport _ %q", dir, module+"/internal/seed")
		}
	}
}
