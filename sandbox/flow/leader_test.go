package flow_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/sandbox/apiproxy"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu"
	"github.com/dovetail-sh/dovetail/sandbox/world"
)

// Group C of the failure modes with two replicas and a lease, as in a cluster. The controller of the other
// tests is down meanwhile, so these run one after the other.

// runTwoReplicas runs two controllers that elect a leader.
func (f *flow) runTwoReplicas() []*world.Controller {
	f.Helper()
	f.stopController()
	var list []*world.Controller
	for i := range 2 {
		c, err := f.world.RunController(f.Context(), world.ControllerOptions{
			Binary: binary, Proxied: true, LeaderElection: true, Restart: true, Log: fmt.Sprintf("%s-%d.log", f.name, i), Flags: []string{"--log-level=debug"},
		})
		if err != nil {
			f.Fatal(err)
		}
		f.Cleanup(func() {
			if err := c.Stop(); err != nil {
				f.Error(err)
			}
		})
		list = append(list, c)
	}
	return list
}

// leaseHolder is who has the lease, and since when it changed hands.
func (f *flow) leaseHolder() string {
	f.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "karpenter-leader-election", Namespace: metav1.NamespaceSystem}}
	if err := f.kube.Get(context.WithoutCancel(f.Context()), client.ObjectKeyFromObject(lease), lease); err != nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// witnessPauses renews a lease of its own in the intervals of leader election, and returns how long the longest pause between two
// renewals was. On a machine on which it cannot renew its lease, neither can a controller, whatever that does beside it.
func (f *flow) witnessPauses() (longest func() time.Duration) {
	f.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "witness", Namespace: f.namespace}}
	if err := f.kube.Create(f.Context(), lease); err != nil {
		f.Fatal(err)
	}
	ctx, cancel := context.WithCancel(f.Context())
	pauses := make(chan time.Duration, 1)
	go func() {
		var pause time.Duration
		last := time.Now()
		for ctx.Err() == nil {
			lease.Spec.RenewTime = new(metav1.NewMicroTime(time.Now()))
			if err := f.kube.Update(ctx, lease); err == nil {
				now := time.Now()
				pause, last = max(pause, now.Sub(last)), now
			}
			select {
			case <-ctx.Done():
			case <-time.After(leaseRetry):
			}
		}
		pauses <- max(pause, time.Since(last))
	}()
	f.Cleanup(cancel)
	return func() time.Duration {
		cancel()
		return <-pauses
	}
}

// The defaults of leader election: a leader that did not renew its lease within the deadline gives up.
const (
	leaseRetry    = 2 * time.Second
	leaseDeadline = 10 * time.Second
)

// FM C02, C03, C05, LC-60: three things happen to a pair of replicas, one after the other. Whatever it is, each
// pod gets its node, and each claim one instance.
func TestFM_C02_C03_C05_Leaders(t *testing.T) {
	t.Parallel()
	f := newFlow(t, exclusive)
	pair := f.runTwoReplicas()
	f.pool("", onlyTypes("m5.large")) // holds one of these pods
	f.waitUntil(soon, "a process leads", func() (bool, string) { return f.leaseHolder() != "", "" })
	f.bothDieWhileLaunching(pair)
	f.bothStandStill(pair)
	f.leaseIsAway(pair)
	f.ready(3)
	if n := len(f.allInstances()); n != 3 {
		t.Errorf("%d instances for three claims", n)
	}
}

// C02: the leader dies while CreateFleet is on its way. Another one takes over.
func (f *flow) bothDieWhileLaunching(pair []*world.Controller) {
	f.Helper()
	first := f.leaseHolder()
	calmed := f.markDisturbed()
	fired, cancel := f.world.AWS.Once(awsemu.Trigger{Action: "ec2:CreateFleet", Text: f.name, Moment: awsemu.BeforeResponse, Run: func(awsemu.Call) {
		for _, c := range pair { // who leads is not to be seen from here; both come back at once
			c.Kill()
		}
	}})
	f.Cleanup(cancel)
	f.deploy("dies", 1)
	f.waitUntilKilled(fired)
	f.waitUntil(soon, "another one leads", func() (bool, string) { return f.leaseHolder() != first, f.leaseHolder() })
	calmed()
	f.waitForRunningPods("dies", 1)
	f.ready(1)
}

