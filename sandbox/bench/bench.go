package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime/debug"
	"runtime/pprof"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/dovetail-sh/dovetail/sandbox/controlplane"
	"github.com/dovetail-sh/dovetail/sandbox/fakenode"
	"github.com/dovetail-sh/dovetail/sandbox/world"
)

// Options of a benchmark. Nodes and Pods are required.
type Options struct {
	ControlPlane controlplane.Starter

	Dir   string        // state, which stays; empty means a temporary folder
	Nodes int           // machines to launch
	Pods  int           // pods to run on them
	Idle  time.Duration // how long to watch the cluster do nothing
	Speed float64       // of the emulated clock; 0 means 60, so that machines boot in half a second
	Out   io.Writer     // progress; nil means none
}

const (
	podsPerNode      = 50 // that fit on a machine; see podCPU, podMemory and instanceType
	podsPerDeploy    = 500
	progressInterval = 5 * time.Second
	collectPercent   = 400     // GOGC: garbage is collected less often, for memory,
	memoryLimit      = 4 << 30 // GOMEMLIMIT: but not for all of it; 8 GB were reached without
)

// Check says what is wrong with the options.
func (o Options) Check() error {
	switch {
	case o.Nodes < 1 || o.Nodes > 5000:
		return fmt.Errorf("nodes: want 1 to 5000, not %d", o.Nodes)
	case o.Pods < 1 || o.Pods > o.Nodes*podsPerNode:
		return fmt.Errorf("pods: want 1 to %d, which is %d for each node, not %d", o.Nodes*podsPerNode, podsPerNode, o.Pods)
	case o.Idle < 0:
		return errors.New("idle: may not be negative")
	case o.Speed < 0 || math.IsNaN(o.Speed) || math.IsInf(o.Speed, 0):
		return errors.New("speed: must be above 0")
	}
	return nil
}

// Run measures, and returns what it measured up to an error too.
func Run(ctx context.Context, o Options) (report Report, err error) {
	if err := o.Check(); err != nil {
		return report, err
	}
	if o.Speed == 0 {
		o.Speed = 60
	}
	if o.Out == nil {
		o.Out = io.Discard
	}
	if o.Dir == "" {
		if o.Dir, err = os.MkdirTemp("", "dovetail-bench-"); err != nil {
			return report, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(o.Dir)) }()
	}
	defer debug.SetGCPercent(debug.SetGCPercent(collectPercent))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(memoryLimit))
	r := &run{Options: o, began: time.Now()}
	pprof.Do(ctx, pprof.Labels(partLabel, "bench"), func(ctx context.Context) { err = r.runAllPhases(ctx) })
	report = Report{Nodes: o.Nodes, Pods: o.Pods, Phases: r.phases, Heap: r.heap, Load: loadAverage()}
	return report, err
}

// run is one benchmark at work.
type run struct {
	Options

	began  time.Time
	phases []Phase
	heap   map[string]int64 // bytes by part, when all pods run

	world  *world.World
	client kubernetes.Interface
	cloud  *account
	nodes  *tally
	pods   *tally
}

func (r *run) runAllPhases(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, r.stop(ctx)) }() // what an error left running
	for _, phase := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"start", r.start},
		{"nodes ready", r.launch},
		{"pods running", r.deploy},
		{"idle", r.waitUntilIdle},
		{"pods deleted", r.deletePods},
		{"nodes deleted", r.terminate},
		{"stop", r.stop},
	} {
		fmt.Fprintf(r.Out, "%7.1f s  %s\n", time.Since(r.began).Seconds(), phase.name)
		measured, err := measurePhase(phase.name, r.countAWSCalls, func() error { return phase.run(ctx) })
		if err != nil {
			if ctx.Err() != nil {
				return fmt.Errorf("interrupted: %s: %w", phase.name, ctx.Err())
			}
			return fmt.Errorf("%s: %w", phase.name, err)
		}
		r.phases = append(r.phases, measured)
		if phase.name != "idle" {
			continue
		}
		if r.heap, err = liveHeap(); err != nil {
			return err
		}
	}
	return nil
}

