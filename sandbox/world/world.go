package world

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/version"

	"github.com/dovetail-sh/dovetail/sandbox/apiproxy"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu"
	"github.com/dovetail-sh/dovetail/sandbox/containers"
	"github.com/dovetail-sh/dovetail/sandbox/controlplane"
	"github.com/dovetail-sh/dovetail/sandbox/fakenode"
	"github.com/dovetail-sh/dovetail/sandbox/kubectl"
)

// The emulated account (aws-emulator 11).
const (
	Account = "111122223333"
	Region  = "eu-west-1"
	Cluster = "sandbox"
	Queue   = "Karpenter-sandbox"
)

// scaledLease is how long a lease lasts in a large cluster: a renewal of each node every 50 s.
const scaledLease = 200 * time.Second

// saveInterval is how often the state of the emulated account is written down while it changes.
const saveInterval = 2 * time.Second

// Options of a world. Only Dir and ControlPlane are required.
type Options struct {
	Dir string // state; made when it is missing
	// ControlPlane is how one is started: embedded.Start in this process, or controlplane.Process.
	ControlPlane controlplane.Starter

	Port    int           // of the API server; 0 takes a free one
	AWSPort int           // of the emulated AWS; 0 takes a free one
	Speed   float64       // how much faster instances boot and end, and notices run out; 0 means 1. Time stamps are real
	Nodes   int           // of the bootstrap group
	Scale   bool          // settings for a thousand nodes, see controlplane.Options; leases last 200 s
	Metrics bool          // serve metrics.k8s.io, as a metrics-server does
	Driver  bool          // run the DaemonSet of the volume driver, as the add-on of EKS does
	Boot    time.Duration // from running to the registration of a node, at speed 1; 0 means 20 s
	Seed    uint64        // of ids and everything else that varies in the emulated account
	Bare    bool          // no CRDs, and nothing of an installation in the account
	Program string        // the dovetail that pods of its Image run; empty: they are simulated like all others
	// Programs are what pods of further images run, by repository.
	Programs map[string]string
	Progress func(step string, took time.Duration)
}

// World is a running sandbox.
type World struct {
	ControlPlane *controlplane.ControlPlane
	Kube         *kubectl.Client
	AWS          *awsemu.Emulator
	Clock        *awsemu.Clock
	Nodes        *fakenode.Simulator
	Proxy        *apiproxy.Proxy

	AWSEndpoint   string // http://127.0.0.1:PORT
	ProxyEndpoint string // the API server, through the proxy
	EnvFile       string // shell lines that point clients at all of it

	dir     string
	noDNS   atomic.Bool
	account atomic.Pointer[awsemu.Emulator] // AWS, for requests that come before it is there
	stop    func() error
	cancel  context.CancelFunc
	running sync.WaitGroup
	serving sync.Mutex // of servers
	servers []*http.Server
	failed  chan error
}

// Start brings everything up. When a step fails, what already runs is stopped again.
func Start(ctx context.Context, o Options) (w *World, err error) {
	if o.Speed <= 0 {
		o.Speed = 1
	}
	if o.Progress == nil {
		o.Progress = func(string, time.Duration) {}
	}
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w = &World{dir: o.Dir, cancel: cancel, failed: make(chan error, 8)}
	w.stop = sync.OnceValue(w.stopAll)
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Stop())
		}
	}()
	w.recallPorts(ctx, &o)
	review, err := w.serve(background, 0, http.HandlerFunc(w.reviewToken))
	if err != nil {
		return w, err
	}
	if w.ControlPlane, err = o.ControlPlane(ctx, controlplane.Options{
		Dir: o.Dir, Port: o.Port, Scale: o.Scale, Progress: o.Progress, Issuer: awsemu.Issuer(Region, Cluster), TokenReview: review,
	}); err != nil {
		return w, err
	}
	for _, step := range []struct {
		name string
		run  func() error
	}{
		{"CRDs", func() error { return w.installCRDs(ctx, o) }},
		{"objects", func() error {
			return errors.Join(w.installStorage(ctx), w.installDriver(ctx, o), w.installDNS(ctx))
		}},
		{"AWS", func() error { return w.startAWS(background, o) }},
		{"nodes", func() error { return w.startNodes(background, o) }},
		{"pod identity", func() error { return w.startPodIdentity(background, o) }},
		{"metrics", func() error { return w.startMetrics(background, o) }},
		{"proxy", func() error { return w.startProxy(background) }},
		{"environment", func() error { return errors.Join(w.writeEnv(), w.savePorts()) }},
	} {
		began := time.Now()
		pprof.Do(background, pprof.Labels("part", step.name), func(context.Context) { err = step.run() })
		if err != nil {
			return w, fmt.Errorf("%s: %w", step.name, err)
		}
		o.Progress(step.name, time.Since(began))
	}
	return w, nil
}

