package controlplane

import (
	"context"
	"crypto"
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
)

const (
	startLimit = 3 * time.Minute  // for one step of the start; a busy machine needs seconds
	stopLimit  = 30 * time.Second // for all components together; they need about one second
)

// Options say where a control plane lives and what it is made of. Only Dir is required.
type Options struct {
	// Dir holds the state, and is made when it is missing.
	Dir string
	// Port of the API server on 127.0.0.1; 0 takes a free one.
	Port int
	// NoControllers leaves kube-controller-manager out: no service accounts, so no pods either.
	NoControllers bool
	// NoScheduler leaves kube-scheduler out.
	NoScheduler bool
	// Scale trades fidelity for size, so that two cores hold a thousand nodes: kube-controller-manager
	// waits longer for a heartbeat, so that nodes may send fewer, and kube-scheduler looks at a tenth of
	// the nodes and spreads only the pods that ask for it.
	Scale bool
	// Issuer of the tokens of service accounts; empty means https://kubernetes.default.svc, which is also their usual audience.
	Issuer string
	// TokenReview is the URL of a server that reviews tokens which are not of service accounts; empty means that there are none.
	TokenReview string
	// Progress, when set, is told of each step of the start once it is done.
	Progress func(step string, took time.Duration)
}

// ControlPlane is a running control plane.
type ControlPlane struct {
	// Kubeconfig is the path of a kubeconfig file of a cluster administrator.
	Kubeconfig string
	// Config is the same for clients in this process, without a rate limit.
	Config *rest.Config
	// TokenKey is what the tokens of service accounts are signed with, its public half.
	TokenKey crypto.PublicKey
	// Log is the path of the file that all components log to.
	Log string

	folder   *folder
	listener net.Listener // of the API server, which closes it once it runs
	admin    *keyPair
	ca       *keyPair
	client   kubernetes.Interface
	etcd     *embed.Etcd
	// closed once kube-scheduler has registered its names
	scheduling chan struct{}

	running sync.WaitGroup
	failed  chan error
	cancel  context.CancelFunc      // ends the components
	giveUp  context.CancelCauseFunc // ends the start
	stop    func() error
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

// Start returns a control plane that answers requests and, unless NoControllers is set, admits pods.
// When a step fails, or ctx ends before the last one, what already runs is stopped again. Afterwards
// ctx has no say: only Stop ends the components, in order.
func Start(ctx context.Context, o Options) (*ControlPlane, error) {
	starts.Lock()
	defer starts.Unlock()
	defer releaseNames()
	components, cancel := context.WithCancel(context.WithoutCancel(ctx))
	cp := &ControlPlane{cancel: cancel, failed: make(chan error, 4), scheduling: make(chan struct{})}
	cp.stop = sync.OnceValue(cp.stopAll)
	if err := cp.start(ctx, components, o); err != nil {
		return nil, errors.Join(err, cp.Stop())
	}
	return cp, nil
}

// Err receives the error of a component that ended although nobody stopped it.
func (cp *ControlPlane) Err() <-chan error { return cp.failed }

// Stop ends every component, the datastore last. It returns when all have ended, or with an error
// after half a minute. Calling it again does nothing.
func (cp *ControlPlane) Stop() error { return cp.stop() }

// step is one part of the start: launch begins what then runs until Stop, await returns once it can
// be used. Either may be nil.
type step struct {
	name   string
	launch func(context.Context) error
	await  func(context.Context) error
}

func (cp *ControlPlane) start(ctx, components context.Context, o Options) error {
	var err error
	if cp.folder, err = openFolder(o.Dir); err != nil {
		return err
	}
	cp.Kubeconfig, cp.Log = cp.folder.kubeconfig(), cp.folder.logFile()
	if cp.listener, err = listen(ctx, o.Port); err != nil {
		return err
	}
	starting, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	cp.giveUp = giveUp
	for _, s := range cp.steps(o) {
		began := time.Now()
		if err := s.run(starting, components); err != nil {
			if errors.Is(err, context.Canceled) && ctx.Err() != nil {
				return fmt.Errorf("interrupted while starting %s: %w", s.name, ctx.Err())
			}
			return fmt.Errorf("start %s: %w", s.name, cp.folder.explain(err))
		}
		if o.Progress != nil {
			o.Progress(s.name, time.Since(began))
		}
	}
	return nil
}

func (cp *ControlPlane) steps(o Options) []step {
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
	// Last, so that who finds the file finds a server that answers.
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

// keep runs a component until Stop. If it ends before, that ends the start and is reported by Err.
func (cp *ControlPlane) keep(ctx context.Context, name string, component func() error) {
	cp.running.Go(func() {
		err := component()
		if ctx.Err() != nil {
			return // it was stopped; what it says about that is no failure
		}
		if err == nil {
			err = errors.New("ended by itself")
		}
		cp.fail(fmt.Errorf("%s: %w", name, err))
	})
}

// fail ends the start, if it is under way, and tells who listens.
func (cp *ControlPlane) fail(err error) {
	cp.giveUp(err)
	select {
	case cp.failed <- cp.folder.explain(err):
	default: // nobody listens, and the first errors tell the story
	}
}

func (cp *ControlPlane) stopAll() error {
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
		return fmt.Errorf("the control plane did not stop within %s; end the process, and see %s", stopLimit, cp.Log)
	}
	if cp.folder != nil {
		cp.folder.close()
	}
	return nil
}
