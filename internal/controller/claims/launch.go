package claims

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
)

// launchesAtATime is how many claims call the cloud at a time: as many as one fleet request takes.
const launchesAtATime = 1000

// launch starts a launch and returns nil; the claim is woken when the result is there. Without Wake it waits
// for the result. A launch takes seconds, and minutes when EC2 has insufficient capacity or throttles. The
// workers that register nodes and terminate claims must not wait for it.
func (r *Claims) launch(ctx context.Context, claim *karpv1.NodeClaim) *lifecycle.Outcome {
	if r.Wake == nil {
		r.launchInstance(ctx, claim)
		return r.launches.takeOutcome(claim.UID, r.Now())
	}
	if r.launches.beginLaunch(claim.UID) {
		go r.launchLater(ctx, claim)
	}
	return nil
}

// launchLater launches a claim when a slot is free.
func (r *Claims) launchLater(ctx context.Context, claim *karpv1.NodeClaim) {
	defer r.Wake(claim.Name)
	defer r.launches.endLaunch(claim.UID)
	defer func() {
		if cause := recover(); cause != nil {
			err := fmt.Errorf("panic: %v", cause)
			log.FromContext(ctx).Error(err, "launch failed")
			r.Metrics.Panics.WithLabelValues("nodeclaim.lifecycle").Inc()
			r.launches.recordOutcome(claim.UID, cloud.Instance{}, err, r.Now(), r.Now())
		}
	}()
	slots := r.launches.launchSlots()
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-ctx.Done():
		return
	}
	now := &karpv1.NodeClaim{}
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(claim), now)
	if err == nil && now.UID == claim.UID && now.DeletionTimestamp == nil { // otherwise the claim is gone
		r.launchInstance(ctx, claim)
	}
}

// Close prevents new launches and waits for those in flight.
func (r *Claims) Close() { r.launches.closeAndWait() }

// launchInstance calls the cloud and caches the result.
func (r *Claims) launchInstance(ctx context.Context, claim *karpv1.NodeClaim) {
	requested := r.Now()
	r.Remover.InitSeries(claim, lifecycle.RemovedLaunchTimeout)
	instance, err := r.Provider.Launch(ctx, claim)
	r.launches.recordOutcome(claim.UID, instance, err, requested, r.Now())
}
