package journal

import (
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/drain"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Trust B04: the reference page names the fields that are served, of every object, and no other.
func TestTrust_B04_ThePageNamesTheFields(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/reference/decisions.md")
	if err != nil {
		t.Fatal(err)
	}
	described, row := map[string]map[string]bool{}, regexp.MustCompile("^\\| `([A-Za-z]+)` \\|")
	object := ""
	for line := range strings.Lines(string(page)) {
		if name, is := strings.CutPrefix(strings.TrimSpace(line), "### "); is {
			object = name
			described[object] = map[string]bool{}
		} else if m := row.FindStringSubmatch(line); m != nil && object != "" {
			described[object][m[1]] = true
		}
	}
	for name, value := range map[string]any{
		"Page": Page{}, "Entry": Entry{}, "Refusal": Refusal{}, "Reason": reason.Reason{}, "Draining": Drain{}, "Wait": drain.Wait{}, "Command": command{}, "Node to remove": disrupt.Candidate{},
		"New node": solve.NewNode{}, "Offer": solve.Offer{}, "Place": solve.Bind{}, "Pod": cluster.PodKey{}, "Repair": disrupt.Diagnosis{}, "Outcome": outcome{}, "Removal": removal{},
		"Decision": decision{}, "Score": disrupt.Score{}, "Plan": plan{}, "NewNode": newNode{}, "Unplaced": unplacedPod{},
	} {
		served := fieldsOf(reflect.TypeOf(value))
		for _, field := range slices.Sorted(maps.Keys(served)) {
			if !described[name][field] {
				t.Errorf("%s: field %s is served, and not on the page", name, field)
			}
		}
		for _, field := range slices.Sorted(maps.Keys(described[name])) {
			if !served[field] {
				t.Errorf("%s: field %s is on the page, and not served", name, field)
			}
		}
	}
}

// fieldsOf are the names that a struct has as JSON.
func fieldsOf(t reflect.Type) map[string]bool {
	out := map[string]bool{}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous:
			maps.Copy(out, fieldsOf(f.Type))
		case f.IsExported() && name != "-":
			out[name] = true
		}
	}
	return out
}
