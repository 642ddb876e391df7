package app

import (
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/dovetail-sh/dovetail/internal/config"
)

// FM C04: a scale-up that uses up the limiter of the API client does not keep the lease from being renewed.
func TestFM_C04_TheLeaseHasALimiterOfItsOwn(t *testing.T) {
	t.Parallel()
	kube := &rest.Config{Host: "https://api"}
	limited := withLimits(kube, config.Kube{QPS: 1, Burst: 1})
	o := options(config.Config{}, kube, runtime.NewScheme(), logr.Discard(), nil)
	lease := o.LeaderElectionConfig
	if lease == nil || lease == limited || lease.RateLimiter != nil || limited.RateLimiter != nil {
		t.Fatal("the lease shares the client of the controllers")
	}
	if limited.QPS != 1 || limited.Burst != 1 || lease.QPS == limited.QPS || lease.Burst == limited.Burst {
		t.Errorf("the lease has the limits %v and %d of the controllers", lease.QPS, lease.Burst)
	}
}
