package containers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/dovetail-sh/dovetail/sandbox/fakenode"
)

// Options of a Runtime; all are required but Network.
type Options struct {
	Dir string // for logs, tokens and files of volumes
	// Programs by image repository: what a container of that image runs.
	Programs map[string]string
	Client   kubernetes.Interface
	Config   *rest.Config // where the API server is
	// Network has the variables, each NAME=value, that lead a program to what it would reach by the network of a cluster
	// under names that everybody knows, such as ec2.eu-west-1.amazonaws.com. The pod wins where it has them too.
	Network []string
	// Resolves reports whether pods with a DNS policy can look these names up; nil: all can. Where they cannot, the variables of
	// Network lead to an unknown name.
	Resolves func(policy corev1.DNSPolicy) bool
}

// Runtime runs containers as processes. It is a fakenode.Runtime.
type Runtime struct{ Options }

// New returns a runtime for some images.
func New(o Options) (*Runtime, error) {
	for repository, program := range o.Programs {
		if _, err := exec.LookPath(program); err != nil {
			return nil, fmt.Errorf("the program of image %s: %w", repository, err)
		}
	}
	return &Runtime{Options: o}, nil
}

// programOfImage is what containers of an image run; empty if they are not run.
func (r *Runtime) programOfImage(image string) string {
	repository, _, _ := strings.Cut(image, "@")
	if colon := strings.LastIndex(repository, ":"); colon > strings.LastIndex(repository, "/") {
		repository = repository[:colon]
	}
	return r.Programs[repository]
}

// Runs reports whether containers of an image are run.
func (r *Runtime) Runs(image string) bool { return r.programOfImage(image) != "" }

// Start runs a container of a pod.
func (r *Runtime) Start(ctx context.Context, p *corev1.Pod, container string, allocatable corev1.ResourceList, restarts int32) (fakenode.Process, error) {
	at := slices.IndexFunc(p.Spec.Containers, func(c corev1.Container) bool { return c.Name == container })
	if at < 0 {
		return nil, fmt.Errorf("pod %s/%s has no container %s", p.Namespace, p.Name, container)
	}
	s := &setup{runtime: r, pod: p, container: &p.Spec.Containers[at], allocatable: allocatable, dir: r.podFolder(p)}
	if err := s.prepareContainer(ctx); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), r.programOfImage(s.container.Image), s.args...) // it outlives the request; Stop ends it
	cmd.Env, cmd.Dir = s.env, s.dir
	EndWithParent(cmd)
	logs := filepath.Join(s.dir, container)
	if err := os.MkdirAll(logs, 0o750); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(logs, fmt.Sprintf("%d.log", restarts)))
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	out := &Process{cmd: cmd, log: log.Name(), ports: s.ports, done: make(chan struct{})}
	renewing, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	for _, t := range s.tokens {
		running.Go(func() { t.renewToken(renewing) })
	}
	go func() {
		out.code = exitCode(cmd.Wait(), cmd)
		stop()
		running.Wait()
		_ = log.Close() // what matters was written by the process
		close(out.done)
	}()
	return out, nil
}

// Remove removes what a pod leaves.
func (r *Runtime) Remove(p *corev1.Pod) error { return os.RemoveAll(r.podFolder(p)) }

// podFolder is that of a pod.
func (r *Runtime) podFolder(p *corev1.Pod) string {
	return filepath.Join(r.Dir, p.Namespace+"_"+p.Name+"_"+string(p.UID))
}

// exitCode is that of a container: a signal counts from 128.
func exitCode(err error, cmd *exec.Cmd) int32 {
	if err == nil {
		return 0
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int32(status.Signal())
	}
	return int32(max(cmd.ProcessState.ExitCode(), 1))
}

// Process is a container that runs, or has run.
type Process struct {
	cmd   *exec.Cmd
	log   string
	ports map[int32]int // of this machine, by port of the container
	done  chan struct{}
	code  int32
}

// Done is closed when it has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// ExitCode is how it ended. Read it after Done.
func (p *Process) ExitCode() int32 { return p.code }

// Stop ends it: as SIGTERM does, or at once.
func (p *Process) Stop(atOnce bool) {
	signal := syscall.SIGTERM
	if atOnce {
		signal = syscall.SIGKILL
	}
	_ = p.cmd.Process.Signal(signal) // it may be gone already
}

// Address is where a port of the container is reached from here; empty if nothing listens there.
func (p *Process) Address(port int32) string {
	if local, mapped := p.ports[port]; mapped {
		return fmt.Sprintf("127.0.0.1:%d", local)
	}
	return ""
}

// Log is the file that it writes to.
func (p *Process) Log() string { return p.log }
