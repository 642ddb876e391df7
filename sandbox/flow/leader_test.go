package flow_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/sandbox/apiproxy"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu"
	"github.com/dovetail-sh/dovetail/sandbox/world"
)

// Group C of the failure modes with two replicas and a lease, as in a cluster. The controller of the other
// tests is down meanwhile, so these run one after the other.

// replicas runs two controllers that elect a leader.
func (f *flow) replicas() []*world.Controller {
	f.Helper()
	f.down()
	var list []*world.Controller
	for i := range 2 {
		c, err := server.World.RunController(f.Context(), world.ControllerOptions{
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

// holder is who has the lease, and since when it changed hands.
func (f *flow) holder() string {
	f.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "karpenter-leader-election", Namespace: metav1.NamespaceSystem}}
	if err := kube.Get(context.WithoutCancel(f.Context()), client.ObjectKeyFromObject(lease), lease); err != nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// C02: the leader dies while CreateFleet is on its way. The other one takes over, and one instance stays.
func TestFM_C02_LeaderDiesWhileLaunching(t *testing.T) {
	f := newFlow(t)
	list := f.replicas()
	f.pool("")
	f.await(soon, "somebody leads", func() (bool, string) { return f.holder() != "", "" })
	first := f.holder()
	calm := f.disturb()
	fired, cancel := server.World.AWS.Once(awsemu.Trigger{Action: "ec2:CreateFleet", Text: f.name, Moment: awsemu.BeforeAnswer, Run: func(awsemu.Call) {
		for _, c := range list { // who leads is not to be seen from here; the other one comes back at once
			c.Kill()
		}
	}})
	f.Cleanup(cancel)
	f.deploy("inflate", 1)
	f.struck(fired)
	f.await(soon, "another one leads", func() (bool, string) { return f.holder() != first, f.holder() })
	calm()
	f.running("inflate", 1, later)
	f.ready(1)
	f.await(soon, "one instance remains", func() (bool, string) { n := len(f.instances()); return n == 1, fmt.Sprint(n) })
}

// C03: the leader stands still beyond its lease and goes on later. What it writes late does no harm.
func TestFM_C03_LeaderStandsStill(t *testing.T) {
	f := newFlow(t)
	list := f.replicas()
	f.pool("")
	f.deploy("inflate", 1)
	f.running("inflate", 1)
	first := f.holder()
	calm := f.disturb()
	for _, c := range list {
		c.Pause()
	}
	f.deploy("more", 1, requests("3", "3Gi"))
	time.Sleep(20 * time.Second) // beyond the lease of 15 s
	list[0].Resume()
	list[1].Resume()
	calm()
	f.running("more", 1, later)
	f.running("inflate", 1)
	f.ready(2)
	t.Logf("leader before: %s, after: %s", first, f.holder())
	if n := len(f.allInstances()); n != 2 {
		t.Errorf("%d instances for two claims", n)
	}
}

// C05: the lease cannot be renewed for a while. The process ends and comes back, and nothing is left half done.
func TestFM_C05_LeaseIsAway(t *testing.T) {
	f := newFlow(t)
	list := f.replicas()
	f.pool("")
	f.deploy("inflate", 1)
	f.running("inflate", 1)
	starts := list[0].Starts() + list[1].Starts()
	calm := f.disturb()
	f.proxyFault(apiproxy.Fault{Resource: "leases", Status: 500})
	f.await(soon, "the leader ends and comes back", func() (bool, string) { n := list[0].Starts() + list[1].Starts(); return n > starts, fmt.Sprint(n) })
	f.proxyFault()
	calm()
	f.deploy("more", 1, requests("3", "3Gi"))
	f.running("more", 1, later)
	f.running("inflate", 1)
}

// C07: a restart with nodes that exist changes nothing.
func TestFM_C07_RestartWithNodes(t *testing.T) {
	f := newFlow(t)
	f.pool("")
	f.deploy("inflate", 4, apart("inflate"))
	f.running("inflate", 4)
	before := map[string]string{}
	for _, c := range f.ready(4) {
		before[c.Name] = c.ResourceVersion
	}
	f.kill()
	f.stays(30*time.Second, "the four claims", func() (bool, string) {
		list := f.claims()
		for i := range list {
			if before[list[i].Name] == "" || deleting(&list[i]) {
				return false, list[i].Name
			}
		}
		return len(list) == 4, sayConditions(list)
	})
	changed := 0
	for _, c := range f.claims() {
		if c.ResourceVersion != before[c.Name] {
			changed++
		}
	}
	if changed > 0 {
		t.Errorf("%d claims were written to by the restart", changed)
	}
	for _, c := range f.claims() {
		if is(karpv1.ConditionDrifted)(&c) {
			t.Errorf("%s is drifted", c.Name)
		}
	}
}