// ClusterVersion is that of the emulated EKS cluster, such as 1.34.
func (w *World) ClusterVersion() string { return version.DefaultKubeBinaryVersion }

func (w *World) installCRDs(ctx context.Context, o Options) (err error) {
	if w.Kube, err = kubectl.New(w.ControlPlane.Config); err != nil {
		return err
	}
	if o.Bare {
		return nil
	}
	_, err = w.Kube.InstallCRDs(ctx)
	return err
}

// startAWS serves the emulated account, with the state it had if there is one.
func (w *World) startAWS(ctx context.Context, o Options) error {
	w.Clock = awsemu.NewClock(time.Now, 1) // real time stamps: the controller compares them with its own clock
	w.AWS = awsemu.New(awsemu.Options{Clock: w.Clock, Speed: o.Speed, Seed: o.Seed, Fixture: awsemu.Fixture{
		Account: Account, Region: Region, Cluster: Cluster, Queue: Queue, KubernetesVersion: version.DefaultKubeBinaryVersion,
		Zones:           []awsemu.Zone{{Name: Region + "a", ID: "euw1-az1"}, {Name: Region + "b", ID: "euw1-az2"}, {Name: Region + "c", ID: "euw1-az3"}},
		ClusterEndpoint: w.ControlPlane.Config.Host,
		ClusterCA:       base64.StdEncoding.EncodeToString(w.ControlPlane.Config.CAData),
		TokenKey:        w.ControlPlane.TokenKey,
		Bare:            o.Bare,
	}})
	w.account.Store(w.AWS)
	if err := w.restore(); err != nil {
		return err
	}
	var err error
	if w.AWSEndpoint, err = w.serve(ctx, o.AWSPort, w.AWS); err != nil {
		return err
	}
	w.runInBackground(func() error { return w.AWS.Run(ctx) })
	w.runInBackground(func() error { return w.keepSaving(ctx) })
	return nil
}

func (w *World) startNodes(ctx context.Context, o Options) error {
	client, err := fakenode.NewClient(w.ControlPlane.Config)
	if err != nil {
		return err
	}
	port, serve, err := w.prepareTLS(ctx, "localhost")
	if err != nil {
		return err
	}
	boot := &bootClock{Clock: w.Clock, began: w.Clock.Now(), speed: o.Speed}
	options := fakenode.Options{
		KubeletPort: port,
		Client:      client, Cloud: &cloud{emulator: w.AWS, boot: boot}, Volumes: volumes{w.AWS}, Clock: boot, Cluster: Cluster, MemoryLoss: 0.02, JobTime: time.Second, BootTime: o.Boot,
		Static: fakenode.Bootstrap(o.Nodes, Region, Region+"a", Region+"b"),
	}
	if o.Scale {
		options.LeaseDuration = scaledLease
	}
	if options.Runtime, err = w.newRuntime(client, o); err != nil {
		return err
	}
	w.Nodes, err = fakenode.New(options)
	if err != nil {
		return err
	}
	serve(w.Nodes.KubeletAPI())
	w.runInBackground(func() error { return w.Nodes.Run(ctx) })
	return nil
}

// newRuntime runs the pods of our image and of others that there is a program for; nil if there is none.
func (w *World) newRuntime(client kubernetes.Interface, o Options) (fakenode.Runtime, error) {
	programs := maps.Clone(o.Programs)
	if programs == nil {
		programs = map[string]string{}
	}
	if o.Program != "" {
		programs[Image] = o.Program
	}
	if len(programs) == 0 {
		return nil, nil
	}
	return containers.New(containers.Options{
		Dir: filepath.Join(w.dir, "pods"), Programs: programs, Client: client, Config: w.ControlPlane.Config, Network: w.networkEnvironment(), Resolves: w.canResolveAWS,
	})
}

