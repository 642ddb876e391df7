package app

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/dovetail-sh/dovetail/internal/store"
)

const limitRangesEvery = 10 * time.Minute

// limitRanges has memory follow LimitRanges once they may be read. Karpenter has no right to, so it may be missing; a
// watch that was begun without it would never deliver, and everything would wait for it.
type limitRanges struct {
	reader client.Reader                   // of the API server itself
	follow func(ctx context.Context) error // begins to
	every  time.Duration
	told   bool
}

// followLimitRanges begins before the first plan if the right is there, and looks for it again from time to time if
// it is not.
func followLimitRanges(ctx context.Context, mgr ctrl.Manager, memory *store.Store) error {
	l := &limitRanges{
		reader: mgr.GetAPIReader(), every: limitRangesEvery,
		follow: func(ctx context.Context) error { return memory.WatchLimitRanges(ctx, mgr.GetCache()) },
	}
	if done, err := l.try(ctx); done {
		return err
	}
	return mgr.Add(l)
}

// NeedLeaderElection says that a standby knows them too.
func (l *limitRanges) NeedLeaderElection() bool { return false }

// Start tries until it may.
func (l *limitRanges) Start(ctx context.Context) error {
	tick := time.NewTicker(l.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if done, err := l.try(ctx); done {
				return err
			}
		}
	}
}

// try begins to follow if LimitRanges can be read, and tells once if that is not allowed.
func (l *limitRanges) try(ctx context.Context) (done bool, err error) {
	err = l.reader.List(ctx, &corev1.LimitRangeList{}, client.Limit(1))
	switch {
	case err == nil:
		return true, l.follow(ctx)
	case !apierrors.IsForbidden(err):
		if ctx.Err() == nil {
			log.FromContext(ctx).V(1).Info("cannot read LimitRanges", "error", err.Error())
		}
	case !l.told:
		l.told = true
		log.FromContext(ctx).Error(nil, "what a LimitRange has a DaemonSet ask for is not known before its first pod runs, so the first node may be too small and another may be bought; "+
			"allow the service account to list and watch limitranges", "reason", err.Error())
	}
	return false, nil
}
