package world

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/dovetail-sh/dovetail/sandbox/containers"
)

// ControllerOptions say which controller runs in a world, and how. Only Binary is required.
type ControllerOptions struct {
	// Binary is the dovetail to run.
	Binary string
	// Installation says where it lives and which rights it has: it acts as the service account that the chart makes.
	Installation
	// Flags and Env are added to those it needs; a flag given again wins.
	Flags, Env []string
	// LeaderElection has it take the lease, in its namespace. Without, it acts at once.
	LeaderElection bool
	// Proxied sends its requests to the API server through the proxy, where they can be seen and disturbed.
	Proxied bool
	// Restart runs it again whenever it ends, as a Deployment does.
	Restart bool
	// Ended receives each exit after which the process is restarted; may be nil.
	Ended func(error)
	// Log is the name of its log in the folder of the world; empty means controller.log.
	Log string
}

// The pause before a controller that ended runs again. It doubles while the process ends soon after its start.
const (
	restartDelay = 200 * time.Millisecond
	longestDelay = 10 * time.Second
	livedLong    = 30 * time.Second
)

// Controller is a process that lives in a world without a pod, so that tests can kill it at any moment, hold it down and
// give it flags of their own. What the chart installs runs in pods: see World.Install.
type Controller struct {
	// Log is the file that the process writes to, all its starts one after the other.
	Log string

	world   *World
	options ControllerOptions
	ended   chan error
	stop    func() error

	kubeconfig string
	identity   []string // variables that lead to the credentials of its role

	mu      sync.Mutex
	running *process // nil while none does
	starts  int
	held    bool // down until Start
	stopped bool
	delay   time.Duration // before the next start
}

// process is one start of a controller.
type process struct {
	cmd      *exec.Cmd
	done     chan struct{} // closed when it ended
	expected bool          // it was killed or stopped on purpose
	began    time.Time
}

// Err receives the error when the process ended without being stopped or killed, and is not restarted.
func (c *Controller) Err() <-chan error { return c.ended }

// Stop ends the process and waits for it.
func (c *Controller) Stop() error { return c.stop() }

// Starts is how often the process was started.
func (c *Controller) Starts() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.starts
}

// Kill ends the process as a crash does, without notice, and returns when it is gone. With Restart it
// runs again a moment later; without, Start does that.
func (c *Controller) Kill() {
	if p := c.signalProcess(syscall.SIGKILL, true); p != nil {
		<-p.done
	}
}

// KillAndHold ends the process like Kill, and keeps it down until Start.
func (c *Controller) KillAndHold() {
	c.mu.Lock()
	c.held = true
	c.mu.Unlock()
	c.Kill()
}

// Pause stops the process in the middle of what it does, until Resume.
func (c *Controller) Pause() { c.signalProcess(syscall.SIGSTOP, false) }

// Resume lets a paused process go on.
func (c *Controller) Resume() { c.signalProcess(syscall.SIGCONT, false) }

// signalProcess sends a signal to the process if there is one, and returns it.
func (c *Controller) signalProcess(s syscall.Signal, ends bool) *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running == nil {
		return nil
	}
	c.running.expected = c.running.expected || ends
	_ = c.running.cmd.Process.Signal(s) // it may be gone already
	return c.running
}

