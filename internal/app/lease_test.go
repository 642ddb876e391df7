package app

import (
	"net/http"
	"testing"
	"time"

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
	o := options(config.Config{}, kube, &lease{}, runtime.NewScheme(), logr.Discard(), nil)
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
			settings := config.Bind(flags, nil)
			if err := flags.Parse(tc.args); err != nil {
				t.Fatal(err)
			}
			cfg, _, err := settings.Load(func(string) (string, bool) { return "", false })
			if err != nil {
				t.Fatal(err)
			}
			o := options(cfg, &rest.Config{Host: "https://api"}, &lease{}, runtime.NewScheme(), logr.Discard(), nil)
			if !o.LeaderElection || o.LeaderElectionID != tc.lease || o.LeaderElectionNamespace != tc.in {
				t.Errorf("lease %s in %s, elected %v; want %s in %s", o.LeaderElectionID, o.LeaderElectionNamespace, o.LeaderElection, tc.lease, tc.in)
			}
		})
	}
}

// FM C03: a leader that was paused beyond its lease writes nothing more; another one may lead by now. A process that never led
// writes as before, and so does one that renews.
func TestFM_C03_NothingIsWrittenAfterTheLease(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	held := &lease{duration: 15 * time.Second, now: func() time.Time { return now }}
	status := http.StatusOK
	server := roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: status, Body: http.NoBody}, nil
	})
	send := func(through func(http.RoundTripper) http.RoundTripper, method, path string) error {
		r, err := http.NewRequestWithContext(t.Context(), method, "https://api"+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := through(server).RoundTrip(r)
		if err == nil {
			response.Body.Close()
		}
		return err
	}
	const leases, claims = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/karpenter-leader-election", "/apis/karpenter.sh/v1/nodeclaims"
	for _, step := range []struct {
		name   string
		before func()
		method string
		want   string
	}{
		{name: "never led", method: http.MethodPost},
		{name: "a lease that is only read", before: func() { _ = send(held.recordRenewals, http.MethodGet, leases); now = now.Add(time.Hour) }, method: http.MethodPost},
		{name: "a lease that another one took", before: func() {
			status = http.StatusConflict
			_ = send(held.recordRenewals, http.MethodPut, leases)
			status, now = http.StatusOK, now.Add(time.Hour)
		}, method: http.MethodPost},
		{name: "leads", before: func() { _ = send(held.recordRenewals, http.MethodPut, leases); now = now.Add(15 * time.Second) }, method: http.MethodPost},
		{name: "the lease is over", before: func() { now = now.Add(time.Second) }, method: http.MethodPost, want: "POST " + claims + ": this replica renewed its lease of 15s last 16s ago and no longer leads"},
		{name: "reading goes on", method: http.MethodGet},
		{name: "leads again", before: func() { _ = send(held.recordRenewals, http.MethodPut, leases) }, method: http.MethodDelete},
	} {
		if step.before != nil {
			step.before()
		}
		got := ""
		if err := send(held.refuseLateWrites, step.method, claims); err != nil {
			got = err.Error()
		}
		if got != step.want {
			t.Errorf("%s: %q, want %q", step.name, got, step.want)
		}
	}
}
