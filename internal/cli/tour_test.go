package cli

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/config"
	"github.com/dovetail-sh/dovetail/internal/drivers"
)

// Trust D05: the tour names what it needs, and its commands show what it says they show.
func TestTrust_D05_TheTourIsComplete(t *testing.T) {
	t.Parallel()
	read := func(path string) string {
		text, err := os.ReadFile("../../" + path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	tour := read("docs/tutorials/first-look.md")
	needs, _, _ := strings.Cut(tour, "## ")
	for _, tool := range []string{"Go 1.26", "make", "C compiler", "`kubectl`", "`aws`"} {
		if !strings.Contains(needs, tool) {
			t.Errorf("the tour uses %s and does not say at its beginning that it is needed", tool)
		}
	}
	for line := range strings.Lines(tour) {
		if strings.HasPrefix(line, "kubectl logs") && strings.Contains(line, " -l ") && !strings.Contains(line, "--tail=") {
			t.Errorf("%swith -l it shows the last ten lines only", line)
		}
	}
	if !strings.Contains(read("sandbox/demo/demo.yaml"), `reasons: ["Underutilized", "Drifted"]`) || !strings.Contains(tour, "underused and drifted nodes only") {
		t.Error("the tour and the manifest that it applies differ about the budget")
	}
}

// Trust D05: the example of the controller works on a sandbox: it sources what the sandbox wrote, and its flags exist.
func TestTrust_D05_TheExampleOfTheController(t *testing.T) {
	t.Parallel()
	example := newController(Streams{}).Example
	if !strings.Contains(example, ". DIR/aws.env\n") {
		t.Errorf("without aws.env the controller finds neither the cluster nor AWS:\n%s", example)
	}
	known := map[string]bool{"--dir": true} // of sandbox up
	for _, s := range config.Settings(drivers.Driver().Settings) {
		known["--"+s.Flag] = true
	}
	for _, flag := range regexp.MustCompile("--[a-z-]+").FindAllString(example, -1) {
		if !known[flag] {
			t.Errorf("%s is in the example, and no flag", flag)
		}
	}
}
