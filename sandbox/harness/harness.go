package harness

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	autoscalingv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	karpv1alpha1 "github.com/dovetail-sh/dovetail/api/v1alpha1"
	"github.com/dovetail-sh/dovetail/sandbox/controlplane"
	"github.com/dovetail-sh/dovetail/sandbox/kubectl"
	"github.com/dovetail-sh/dovetail/sandbox/world"
)

// patience is how long anything may take before a test gives up on it.
const patience = 5 * time.Minute

// Options of the control plane of a test binary.
type Options struct {
	Controllers bool // run kube-controller-manager
	Scheduler   bool // run kube-scheduler
	// World runs a whole sandbox instead, with an emulated AWS and nodes for its instances.
	World bool
	Speed float64       // of the machines of a world; 0 means 20
	Boot  time.Duration // of the nodes of a world; 0 means 20 s, emulated
	// Prepare runs before the tests, such as to start a controller. What it returns runs after them, with
	// their exit code, and may change it.
	Prepare func(context.Context, *Server) (finish func(code int) (int, error), err error)
}

// Server is the control plane of a test binary, with our CRDs installed.
type Server struct {
	*kubectl.Client

	Config *rest.Config
	CRDs   []*apiextensionsv1.CustomResourceDefinition
	World  *world.World // nil unless requested

	stop func() error
}

// Tune fits a test binary to worlds: a quarter of their CPU time would go into collecting garbage. The memory is
// what the Go runtime may take then; 0 is enough for one cluster. Where tests wait for most of their time, it says how
// many run at once, whatever the number of CPUs; 0 leaves that as it is.
func Tune(parallel int, memory int64) {
	debug.SetGCPercent(400)
	if memory == 0 {
		memory = 2 << 30
	}
	debug.SetMemoryLimit(memory)
	if parallel == 0 {
		return
	}
	if err := flag.Set("test.parallel", strconv.Itoa(parallel)); err != nil {
		panic(err) // it is a test binary
	}
}

// Main runs the tests of a binary with a control plane and ends the process. The tests find the
// server through the pointer, which is set before they run.
func Main(m *testing.M, o Options, server **Server) {
	code, err := run(m, o, server)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M, o Options, server **Server) (code int, err error) {
	Tune(0, 0)
	dir, err := os.MkdirTemp("", "dovetail-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	s, err := Start(ctx, dir, o)
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	*server = s
	if o.Prepare == nil {
		return m.Run(), nil
	}
	finish, err := o.Prepare(ctx, s)
	if err != nil {
		return 1, err
	}
	return finish(m.Run())
}

// Start is Main for a test binary that needs more than one control plane: it starts one in a folder, with our
// CRDs installed. Prepare is left to the caller.
func Start(ctx context.Context, dir string, o Options) (*Server, error) {
	ctrllog.SetLogger(klog.Background()) // else clients complain that no logger is set
	s, err := start(ctx, dir, o)
	if err != nil {
		return nil, err
	}
	if s.CRDs, err = s.InstallCRDs(ctx); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// Stop ends the control plane.
func (s *Server) Stop() error { return s.stop() }

func start(ctx context.Context, dir string, o Options) (*Server, error) {
	if o.World {
		if o.Speed == 0 {
			o.Speed = 20
		}
		w, err := StartWorld(ctx, world.Options{Dir: dir, Speed: o.Speed, Boot: o.Boot, Nodes: 2})
		if err != nil {
			return nil, err
		}
		return &Server{Client: w.Kube, Config: w.ControlPlane.Config, World: w, stop: w.Stop}, nil
	}
	cp, err := StartControlPlane(ctx, controlplane.Options{Dir: dir, NoControllers: !o.Controllers, NoScheduler: !o.Scheduler})
	if err != nil {
		return nil, err
	}
	client, err := kubectl.New(cp.Config)
	if err != nil {
		return nil, errors.Join(err, cp.Stop())
	}
	return &Server{Client: client, Config: cp.Config, stop: cp.Stop}, nil
}

// StartWorld starts a world whose control plane is a process of its own: tests are not linked with Kubernetes.
func StartWorld(ctx context.Context, o world.Options) (*world.World, error) {
	o.ControlPlane = StartControlPlane
	return world.Start(ctx, o)
}

// StartControlPlane is a controlplane.Starter that builds the program where it is not fresh. Like Tune, it has the process
// collect less garbage than a user's would.
func StartControlPlane(ctx context.Context, o controlplane.Options) (*controlplane.ControlPlane, error) {
	program, err := ControlPlane.Build(ctx)
	if err != nil {
		return nil, err
	}
	return controlplane.Process(program, "GOGC=400", "GOMEMLIMIT=2GiB")(ctx, o)
}

var _ controlplane.Starter = StartControlPlane

// Typed returns a client that knows the kinds of Kubernetes and ours.
func (s *Server) Typed(t *testing.T) client.WithWatch {
	t.Helper()
	c, err := NewTyped(s.Config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// NewTyped is Typed where there is no test.
func NewTyped(config *rest.Config) (client.WithWatch, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, karpv1.AddToScheme, karpv1alpha1.AddToScheme, awsv1.AddToScheme, autoscalingv1beta1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return client.NewWithWatch(config, client.Options{Scheme: scheme})
}

// Namespace makes a namespace for one test and removes it when the test ends.
func (s *Server) Namespace(t *testing.T) string {
	t.Helper()
	c := s.Typed(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: strings.Trim(dnsName(t.Name()), "-") + "-"}}
	if err := c.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Delete(context.WithoutCancel(t.Context()), namespace); err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	return namespace.Name
}

// dnsName keeps what a namespace may be called.
func dnsName(name string) string {
	const longest = 40
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(name))
	return name[:min(len(name), longest)]
}

// Create makes an object from YAML and removes it when the test ends. It returns the object as the
// server filled it in.
func Create[T client.Object](t *testing.T, c client.Client, obj T, text string) T {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), obj); err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Delete(context.WithoutCancel(t.Context()), obj); err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	return obj
}

// Eventually waits on a watch until an object holds, and returns it. The list says what is watched.
func Eventually[T client.Object](t *testing.T, c client.WithWatch, list client.ObjectList, what string, holds func(T) bool, opts ...client.ListOption) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	w, err := c.Watch(ctx, list, opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			t.Fatalf("never seen: %s", what)
		case event, open := <-w.ResultChan():
			if !open {
				t.Fatalf("the watch ended before: %s", what)
			}
			if obj, ok := event.Object.(T); ok && event.Type != watch.Deleted && holds(obj) {
				return obj
			}
		}
	}
}
