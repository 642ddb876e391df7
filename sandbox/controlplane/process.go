package controlplane

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// stopLimit is how long the process has to end after it was requested to; the control plane in it gives up before.
const stopLimit = 40 * time.Second

// Message is a line that the process of a control plane writes to its standard output.
type Message struct {
	Step    string        `json:"step,omitempty"` // of the start, that is done
	Took    time.Duration `json:"took,omitempty"`
	Ready   bool          `json:"ready,omitempty"`
	Version string        `json:"version,omitempty"` // of Kubernetes, once it is ready
	Failed  string        `json:"failed,omitempty"`  // why the start failed, or which component ended by itself
}

// Process is a Starter that runs a program as a child of this process: the program reads Options as a line of JSON,
// writes messages, and stops its control plane when its standard input ends. So it ends with this process, however that
// ends. The environment is added to that of this process.
func Process(program string, env ...string) Starter {
	return func(ctx context.Context, o Options) (*ControlPlane, error) {
		dir, err := absoluteDir(o.Dir)
		if err != nil {
			return nil, err
		}
		options, err := json.Marshal(o)
		if err != nil {
			return nil, err
		}
		// Not with the context of the start: it ends with its standard input, in order.
		c, err := startChild(context.WithoutCancel(ctx), program, env, options)
		if err != nil {
			return nil, err
		}
		version, err := c.awaitReady(ctx, o.Progress)
		if err != nil {
			return nil, errors.Join(err, c.stop())
		}
		return Open(Running{Dir: dir, Version: version, Failed: c.failed, Stop: c.stop})
	}
}

// absoluteDir leaves an empty path as it is: the program refuses it, with a reason.
func absoluteDir(dir string) (string, error) {
	if dir == "" {
		return "", nil
	}
	return filepath.Abs(dir)
}

// child is the process of a control plane.
type child struct {
	cmd      *exec.Cmd
	input    io.Closer // closed, it requests the process to stop
	messages chan Message
	failed   chan error
	ended    chan struct{} // closed once the process has ended
	stop     func() error
	stopping chan struct{} // closed once a stop was requested
}

func startChild(ctx context.Context, program string, env []string, options []byte) (*child, error) {
	c := &child{messages: make(chan Message), failed: make(chan error, 4), ended: make(chan struct{}), stopping: make(chan struct{})}
	c.stop = sync.OnceValue(c.requestStop)
	c.cmd = exec.CommandContext(ctx, program)
	c.cmd.Env = append(os.Environ(), env...)
	c.cmd.Stderr = os.Stderr // what a component says that gives up
	input, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	c.input = input
	output, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the process of a control plane: %w", err)
	}
	go c.read(output)
	if _, err := input.Write(append(options, '\n')); err != nil {
		// It does not read, so it has ended or is another program; stopping waits for its end either way.
		return nil, errors.Join(fmt.Errorf("%s ended before it read its options: %w", program, err), c.stop())
	}
	return c, nil
}

// read passes messages on until the process ends.
func (c *child) read(output io.Reader) {
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		m := parseMessage(lines.Bytes())
		select {
		case c.messages <- m:
		case <-c.stopping:
		}
	}
	err := c.cmd.Wait()
	select {
	case <-c.stopping:
	default:
		c.reportExit(fmt.Errorf("the process of the control plane ended: %w", cmp.Or(err, io.EOF)))
	}
	close(c.ended)
}

// parseMessage takes anything else for the last words of a program that is not the right one.
func parseMessage(line []byte) Message {
	var m Message
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&m); err != nil || m == (Message{}) {
		return Message{Failed: string(line)}
	}
	return m
}

// awaitReady returns the version of Kubernetes once the control plane is ready. From then on failures are reported.
func (c *child) awaitReady(ctx context.Context, progress func(string, time.Duration)) (version string, err error) {
	for {
		select {
		case m := <-c.messages:
			switch {
			case m.Ready:
				go c.watch()
				return m.Version, nil
			case m.Failed != "":
				return "", errors.New(m.Failed)
			case progress != nil:
				progress(m.Step, m.Took)
			}
		case <-c.ended:
			return "", <-c.failed
		case <-ctx.Done():
			return "", fmt.Errorf("interrupted while the control plane was starting: %w", ctx.Err())
		}
	}
}

// watch reports components that fail later.
func (c *child) watch() {
	for {
		select {
		case m := <-c.messages:
			if m.Failed != "" {
				c.reportExit(errors.New(m.Failed))
			}
		case <-c.ended:
			return
		}
	}
}

func (c *child) reportExit(err error) {
	select {
	case c.failed <- err:
	default: // no receiver; the first errors say what happened
	}
}

func (c *child) requestStop() error {
	close(c.stopping)
	_ = c.input.Close() // where it fails, the process has ended
	select {
	case <-c.ended:
		return nil
	case <-time.After(stopLimit):
	}
	_ = c.cmd.Process.Kill() // it may have ended by now
	<-c.ended
	return fmt.Errorf("the process of the control plane did not stop within %s and was killed", stopLimit)
}
