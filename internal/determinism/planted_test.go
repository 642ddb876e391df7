package determinism_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// deep is set to 1 by `make test-deep`.
const deep = "DOVETAIL_DEEP"

// The test of decisions finds what it is there for: with a dependence on the order of a map planted in the code,
// it fails and names the decision. The code is compiled with one file replaced; where many packages depend on
// the file that takes half a minute of CPU, so that such plants are tried only with DOVETAIL_DEEP=1.
func TestPlantedMapOrderIsFound(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		file, sound, planted string
		decision             string
		deep                 bool
	}{
		"refusals as the libraries of the API server have them": {
			file: "internal/admission/server.go", sound: "slices.SortFunc(errs, ", planted: "_ = cmp.Or[int]\n\tslices.SortFunc(errs[:0], ",
			decision: "convert: fields of a wrong shape",
		},
		"any of several illegal labels": {
			file: "internal/cluster/selector.go", sound: "for _, key := range slices.Sorted(maps.Keys(with)) {", planted: "for key := range maps.Keys(with) {",
			decision: "pod: labels-of-spread", deep: true,
		},
		"nodes as memory has them": {
			file: "internal/store/snapshot.go", sound: "if !slices.IsSorted(names) {", planted: "if len(names) < 0 {",
			decision: "memory: plan, claims and faults", deep: true,
		},
	} {
		t.Run(name, func(t *testing.T) { // one after the other: each keeps all cores busy
			if tc.deep && os.Getenv(deep) != "1" {
				t.Skipf("compiles much anew; set %s=1", deep)
			}
			out, err := testWith(t, tc.file, tc.sound, tc.planted, "-decision=^"+tc.decision+"$")
			if want := `decision "` + tc.decision + `" was made in two ways`; err == nil || !strings.Contains(out, want) {
				t.Errorf("%v; want a failure that says %s:\n%s", err, want, out)
			}
		})
	}
}

// testWith runs the test of decisions with one text of a file replaced by another.
func testWith(t *testing.T, file, sound, planted string, args ...string) (string, error) {
	t.Helper()
	real := must(filepath.Abs(filepath.Join("..", "..", filepath.FromSlash(file))))
	text := string(must(os.ReadFile(real)))
	if strings.Count(text, sound) != 1 {
		t.Fatalf("%s does not contain %q once: the code has changed, plant something else", file, sound)
	}
	copied, overlay := filepath.Join(t.TempDir(), "planted.go"), filepath.Join(t.TempDir(), "overlay.json")
	for path, content := range map[string][]byte{
		copied: []byte(strings.Replace(text, sound, planted, 1)), overlay: must(json.Marshal(map[string]any{"Replace": map[string]string{real: copied}})),
	} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.CommandContext(t.Context(), "go", append([]string{
		"test", "-overlay=" + overlay, "-count=1", "-vet=off", "-run=^TestDecisionsAreTheSame$", "github.com/dovetail-sh/dovetail/internal/determinism",
	}, args...)...)
	out, err := command.CombinedOutput()
	return string(out), err
}
