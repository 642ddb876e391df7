package app

import (
	"testing"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
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

// LC-60: the lease is Karpenter's, in the namespace of the installation or in the one that was set, so that
// the two exclude each other there. Elsewhere one that leads is looked for (FM C11).
func TestLC60_TheLeaseOfKarpenter(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args      []string
		lease, in string
	}{
		"as installed":              {args: []string{"--system-namespace=kube-system"}, lease: "karpenter-leader-election", in: "kube-system"},
		"in a namespace of its own": {args: []string{"--system-namespace=kube-system", "--leader-election-namespace=leases"}, lease: "karpenter-leader-election", in: "leases"},
		"under another name":        {args: []string{"--system-namespace=kube-system", "--leader-election-name=mine"}, lease: "mine", in: "kube-system"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			flags := pflag.NewFlagSet("", pflag.ContinueOnError)
			settings := config.Bind(flags)
			if err := flags.Parse(append(tc.args, "--cluster-name=prod")); err != nil {
				t.Fatal(err)
			}
			cfg, _, err := settings.Load(func(string) (string, bool) { return "", false })
			if err != nil {
				t.Fatal(err)
			}
			o := options(cfg, &rest.Config{Host: "https://api"}, runtime.NewScheme(), logr.Discard(), nil)
			if !o.LeaderElection || o.LeaderElectionID != tc.lease || o.LeaderElectionNamespace != tc.in {
				t.Errorf("lease %s in %s, elected %v; want %s in %s", o.LeaderElectionID, o.LeaderElectionNamespace, o.LeaderElection, tc.lease, tc.in)
			}
		})
	}
}
