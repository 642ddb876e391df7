package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/config"
)

// managerError says what to do when the manager cannot be created: most often the cluster cannot be reached.
func managerError(err error, cfg config.Config, kube *rest.Config) error {
	if err := errorWithFlag(err, cfg); err != nil {
		return err
	}
	return fmt.Errorf("the cluster at %s cannot be used; check the kubeconfig or the service account, and the network: %w", kube.Host, err)
}

// errorWithFlag returns the error of a start that a setting fixes, with the name of that setting, and nil for all
// others: the manager knows addresses, not the flags that they come from.
func errorWithFlag(err error, cfg config.Config) error {
	if !cfg.Leader.Disabled && leaseNamespace(cfg) == "" && err != nil && strings.Contains(err.Error(), "leader election namespace") {
		return errors.New("the namespace of the lease is not known outside a cluster; set --leader-election-namespace, or --disable-leader-election if this is the only replica")
	}
	var listen *net.OpError
	if !errors.As(err, &listen) || listen.Op != "listen" || listen.Addr == nil {
		return nil
	}
	_, port, _ := net.SplitHostPort(listen.Addr.String()) // one that has no port is none of ours
	flag := ""
	switch ":" + port {
	case address(cfg.Server.MetricsPort):
		flag = "--metrics-port"
	case address(cfg.Server.HealthProbePort):
		flag = "--health-probe-port"
	default:
		return nil
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("port %s is in use by another process; choose another with %s: %w", port, flag, err)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("port %s may not be opened by this user; choose one above 1023 with %s: %w", port, flag, err)
	}
	return nil
}

// hasNamespace fails when the namespace of the lease does not exist: no process would ever lead, and only the log of
// the election would say so, every two seconds. Without permission to read namespaces it passes.
func hasNamespace(ctx context.Context, reader client.Reader, cfg config.Config) error {
	name := leaseNamespace(cfg)
	if cfg.Leader.Disabled || name == "" {
		return nil
	}
	if err := reader.Get(ctx, types.NamespacedName{Name: name}, &corev1.Namespace{}); apierrors.IsNotFound(err) {
		return fmt.Errorf("there is no namespace %s for the lease; create it, or name another with --leader-election-namespace", name)
	}
	return nil
}
