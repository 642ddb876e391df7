package app

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/driver"
	"github.com/dovetail-sh/dovetail/internal/config"
	"github.com/dovetail-sh/dovetail/internal/controller/buffers"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/controller/overlays"
	"github.com/dovetail-sh/dovetail/internal/controller/write"
	"github.com/dovetail-sh/dovetail/internal/ledger/keep"
	"github.com/dovetail-sh/dovetail/internal/report"
	"github.com/dovetail-sh/dovetail/internal/store"
)

// component is the source of our events. Users filter for it, so it is Karpenter's.
const component = "karpenter"

// Run runs the controller until the context ends. It fails when a CRD is missing, which it says by
// name, when the cloud cannot be reached, and when the lease is lost.
func Run(ctx context.Context, d driver.Driver, cfg config.Config, kube *rest.Config, log logr.Logger) error {
	ctrl.SetLogger(log)
	limitMemory(cfg.Process.MemoryLimit)
	scheme, err := newScheme(d)
	if err != nil {
		return err
	}
	metrics, release := newMetrics(d.Labels)
	defer release()
	hands, conn, missing := &clock{now: time.Now}, &apiConnection{now: time.Now}, newDenials(log)
	kube = withTransports(kube, countRequests(metrics), hands.wrapTransport, conn.wrapTransport, loop.BeatOnResponse, missing.wrapTransport)
	held := &lease{duration: cfg.Leader.LeaseDuration, now: time.Now}
	limited := withTransports(withLimits(kube, cfg.Kube), held.refuseLateWrites)
	record, queries := newJournal(cfg.Server), &questions{}
	book := keep.New(hands.apiServerTime, metrics)
	record.Forward(book.Record)
	handlers, err := extraHandlers(cfg.Server, kube, record, queries)
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(limited, options(cfg, kube, held, scheme, log, handlers))
	if err != nil {
		return managerError(err, cfg, kube)
	}
	if err := checkCRDs(mgr.GetRESTMapper(), d.Classes(cfg)); err != nil {
		return err
	}
	if err := hasNamespace(ctx, mgr.GetAPIReader(), cfg); err != nil {
		return err
	}
	sink, err := newEvents(ctx, limited, scheme)
	if err != nil {
		return err
	}
	events := report.New(sink, time.Now)
	events.SilentFlips = cfg.Server.ClusterStateDisabled

	writer, err := bulkWriter(limited, mgr)
	if err != nil {
		return err
	}
	if err := refuseOtherLeader(ctx, mgr, cfg); err != nil {
		return err
	}
	remover := write.NewRemover(mgr.GetClient(), events, metrics, record.Removed)
	c := &core{driver: d, mgr: mgr, cfg: cfg, events: events, metrics: metrics, writer: writer, journal: record, book: book, remover: remover, clock: hands}
	c.makeOverlays()
	if err := c.connectCloud(ctx); err != nil {
		return err
	}
	if err := c.add(ctx); err != nil {
		return err
	}
	if err := c.addCloud(); err != nil {
		return err
	}
	if err := c.storeLedger(); err != nil {
		return err
	}
	queries.serve(c)
	if err := mgr.Add(hands); err != nil {
		return err
	}
	if err := addChecks(mgr, c.store, conn, missing, c.provisionerPulse, c.disruptionPulse, c.queuePulse); err != nil {
		return err
	}
	err = runWithStopTimeout(ctx, stopTimeout, mgr.Start)
	return cmp.Or(errorWithFlag(err, cfg), err)
}

