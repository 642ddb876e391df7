package claims_test

import (
	"testing"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/dovetail-sh/dovetail/internal/controller/claims"
	"github.com/dovetail-sh/dovetail/internal/controller/controllertest"
)

// A manager takes all the reconcilers of claims; it is not started.
func TestClaimReconcilersRegister(t *testing.T) {
	t.Parallel()
	scheme := controllertest.Scheme(t)
	mgr, err := ctrl.NewManager(&rest.Config{Host: "127.0.0.1:1"}, ctrl.Options{
		Scheme:     scheme,
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: ctrlconfig.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	c := mgr.GetClient()
	for _, r := range []interface{ Register(ctrl.Manager) error }{
		&claims.Claims{Client: c}, &claims.Expiration{Client: c}, &claims.Collector{Client: c},
		&claims.Consistency{Client: c}, &claims.ClaimHydration{Client: c}, &claims.NodeHydration{Client: c},
		&claims.PodEvents{Client: c},
	} {
		if err := r.Register(mgr); err != nil {
			t.Errorf("%T: %v", r, err)
		}
	}
}
