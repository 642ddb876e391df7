package app

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/aws"
	"github.com/dovetail-sh/dovetail/internal/config"
	"github.com/dovetail-sh/dovetail/internal/uninstall"
	"github.com/dovetail-sh/dovetail/internal/version"
)

// Uninstall cleans up before a controller with these settings is uninstalled.
func Uninstall(ctx context.Context, cfg config.Config, kube *rest.Config, log logr.Logger, nodes uninstall.Nodes) error {
	ctrl.SetLogger(log)
	ctx = logr.NewContext(ctx, log)
	scheme, err := newScheme()
	if err != nil {
		return err
	}
	kube = rest.CopyConfig(kube)
	kube.UserAgent = component
	objects, err := client.New(kube, client.Options{Scheme: scheme})
	if err != nil {
		return managerError(err, cfg, kube)
	}
	metrics, release := newMetrics()
	defer release()
	// Asked for late: where no class is left, AWS is not needed.
	connect := sync.OnceValues(func() (*aws.Cleaner, error) { return aws.NewCleaner(ctx, cfg, version.Get().Version, metrics) })
	o := uninstall.Options{Client: objects, Nodes: nodes, Now: time.Now, Clean: func(ctx context.Context, class *awsv1.EC2NodeClass) error {
		cleaner, err := connect()
		if err != nil {
			return err
		}
		return cleaner.Clean(ctx, class)
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
	return uninstall.Run(ctx, o)
}
