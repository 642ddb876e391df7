package flow_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu"
	"github.com/dovetail-sh/dovetail/sandbox/harness"
	"github.com/dovetail-sh/dovetail/sandbox/invariant"
	"github.com/dovetail-sh/dovetail/sandbox/world"
)

// What all tests share.
var (
	server     *harness.Server
	kube       client.WithWatch
	checker    *invariant.Checker
	controller *world.Controller
	binary     string
	served     string // where the controller serves its metrics and decisions
	changes    = &broadcast{next: make(chan struct{})}

	lags = struct {
		sync.Mutex

		by map[string]awsemu.Duration
	}{by: map[string]awsemu.Duration{}}
)

// begun is how many tests may have begun: all of them. Most wait for their turn, see rooms.
const begun = "1000"

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", begun); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	harness.Main(m, harness.Options{World: true, Speed: 1, Boot: 500 * time.Millisecond, Prepare: prepare}, &server)
}

// prepare builds and runs the controller, and has the invariants checked.
func prepare(ctx context.Context, s *harness.Server) (func(int) (int, error), error) {
	var err error
	if kube, err = harness.NewTyped(s.Config); err != nil {
		return nil, err
	}
	if _, err := server.Control(ctx, http.MethodPut, "timing", harness.QuickInstances); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "dovetail-binary-")
	if err != nil {
		return nil, err
	}
	binary = filepath.Join(dir, "dovetail")
	build := exec.CommandContext(ctx, "go", "build", "-C", filepath.Join("..", ".."), "-o", binary, "./cmd/dovetail")
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w\n%s", build, err, out), os.RemoveAll(dir))
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	served = fmt.Sprintf("http://127.0.0.1:%d", port)
	following, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	checker = invariant.New(invariant.Options{Cluster: world.Cluster, Key: "AKIASANDBOX"})
	running.Go(func() {
		checker.Follow(following, invariant.Sources{Kube: kube, AWS: s.World.AWS, Proxy: s.World.Proxy})
	})
	running.Go(func() { changes.follow(following) })
	controller, err = s.World.RunController(ctx, world.ControllerOptions{
		Binary: binary, Proxied: true, Restart: true, Flags: []string{"--log-level=debug", youngNodes, staticPools, fmt.Sprintf("--metrics-port=%d", port)},
	})
	finish := func(code int) (int, error) {
		var errs []error
		if controller != nil {
			errs = append(errs, controller.Stop())
		}
		stop()
		running.Wait()
		for _, v := range checker.Violations() {
			fmt.Fprintln(os.Stderr, v)
			code = max(code, 1)
		}
		return code, errors.Join(append(errs, os.RemoveAll(dir))...)
	}
	if err != nil {
		_, stopErr := finish(1)
		return nil, errors.Join(err, stopErr)
	}
	return finish, nil
}

// freePort is one that nobody listens on.
func freePort(ctx context.Context) (int, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	address, _ := l.Addr().(*net.TCPAddr)
	return address.Port, l.Close()
}

// broadcast tells everybody who waits that something changed.
type broadcast struct {
	mu   sync.Mutex
	next chan struct{}
}

func (b *broadcast) tell() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.next)
	b.next = make(chan struct{})
}

// changed returns a channel that is closed at the next change. Take it before looking.
func (b *broadcast) changed() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.next
}

// follow watches all that tests wait for.
func (b *broadcast) follow(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	for _, list := range []client.ObjectList{
		&corev1.PodList{}, &corev1.NodeList{}, &eventsv1.EventList{}, &karpv1.NodeClaimList{}, &karpv1.NodePoolList{}, &awsv1.EC2NodeClassList{},
	} {
		running.Go(func() {
			for ctx.Err() == nil {
				if w, err := kube.Watch(ctx, list); err == nil {
					b.drain(ctx, w)
				}
			}
		})
	}
	running.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-server.World.AWS.Changed():
				b.tell()
			}
		}
	})
}

func (b *broadcast) drain(ctx context.Context, w watch.Interface) {
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case _, open := <-w.ResultChan():
			if !open {
				return
			}
			b.tell()
		}
	}
}
