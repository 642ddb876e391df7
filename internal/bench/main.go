// Command bench runs benchmark scenarios through dovetail, each in a process of its own, and prints
// time, memory, cost, lower bound and gap. With -peer it runs another tool over the same files in the
// same go and prints both side by side.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/scenario/families"
)

type options struct {
	dovetail string
	peer     string
	dir      string
	existing bool
	seed     uint64
	workers  int
	limit    time.Duration
	names    []string
}

func main() {
	o := options{}
	flag.StringVar(&o.dovetail, "dovetail", "bin/dovetail", "the dovetail binary")
	flag.StringVar(&o.peer, "peer", "", "a tool to compare with: reads -scenario, -mode, -concurrency and -timeout, prints the same fields")
	flag.StringVar(&o.dir, "dir", "bin/scenarios", "where scenario files are kept")
	flag.BoolVar(&o.existing, "existing", false, "make no files: run those that are in the directory")
	flag.Uint64Var(&o.seed, "seed", 1, "of the scenarios that are made")
	flag.IntVar(&o.workers, "workers", 0, "threads that decide, of either tool; 0 leaves each at its default: dovetail one per CPU, the other one")
	flag.DurationVar(&o.limit, "peer-timeout", time.Minute, "when to stop the other tool, for each scenario")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "usage: bench [flags] [SCENARIO...]\n\nScenarios: %s\n\n", strings.Join(families.Names(), " "))
		flag.PrintDefaults()
	}
	flag.Parse()
	o.names = flag.Args()
	if err := run(context.Background(), o, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, out, progress io.Writer) error {
	files, err := prepare(o)
	if err != nil {
		return err
	}
	var report report
	for _, file := range files {
		fmt.Fprintf(progress, "%s\n", name(file))
		pair := pair{file: file, consolidates: families.Consolidates(name(file))}
		if pair.ours, err = runDovetail(ctx, o, pair); err != nil {
			return err
		}
		if o.peer != "" {
			if pair.theirs, err = runPeer(ctx, o, pair); err != nil {
				return err
			}
		}
		report.pairs = append(report.pairs, pair)
	}
	_, err = io.WriteString(out, report.text(o.peer != ""))
	return err
}

// prepare returns the files to run, made where they are not there yet.
func prepare(o options) ([]string, error) {
	if o.existing && len(o.names) == 0 {
		files, err := filepath.Glob(filepath.Join(o.dir, "*.json"))
		if err == nil && len(files) == 0 {
			err = fmt.Errorf("%s holds no .json files", o.dir)
		}
		return files, err
	}
	names := o.names
	if len(names) == 0 {
		names = families.Names()
	}
	var files []string
	for _, n := range names {
		file := filepath.Join(o.dir, n+".json")
		if !o.existing {
			if err := makeFile(file, n, o.seed); err != nil {
				return nil, err
			}
		}
		files = append(files, file)
	}
	return files, nil
}

// makeFile writes a scenario, always anew: a file of an older build would be compared with nothing.
func makeFile(file, name string, seed uint64) error {
	s, err := families.Make(name, seed)
	if err != nil {
		return err
	}
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

func name(file string) string { return strings.TrimSuffix(filepath.Base(file), ".json") }

// errNoFigures is a tool that ended well and said nothing.
var errNoFigures = errors.New("printed no line of JSON")

func lastLine(text []byte) []byte {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	slices.Reverse(lines)
	return []byte(lines[0])
}
