package fakenode

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// probeContainer watches over a container until it ends, as its probes say: whether it is ready, and whether it has to be
// restarted.
func (s *Simulator) probeContainer(ctx context.Context, key string, p *corev1.Pod, c *corev1.Container, r *run, process Process) {
	s.running.Go(func() {
		if !s.awaitStarted(ctx, p, c, process) {
			return
		}
		if c.ReadinessProbe != nil {
			s.running.Go(func() {
				s.repeatProbe(ctx, p, c, "Readiness", c.ReadinessProbe, process, func(ok bool) bool {
					r.mu.Lock()
					changed := r.process == process && r.ready != ok
					if changed {
						r.ready = ok
					}
					r.mu.Unlock()
					if changed {
						s.podQueue.Add(key)
					}
					return true
				})
			})
		}
		if c.LivenessProbe != nil {
			s.repeatProbe(ctx, p, c, "Liveness", c.LivenessProbe, process, func(ok bool) bool {
				if !ok {
					s.restartContainer(ctx, p, c, process, "liveness")
				}
				return ok
			})
		}
	})
}

// awaitStarted returns once the startup probe succeeded. A container where it does not is ended.
func (s *Simulator) awaitStarted(ctx context.Context, p *corev1.Pod, c *corev1.Container, process Process) (started bool) {
	if c.StartupProbe == nil {
		return true
	}
	s.repeatProbe(ctx, p, c, "Startup", c.StartupProbe, process, func(ok bool) bool {
		if started = ok; !ok {
			s.restartContainer(ctx, p, c, process, "startup")
		}
		return false
	})
	return started
}

// restartContainer ends a container that a probe says to be broken.
func (s *Simulator) restartContainer(ctx context.Context, p *corev1.Pod, c *corev1.Container, process Process, probe string) {
	s.recordWarning(ctx, p, "Killing", fmt.Sprintf("Container %s failed %s probe, will be restarted", c.Name, probe))
	process.Stop(false)
	grace := 30 * time.Second
	if p.Spec.TerminationGracePeriodSeconds != nil {
		grace = time.Duration(*p.Spec.TerminationGracePeriodSeconds) * time.Second
	}
	if !sleepContext(ctx, grace) {
		return // it has ended
	}
	process.Stop(true)
}

// repeatProbe probes a container until decided returns false. It is called when enough probes in a row agree.
func (s *Simulator) repeatProbe(ctx context.Context, p *corev1.Pod, c *corev1.Container, kind string, probe *corev1.Probe, process Process, decided func(ok bool) bool) {
	if !sleepContext(ctx, time.Duration(probe.InitialDelaySeconds)*time.Second) {
		return
	}
	successes, failures := int32(0), int32(0)
	for {
		err := check(ctx, c, probe, process)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			successes, failures = successes+1, 0
		} else {
			successes, failures = 0, failures+1
			s.recordWarning(ctx, p, "Unhealthy", kind+" probe failed: "+err.Error())
		}
		if successes >= max(1, probe.SuccessThreshold) && !decided(true) || failures >= max(1, probe.FailureThreshold) && !decided(false) {
			return
		}
		if !sleepContext(ctx, time.Duration(max(1, probe.PeriodSeconds))*time.Second) {
			return
		}
	}
}

// sleepContext waits, and reports whether it did so to the end.
func sleepContext(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// check is one probe of a container.
func check(ctx context.Context, c *corev1.Container, probe *corev1.Probe, process Process) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(max(1, probe.TimeoutSeconds))*time.Second)
	defer cancel()
	switch {
	case probe.HTTPGet != nil:
		port, err := portOf(c, probe.HTTPGet.Port)
		if err != nil {
			return err
		}
		address := process.Address(port)
		if address == "" {
			return fmt.Errorf("nothing listens on port %d", port)
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/"+strings.TrimPrefix(probe.HTTPGet.Path, "/"), nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 1<<16)) // so that the connection can be used again
		if response.StatusCode >= http.StatusBadRequest {
			return fmt.Errorf("HTTP probe failed with statuscode: %d", response.StatusCode)
		}
	case probe.TCPSocket != nil:
		port, err := portOf(c, probe.TCPSocket.Port)
		if err != nil {
			return err
		}
		connection, err := new(net.Dialer).DialContext(ctx, "tcp", process.Address(port))
		if err != nil {
			return err
		}
		return connection.Close()
	}
	return nil // commands in the container cannot be run
}

// portOf is the port that a probe means, by its number or by its name.
func portOf(c *corev1.Container, port intstr.IntOrString) (int32, error) {
	if port.Type == intstr.Int {
		return port.IntVal, nil
	}
	for _, p := range c.Ports {
		if p.Name == port.StrVal {
			return p.ContainerPort, nil
		}
	}
	return 0, fmt.Errorf("container %s has no port named %s", c.Name, port.StrVal)
}
