package uninstall

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	leaseSeconds = 15              // as the controller requests
	renewEvery   = 5 * time.Second // so that no other replica takes it in between
)

// errLost says that another process holds the lease.
var errLost = errors.New("another process took the lease")

// takeLease takes the lease from the leader, and returns when that one has stopped: a leader whose renewals fail acts
// no longer than its lease lasts. The context that it returns ends with the lease. Stop does not release it: until the
// Deployment is deleted, another replica would lead, and put the finalizers back.
func (u *uninstaller) takeLease(ctx context.Context) (held context.Context, stop func(), err error) {
	if u.Lease.Name == "" {
		log.FromContext(ctx).Error(nil, "leader election is disabled: a controller that runs meanwhile may put finalizers back; stop it first")
		return ctx, func() {}, nil
	}
	before, err := u.seizeLease(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("take lease %s: %w", u.Lease, err)
	}
	held, lost := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		u.renewLease(held, lost)
	}()
	stop = func() {
		lost(nil)
		<-ended
	}
	if wait := stopsWithin(before); wait > 0 {
		log.FromContext(ctx).Info("took the lease; waiting until the controller that led has stopped", "holder", *before.HolderIdentity, "wait", wait)
		select {
		case <-held.Done():
			stop()
			return nil, nil, fmt.Errorf("wait for the controller to stop: %w", context.Cause(held))
		case <-time.After(wait):
		}
	}
	return held, stop, nil
}

// stopsWithin is how long a leader may still act that does not get its lease renewed any more.
func stopsWithin(s coordinationv1.LeaseSpec) time.Duration {
	if s.HolderIdentity == nil || *s.HolderIdentity == "" {
		return 0
	}
	if s.LeaseDurationSeconds == nil {
		return leaseSeconds * time.Second
	}
	return time.Duration(*s.LeaseDurationSeconds) * time.Second
}

// seizeLease writes itself into the lease and returns what was there before.
func (u *uninstaller) seizeLease(ctx context.Context) (before coordinationv1.LeaseSpec, err error) {
	for {
		lease := &coordinationv1.Lease{}
		err := u.Client.Get(ctx, u.Lease, lease)
		switch {
		case apierrors.IsNotFound(err):
			lease.Namespace, lease.Name = u.Lease.Namespace, u.Lease.Name
			u.setHolder(lease)
			err = u.Client.Create(ctx, lease)
		case err == nil:
			before = *lease.Spec.DeepCopy()
			u.setHolder(lease)
			err = u.Client.Update(ctx, lease)
		}
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			return before, err
		}
	}
}

// setHolder makes this process the holder of a lease.
func (u *uninstaller) setHolder(lease *coordinationv1.Lease) {
	now := metav1.NewMicroTime(u.Now())
	var changes int32
	if lease.Spec.LeaseTransitions != nil {
		changes = *lease.Spec.LeaseTransitions + 1
	}
	lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: &u.Identity, LeaseDurationSeconds: new(int32(leaseSeconds)), AcquireTime: &now, RenewTime: &now, LeaseTransitions: &changes}
}

// renewLease renews the lease until the context ends, or ends it when the lease is lost.
func (u *uninstaller) renewLease(ctx context.Context, lost context.CancelCauseFunc) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(renewEvery):
		}
		lease := &coordinationv1.Lease{}
		if err := u.Client.Get(ctx, u.Lease, lease); err != nil {
			continue // it lasts for two more tries
		}
		if holder := lease.Spec.HolderIdentity; holder == nil || *holder != u.Identity {
			lost(errLost)
			return
		}
		before := lease.DeepCopy()
		lease.Spec.RenewTime = new(metav1.NewMicroTime(u.Now()))
		if err := u.Client.Patch(ctx, lease, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			log.FromContext(ctx).V(1).Info("cannot renew the lease", "error", err.Error())
		}
	}
}
