package app

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/dovetail-sh/dovetail/internal/config"
)

const otherControllersInterval = 30 * time.Second

// otherControllers detects another controller of the same objects, Karpenter or Dovetail, that leads in
// another namespace. A lease there does not keep this process from leading, and both would create and remove
// nodes (FM C11).
type otherControllers struct {
	reader       client.Reader // of the API server itself
	lease        string        // name that both use
	namespace    string        // ours
	home         string        // namespace of our pods; empty outside a cluster
	every        time.Duration
	now          func() time.Time
	deniedLogged bool // that leases may not be listed was logged
	leading      bool
}

// refuseOtherLeader fails if another controller leads already, and makes the leader check for others from then
// on.
func refuseOtherLeader(ctx context.Context, mgr ctrl.Manager, cfg config.Config) error {
	if cfg.Leader.Disabled {
		return nil
	}
	r := &otherControllers{reader: mgr.GetAPIReader(), lease: cfg.Leader.Name, namespace: leaseNamespace(cfg), home: cfg.Namespace, every: otherControllersInterval, now: time.Now}
	if err := r.check(ctx); err != nil {
		return err
	}
	return mgr.Add(r)
}

// NeedLeaderElection says that only the leader checks: a standby does no harm.
func (r *otherControllers) NeedLeaderElection() bool { return true }

// Start ends the process when another controller begins to lead. The restarted process then refuses to start.
func (r *otherControllers) Start(ctx context.Context) error {
	r.leading = true
	tick := time.NewTicker(r.every)
	defer tick.Stop()
	for {
		if err := r.check(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// check returns an error if another controller leads. Without permission to list the leases of all namespaces
// it logs so once, and checks Deployments instead.
func (r *otherControllers) check(ctx context.Context) error {
	leases := &coordinationv1.LeaseList{}
	if err := r.reader.List(ctx, leases, client.MatchingFields{"metadata.name": r.lease}); err != nil {
		r.logUnreadableLeases(ctx, err)
		return r.checkDeployments(ctx)
	}
	for i := range leases.Items {
		if lease := &leases.Items[i]; lease.Name == r.lease && lease.Namespace != r.namespace && isHeldLease(lease, r.now()) {
			return otherControllerError(fmt.Sprintf("lease %s in namespace %s is held by %s", lease.Name, lease.Namespace, *lease.Spec.HolderIdentity))
		}
	}
	return nil
}

// logUnreadableLeases logs why leases cannot be read, once if a permission is missing.
func (r *otherControllers) logUnreadableLeases(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil:
	case !apierrors.IsForbidden(err):
		log.FromContext(ctx).V(1).Info("cannot check for another controller", "error", err.Error())
	case !r.deniedLogged:
		r.deniedLogged = true
		log.FromContext(ctx).Error(nil, "a second controller in another namespace is noticed by its Deployment only, not by its lease; where it has none, both would launch and remove the same nodes; "+
			"allow the service account to list leases.coordination.k8s.io in all namespaces (value optionalRights.foreignLeases of the chart)", "reason", err.Error())
	}
}

// isHeldLease reports whether a lease is held and was renewed in time.
func isHeldLease(l *coordinationv1.Lease, now time.Time) bool {
	s := &l.Spec
	if s.HolderIdentity == nil || *s.HolderIdentity == "" || s.RenewTime == nil || s.LeaseDurationSeconds == nil {
		return false
	}
	return now.Before(s.RenewTime.Add(time.Duration(*s.LeaseDurationSeconds) * time.Second))
}
