package fakenode

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// bootedFacts is an instance that may register now.
func bootedFacts() facts {
	return facts{
		instance: Instance{ID: "i-1", Zone: "a", PrivateDNS: "one", State: stateRunning, Running: epoch, Profile: "p"},
		config:   Config{Cluster: "demo"}, present: true, mayJoin: true,
		now: epoch.Add(20 * time.Second), wall: epoch,
	}
}

func registeredFacts() facts {
	f := bootedFacts()
	f.joined, f.seen, f.csiNode, f.joinedAt = true, true, true, f.now
	f.node = &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "one", Annotations: map[string]string{SimulatedAnnotation: "i-1"}},
		Spec:       corev1.NodeSpec{ProviderID: "aws:///a/i-1"},
	}
	f.now = f.now.Add(time.Minute)
	return f
}

func changeFacts(f facts, edit func(*facts)) facts {
	edit(&f)
	return f
}

func TestDecide(t *testing.T) {
	t.Parallel()
	at := func(s int) time.Time { return epoch.Add(time.Duration(s) * time.Second) }
	for name, tc := range map[string]struct {
		facts facts
		want  step
		why   string // part of the reason; the rest of the step is compared
	}{
		"pending":          {facts: changeFacts(bootedFacts(), func(f *facts) { f.instance.State = "pending" }), why: "is pending"},
		"stopping":         {facts: changeFacts(registeredFacts(), func(f *facts) { f.instance.State = "stopping" }), why: "is stopping"},
		"booting":          {facts: changeFacts(bootedFacts(), func(f *facts) { f.now = at(19) }), want: step{again: at(20)}, why: "boots until 2026-01-02T03:04:25Z"},
		"booted":           {facts: bootedFacts(), want: step{register: true, alive: true}, why: "registers"},
		"late":             {facts: changeFacts(bootedFacts(), func(f *facts) { f.fault.JoinLate = time.Minute }), want: step{again: at(80)}, why: "boots until"},
		"no user data":     {facts: changeFacts(bootedFacts(), func(f *facts) { f.configErr = errors.New("no data") }), why: "no data"},
		"another cluster":  {facts: changeFacts(bootedFacts(), func(f *facts) { f.config.Cluster = "x" }), why: `"x"`},
		"no name":          {facts: changeFacts(bootedFacts(), func(f *facts) { f.instance.PrivateDNS = "" }), why: "no private DNS name"},
		"not admitted":     {facts: changeFacts(bootedFacts(), func(f *facts) { f.mayJoin = false }), want: step{refused: true}, why: `profile "p"`},
		"never joins":      {facts: changeFacts(bootedFacts(), func(f *facts) { f.fault.NeverJoin = true }), why: "fault"},
		"dead before":      {facts: changeFacts(bootedFacts(), func(f *facts) { f.fault.Dead = true }), why: "dead"},
		"a static node":    {facts: changeFacts(bootedFacts(), func(f *facts) { f.static, f.config, f.mayJoin = true, Config{}, false }), want: step{register: true, alive: true}, why: "registers"},
		"the name is used": {facts: changeFacts(registeredFacts(), func(f *facts) { f.joined = false; f.node.Spec.ProviderID = "aws:///a/i-0" }), want: step{againWall: time.Second}, why: "aws:///a/i-0"},
		"registered":       {facts: changeFacts(registeredFacts(), func(f *facts) { f.now = at(21) }), want: step{alive: true, heartbeat: true, again: at(22)}, why: "not Ready yet"},
		"not yet seen":     {facts: changeFacts(registeredFacts(), func(f *facts) { f.node, f.seen = nil, false }), why: "not Ready yet"},
		"ready":            {facts: changeFacts(registeredFacts(), func(f *facts) { f.now = at(23) }), want: step{alive: true, heartbeat: true, ready: true, again: at(24)}},
		"settled":          {facts: registeredFacts(), want: step{alive: true, heartbeat: true, ready: true, dropStartup: true}},
		"of an earlier run": {
			facts: changeFacts(registeredFacts(), func(f *facts) { f.joined, f.joinedAt = false, time.Time{} }),
			want:  step{alive: true, heartbeat: true, ready: true, dropStartup: true, adopt: true},
		},
		"startup taints stay": {
			facts: changeFacts(registeredFacts(), func(f *facts) { f.fault.StartupTaintsLate = time.Hour }),
			want:  step{alive: true, heartbeat: true, ready: true, again: at(24 + 3600)},
		},
		"never ready": {facts: changeFacts(registeredFacts(), func(f *facts) { f.fault.NeverReady = true }), want: step{alive: true, heartbeat: true}, why: "never Ready"},
		"flaps down": {
			facts: changeFacts(registeredFacts(), func(f *facts) { f.fault.Flap = 10 * time.Second; f.flapping = at(-3) }),
			want:  step{alive: true, heartbeat: true, dropStartup: true, againWall: 7 * time.Second}, why: "flaps",
		},
		"flaps up": {
			facts: changeFacts(registeredFacts(), func(f *facts) { f.fault.Flap = 10 * time.Second; f.flapping = at(-13) }),
			want:  step{alive: true, heartbeat: true, ready: true, dropStartup: true, againWall: 7 * time.Second},
		},
		"joins twice": {
			facts: changeFacts(registeredFacts(), func(f *facts) { f.fault.JoinTwice = true }),
			want:  step{alive: true, heartbeat: true, ready: true, dropStartup: true, secondNode: true},
		},
		"joins again": {
			facts: changeFacts(registeredFacts(), func(f *facts) { f.node, f.fault.Rejoin = nil, true }),
			want:  step{register: true, alive: true}, why: "again",
		},
		"no provider id yet": {
			facts: changeFacts(registeredFacts(), func(f *facts) { f.node.Spec.ProviderID, f.fault.ProviderIDLate = "", time.Hour }),
			want:  step{alive: true, heartbeat: true, ready: true, dropStartup: true, again: at(20 + 3600)},
		},
		"a provider id at last": {
			facts: changeFacts(registeredFacts(), func(f *facts) { f.node.Spec.ProviderID = "" }),
			want:  step{alive: true, heartbeat: true, ready: true, dropStartup: true, identify: true},
		},
		"no volume driver yet": {
			facts: changeFacts(registeredFacts(), func(f *facts) { f.csiNode, f.fault.CSINodeLate = false, time.Hour }),
			want:  step{alive: true, heartbeat: true, ready: true, dropStartup: true, again: at(20 + 3600)},
		},
		"a volume driver at last": {
			facts: changeFacts(registeredFacts(), func(f *facts) { f.csiNode = false }),
			want:  step{alive: true, heartbeat: true, ready: true, dropStartup: true, csiNode: true},
		},
		"only the second Node is left": {
			facts: changeFacts(registeredFacts(), func(f *facts) { f.present, f.secondNode, f.node, f.goneAt = false, f.node, nil, epoch }),
			want:  step{deleteNode: true}, why: "terminated",
		},
		"reboots": {
			facts: changeFacts(registeredFacts(), func(f *facts) { f.instance.Rebooted = f.now.Add(-5 * time.Second) }), want: step{again: at(95)}, why: "reboots until",
		},
		"is back from a reboot": {
			facts: changeFacts(registeredFacts(), func(f *facts) { f.instance.Rebooted = f.now.Add(-20 * time.Second) }),
			want:  step{alive: true, heartbeat: true, ready: true, dropStartup: true},
		},
		"dead":            {facts: changeFacts(registeredFacts(), func(f *facts) { f.fault.Dead = true }), why: "dead"},
		"deleted by hand": {facts: changeFacts(registeredFacts(), func(f *facts) { f.node = nil }), want: step{alive: true}, why: "deleted"},
		"taken over":      {facts: changeFacts(registeredFacts(), func(f *facts) { f.node.Spec.ProviderID = "aws:///a/i-2" }), why: "i-2"},
		"just terminated": {
			facts: changeFacts(registeredFacts(), func(f *facts) { f.instance.State, f.goneAt = stateTerminated, f.now }),
			want:  step{again: at(85)}, why: "terminated",
		},
		"terminated":     {facts: changeFacts(registeredFacts(), func(f *facts) { f.instance.State, f.goneAt = stateTerminated, epoch }), want: step{deleteNode: true}, why: "terminated"},
		"being deleted":  {facts: changeFacts(registeredFacts(), func(f *facts) { f.present = false; f.node.DeletionTimestamp = &metav1.Time{Time: epoch} }), why: "terminated"},
		"not our Node":   {facts: changeFacts(registeredFacts(), func(f *facts) { f.present = false; f.node.Annotations = nil }), want: step{drop: true}, why: "terminated"},
		"nothing left":   {facts: changeFacts(bootedFacts(), func(f *facts) { f.present = false }), want: step{drop: true}, why: "terminated"},
		"still reported": {facts: changeFacts(bootedFacts(), func(f *facts) { f.instance.State = stateTerminated }), why: "terminated"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := Options{Cluster: "demo", BootTime: 20 * time.Second, ReadyTime: 2 * time.Second, StartupTime: 2 * time.Second, DeleteAfter: 5 * time.Second}
			got := o.decideStep(tc.facts)
			if !strings.Contains(got.why, tc.why) || tc.why == "" && got.why != "" {
				t.Errorf("why is %q, want %q in it", got.why, tc.why)
			}
			if got.why = ""; got != tc.want {
				t.Errorf("got  %+v\nwant %+v", got, tc.want)
			}
		})
	}
}

