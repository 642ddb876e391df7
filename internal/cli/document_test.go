package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/internal/inspect"
)

func TestWriteResponse(t *testing.T) {
	t.Parallel()
	value := struct {
		Name  string   `json:"name"`
		Notes []string `json:"notes,omitempty"`
	}{"web-1", []string{"events cannot be read"}}
	document := inspect.Document{
		Title: "pod/default/web-1", Answer: "It runs.",
		Sections: []inspect.Section{
			{Title: "Empty", Columns: []string{"Node"}},
			{Title: "Nodes", Lines: []string{"two of them"}, Columns: []string{"Node", "CPU", "Zone", "Type"}, Rows: [][]string{{"a", "1", "z1", "m5\x1b[31m"}, {"bcd", "10"}}, Wide: 2},
			{Lines: []string{"no title"}, Omitted: "3 more nodes"},
		},
	}
	for format, want := range map[responseFormat]string{
		responseTable: `pod/default/web-1
It runs.

Nodes:
  two of them
  NODE  CPU
  a       1
  bcd    10

  no title
  3 more nodes: -o json has all of them

note: events cannot be read
`,
		responseWide: `pod/default/web-1
It runs.

Nodes:
  two of them
  NODE  CPU  ZONE  TYPE
  a       1  z1    m5 [31m
  bcd    10

  no title
  3 more nodes: -o json has all of them

note: events cannot be read
`,
		responseJSON: "{\n  \"name\": \"web-1\",\n  \"notes\": [\n    \"events cannot be read\"\n  ]\n}\n",
		responseYAML: "name: web-1\nnotes:\n- events cannot be read\n",
	} {
		var out bytes.Buffer
		if err := writeResponse(&out, format, value, document, value.Notes); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, out.String()); d != "" {
			t.Errorf("%s (-want +got):\n%s", format, d)
		}
	}
}

func TestResponseFormat(t *testing.T) {
	t.Parallel()
	var f responseFormat
	f.bind(&cobra.Command{})
	if f != responseTable {
		t.Errorf("the default is %q", f)
	}
	if err := f.Set("yaml"); err != nil || f != responseYAML {
		t.Errorf("got %q, %v", f, err)
	}
	if err := f.Set("jsn"); err == nil || !strings.Contains(err.Error(), `did you mean "json"?`) {
		t.Errorf("got %v, want a suggestion", err)
	}
}