// countAWSCalls counts the calls of AWS so far.
func (r *run) countAWSCalls() int {
	if r.world == nil || r.world.AWS == nil {
		return 0
	}
	return len(r.world.AWS.Calls("", ""))
}

func (r *run) start(ctx context.Context) (err error) {
	r.world, err = world.Start(ctx, world.Options{
		Dir: r.Dir, ControlPlane: r.ControlPlane, Speed: r.Speed, Scale: true,
		Progress: func(step string, took time.Duration) {
			fmt.Fprintf(r.Out, "%7.1f s    %s (%.1f s)\n", time.Since(r.began).Seconds(), step, took.Seconds())
		},
	})
	if err != nil {
		r.world = nil // Start stopped it
		return err
	}
	if r.client, err = fakenode.NewClient(r.world.ControlPlane.Config); err != nil {
		return err
	}
	if r.cloud, err = newAccount(ctx, r.world.AWSEndpoint); err != nil {
		return err
	}
	if r.nodes, err = watchNodes(ctx, r.client); err != nil {
		return err
	}
	if r.pods, err = watchPods(ctx, r.client); err != nil {
		return err
	}
	if n := r.nodes.count().total + r.pods.count().total; n > 0 {
		return fmt.Errorf("%s holds %d nodes and pods of an earlier benchmark; choose an empty folder", r.Dir, n)
	}
	return nil
}

func (r *run) launch(ctx context.Context) error {
	if err := r.cloud.launch(ctx, r.Nodes); err != nil {
		return err
	}
	return r.waitForCount(ctx, r.nodes, "nodes ready", func(c count) (int, bool) { return c.good, c.good == r.Nodes })
}

func (r *run) deploy(ctx context.Context) error {
	for n, left := 0, r.Pods; left > 0; n++ {
		replicas := min(left, podsPerDeploy)
		if err := createDeployment(ctx, r.client, n, replicas); err != nil {
			return err
		}
		left -= replicas
	}
	return r.waitForCount(ctx, r.pods, "pods running", func(c count) (int, bool) { return c.good, c.good == r.Pods && c.total == r.Pods })
}

func (r *run) waitUntilIdle(ctx context.Context) error {
	timer := time.NewTimer(r.Idle)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-r.world.Err():
		return err
	case err := <-r.world.ControlPlane.Err():
		return err
	case <-timer.C:
		return nil
	}
}

func (r *run) deletePods(ctx context.Context) error {
	if err := deleteDeployments(ctx, r.client); err != nil {
		return err
	}
	return r.waitForCount(ctx, r.pods, "pods deleted", func(c count) (int, bool) { return r.Pods - c.total, c.total == 0 })
}

func (r *run) terminate(ctx context.Context) error {
	if err := r.cloud.terminate(ctx); err != nil {
		return err
	}
	return r.waitForCount(ctx, r.nodes, "nodes deleted", func(c count) (int, bool) { return r.Nodes - c.total, c.total == 0 })
}

// waitForCount waits on a watch and logs its progress from time to time.
func (r *run) waitForCount(ctx context.Context, t *tally, what string, done func(count) (int, bool)) error {
	ticker := time.NewTicker(progressInterval)
	defer ticker.Stop()
	for {
		changed, now := t.nextChange(), t.count()
		n, finished := done(now)
		if finished {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-r.world.Err():
			return err
		case err := <-r.world.ControlPlane.Err():
			return err
		case <-ticker.C:
			fmt.Fprintf(r.Out, "%7.1f s    %d %s\n", time.Since(r.began).Seconds(), n, what)
		case <-changed:
		}
	}
}

// stop ends the watches and the world, if they run. It is not interrupted: what it does takes seconds.
func (r *run) stop(context.Context) error {
	for _, t := range []*tally{r.nodes, r.pods} {
		if t != nil {
			t.stop()
		}
	}
	r.nodes, r.pods = nil, nil
	if r.world == nil {
		return nil
	}
	w := r.world
	r.world = nil
	return w.Stop()
}
