package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A shell starts the processes of steps.
type shell struct {
	root  string        // of the repository
	place string        // the path of it that processes see
	logs  string        // where logs go, from the root
	tool  string        // the go command
	env   []string      // of every process
	yield bool          // lower the priority of the CPU lane, because another lane runs beside it
	grace time.Duration // how long a process has to end after a stop was requested
	kill  chan struct{} // closed when nothing is given time to end any more
}

// message is what a step that runs reports to the board.
type message struct {
	step    step
	command int     // index of the command that runs
	line    *string // that it printed; nil when it begins
	ended   *ending // after the last command
}

// run runs the commands of a step, sends every line they print and then how the step ended.
func (h *shell) run(ctx context.Context, s step, send func(message)) {
	var end ending
	logs, err := openLogs(filepath.Join(h.root, h.logs), s.name)
	if err != nil {
		end.err = err
	}
	for i := range s.commands {
		if end.err != nil || ctx.Err() != nil {
			break
		}
		c := &s.commands[i]
		fmt.Fprintf(logs.text, "$ %s\n", c.text())
		send(message{step: s, command: i})
		lines := &lineWriter{line: func(line []byte) {
			logs.write(c, line)
			send(message{step: s, command: i, line: new(string(line))})
		}}
		cpu, err := h.start(ctx, s, c, lines)
		lines.flush()
		end.cpu += cpu
		end.err = err
	}
	if err := logs.close(); end.err == nil {
		end.err = err
	}
	end.stopped = ctx.Err() != nil
	send(message{step: s, command: max(0, len(s.commands)-1), ended: &end})
}

// start runs one process to its end, in a process group of its own: a signal to the group reaches the
// test binaries, and the processes that those started. What is left of the group afterwards is killed.
func (h *shell) start(ctx context.Context, s step, c *command, out io.Writer) (time.Duration, error) {
	argv := c.arguments(h.tool)
	if h.yield && s.lane == laneCPU {
		argv = append([]string{"nice", "-n", "10"}, argv...)
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = filepath.Join(h.place, c.dir)
	cmd.Env = slices.Concat(h.env, []string{"PWD=" + cmd.Dir}, c.tuning(), c.env) // without PWD the link is resolved
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return signalGroup(cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = h.grace
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	ended := make(chan struct{})
	go func() {
		select {
		case <-h.kill:
			_ = signalGroup(cmd.Process.Pid, syscall.SIGKILL) // and once more below
		case <-ended:
		}
	}()
	err := cmd.Wait()
	close(ended)
	if killErr := signalGroup(cmd.Process.Pid, syscall.SIGKILL); killErr != nil && err == nil {
		err = killErr
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		err = errors.New("processes that it started outlived it and were killed")
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), err
}

// signalGroup signals every process of a group; one that is gone needs none.
func signalGroup(leader int, signal syscall.Signal) error {
	if err := syscall.Kill(-leader, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal process group %d: %w", leader, err)
	}
	return nil
}

// environment is that of every process: what the Makefile exports too, so that nothing is compiled
// twice with different flags, and without what a make around us would pass to a make below us.
func environment(given []string) []string {
	goFlags := []string{"-buildvcs=false", "-trimpath"}
	var env []string
	for _, entry := range given {
		name, value, _ := strings.Cut(entry, "=")
		switch name {
		case "GOFLAGS":
			for flag := range strings.FieldsSeq(value) {
				if !strings.HasPrefix(flag, "-buildvcs=") && flag != "-trimpath" {
					goFlags = append(goFlags, flag)
				}
			}
		case "CGO_ENABLED", "GOWORK", "MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES":
		default:
			env = append(env, entry)
		}
	}
	return append(env, "GOFLAGS="+strings.Join(goFlags, " "), "GOWORK=off", "CGO_ENABLED=0")
}

// lineWriter calls a function for every line written to it, without its end.
type lineWriter struct {
	rest []byte
	line func([]byte)
}

func (w *lineWriter) Write(text []byte) (int, error) {
	w.rest = append(w.rest, text...)
	for {
		i := bytes.IndexByte(w.rest, '\n')
		if i < 0 {
			return len(text), nil
		}
		w.line(w.rest[:i])
		w.rest = w.rest[i+1:]
	}
}

func (w *lineWriter) flush() {
	if len(w.rest) > 0 {
		w.line(w.rest)
		w.rest = nil
	}
}

// logFiles keep all that a step printed: text for readers, and the events of go test for programs.
type logFiles struct {
	text   *os.File
	events *os.File
}

func openLogs(dir, step string) (*logFiles, error) {
	l := &logFiles{}
	var err error
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return l, err
	}
	if l.text, err = os.Create(logName(dir, step)); err != nil {
		return l, err
	}
	l.events, err = os.Create(filepath.Join(dir, step+".json"))
	return l, err
}

func (l *logFiles) write(c *command, line []byte) {
	if c.test != nil {
		if e, ok := parseEvent(line); ok {
			fmt.Fprintf(l.events, "%s\n", line)
			fmt.Fprint(l.text, e.Output)
			return
		}
	}
	fmt.Fprintf(l.text, "%s\n", line)
}

// close removes the file of events where there were none.
func (l *logFiles) close() error {
	var errs []error
	if l.text != nil {
		errs = append(errs, l.text.Close())
	}
	if l.events != nil {
		if info, err := l.events.Stat(); err == nil && info.Size() == 0 {
			os.Remove(l.events.Name())
		}
		errs = append(errs, l.events.Close())
	}
	return errors.Join(errs...)
}
