package admission_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/admission"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

// The pools and classes that the documentation has people apply (install 10) are strict v1: they are admitted, and
// nothing has to be read into them.
func TestExamplesAreStrict(t *testing.T) {
	t.Parallel()
	server, err := admission.New()
	if err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob("../../examples/nodepools/*.yaml")
	if err != nil || len(paths) < 7 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, obj := range documents(t, text) {
			if !ours(obj) || obj.GroupVersionKind().Version != "v1" {
				t.Errorf("%s holds a %s", path, obj.GroupVersionKind())
				continue
			}
			_, notes, err := effective(t.Context(), server, obj)
			if err != nil || len(notes) > 0 {
				t.Errorf("%s: %v %s", path, err, reason.Join(notes, 0))
			}
		}
	}
}
