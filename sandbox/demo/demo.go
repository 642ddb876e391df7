package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/dovetail-sh/dovetail/sandbox/controlplane"
	"github.com/dovetail-sh/dovetail/sandbox/kubectl"
)

// Options of a demo.
type Options struct {
	Manifests  string    // folder of the manifests to apply
	Controller string    // the dovetail binary
	Out        io.Writer // plain text, one line per event
}

// show is one run of the demo.
type show struct {
	Options
	manifests []kubectl.Manifest
	client    *kubectl.Client
	dir       string            // of the control plane
	applied   map[string]string // kind and name of what is on the server, to the file it came from
	accepted  int
	refused   int
}

// step is a part of the demo with a title of its own.
type step struct {
	title string
	run   func(context.Context) error
}

// Run plays the demo in a temporary folder, and removes it and all else it made. It fails at the
// first step that does not hold.
func Run(ctx context.Context, o Options) (err error) {
	began := time.Now()
	s := &show{Options: o, applied: map[string]string{}}
	if s.manifests, err = kubectl.ReadFolder(o.Manifests); err != nil {
		return fmt.Errorf("%w; run from the root of the repository, or name a folder with --manifests", err)
	}
	dir, err := os.MkdirTemp("", "dovetail-demo-")
	if err != nil {
		return err
	}
	s.dir = dir
	var cp *controlplane.ControlPlane
	defer func() { err = errors.Join(err, s.leave(cp, dir, err == nil)) }()

	steps := []step{
		{"start a control plane: Kubernetes " + Version("k8s.io/kubernetes") + ", in one process, in " + dir, func(ctx context.Context) error {
			if cp, err = controlplane.Start(ctx, controlplane.Options{Dir: dir, Progress: s.took}); err != nil {
				return err
			}
			s.client, err = kubectl.New(cp.Config)
			return err
		}},
		{"install the CRDs", s.installCRDs},
		{"apply the manifests of " + o.Manifests + " as kubectl apply --server-side does, unknown fields refused", s.applyAll},
		{"convert what is too old for any API server, as dovetail convert does, and apply the result", s.applyConverted},
		{"create two objects from manifests with a mistake: they must be refused, with a message that helps", s.applyBad},
		{"run " + o.Controller + " controller: it validates each NodePool, stamps its drift hash, and tells in events what it assumed", s.runController},
		{"look at it, as kubectl get nodepools,ec2nodeclasses does", s.printTables},
	}
	for i, step := range steps {
		s.say("\n[%d/%d] %s", i+1, len(steps), step.title)
		stepBegan := time.Now()
		if err := step.run(ctx); err != nil {
			if ctx.Err() != nil {
				return fmt.Errorf("interrupted in step %d, %s", i+1, step.title)
			}
			return fmt.Errorf("step %d, %s: %w", i+1, step.title, err)
		}
		s.say("      done in %s", seconds(time.Since(stepBegan)))
	}
	s.say("\nAll steps held: %d manifests accepted and kept whole, %d refused, in %s.", s.accepted, s.refused, seconds(time.Since(began)))
	return nil
}

// leave stops and removes everything, and says so, and what to try next, when all went well.
func (s *show) leave(cp *controlplane.ControlPlane, dir string, well bool) error {
	began := time.Now()
	var err error
	if cp != nil {
		err = cp.Stop()
	}
	if err == nil {
		err = os.RemoveAll(dir)
	}
	if err != nil || !well {
		return err
	}
	s.say("Stopped in %s; no process and no file is left.", seconds(time.Since(began)))
	s.say("\nNext, a sandbox of your own, with an emulated AWS and nodes:\n  bin/sandbox up\nand old manifests made new:\n  bin/dovetail convert -f %s", s.Manifests)
	return nil
}

func (s *show) say(format string, args ...any) { fmt.Fprintf(s.Out, format+"\n", args...) }

func (s *show) took(part string, d time.Duration) { s.say("      %-26s%s", part, seconds(d)) }

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

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

func (s *show) installCRDs(ctx context.Context) error {
	crds, err := s.client.InstallCRDs(ctx)
	if err != nil {
		return err
	}
	for _, crd := range crds {
		var versions []string
		for _, v := range crd.Spec.Versions {
			versions = append(versions, v.Name)
		}
		s.say("      %-40s%s", crd.Name, strings.Join(versions, ", "))
	}
	return nil
}

// printTables shows the objects through the same request that kubectl makes.
func (s *show) printTables(ctx context.Context) error {
	for _, kind := range []string{"karpenter.sh/v1 NodePool", "karpenter.k8s.aws/v1 EC2NodeClass"} {
		version, name, _ := strings.Cut(kind, " ")
		obj := &unstructured.Unstructured{}
		obj.SetAPIVersion(version)
		obj.SetKind(name)
		table, err := s.client.Table(ctx, obj.GroupVersionKind())
		if err != nil {
			return err
		}
		if len(table.Rows) == 0 {
			return fmt.Errorf("no %s is listed, although some were accepted", name)
		}
		var text strings.Builder
		if err := kubectl.Print(&text, table, false); err != nil {
			return err
		}
		for line := range strings.Lines(text.String()) {
			s.say("      %s", strings.TrimRight(line, " \n"))
		}
		s.say("")
	}
	s.say("      READY is Unknown until the node class is ready, and so far nothing looks at node classes: that needs the AWS provider.")
	return nil
}
