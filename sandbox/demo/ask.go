package demo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/console"
	"github.com/dovetail-sh/dovetail/sandbox/world"
)

// linesShown is how much of an explanation is printed.
const linesShown = 12

// access is how requests reach the controller.
type access struct {
	world.Reader

	address string // of the controller
}

// page is the address of the web page, with the token.
func (a *access) page() string { return a.address + console.Path + "#token=" + a.Token }

// explainRemovedNode explains why the controller removed a node, and checks that it serves the page.
func (s *demoRun) explainRemovedNode(ctx context.Context) (string, error) {
	if s.removed == "" {
		return "", errors.New("consolidation removed no node that could be explained")
	}
	cmd := exec.CommandContext(ctx, s.Controller, "explain", "node", s.removed, "--controller-address", s.access.address)
	cmd.Env = append(s.world.Environment(), "KUBECONFIG="+s.access.Kubeconfig)
	cmd.WaitDelay = 10 * time.Second
	text, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, text)
	}
	s.printLine("      dovetail explain node %s", s.removed)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	for i, line := range lines {
		if i == linesShown {
			s.printLine("        … and %d lines more", len(lines)-i)
			break
		}
		s.printLine("        %s", line)
	}
	if !strings.Contains(string(text), "any more") {
		return "", errors.New("the explanation does not say that the node was removed")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.access.address+console.Path, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("the web page: %s", response.Status)
	}
	return "the leader says why; the web page is served at " + s.access.address + console.Path, nil
}

// leaveRunning has the workload come back, and waits for Ctrl-C.
func (s *demoRun) leaveRunning(ctx context.Context) error {
	if err := s.scale(ctx, s.Replicas); err != nil {
		return err
	}
	s.printLine(`
All steps held, and the sandbox stays until Ctrl-C. %d pods come back now.

The web page:
  %s
In another terminal:
  export KUBECONFIG=%s
  bin/dovetail top --controller-address %s
  bin/dovetail explain nodepool %s --controller-address %s
With all rights, for kubectl and aws:
  . %s`, s.Replicas, s.access.page(), s.access.Kubeconfig, s.access.address, pool, s.access.address, filepath.Join(s.dir, "aws.env"))
	<-ctx.Done()
	return nil
}
