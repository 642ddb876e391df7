package app

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/dovetail-sh/dovetail/internal/config"
	"github.com/dovetail-sh/dovetail/internal/store"
)

const (
	// forbiddenRetry is for a right that is missing, mostly on purpose. Each attempt is a denial in the audit log.
	forbiddenRetry = 10 * time.Minute
	// unservedRetry is for an API that is not served, or did not respond: it comes with an upgrade of the control plane.
	unservedRetry = time.Minute
)

// lateWatch adds a watch to the store once its objects may be read. Karpenter does not have the permission, so
// it may be missing. A watch without it would never sync, and everything would wait for it.
type lateWatch struct {
	reader client.Reader // of the API server itself
	list   func() client.ObjectList
	follow func(ctx context.Context) error // begins to
	kinds  string                          // what cannot be read, in the plural
	effect string                          // what that means, and which right is missing
	retry  time.Duration                   // after the last attempt
	logged bool
}

// addLateWatch starts the watch before the first plan if it is permitted, and otherwise checks the permission
// from time to time.
func addLateWatch(ctx context.Context, mgr ctrl.Manager, state *store.Store, cfg config.Config) error {
	watches := []*lateWatch{{
		list: func() client.ObjectList { return &corev1.LimitRangeList{} }, kinds: "LimitRanges",
		follow: func(ctx context.Context) error { return state.WatchLimitRanges(ctx, mgr.GetCache()) },
		effect: "the requests that a LimitRange sets for a DaemonSet are not known before its first pod runs, so the first node may be too small and another may be launched; " +
			"allow the service account to list and watch limitranges (value optionalRights.limitRanges of the chart)",
	}}
	if len(cfg.Scheduling.DefaultConstraints) > 0 {
		watches = append(watches, &lateWatch{
			list: func() client.ObjectList { return &corev1.ServiceList{} }, kinds: "Services",
			follow: func(ctx context.Context) error { return state.WatchServices(ctx, mgr.GetCache()) },
			effect: "the default spread of --scheduler-config uses the controllers of pods alone, so pods that only a Service selects are not spread; " +
				"allow the service account to list and watch services (value settings.schedulerConfig of the chart)",
		})
	}
	if !cfg.Scheduling.IgnoreDRARequests {
		for _, kind := range []struct {
			name   string
			object client.Object
			list   func() client.ObjectList
		}{
			{"ResourceClaims", &resourcev1.ResourceClaim{}, func() client.ObjectList { return &resourcev1.ResourceClaimList{} }},
			{"ResourceSlices", &resourcev1.ResourceSlice{}, func() client.ObjectList { return &resourcev1.ResourceSliceList{} }},
			{"DeviceClasses", &resourcev1.DeviceClass{}, func() client.ObjectList { return &resourcev1.DeviceClassList{} }},
		} {
			watches = append(watches, &lateWatch{
				list: kind.list, kinds: kind.name,
				follow: func(ctx context.Context) error { return state.WatchDevices(ctx, mgr.GetCache(), kind.object) },
				effect: kind.name + " of resource.k8s.io/v1 cannot be read, so no nodes are made for pods with ResourceClaims; " +
					"use Kubernetes 1.34 or newer, and allow the service account to list and watch them (value settings.ignoreDRARequests=false of the chart)",
			})
		}
	}
	for _, w := range watches {
		w.reader = mgr.GetAPIReader()
		done, err := w.tryWatch(ctx)
		if err != nil {
			return err
		}
		if done {
			continue
		}
		if err := mgr.Add(w); err != nil {
			return err
		}
	}
	return nil
}

// NeedLeaderElection says that a standby knows them too.
func (l *lateWatch) NeedLeaderElection() bool { return false }

// Start tries until it may. The first attempt was before it.
func (l *lateWatch) Start(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(l.retry):
			if done, err := l.tryWatch(ctx); done {
				return err
			}
		}
	}
}

// tryWatch starts the watch if the objects can be read, and logs once if that is forbidden or they are not served.
func (l *lateWatch) tryWatch(ctx context.Context) (done bool, err error) {
	err = l.reader.List(ctx, l.list(), client.Limit(1))
	l.retry = unservedRetry
	if apierrors.IsForbidden(err) {
		l.retry = forbiddenRetry
	}
	switch {
	case err == nil:
		return true, l.follow(ctx)
	case !apierrors.IsForbidden(err) && !apimeta.IsNoMatchError(err) && !apierrors.IsNotFound(err):
		if ctx.Err() == nil {
			log.FromContext(ctx).V(1).Info("cannot read "+l.kinds, "error", err.Error())
		}
	case !l.logged:
		l.logged = true
		log.FromContext(ctx).Error(nil, l.effect, "reason", err.Error())
	}
	return false, nil
}
