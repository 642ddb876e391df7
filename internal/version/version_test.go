package version

import (
	"strings"
	"testing"
)

// What the linker set is shown as it is: it is also the tag of the image and the version of the charts.
func TestVersionIsThatOfTheLinker(t *testing.T) {
	Version, Commit = "1.2.3", "abc"
	t.Cleanup(func() { Version, Commit = "", "" })
	if got := Get(); got.Version != "1.2.3" || got.Commit != "abc" || !strings.HasPrefix(got.String(), "dovetail 1.2.3 (commit abc, go") {
		t.Errorf("%+v is %q", got, got.String())
	}
}

func TestVersionWithoutLinker(t *testing.T) {
	if got := Get(); got.Version == "" || strings.HasPrefix(got.Version, "v") || got.Commit == "" {
		t.Errorf("%+v", got)
	}
}
