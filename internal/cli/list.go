package cli

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/near"
)

// listFormat is how a list is written: as other responses, or with a line for each entry.
type listFormat struct {
	responseFormat
}

func listFormats() []string {
	return append(responseFormats(), string(responseLines), string(responseCSV))
}

// bind adds --output to a command. The default is a table.
func (f *listFormat) bind(cmd *cobra.Command) {
	f.responseFormat = responseTable
	cmd.Flags().VarP(f, "output", "o", "output format: table, wide (with all columns), json, yaml, jsonl (JSON lines) or csv")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(listFormats(), cobra.ShellCompDirectiveNoFileComp)) // fails only for a flag that does not exist
}

// Set implements pflag.Value.
func (f *listFormat) Set(text string) error {
	if !slices.Contains(listFormats(), text) {
		return fmt.Errorf("want table, wide, json, yaml, jsonl or csv%s", near.Hint(text, listFormats()))
	}
	f.responseFormat = responseFormat(text)
	return nil
}

// list is a response with entries, in all forms that it may be written in.
type list[T any] struct {
	value    any // for JSON and YAML, with the notes
	document inspect.Document
	notes    []string

	entries []T
	columns []string          // of CSV
	cells   func(*T) []string // of an entry, one for each column
}

// writeList writes a list. Where each line is an entry, the notes go to the standard error.
func writeList[T any](s Streams, format listFormat, l *list[T]) error {
	switch format.responseFormat {
	case responseLines:
		encoder := json.NewEncoder(s.Out)
		for i := range l.entries {
			if err := encoder.Encode(&l.entries[i]); err != nil {
				return err
			}
		}
	case responseCSV:
		if err := l.writeCSV(s.Out); err != nil {
			return err
		}
	default:
		return writeResponse(s.Out, format.responseFormat, l.value, l.document, l.notes)
	}
	for _, note := range l.notes {
		if _, err := fmt.Fprintln(s.Err, "note: "+printable(note)); err != nil {
			return err
		}
	}
	return nil
}

func (l *list[T]) writeCSV(out io.Writer) error {
	w := csv.NewWriter(out)
	if err := w.Write(l.columns); err != nil {
		return err
	}
	for i := range l.entries {
		if err := w.Write(l.cells(&l.entries[i])); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}

// textCell is a text in a cell, on one line. A spreadsheet would compute one that begins like a formula, and texts have parts
// of objects that anybody may have written: those get an apostrophe in front, as do those that have one.
func textCell(text string) string {
	text = printable(text)
	if strings.IndexAny(strings.TrimLeft(text, " "), "=+-@'") == 0 {
		return "'" + text
	}
	return text
}

// numberCell is a number in a cell, with all its digits.
func numberCell(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