// checkCRDs checks that the cluster has our kinds, and says how to get them. Without, every watch would
// fail in its own words.
func checkCRDs(mapper meta.RESTMapper, classes []driver.Class) error {
	var missing []string
	for _, k := range versions(classes) {
		_, err := mapper.RESTMapping(k.GroupKind(), k.Version)
		switch {
		case meta.IsNoMatchError(err):
			missing = append(missing, k.Kind+" ("+k.GroupVersion().String()+")")
		case err != nil:
			return fmt.Errorf("query the API server for %s: %w", k.Kind, err)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("the cluster does not serve %s; install the CustomResourceDefinitions: dovetail crds | kubectl apply --server-side -f -", strings.Join(missing, ", "))
	}
	return nil
}

// limitMemory makes the runtime collect garbage harder before the container is killed (operations 1). It
// also collects when memory has grown by half instead of twofold: after a big scale-up that is a
// hundred megabytes less, for little time, since most of it is spent waiting. GOGC still decides.
func limitMemory(bytes int64) {
	const share, usual, frugal = 0.9, 100, 50
	if set := debug.SetGCPercent(frugal); set != usual {
		debug.SetGCPercent(set)
	}
	if bytes > 0 {
		debug.SetMemoryLimit(int64(share * float64(bytes)))
	}
}

func newScheme(d driver.Driver) (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, karpv1.AddToScheme, buffers.AddToScheme, overlays.AddToScheme, d.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return scheme, nil
}

func leaseNamespace(cfg config.Config) string { return cmp.Or(cfg.Leader.Namespace, cfg.Namespace) }

func options(cfg config.Config, kube *rest.Config, held *lease, scheme *runtime.Scheme, log logr.Logger, handlers map[string]http.Handler) ctrl.Options {
	return ctrl.Options{
		Scheme:                        scheme,
		Logger:                        log,
		LeaderElection:                !cfg.Leader.Disabled,
		LeaderElectionID:              cfg.Leader.Name,
		LeaderElectionNamespace:       leaseNamespace(cfg),
		LeaderElectionReleaseOnCancel: true,
		// A limiter of its own: behind a big scale-up the lease could not be renewed in time.
		LeaderElectionConfig:   withTransports(kube, held.recordRenewals),
		LeaseDuration:          &cfg.Leader.LeaseDuration,
		RenewDeadline:          &cfg.Leader.RenewDeadline,
		RetryPeriod:            &cfg.Leader.RetryPeriod,
		Metrics:                metricsserver.Options{BindAddress: address(cfg.Server.MetricsPort), ExtraHandlers: handlers},
		HealthProbeBindAddress: address(cfg.Server.HealthProbePort),
		Cache:                  cache.Options{DefaultTransform: store.Strip},
		Controller:             ctrlconfig.Controller{EnableWarmup: new(!cfg.Leader.WarmupDisabled)},
	}
}

func address(port int) string { return ":" + strconv.Itoa(port) }

// withTransports is a copy of a configuration whose requests pass through more transports.
func withTransports(kube *rest.Config, by ...transport.WrapperFunc) *rest.Config {
	kube = rest.CopyConfig(kube)
	for _, wrap := range by {
		kube.Wrap(wrap)
	}
	return kube
}

func withLimits(kube *rest.Config, limits config.Kube) *rest.Config {
	limited := rest.CopyConfig(kube)
	limited.QPS, limited.Burst = float32(limits.QPS), limits.Burst
	limited.UserAgent = component
	return limited
}

// addChecks adds liveness, which fails when a loop is stuck, and readiness: caches are filled, no right is missing that
// they need, and the CRDs are served in the version that is used.
func addChecks(mgr ctrl.Manager, fed feeds, conn *apiConnection, missing *denials, loops ...*Pulse) error {
	if err := mgr.AddReadyzCheck("rights", missing.check); err != nil {
		return err
	}
	if err := mgr.AddHealthzCheck("watches", watchCheck(fed)); err != nil {
		return err
	}
	if err := mgr.AddHealthzCheck("news", func(*http.Request) error { return conn.checkWatches() }); err != nil {
		return err
	}
	if err := mgr.AddHealthzCheck("loops", stuckLoopCheck(time.Now, loops...)); err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("crds", func(*http.Request) error {
		for _, kind := range []string{"NodePool", "NodeClaim"} {
			gk := schema.GroupKind{Group: karpv1.Group, Kind: kind}
			if _, err := mgr.GetRESTMapper().RESTMapping(gk, karpv1.GroupVersion().Version); err != nil {
				return fmt.Errorf("%s is not served: %w", kind, err)
			}
		}
		return nil
	}); err != nil {
		return err
	}
	return mgr.AddReadyzCheck("caches", func(req *http.Request) error {
		ctx, cancel := context.WithTimeout(req.Context(), 5*time.Second)
		defer cancel()
		if !mgr.GetCache().WaitForCacheSync(ctx) {
			_, kinds := fed.Unsynced()
			return fmt.Errorf("caches are not filled yet: nothing is known of %s", cmp.Or(strings.Join(kinds, ", "), "some kinds"))
		}
		return nil
	})
}