func (w *World) startProxy(ctx context.Context) (err error) {
	if w.Proxy, err = apiproxy.New(w.ControlPlane.Config); err != nil {
		return err
	}
	if w.ProxyEndpoint, err = w.serve(ctx, 0, w.Proxy); err != nil {
		return err
	}
	w.addControls()
	return nil
}

// serve listens on loopback and returns the address.
func (w *World) serve(ctx context.Context, port int, handler http.Handler) (string, error) {
	listener, err := listenLocally(ctx, port)
	if err != nil {
		return "", fmt.Errorf("%w; choose another port, or 0 for a free one", err)
	}
	w.serveOn(listener, handler)
	return "http://" + listener.Addr().String(), nil
}

func (w *World) serveOn(listener net.Listener, handler http.Handler) {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	w.serving.Lock()
	w.servers = append(w.servers, server)
	w.serving.Unlock()
	w.runInBackground(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
}

// prepareTLS takes a free port for a server that only the API server calls, by a name.
func (w *World) prepareTLS(ctx context.Context, name string) (port int32, serve func(http.Handler), err error) {
	config, err := w.ControlPlane.ServingConfig(name)
	if err != nil {
		return 0, nil, err
	}
	return w.listenTLS(ctx, config)
}

// prepareWebhook is prepareTLS for a webhook, which the API server calls without a certificate of its own.
func (w *World) prepareWebhook(ctx context.Context) (port int32, serve func(http.Handler), err error) {
	config, err := w.ControlPlane.ServingConfig("localhost")
	if err != nil {
		return 0, nil, err
	}
	config.ClientAuth, config.VerifyConnection = tls.NoClientCert, nil
	return w.listenTLS(ctx, config)
}

func (w *World) listenTLS(ctx context.Context, config *tls.Config) (port int32, serve func(http.Handler), err error) {
	listener, err := listenLocally(ctx, 0)
	if err != nil {
		return 0, nil, err
	}
	address, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		return 0, nil, fmt.Errorf("%s is no address of TCP", listener.Addr())
	}
	return int32(address.Port), func(handler http.Handler) { w.serveOn(tls.NewListener(listener, config), handler) }, nil
}

func (w *World) runInBackground(run func() error) {
	w.running.Go(func() {
		if err := run(); err != nil {
			select {
			case w.failed <- err:
			default: // a failure was reported already
			}
		}
	})
}

// Err reports that a part of the world failed.
func (w *World) Err() <-chan error { return w.failed }

// Stop stops everything and writes the state down. Called again, it returns the same.
func (w *World) Stop() error { return w.stop() }

func (w *World) stopAll() error {
	w.cancel()
	var errs []error
	w.serving.Lock()
	servers := w.servers
	w.serving.Unlock()
	for _, server := range servers {
		errs = append(errs, server.Close())
	}
	w.running.Wait()
	if w.AWS != nil {
		errs = append(errs, w.save())
	}
	if w.ControlPlane != nil {
		errs = append(errs, w.ControlPlane.Stop())
	}
	return errors.Join(errs...)
}

func (w *World) stateFile() string { return filepath.Join(w.dir, "aws.json") }

func (w *World) restore() error {
	text, err := os.ReadFile(w.stateFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := w.AWS.Restore(text); err != nil {
		return fmt.Errorf("%s: %w; remove the file to begin with an empty account", w.stateFile(), err)
	}
	return nil
}

// keepSaving writes the state down while it changes, so that a kill loses seconds at most.
func (w *World) keepSaving(ctx context.Context) error {
	for {
		changed := w.AWS.Changed()
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
		timer := time.NewTimer(saveInterval)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
		if err := w.save(); err != nil {
			return err
		}
	}
}

// save replaces the state file as a whole: a reader never sees half of it.
func (w *World) save() error {
	text, err := w.AWS.Snapshot()
	if err != nil {
		return err
	}
	part := w.stateFile() + ".part"
	if err := os.WriteFile(part, text, 0o600); err != nil {
		return err
	}
	return os.Rename(part, w.stateFile())
}
