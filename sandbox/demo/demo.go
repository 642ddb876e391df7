package demo

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
	"sync"
	"text/tabwriter"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/console"
	"github.com/dovetail-sh/dovetail/sandbox/controlplane"
	"github.com/dovetail-sh/dovetail/sandbox/invariant"
	"github.com/dovetail-sh/dovetail/sandbox/world"
)

// Options of a demo.
type Options struct {
	ControlPlane controlplane.Starter
	Controller   string    // the dovetail binary
	Replicas     int       // of the workload; 0 means 12
	Open         bool      // leave all running at the end, until the context ends
	Out          io.Writer // text; on a terminal the line of what happens is written over
}

// bootTime is from running to the registration of a node. A real instance takes about twice that.
const bootTime = 10 * time.Second

// demoRun is one run of the demo.
type demoRun struct {
	Options

	dir        string
	world      *world.World
	kube       client.Client
	controller *world.Controller
	checker    *invariant.Checker
	live       *liveLine
	access     access
	removed    string // a node that consolidation removed
	done       []outcome
	stops      []func() error // in reverse order
}

// demoStep is a part of the demo. It says in a few words what came of it.
type demoStep struct {
	title string
	run   func(context.Context) (result string, err error)
}

// outcome is an act that held.
type outcome struct {
	title, result string
	took          time.Duration
}

// Run plays the demo in a temporary folder and removes everything at the end. It fails at the first act
// that does not hold; then the logs stay.
func Run(ctx context.Context, o Options) (err error) {
	if o.Replicas == 0 {
		o.Replicas = 12
	}
	binary, err := filepath.Abs(o.Controller)
	if err != nil {
		return err
	}
	if _, err := os.Stat(binary); err != nil {
		return fmt.Errorf("%w; make build makes it, and --controller names another", err)
	}
	o.Controller = binary
	s := &demoRun{Options: o, live: &liveLine{out: o.Out, terminal: isTerminal(o.Out)}}
	if s.dir, err = os.MkdirTemp("", "dovetail-demo-"); err != nil {
		return err
	}
	began := time.Now()
	err = s.playSteps(ctx)
	if err == nil && o.Open {
		err = s.leaveRunning(ctx)
	}
	if stopErr := s.stopAll(); err == nil {
		err = stopErr
	}
	if err != nil {
		return fmt.Errorf("%w\n\nThe logs are in %s", err, s.dir)
	}
	if !o.Open {
		s.printSummary(time.Since(began))
	}
	return os.RemoveAll(s.dir)
}

func (s *demoRun) playSteps(ctx context.Context) error {
	acts := []demoStep{
		{"start Kubernetes " + Version("k8s.io/kubernetes") + ", an AWS and the controller, in one sandbox", s.start},
		{"apply an EC2NodeClass, a NodePool and a Deployment, as kubectl apply does", s.apply},
		{fmt.Sprintf("kubectl scale deployment inflate --replicas=%d: pods that wait get nodes", s.Replicas), s.scaleUp},
		{"EC2 takes a spot instance back: its pods move before the two minutes are over", s.interruptSpotNode},
		{fmt.Sprintf("%d pods come and go again: those that stay move together, and nodes go", 2*s.Replicas), s.consolidateNodes},
		{"kubectl scale deployment inflate --replicas=0: empty nodes are removed", s.scaleDown},
		{"ask why: dovetail explain of a node that was removed, and the web page", s.explainRemovedNode},
	}
	for i, a := range acts {
		s.printLine("\n[%d/%d] %s", i+1, len(acts), a.title)
		began := time.Now()
		result, err := a.run(ctx)
		s.live.finishLine()
		if err == nil {
			err = s.stillWell()
		}
		if err != nil {
			if ctx.Err() != nil {
				return fmt.Errorf("interrupted in step %d, %s", i+1, a.title)
			}
			return fmt.Errorf("step %d does not hold (%s): %w", i+1, a.title, err)
		}
		s.done = append(s.done, outcome{title: a.title, result: result, took: time.Since(began)})
		s.printLine("      %s, in %s", result, formatSeconds(time.Since(began)))
	}
	return nil
}

// stillWell says what broke in the background: an invariant, the controller, the sandbox.
func (s *demoRun) stillWell() error {
	if s.checker != nil {
		if found := s.checker.Violations(); len(found) > 0 {
			return found[0]
		}
	}
	if s.controller == nil {
		return nil
	}
	select {
	case err := <-s.controller.Err():
		return err
	case err := <-s.world.Err():
		return err
	default:
		return nil
	}
}

// stopAll stops everything, last things first.
func (s *demoRun) stopAll() error {
	var errs []error
	for _, stop := range slices.Backward(s.stops) {
		errs = append(errs, stop())
	}
	return errors.Join(errs...)
}

// onStop has something stopped at the end.
func (s *demoRun) onStop(stop func() error) { s.stops = append(s.stops, sync.OnceValue(stop)) }

func (s *demoRun) printSummary(took time.Duration) {
	s.printLine("\nAll steps held, in %s. No process and no file is left.\n", formatSeconds(took))
	table := tabwriter.NewWriter(s.Out, 0, 0, 3, ' ', 0)
	for i, o := range s.done {
		title, _, _ := strings.Cut(o.title, ":")
		fmt.Fprintf(table, "  %d\t%s\t%s\t%s\n", i+1, title, formatSeconds(o.took), o.result)
	}
	_ = table.Flush() // the reader is gone; nothing to do about it
	s.printLine(`
All the time it was checked that no instance was launched twice or leaked, that finalizers outlive their
instances, that no protected pod was removed, and that nothing runs hot (G1 to G13 of the failure modes).

The web page was at %s; make demo OPEN=1 leaves it running, and prints its address with a token.

Next, a sandbox of your own, to use with kubectl and aws:
  bin/sandbox up --controller dovetail
  kubectl apply -f sandbox/demo/demo.yaml
  kubectl scale deployment inflate --replicas=5
  bin/dovetail console              # its web page: prints the address
  bin/sandbox fault --help          # what can go wrong there
and old manifests made new:
  bin/dovetail convert -f examples/seeds/s-075.yaml`, s.access.address+console.Path)
}

func (s *demoRun) printLine(format string, args ...any) { fmt.Fprintf(s.Out, format+"\n", args...) }

func formatSeconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// Version returns the version of a module in this binary, such as v1.37.1.
func Version(module string) string {
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, dependency := range build.Deps {
			if dependency.Path == module {
				return dependency.Version
			}
		}
	}
	return "of unknown version"
}