// C03: the leader stands still beyond its lease and goes on later. What it writes late does no harm.
func (f *flow) bothStandStill(pair []*world.Controller) {
	f.Helper()
	calmed := f.markDisturbed()
	for _, c := range pair {
		c.Pause()
	}
	paused := time.Now()
	f.deploy("stands", 1)
	f.waitUntil(soon, "the lease of 15 s is over", func() (bool, string) {
		age := time.Since(paused)
		return age > 18*time.Second, age.String()
	})
	for _, c := range pair {
		c.Resume()
	}
	calmed()
	f.waitForRunningPods("stands", 1)
	f.waitForRunningPods("dies", 1)
	f.ready(2)
}

// C05: the lease cannot be renewed for a while. The process ends and comes back, and nothing is left half done.
func (f *flow) leaseIsAway(pair []*world.Controller) {
	f.Helper()
	starts := func() int { return pair[0].Starts() + pair[1].Starts() }
	before := starts()
	calmed := f.markDisturbed()
	mend := f.proxyFault(apiproxy.Fault{Resource: "leases", Status: http.StatusInternalServerError})
	f.waitUntil(soon, "the leader ends and comes back", func() (bool, string) { return starts() > before, "" })
	mend()
	calmed()
	f.deploy("lease", 1)
	f.waitForRunningPods("lease", 1)
	f.waitForRunningPods("stands", 1)
	f.waitForRunningPods("dies", 1)
}

// atRest waits until all that is ever written on claims is written, and no client writes to them any more. It returns
// them by name.
func (f *flow) atRest() map[string]karpv1.NodeClaim {
	f.Helper()
	const quiet = 8 * time.Second
	var last map[string]karpv1.NodeClaim
	since := time.Now()
	same := func(a, b karpv1.NodeClaim) bool { return a.ResourceVersion == b.ResourceVersion }
	f.waitUntil(soon, "claims that all is known of and no client writes to", func() (bool, string) {
		now, open := map[string]karpv1.NodeClaim{}, 0
		for _, c := range f.claims() {
			now[c.Name] = c
			tagged := c.Annotations[awsv1.AnnotationTagged] == "true" && c.Annotations[awsv1.AnnotationClusterNameTagged] == "true"
			if !hasCondition(karpv1.ConditionConsistentStateFound)(&c) || c.Status.LastPodEventTime.IsZero() || !tagged {
				open++
			}
		}
		if !maps.EqualFunc(now, last, same) {
			last, since = now, time.Now()
		}
		return open == 0 && time.Since(since) > quiet, fmt.Sprintf("%d of %d are not complete", open, len(now))
	})
	return last
}

// FM C07, LC-56, LC-59: a restart with nodes that exist changes nothing.
func TestFM_C07_RestartWithNodes(t *testing.T) {
	t.Parallel()
	f := newFlow(t, killsController)
	f.pool("")
	f.deploy("inflate", 4, onePerNode("inflate"))
	f.waitForRunningPods("inflate", 4)
	f.ready(4)
	before := f.atRest()
	f.killController()
	f.checkStays(20*time.Second, "the four claims", func() (bool, string) {
		list := f.claims()
		for i := range list {
			if _, was := before[list[i].Name]; !was || isDeleting(&list[i]) {
				return false, list[i].Name
			}
		}
		return len(list) == 4, sayConditions(list)
	})
	for _, c := range f.claims() {
		if was := before[c.Name]; c.ResourceVersion != was.ResourceVersion {
			t.Errorf("%s was written to by the restart (-before +after):\n%s", c.Name, cmp.Diff(was, c))
		}
		if hasCondition(karpv1.ConditionDrifted)(&c) {
			t.Errorf("%s is drifted", c.Name)
		}
	}
}
