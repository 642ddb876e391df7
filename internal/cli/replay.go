package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/internal/replay"
	"github.com/dovetail-sh/dovetail/internal/snapshot"
)

func newReplay(s Streams) *cobra.Command {
	var format responseFormat
	cmd := &cobra.Command{
		Use:   "replay FILE...",
		Short: "Decide recorded clusters again, and show what differs",
		Long: "Decides what `dovetail snapshot --with-plan` has recorded again, with this build, and compares: cost, nodes removed and\n" +
			"launched, pods moved, and reasons. So you can test a new version before you roll it out. It contacts neither a\n" +
			"cluster nor a cloud.\n\n" +
			"A FILE has one record, or one a line, compressed by gzip or not; - is standard input. Of a directory, all files are read\n" +
			"whose names end in .json, .jsonl, .json.gz or .jsonl.gz.\n\n" +
			"The exit code is 0 if every record is decided as before, and 1 otherwise.",
		Example: "  # what this version would do differently\n  dovetail replay records/\n\n" +
			"  # all differences of one record, for a script\n  dovetail replay monday.json.gz -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("name files with records, or directories; - is standard input")
			}
			ctx, stop := signal.NotifyContext(contextOf(cmd.Context()), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return runReplay(ctx, args, format, s)
		},
	}
	format.bind(cmd)
	return cmd
}

func runReplay(ctx context.Context, names []string, format responseFormat, s Streams) error {
	files, err := recordFiles(names)
	if err != nil {
		return err
	}
	report := replay.Report{Tool: toolName(), Results: []replay.Result{}}
	for _, name := range files {
		data, err := readFile(name, s.In)
		if err == nil {
			data, err = snapshot.Decompress(data)
		}
		if err != nil {
			report.Add(replay.Result{Source: name, Problem: err.Error()})
			continue
		}
		for _, record := range replay.Split(name, data) {
			if ctx.Err() != nil {
				return errors.New("interrupted")
			}
			report.Add(replay.Run(record, cloudWords(), func() bool { return ctx.Err() != nil }))
		}
	}
	if err := writeResponse(s.Out, format, &report, report.Document(), nil); err != nil {
		return err
	}
	return report.Err()
}

// recordFiles lists the files that arguments name, those of directories in order.
func recordFiles(names []string) ([]string, error) {
	var out []string
	for _, name := range names {
		if name == "-" {
			out = append(out, name)
			continue
		}
		info, err := os.Stat(name)
		if err != nil {
			return nil, usageError{err}
		}
		if !info.IsDir() {
			out = append(out, name)
			continue
		}
		before := len(out)
		err = filepath.WalkDir(name, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && isRecordName(entry.Name()) {
				out = append(out, path)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		if len(out) == before {
			return nil, usageError{fmt.Errorf("directory %s has no files that end in .json, .jsonl, .json.gz or .jsonl.gz", name)}
		}
	}
	return out, nil
}

func isRecordName(name string) bool {
	return slices.ContainsFunc([]string{".json", ".jsonl", ".json.gz", ".jsonl.gz"}, func(end string) bool { return strings.HasSuffix(name, end) })
}
