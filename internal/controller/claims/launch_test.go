package claims_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// slowCloud responds to launches when the test lets it.
type slowCloud struct {
	requested atomic.Int32
	began     chan struct{}
	response  chan error
}

func (c *slowCloud) Launch(context.Context, *karpv1.NodeClaim) (cloud.Instance, error) {
	c.requested.Add(1)
	c.began <- struct{}{}
	if err := <-c.response; err != nil {
		return cloud.Instance{}, err
	}
	return cloud.Instance{ID: claimInstance, Type: "m5.large", Zone: "a", CapacityType: "spot"}, nil
}

// newSlowWorld is one in which claims are woken when the cloud has responded.
func newSlowWorld(t *testing.T) (w *claimWorld, provider *slowCloud, woken chan string) {
	t.Helper()
	w, provider, woken = newClaimWorld(t, newClaim()), &slowCloud{began: make(chan struct{}, 10), response: make(chan error)}, make(chan string, 10)
	w.reconciler.Provider = provider
	w.reconciler.Wake = func(claim string) { woken <- claim }
	return w, provider, woken
}

// A launch takes minutes when EC2 throttles. Registration of nodes and termination of claims do not wait for it, and it
// is requested once however often the claim is looked at.
func TestTrust_A08_LaunchesDoNotHoldWorkers(t *testing.T) {
	t.Parallel()
	w, provider, woken := newSlowWorld(t)
	for range 3 {
		w.pass(t) // comes back although the cloud does not respond
	}
	<-provider.began
	if w.writes != 1 {
		t.Errorf("%d writes while the cloud is called, want that of the finalizer", w.writes)
	}
	provider.response <- nil
	if name := <-woken; name != "c" || provider.requested.Load() != 1 {
		t.Errorf("%s is woken after %d launches", name, provider.requested.Load())
	}
	w.pass(t)
	if got := w.state(t, karpv1.ConditionLaunched); got != "True/Launched" || w.claim(t).Status.ProviderID != claimInstance {
		t.Errorf("Launched is %s", got)
	}
}

// What the cloud refuses while no caller waits for it is reported once, also if the claim is looked at only when the
// next try is due (LC-04).
func TestTrust_A08_RefusedLaunchesAreReportedOnce(t *testing.T) {
	t.Parallel()
	w, provider, woken := newSlowWorld(t)
	w.pass(t)
	<-provider.began
	provider.response <- &cloud.Error{Kind: cloud.Denied, Op: "create fleet", Reason: "Unauthorized", Message: "allow ec2:CreateFleet"}
	<-woken
	w.now = w.now.Add(time.Minute) // of other work
	result := w.pass(t)
	if got := w.state(t, karpv1.ConditionLaunched); got != "Unknown/Unauthorized" || provider.requested.Load() != 1 || result.RequeueAfter == 0 {
		t.Errorf("Launched is %s after %d launches, tried again after %s", got, provider.requested.Load(), result.RequeueAfter)
	}
	w.pass(t)
	<-provider.began // it is tried again
	w.pass(t)
	if want := []string{"c LaunchFailed"}; !slices.Equal(w.events, want) {
		t.Errorf("events %v, want %v", w.events, want)
	}
	provider.response <- nil
	<-woken
}

// A claim that is deleted while the cloud is called ends with what was launched for it, not before.
func TestTrust_A08_AClaimThatGoesWaitsForItsLaunch(t *testing.T) {
	t.Parallel()
	w, provider, woken := newSlowWorld(t)
	w.pass(t)
	<-provider.began
	claim := w.claim(t)
	if err := w.api.Delete(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	w.pass(t)
	if !w.reconciler.Launching(claim.UID) {
		t.Error("its termination does not know that an instance is being launched")
	}
	w.ended = nil
	provider.response <- nil
	<-woken
	w.pass(t)
	if instance, known := w.reconciler.Launched(claim.UID); w.reconciler.Launching(claim.UID) || !known || instance.ID != claimInstance || !slices.Equal(w.ended, []string{"c"}) {
		t.Errorf("ended %v, instance %q", w.ended, instance.ID)
	}
}

// Claims that waited for their turn longer than a launch may take are launched, and are no failures.
func TestTrust_A08_AClaimThatQueuedIsTried(t *testing.T) {
	t.Parallel()
	w := newClaimWorld(t, newClaim())
	w.now = claimBorn.Add(10 * time.Minute)
	w.pass(t)
	if got := w.state(t, karpv1.ConditionLaunched); got != "True/Launched" || w.launches != 1 || len(w.failed) > 0 {
		t.Errorf("Launched is %s after %d launches, failures %v", got, w.launches, w.failed)
	}
}

// A process that ends begins no launch, and waits for those that run.
func TestTrust_A08_StopWaitsForLaunches(t *testing.T) {
	t.Parallel()
	w, provider, woken := newSlowWorld(t)
	w.pass(t)
	<-provider.began
	closed := make(chan struct{})
	go func() {
		w.reconciler.Close()
		close(closed)
	}()
	provider.response <- nil
	<-woken
	<-closed
	other := newClaim()
	other.Name, other.UID = "other", "other"
	if err := w.api.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if _, err := w.reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "other"}}); err != nil || provider.requested.Load() != 1 {
		t.Errorf("%v, %d launches", err, provider.requested.Load())
	}
}
