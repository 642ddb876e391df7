package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// A Program is one that tests start as users do.
type Program string

// The programs there are.
const (
	Dovetail Program = "dovetail" // the controller
	Kubectl  Program = "kubectl"
	Helm     Program = "helm"
	// Predecessor stands for the controller that a cluster had before: it leads, and does nothing else.
	Predecessor Program = "predecessor"
	Tofu        Program = "tofu"
	// ControlPlane is the process of a control plane, see controlplane.Process.
	ControlPlane Program = "controlplane"
)

// The providers that tofu runs in tests.
const (
	TofuKubectl   Program = "terraform-provider-kubectl"
	TofuTime      Program = "terraform-provider-time"
	TofuProviders Program = "terraform-providers" // those of AWS and Helm in one
)

// buildArguments is how a program is built. The flags are those of the Makefile and of everything else in the sandbox, so that
// nothing is compiled twice.
func (p Program) buildArguments(release string) (module, pkg, output, linker string) {
	major, rest, _ := strings.Cut(strings.TrimPrefix(release, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	switch p {
	case Kubectl:
		// It knows its version from the linker only, and refuses to compare without.
		const variable = "-X k8s.io/component-base/version.git"
		return "sandbox", "k8s.io/kubernetes/cmd/kubectl", "bin/kubectl", variable + "Version=" + release + " " + variable + "Major=" + major + " " + variable + "Minor=" + minor
	case Helm:
		// Without a cluster it takes the version of Kubernetes from the linker, and else one that no chart supports.
		const variable = "-X helm.sh/helm/v3/pkg/chartutil.k8sVersion"
		return "sandbox/clients/helm", "helm.sh/helm/v3/cmd/helm", "bin/helm", variable + "Major=" + major + " " + variable + "Minor=" + minor
	case Tofu:
		return "sandbox/terraform/tofu", "github.com/opentofu/opentofu/cmd/tofu", "bin/tofu", ""
	case TofuKubectl:
		return "sandbox/terraform/kubectl", "github.com/gavinbunney/terraform-provider-kubectl", "bin/programs/" + string(p), ""
	case TofuTime:
		return "sandbox/terraform/providers", "github.com/hashicorp/terraform-provider-time", "bin/programs/" + string(p), ""
	case TofuProviders:
		return "sandbox/terraform/providers", ".", "bin/programs/" + string(p), ""
	case Dovetail:
		// Not bin/dovetail, which has a version in it: each would be linked again after the other.
		return ".", "./cmd/dovetail", "bin/programs/dovetail", ""
	case ControlPlane:
		return "sandbox", "./controlplane/program", "bin/programs/controlplane", ""
	case Predecessor:
		return "sandbox", "./takeover/predecessor", "bin/programs/predecessor", ""
	}
	panic("no program " + string(p))
}

// sources names an environment variable with a digest of the repository, which the gate sets. While it is the same, a program
// that was built once is fresh, and the go command, which takes seconds to find that out, is not run.
const sources = "DOVETAIL_SOURCES"

// Build builds a program into bin of the repository and returns its path. Test binaries that run at the same time share
// it: the first one links it, and the others only check whether it is fresh.
func (p Program) Build(ctx context.Context) (path string, err error) {
	root, err := repositoryRoot()
	if err != nil {
		return "", err
	}
	release, err := kubernetesVersion(root)
	if err != nil {
		return "", err
	}
	module, pkg, output, linker := p.buildArguments(release)
	path = filepath.Join(root, output)
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, lock.Close()) }() // which unlocks
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	digest := os.Getenv(sources)
	if built, err := os.ReadFile(lock.Name()); err == nil && digest != "" && string(built) == digest && fileExists(path) {
		return path, nil
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-C", filepath.Join(root, module), "-ldflags", linker, "-o", path, pkg)
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return path, os.WriteFile(lock.Name(), []byte(digest), 0o600)
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// kubernetesVersion is that of the module, such as v1.37.1. It is no part of this binary.
func kubernetesVersion(root string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, "sandbox", "go.mod"))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) >= 2 && fields[0] == "k8s.io/kubernetes" {
			return fields[1], nil
		}
	}
	return "", errors.New("sandbox/go.mod requires no k8s.io/kubernetes")
}

// repositoryRoot is the folder of the root module; tests run in the folder of their package.
func repositoryRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "sandbox", "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("the tests of the sandbox run in its repository")
		}
		dir = parent
	}
}
