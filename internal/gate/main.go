package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/dovetail-sh/dovetail/internal/columns"
)

// logDir is where logs and times are kept, from the root of the repository.
const logDir = "bin/test"

type options struct {
	suite     string
	steps     string
	packages  string
	lanes     int
	keepGoing bool
	verbose   bool
	explore   time.Duration
	seed      uint64
	settings  settings
}

func main() {
	o := options{}
	flag.StringVar(&o.suite, "suite", "test", "which steps to run: "+strings.Join(slices.Sorted(maps.Keys(suites)), ", "))
	flag.StringVar(&o.steps, "step", "", "run only these steps and what they need, separated by commas; list prints all there are")
	flag.StringVar(&o.packages, "pkg", "", "the packages that the steps unit and race test; default all")
	flag.IntVar(&o.lanes, "lanes", 2, "1 runs all steps one after the other")
	flag.BoolVar(&o.keepGoing, "keep-going", false, "start further steps after one has failed")
	flag.BoolVar(&o.settings.fresh, "fresh", false, "run tests although Go's cache has their results")
	flag.BoolVar(&o.verbose, "v", false, "print every package that ends")
	flag.Uint64Var(&o.settings.seeds, "seeds", 20000, "simulated clusters of step sim-deep")
	flag.Uint64Var(&o.settings.from, "from", 1, "the seed of the first of them")
	flag.IntVar(&o.settings.checks, "checks", 10000, "checks of every property in step prop")
	flag.IntVar(&o.settings.soak, "soak", 20, "how often step soak runs every flow")
	flag.DurationVar(&o.settings.fuzzTime, "fuzztime", time.Minute, "how long each target of step fuzz runs")
	flag.DurationVar(&o.explore, "explore", 0, "run no steps, but properties, simulations and fuzz targets with random seeds for so long")
	flag.Uint64Var(&o.seed, "seed", 0, "what -explore draws its seeds from; 0 takes a new one")
	flag.Parse()
	o.settings.packages = strings.Fields(o.packages)
	os.Exit(run(context.Background(), o, os.Stdout, os.Stderr))
}

// run returns the exit code: 1 when a step failed, 2 when the arguments are wrong, 130 after Ctrl-C.
func run(ctx context.Context, o options, out *os.File, errs io.Writer) int {
	root, err := findRoot()
	if err != nil {
		fmt.Fprintln(errs, "gate:", err)
		return 2
	}
	all, err := readSurvey(os.DirFS(root))
	if err != nil {
		fmt.Fprintln(errs, "gate:", err)
		return 2
	}
	where := findPlace(root)
	defer where.release()
	if o.settings.sources, err = sourcesDigest(os.DirFS(root)); err != nil {
		fmt.Fprintln(errs, "gate:", err)
		return 2
	}
	o.settings.root, o.settings.changed = where.root, changedFiles(ctx, root)
	list := steps(all, o.settings)
	times := filepath.Join(root, logDir, "times.json")
	if o.steps == "list" {
		fmt.Fprint(out, listing(list, readTimes(times)))
		return 0
	}
	chosen, err := o.choose(list)
	if err != nil {
		fmt.Fprintln(errs, "gate:", err)
		return 2
	}
	stampFiles(ctx, root)
	r := &runner{
		board:   newBoard(chosen, rules{lanes: o.lanes, keepGoing: o.keepGoing}, readTimes(times), time.Now()),
		shell:   newShell(root, o.settings.sources, o.lanes > 1 && usesBothLanes(chosen)),
		screen:  &screen{out: out, terminal: isTerminal(out)},
		verbose: o.verbose,
		now:     time.Now,
	}
	r.shell.place = where.root
	record, inputs, err := recordAndInputs(os.DirFS(root), chosen)
	if err != nil {
		fmt.Fprintln(errs, "gate:", err)
		return 2
	}
	if o.steps == "" && o.suite == "test" {
		r.board.keepUnchanged(record, inputs)
	}
	code := r.untilSignal(ctx, func(ctx context.Context) {
		if o.explore > 0 {
			r.explore(ctx, all, o.explore, cmp.Or(o.seed, uint64(time.Now().UnixNano())))
		} else {
			r.run(ctx)
		}
	})
	r.screen.close()
	if err := writeTimes(times, r.board, list); err != nil {
		fmt.Fprintln(errs, "gate:", err)
	}
	if after := recorded(record, inputs, r.board.states); !maps.Equal(record, after) {
		if err := writeRecord(filepath.Join(root, recordFile), after); err != nil {
			fmt.Fprintln(errs, "gate:", err)
		}
	}
	r.screen.print(r.board.summary(logDir, time.Now())...)
	if code == 0 && !r.board.allPassed() {
		return 1
	}
	return code
}

// choose returns the steps that are requested.
func (o *options) choose(all catalogue) ([]step, error) {
	if o.explore > 0 {
		return nil, nil
	}
	names, known := suites[o.suite]
	if !known {
		return nil, fmt.Errorf("there is no suite %q\nsuites: %s", o.suite, strings.Join(slices.Sorted(maps.Keys(suites)), " "))
	}
	if o.steps != "" {
		names = strings.FieldsFunc(o.steps, func(r rune) bool { return r == ',' || r == ' ' })
	}
	return all.choose(names)
}

// untilSignal runs something whose context ends with the first signal. It returns the exit code that the
// signal requests, or 0.
func (r *runner) untilSignal(ctx context.Context, do func(context.Context)) int {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	code := make(chan int, 1)
	go func() {
		s := <-signals
		r.screen.print(fmt.Sprintf("%s: stopping what runs, which takes up to %s; again to kill it", s, r.shell.grace))
		if number, ok := s.(syscall.Signal); ok {
			code <- 128 + int(number)
		}
		cancel()
		<-signals
		close(r.shell.kill)
	}()
	do(ctx)
	select {
	case c := <-code:
		return c
	default:
		return 0
	}
}

func newShell(root, sources string, yield bool) *shell {
	tool := os.Getenv("GO")
	if tool == "" {
		tool = "go"
	}
	return &shell{
		root: root, place: root, logs: logDir, tool: tool, yield: yield,
		env:   append(environment(os.Environ()), sourcesVariable+"="+sources),
		grace: 10 * time.Second, kill: make(chan struct{}),
	}
}

func usesBothLanes(steps []step) bool {
	return slices.ContainsFunc(steps, func(s step) bool { return s.lane != steps[0].lane })
}

// listing is the table of steps for readers.
func listing(all catalogue, times map[string]time.Duration) string {
	rows := [][]string{{"step", "part of", "took", "what it does"}}
	for _, s := range all {
		var parts []string
		for _, suite := range []string{"quick", "test", "deep"} {
			if slices.Contains(suites[suite], s.name) {
				parts = append(parts, suite)
			}
		}
		took := ""
		if d, known := times[s.name]; known {
			took = shortDuration(d)
		}
		rows = append(rows, []string{s.name, strings.Join(parts, ", "), took, s.about})
	}
	return columns.Text(rows)
}

// isTerminal says whether status can be drawn in place.
func isTerminal(out *os.File) bool {
	info, err := out.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb" && os.Getenv("TERM") != ""
}

// findRoot looks for the directory of the root module, from the working directory upwards.
func findRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(text), "module "+module+"\n") {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s is not inside a checkout of %s", start, module)
		}
	}
}
