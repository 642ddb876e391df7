package bars

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/sandbox/controlplane"
)

// Options of a run. Only Binary is required.
type Options struct {
	ControlPlane controlplane.Starter

	Binary    string        // the dovetail to run
	Scenarios []string      // names; none means all
	Scale     float64       // of the pods and pools of burst, backlog and shrink; 0 means 1
	Watch     time.Duration // how long the small cluster is watched; 0 means a minute
	Samples   int           // of reaction and ice; 0 means 7
	Patience  time.Duration // that a scenario has before it fails; 0 means 15 minutes
	Flags     []string      // for the controller, beside those of the scenario; a flag given again wins
	Profiles  string        // folder for profiles of the controller; empty means none
	Dir       string        // logs of the last scenario, which stay; empty means a temporary folder
	Out       io.Writer     // progress; nil means none
}

// The sandbox shares the machine with what is measured. Its garbage is collected less often, for memory,
// but not for all of it.
const (
	collectPercent = 400
	memoryLimit    = 4 << 30
)

// scenario is one thing to measure.
type scenario struct {
	name  string
	title string
	run   func(context.Context, *stage, *Result) error
	needs needs
}

// allScenarios in the order in which they run.
func allScenarios() []scenario {
	return []scenario{
		{"small", "a small cluster that does nothing", measureIdleCluster, smallNeeds},
		{"reaction", "one pod that waits", measureReaction, promptNeeds},
		{"ice", "every first choice out of capacity", outOfCapacity, promptNeeds},
		{"burst", "10,000 pods at once", measureBurst, burstNeeds},
		{"backlog", "15,000 pods under a memory limit", measureBacklog, backlogNeeds},
		{"shrink", "300 nodes that are too many", measureConsolidation, shrinkNeeds},
	}
}

// Names of the scenarios, in the order in which they run.
func Names() []string {
	var names []string
	for _, s := range allScenarios() {
		names = append(names, s.name)
	}
	return names
}

// Check says what is wrong with the options.
func (o Options) Check() error {
	for _, name := range o.Scenarios {
		if !slices.Contains(Names(), name) {
			return fmt.Errorf("scenario %q is not known; there are %s", name, strings.Join(Names(), ", "))
		}
	}
	switch {
	case o.Scale < 0 || o.Scale > 2:
		return fmt.Errorf("scale: want above 0 and at most 2, not %g", o.Scale)
	case o.Watch < 0 || o.Patience < 0:
		return errors.New("lengths of time may not be negative")
	case o.Samples < 0 || o.Samples > len(instanceFamilies()):
		return fmt.Errorf("samples: want 1 to %d, not %d", len(instanceFamilies()), o.Samples)
	}
	return nil
}

func (o Options) withDefaults() Options {
	if len(o.Scenarios) == 0 {
		o.Scenarios = Names()
	}
	if o.Scale == 0 {
		o.Scale = 1
	}
	if o.Watch == 0 {
		o.Watch = time.Minute
	}
	if o.Samples == 0 {
		o.Samples = 7
	}
	if o.Patience == 0 {
		o.Patience = 15 * time.Minute
	}
	if o.Out == nil {
		o.Out = io.Discard
	}
	return o
}

// Run measures, and returns what it measured up to an error too.
func Run(ctx context.Context, o Options) (report Report, err error) {
	if err := o.Check(); err != nil {
		return report, err
	}
	o = o.withDefaults()
	if _, err := os.Stat(o.Binary); err != nil {
		return report, fmt.Errorf("%w; make build makes it", err)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(collectPercent))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(memoryLimit))
	for _, s := range allScenarios() {
		if !slices.Contains(o.Scenarios, s.name) {
			continue
		}
		result, err := runOne(ctx, o, s)
		report.Results = append(report.Results, result)
		if err != nil {
			return report, fmt.Errorf("%s: %w", s.name, err)
		}
		debug.FreeOSMemory() // what is left of one scenario should not weigh on the next
	}
	return report, nil
}

// runOne runs a scenario in a world of its own.
func runOne(ctx context.Context, o Options, s scenario) (result Result, err error) {
	result = Result{Name: s.name, Title: s.title}
	dir := filepath.Join(o.Dir, s.name)
	if o.Dir == "" {
		if dir, err = os.MkdirTemp("", "dovetail-bench-"); err != nil {
			return result, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	} else if err := os.RemoveAll(dir); err != nil {
		return result, err
	}
	limited, cancel := context.WithTimeoutCause(ctx, o.Patience, fmt.Errorf("not done after %s", o.Patience))
	defer cancel()
	st := newStage(o, s.name, dir)
	defer func() { err = errors.Join(err, st.stop()) }()
	st.logProgress("%s: %s", s.name, s.title)
	if err = st.start(limited, s.needs(o)); err == nil {
		err = s.run(limited, st, &result)
	}
	result.Load = loadAverage()
	if err != nil && limited.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(limited), err)
	}
	if err != nil {
		err = errors.Join(err, st.lastWords())
	}
	return result, err
}
