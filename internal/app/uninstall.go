package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/cloud/driver"
	"github.com/dovetail-sh/dovetail/internal/config"
	"github.com/dovetail-sh/dovetail/internal/uninstall"
	"github.com/dovetail-sh/dovetail/internal/version"
)

// Uninstall cleans up before a controller with these settings is uninstalled.
func Uninstall(ctx context.Context, d driver.Driver, cfg config.Config, kube *rest.Config, log logr.Logger, nodes uninstall.Nodes) error {
	ctrl.SetLogger(log)
	ctx = logr.NewContext(ctx, log)
	scheme, err := newScheme(d)
	if err != nil {
		return err
	}
	kube = rest.CopyConfig(kube)
	kube.UserAgent = component
	objects, err := client.New(kube, client.Options{Scheme: scheme})
	if err != nil {
		return managerError(err, cfg, kube)
	}
	metrics, release := newMetrics(d.Labels)
	defer release()
	// Requested late: where no class is left, the cloud is not needed.
	connect := sync.OnceValues(func() (driver.Cleaner, error) { return d.Cleaner(ctx, cfg, version.Get().Version, metrics) })
	o := uninstall.Options{Client: objects, Nodes: nodes, Now: time.Now, Clean: func(ctx context.Context, class client.Object) error {
		clean, err := connect()
		if err != nil {
			return err
		}
		return clean(ctx, class)
	}}
	if !cfg.Leader.Disabled {
		if o.Lease = (types.NamespacedName{Namespace: leaseNamespace(cfg), Name: cfg.Leader.Name}); o.Lease.Namespace == "" {
			return fmt.Errorf("the namespace of the lease is not known; set --leader-election-namespace to where the controller runs")
		}
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	o.Identity = host + "_uninstall"
	var failed []error
	for _, o.Class = range d.Classes(cfg) {
		failed = append(failed, uninstall.Run(ctx, o))
	}
	return errors.Join(failed...)
}