// RunController runs the binary that users run, as the service account that the chart makes and with no more than its
// rights, in the cluster and, by the role that the account is associated with, in AWS.
func (w *World) RunController(ctx context.Context, o ControllerOptions) (*Controller, error) {
	o.Installation = o.withDefaults()
	if o.Log == "" {
		o.Log = "controller.log"
	}
	if err := w.Grant(ctx, o.Installation); err != nil {
		return nil, fmt.Errorf("the rights of the controller: %w", err)
	}
	c := &Controller{Log: filepath.Join(w.dir, o.Log), world: w, options: o, ended: make(chan error, 1)}
	var err error
	if c.kubeconfig, err = w.kubeconfig(ctx, o.Installation, o.Proxied); err != nil {
		return nil, fmt.Errorf("the service account of the controller: %w", err)
	}
	if c.identity, err = w.assignIdentity(ctx, o.Installation); err != nil {
		return nil, fmt.Errorf("the credentials of the controller: %w", err)
	}
	if err := os.Remove(c.Log); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	c.stop = sync.OnceValue(func() error {
		c.mu.Lock()
		c.stopped = true
		c.mu.Unlock()
		c.terminate()
		return nil
	})
	if err := c.Start(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// terminate ends the process as a kubelet does, in order, and returns when it is gone.
func (c *Controller) terminate() {
	if p := c.signalProcess(syscall.SIGTERM, true); p != nil {
		_ = p.cmd.Process.Signal(syscall.SIGCONT) // one that is paused would never end
		<-p.done
	}
}

// PID is the process id of the controller; 0 while none runs.
func (c *Controller) PID() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running == nil {
		return 0 // it ended at once; Err says why
	}
	return c.running.cmd.Process.Pid
}

// Start runs the process again after Hold, or after Kill where nothing restarts it. One that runs goes on.
func (c *Controller) Start(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = false
	return c.launch(ctx)
}

// restartUnlessHeld is Start unless the process is held down.
func (c *Controller) restartUnlessHeld(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held {
		return nil
	}
	return c.launch(ctx)
}

// launch starts the process if it should run and does not. The controller must be locked.
func (c *Controller) launch(ctx context.Context) error {
	if c.stopped || c.running != nil {
		return nil
	}
	log, err := os.OpenFile(c.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), c.options.Binary, c.commandArguments()...)
	cmd.Env = append(inheritedEnvironment(), c.processEnvironment()...)
	cmd.Stdout, cmd.Stderr = log, log
	containers.EndWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return errors.Join(fmt.Errorf("%w; make build makes it", err), log.Close())
	}
	p := &process{cmd: cmd, done: make(chan struct{}), began: time.Now()}
	c.running = p
	c.starts++
	go func() {
		err := cmd.Wait()
		_ = log.Close() // what matters was written by the process
		c.handleExit(ctx, p, err)
	}()
	return nil
}

// commandArguments are those of the binary.
func (c *Controller) commandArguments() []string {
	arguments := []string{"controller", "--metrics-port=0", "--health-probe-port=0"}
	if c.options.LeaderElection || c.options.storesLedger() { // it is where the ledger is, too
		arguments = append(arguments, "--leader-election-namespace="+c.options.Namespace)
	}
	if !c.options.LeaderElection {
		arguments = append(arguments, "--disable-leader-election=true")
	}
	return append(arguments, c.options.Flags...)
}

// inheritedEnvironment are the variables of this process, but for what would lead the controller to another account.
func inheritedEnvironment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "AWS_") })
}

func (c *Controller) processEnvironment() []string {
	env := slices.Concat(c.world.networkEnvironment(), c.world.clusterSettings(), c.identity, []string{
		"KUBECONFIG=" + c.kubeconfig, "NOMINATE_PODS=" + strconv.FormatBool(c.options.grantsNomination()), "LEDGER=" + strconv.FormatBool(c.options.storesLedger()),
	})
	if c.options.Proxied {
		// The proxy speaks plain HTTP, so that its kubeconfig has no certificate for nodes to learn.
		env = append(env, "CLUSTER_CA_BUNDLE="+base64.StdEncoding.EncodeToString(c.world.ControlPlane.Config.CAData))
	}
	return append(env, c.options.Env...)
}

// handleExit reports a process that ended, and runs it again if it should.
func (c *Controller) handleExit(ctx context.Context, p *process, err error) {
	c.mu.Lock()
	c.running = nil
	again, report := c.options.Restart && !c.stopped, !p.expected
	if c.delay = min(max(restartDelay, 2*c.delay), longestDelay); p.expected || time.Since(p.began) > livedLong {
		c.delay = restartDelay
	}
	delay, held := c.delay, c.held
	c.mu.Unlock()
	close(p.done)
	if again {
		if report && !held && c.options.Ended != nil {
			c.options.Ended(fmt.Errorf("the controller ended (%w) and is run again; see %s", cmp.Or(err, errors.New("exit status 0")), c.Log))
		}
		time.Sleep(delay)
		err, report = c.restartUnlessHeld(ctx), true
		if err == nil {
			return
		}
	}
	if !report {
		return
	}
	text := fmt.Errorf("the controller ended; see %s", c.Log)
	if err != nil {
		text = fmt.Errorf("the controller ended: %w; see %s", err, c.Log)
	}
	select {
	case c.ended <- text:
	default: // a failure was reported already
	}
}
