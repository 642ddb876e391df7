package embedded

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime/pprof"
	"sync"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/configz"
	kcmapp "k8s.io/kubernetes/cmd/kube-controller-manager/app"

	"github.com/dovetail-sh/dovetail/sandbox/controlplane"
	"github.com/dovetail-sh/dovetail/sandbox/controlplane/pki"
)

const (
	startLimit = 3 * time.Minute  // for one step of the start; a busy machine needs seconds
	stopLimit  = 30 * time.Second // for all components together; they need about one second
)

// plane is a control plane that runs in this process.
type plane struct {
	folder   *folder
	listener net.Listener // of the API server, which closes it once it runs
	admin    *pki.Pair
	ca       *pki.Pair
	config   *rest.Config // of the administrator, without a rate limit
	client   kubernetes.Interface
	etcd     *embed.Etcd
	// closed once kube-scheduler has registered its names
	scheduling chan struct{}

	running sync.WaitGroup
	failed  chan error
	cancel  context.CancelFunc      // ends the components
	giveUp  context.CancelCauseFunc // ends the start
}

// Kubernetes registers the names of informers and of configz in package variables, and a component whose name
// is taken does not start. So control planes start one after the other, and each start ends with its names
// released: nothing here reads what they are registered for.
var starts sync.Mutex

func releaseNames() {
	configz.Delete(kcmapp.ConfigzName)
	configz.Delete("componentconfig")
	cache.ResetInformerNamesForTesting()
}

// Start is a controlplane.Starter: the components run in this process. Several control planes may; they start one after
// another, and share what Kubernetes keeps in package variables: the log, feature gates and metrics.
func Start(ctx context.Context, o controlplane.Options) (*controlplane.ControlPlane, error) {
	starts.Lock()
	defer starts.Unlock()
	defer releaseNames()
	components, cancel := context.WithCancel(context.WithoutCancel(ctx))
	cp := &plane{cancel: cancel, failed: make(chan error, 4), scheduling: make(chan struct{})}
	stop := sync.OnceValue(cp.stopAll)
	if err := cp.start(ctx, components, o); err != nil {
		return nil, errors.Join(err, stop())
	}
	return controlplane.Open(controlplane.Running{Dir: cp.folder.dir, Version: Version(), Failed: cp.failed, Stop: stop})
}

var _ controlplane.Starter = Start

// step is one part of the start: launch begins what then runs until Stop, await returns once it can
// be used. Either may be nil.
type step struct {
	name   string
	launch func(context.Context) error
	await  func(context.Context) error
}

func (cp *plane) start(ctx, components context.Context, o controlplane.Options) error {
	var err error
	if cp.folder, err = openFolder(o.Dir); err != nil {
		return err
	}
	if cp.listener, err = listenOnPort(ctx, o.Port); err != nil {
		return err
	}
	starting, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	cp.giveUp = giveUp
	for _, s := range cp.startSteps(o) {
		began := time.Now()
		if err := s.run(starting, components); err != nil {
			if errors.Is(err, context.Canceled) && ctx.Err() != nil {
				return fmt.Errorf("interrupted while starting %s: %w", s.name, ctx.Err())
			}
			return fmt.Errorf("start %s: %w", s.name, cp.folder.explainWithLog(err))
		}
		if o.Progress != nil {
			o.Progress(s.name, time.Since(began))
		}
	}
	return nil
}

func (cp *plane) startSteps(o controlplane.Options) []step {
	steps := []step{
		{name: "certificates", launch: cp.writeCredentials},
		{name: "etcd", launch: cp.launchEtcd, await: cp.awaitEtcd},
		{name: "kube-apiserver", launch: func(ctx context.Context) error { return cp.launchAPIServer(ctx, o) }, await: cp.awaitAPIServer},
	}
	if !o.NoControllers {
		steps = append(steps, step{name: "kube-controller-manager", launch: func(ctx context.Context) error { return cp.launchControllers(ctx, o.Scale) }})
	}
	if !o.NoScheduler {
		steps = append(steps, step{
			name:   "kube-scheduler",
			launch: func(ctx context.Context) error { return cp.launchScheduler(ctx, o.Scale) },
			await:  cp.awaitScheduler,
		})
	}
	if !o.NoControllers {
		steps = append(steps, step{name: "service accounts", await: cp.awaitServiceAccount})
	}
	// Last, so that a client that finds the file finds a server that responds.
	return append(steps, step{name: "kubeconfig", launch: cp.writeKubeconfig})
}

// run launches with the context of the components and waits with that of the start.
func (s step) run(starting, components context.Context) error {
	if err := starting.Err(); err != nil {
		return context.Cause(starting)
	}
	if s.launch != nil {
		var err error
		// What a component starts inherits the label, so that a CPU profile can be split by part.
		pprof.Do(components, pprof.Labels("part", s.name), func(ctx context.Context) { err = s.launch(ctx) })
		if err != nil {
			return err
		}
	}
	if s.await == nil {
		return nil
	}
	limited, cancel := context.WithTimeoutCause(starting, startLimit, fmt.Errorf("not ready after %s", startLimit))
	defer cancel()
	err := s.await(limited)
	if err != nil && limited.Err() != nil {
		return context.Cause(limited) // says more than the call that was cut off
	}
	return err
}

// runComponent runs a component until Stop. If it ends before, that ends the start and is reported by Err.
func (cp *plane) runComponent(ctx context.Context, name string, component func() error) {
	cp.running.Go(func() {
		err := component()
		if ctx.Err() != nil {
			return // it was stopped; what it says about that is no failure
		}
		if err == nil {
			err = errors.New("ended by itself")
		}
		cp.failStart(fmt.Errorf("%s: %w", name, err))
	})
}

// failStart ends the start, if it is under way, and reports it to the receiver.
func (cp *plane) failStart(err error) {
	cp.giveUp(err)
	select {
	case cp.failed <- cp.folder.explainWithLog(err):
	default: // no receiver; the first errors say what happened
	}
}

func (cp *plane) stopAll() error {
	if cp.folder != nil {
		cp.folder.stopping.Store(true)
	}
	cp.cancel()
	ended := make(chan struct{})
	go func() {
		cp.running.Wait()
		if cp.etcd != nil {
			cp.etcd.Close()
		}
		if cp.listener != nil {
			_ = cp.listener.Close() // not before: an API server that runs panics when it loses it
		}
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(stopLimit):
		// The folder stays locked: something still runs.
		return fmt.Errorf("the control plane did not stop within %s; end the process, and see %s", stopLimit, cp.folder.logFile())
	}
	if cp.folder != nil {
		cp.folder.close()
	}
	return nil
}