func TestFaultSelection(t *testing.T) {
	t.Parallel()
	f := NewFaults()
	i := Instance{ID: "i-1", PrivateDNS: "one", Type: "m5.large", Zone: "a"}
	c := Config{Labels: map[string]string{"karpenter.sh/nodepool": "web"}}
	for name, s := range map[string]Selector{
		"all": {}, "id": {Instance: "i-1"}, "node": {Node: "one"}, "type": {Type: "m5.large"}, "zone": {Zone: "a"}, "pool": {NodePool: "web", Zone: "a"},
	} {
		f.Set(name, s, Fault{JoinLate: time.Second})
	}
	for name, s := range map[string]Selector{"other id": {Instance: "i-2"}, "other pool": {Zone: "a", NodePool: "db"}} {
		f.Set(name, s, Fault{NeverJoin: true})
	}
	got, _ := f.faultsOfInstance(i, c)
	if got.NeverJoin || got.JoinLate != 6*time.Second {
		t.Errorf("got %+v", got)
	}
	if len(f.List()) != 8 || f.List()[0].Name != "all" {
		t.Errorf("list %v", f.List())
	}
	changed := f.nextChange()
	if !f.Clear("pool") || f.Clear("pool") {
		t.Error("a fault is cleared once")
	}
	<-changed
	f.Set("slow", Selector{}, Fault{Flap: time.Minute})
	f.Set("fast", Selector{}, Fault{Flap: time.Second, Without: []corev1.ResourceName{"x"}})
	if got, since := f.faultsOfInstance(i, c); got.Flap != time.Second || since.IsZero() || len(got.Without) != 1 || got.JoinLate != 5*time.Second {
		t.Errorf("got %+v since %s", got, since)
	}
}
