package app

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/config"
	"github.com/dovetail-sh/dovetail/internal/controller"
	"github.com/dovetail-sh/dovetail/internal/report"
)

// component is the source of our events. Users filter for it, so it is Karpenter's.
const component = "karpenter"

// Run runs the controller until the context ends. It fails when a CRD is missing, which it says by
// name, and when the lease is lost.
func Run(ctx context.Context, cfg config.Config, kube *rest.Config, log logr.Logger) error {
	ctrl.SetLogger(log)
	scheme, err := newScheme()
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(withLimits(kube, cfg.Kube), options(cfg, kube, scheme, log))
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	if err := addChecks(mgr); err != nil {
		return err
	}
	events := report.New(mgr.GetEventRecorder(component), time.Now)
	events.SilentFlips = cfg.Server.ClusterStateDisabled
	pools := &controller.Pools{
		Client:  mgr.GetClient(),
		Events:  events,
		Health:  controller.NewHealth(),
		Words:   awsv1.Vocabulary(),
		Classes: []controller.ClassKind{classKind()},
		Strict:  cfg.Compat.Strict,
		Now:     time.Now,
	}
	if err := pools.Register(mgr); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// classKind is the node class of AWS, as the core sees it.
func classKind() controller.ClassKind {
	return controller.ClassKind{
		GroupKind:  schema.GroupKind{Group: awsv1.Group, Kind: awsv1.Kind},
		New:        func() client.Object { return &awsv1.EC2NodeClass{} },
		Conditions: func(o client.Object) []metav1.Condition { return o.(*awsv1.EC2NodeClass).Status.Conditions },
	}
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, karpv1.AddToScheme, awsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return scheme, nil
}

func options(cfg config.Config, kube *rest.Config, scheme *runtime.Scheme, log logr.Logger) ctrl.Options {
	namespace := cfg.Leader.Namespace
	if namespace == "" {
		namespace = cfg.Namespace
	}
	return ctrl.Options{
		Scheme:                        scheme,
		Logger:                        log,
		LeaderElection:                !cfg.Leader.Disabled,
		LeaderElectionID:              cfg.Leader.Name,
		LeaderElectionNamespace:       namespace,
		LeaderElectionReleaseOnCancel: true,
		// A limiter of its own: behind a big scale-up the lease could not be renewed in time.
		LeaderElectionConfig:   rest.CopyConfig(kube),
		LeaseDuration:          &cfg.Leader.LeaseDuration,
		RenewDeadline:          &cfg.Leader.RenewDeadline,
		RetryPeriod:            &cfg.Leader.RetryPeriod,
		Metrics:                metricsserver.Options{BindAddress: address(cfg.Server.MetricsPort)},
		HealthProbeBindAddress: address(cfg.Server.HealthProbePort),
		Cache:                  cache.Options{DefaultTransform: cache.TransformStripManagedFields()},
		Controller:             ctrlconfig.Controller{EnableWarmup: new(!cfg.Leader.WarmupDisabled)},
	}
}

func address(port int) string { return ":" + strconv.Itoa(port) }

func withLimits(kube *rest.Config, limits config.Kube) *rest.Config {
	limited := rest.CopyConfig(kube)
	limited.QPS, limited.Burst = float32(limits.QPS), limits.Burst
	limited.UserAgent = component
	return limited
}

// addChecks adds liveness, which is being alive, and readiness: caches are filled, and the CRDs are
// served in the version that is used.
func addChecks(mgr ctrl.Manager) error {
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
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
			return fmt.Errorf("caches are not filled yet")
		}
		return nil
	})
}
