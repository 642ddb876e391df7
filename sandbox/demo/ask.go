package demo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/console"
	"github.com/dovetail-sh/dovetail/internal/journal"
	"github.com/dovetail-sh/dovetail/sandbox/containers"
)

// reader is the service account that queries the controller.
const reader = "dovetail-inspect"

// tokenSeconds is how long its token is valid: longer than anybody looks at a demo.
const tokenSeconds = 8 * 60 * 60

// linesShown is how much of an explanation is printed.
const linesShown = 12

// access is how requests reach the controller.
type access struct {
	address    string // of the controller
	kubeconfig string // of the reader
	token      string
}

// page is the address of the web page, with the token.
func (a *access) page() string { return a.address + console.Path + "#token=" + a.token }

// grantAccess makes an account that may query the controller, as docs/how-to/ask-the-controller.md has users do.
func (s *demoRun) grantAccess(ctx context.Context, port int) error {
	name := metav1.ObjectMeta{Name: reader}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: reader, Namespace: metav1.NamespaceSystem}}
	for _, o := range []client.Object{
		account,
		&rbacv1.ClusterRole{ObjectMeta: name, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{journal.Path}}}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: name, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: reader},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: reader, Namespace: metav1.NamespaceSystem}},
		},
	} {
		if err := s.kube.Create(ctx, o); err != nil {
			return err
		}
	}
	given := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(tokenSeconds))}}
	if err := s.kube.SubResource("token").Create(ctx, account, given); err != nil {
		return err
	}
	base := filepath.Join(s.dir, reader)
	s.access = access{address: fmt.Sprintf("http://127.0.0.1:%d", port), kubeconfig: base + ".kubeconfig", token: given.Status.Token}
	if err := os.WriteFile(base+".token", []byte(s.access.token), 0o600); err != nil {
		return err
	}
	return containers.WriteKubeconfig(s.access.kubeconfig, s.world.ControlPlane.Config.Host, s.world.ControlPlane.Config.CAData, base+".token")
}

// explainRemovedNode explains why the controller removed a node, and checks that it serves the page.
func (s *demoRun) explainRemovedNode(ctx context.Context) (string, error) {
	if s.removed == "" {
		return "", errors.New("consolidation removed no node that could be explained")
	}
	cmd := exec.CommandContext(ctx, s.Controller, "explain", "node", s.removed, "--controller-address", s.access.address)
	cmd.Env = append(s.world.Environment(), "KUBECONFIG="+s.access.kubeconfig)
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
  . %s`, s.Replicas, s.access.page(), s.access.kubeconfig, s.access.address, pool, s.access.address, filepath.Join(s.dir, "aws.env"))
	<-ctx.Done()
	return nil
}
