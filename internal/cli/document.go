package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/dovetail-sh/dovetail/internal/columns"
	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/near"
)

// responseFormat is how a response about a cluster is written. All commands with such a response share it.
type responseFormat string

// Forms of a response.
const (
	responseTable responseFormat = "table"
	responseWide  responseFormat = "wide"
	responseJSON  responseFormat = "json"
	responseYAML  responseFormat = "yaml"

	// Of lists alone, a line for each entry.
	responseLines responseFormat = "jsonl"
	responseCSV   responseFormat = "csv"
)

func responseFormats() []string {
	return []string{string(responseTable), string(responseWide), string(responseJSON), string(responseYAML)}
}

// bind adds --output to a command. The default is a table.
func (f *responseFormat) bind(cmd *cobra.Command) {
	*f = responseTable
	cmd.Flags().VarP(f, "output", "o", "output format: table, wide (with all columns), json or yaml")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(responseFormats(), cobra.ShellCompDirectiveNoFileComp)) // fails only for a flag that does not exist
}

// String implements pflag.Value.
func (f *responseFormat) String() string { return string(*f) }

// Type implements pflag.Value.
func (f *responseFormat) Type() string { return "format" }

// Set implements pflag.Value.
func (f *responseFormat) Set(text string) error {
	if !slices.Contains(responseFormats(), text) {
		return fmt.Errorf("want table, wide, json or yaml%s", near.Hint(text, responseFormats()))
	}
	*f = responseFormat(text)
	return nil
}

// writeResponse writes a response: the value for programs, its document and its notes for people. The value has the
// notes in a field of its own.
func writeResponse(out io.Writer, format responseFormat, value any, document inspect.Document, notes []string) error {
	switch format {
	case responseJSON:
		return writeJSON(out, value)
	case responseYAML:
		text, err := yaml.Marshal(value)
		if err != nil {
			return err
		}
		_, err = out.Write(text)
		return err
	default:
		_, err := io.WriteString(out, documentText(&document, notes, format == responseWide))
		return err
	}
}

// documentText lays out a document for a terminal. wide shows all columns of its tables.
func documentText(d *inspect.Document, notes []string, wide bool) string {
	var b strings.Builder
	for _, line := range []string{d.Title, d.Answer} {
		if line != "" {
			b.WriteString(printable(line) + "\n")
		}
	}
	for i := range d.Sections {
		if text := sectionText(&d.Sections[i], wide); text != "" {
			b.WriteString("\n" + text)
		}
	}
	if len(notes) > 0 {
		b.WriteString("\n")
	}
	for _, note := range notes {
		b.WriteString("note: " + printable(note) + "\n")
	}
	return strings.TrimPrefix(b.String(), "\n")
}

// sectionText is empty for a section without contents.
func sectionText(s *inspect.Section, wide bool) string {
	if len(s.Lines)+len(s.Rows) == 0 {
		return ""
	}
	var b strings.Builder
	if s.Title != "" {
		b.WriteString(printable(s.Title) + ":\n")
	}
	for _, line := range s.Lines {
		b.WriteString("  " + printable(line) + "\n")
	}
	if s.Omitted != "" {
		b.WriteString("  " + printable(s.Omitted) + ": -o json has all of them\n")
	}
	if len(s.Rows) == 0 {
		return b.String()
	}
	shown := len(s.Columns)
	if !wide {
		shown = max(1, shown-s.Wide)
	}
	header := make([]string, 0, shown)
	for _, name := range s.Columns[:min(shown, len(s.Columns))] {
		header = append(header, strings.ToUpper(name))
	}
	rows := [][]string{header}
	for _, row := range s.Rows {
		cells := make([]string, 0, shown)
		for _, cell := range row[:min(shown, len(row))] {
			cells = append(cells, printable(cell))
		}
		rows = append(rows, cells)
	}
	for line := range strings.Lines(columns.Text(rows)) {
		b.WriteString("  " + line)
	}
	return b.String()
}

// printable replaces what a terminal would interpret or what changes the direction of text: texts have parts of objects that anybody may have written.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
}
