package flow_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/sandbox/apiproxy"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu"
	"github.com/dovetail-sh/dovetail/sandbox/invariant"
)

// restartLimit is within what time all must be well after a crash. Failure-modes 16 gives it 90 s for one
// crash; here other tests go on killing the same process.
const restartLimit = 4 * time.Minute

// killAt ends the controller at a request to the API server, as a crash does. It runs again by itself.
func (f *flow) killAt(match apiproxy.Match, moment apiproxy.Moment) (fired <-chan struct{}) {
	f.Helper()
	fired, cancel := f.world.Proxy.Once(apiproxy.Trigger{Match: match, Moment: moment, Run: func(apiproxy.Request) { f.killController() }})
	f.Cleanup(cancel)
	return fired
}

// killAtCall does the same at a call of AWS.
func (f *flow) killAtCall(action, text string, moment awsemu.Moment) (fired <-chan struct{}) {
	f.Helper()
	fired, cancel := f.world.AWS.Once(awsemu.Trigger{Action: action, Text: text, Moment: moment, Run: func(awsemu.Call) { f.killController() }})
	f.Cleanup(cancel)
	return fired
}

// killController ends the controller. Until the next process has come as far as requesting the cluster's DNS nothing looks after the
// cluster. How long that takes is up to the machine.
func (f *flow) killController() {
	calm := f.markDisturbed()
	f.Cleanup(f.world.Proxy.Watch(func(r apiproxy.Request) {
		if r.Verb == "get" && r.Resource == "services" && r.Name == "kube-dns" {
			calm()
		}
	}))
	f.controller.Kill()
	f.checker.Restarted()
}

// stopController keeps the controller from running, until the test ends or it is up again.
func (f *flow) stopController() (up func()) {
	f.Helper()
	calmed := f.markDisturbed()
	f.controller.KillAndHold()
	up = func() {
		if err := f.controller.Start(context.WithoutCancel(f.Context())); err != nil {
			f.Error(err)
		}
		calmed()
	}
	f.Cleanup(up)
	return up
}

// waitUntilKilled waits until the controller was killed.
func (f *flow) waitUntilKilled(fired <-chan struct{}) {
	f.Helper()
	select {
	case <-fired:
	case <-time.After(soon):
		f.Fatal("the step at which the controller was to be killed never came")
	}
}

// Rows 1 to 7: the controller is killed on the way from a pod to its node. Whatever the step, one node
// comes of it, one instance was paid for in the end, and the pod runs. Claims are made with their
// finalizer, so that row 3 is row 2, but for those that users make.
func TestFM_C01_CrashesOnTheWayToANode(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		arm  func(*flow) <-chan struct{}
		once bool // exactly one instance was ever launched
	}{
		{"row 1: plan computed, nothing written", func(f *flow) <-chan struct{} {
			return f.killAt(apiproxy.Match{Verb: "create", Resource: "nodeclaims", Body: f.name}, apiproxy.BeforeRequest)
		}, true},
		{"row 2: NodeClaim created", func(f *flow) <-chan struct{} {
			return f.killAt(apiproxy.Match{Verb: "create", Resource: "nodeclaims", Body: f.name}, apiproxy.BeforeResponse)
		}, true},
		{"row 4: CreateFleet answered", func(f *flow) <-chan struct{} {
			return f.killAtCall("ec2:CreateFleet", f.name, awsemu.BeforeResponse)
		}, false},
		{"row 5: provider id written", func(f *flow) <-chan struct{} {
			return f.killAt(apiproxy.Match{Verb: "patch", Resource: "nodeclaims/status", Name: f.name + "*", Body: "providerID"}, apiproxy.BeforeResponse)
		}, true},
		{"row 6: node metadata synced", func(f *flow) <-chan struct{} {
			return f.killAt(apiproxy.Match{Verb: "patch", Resource: "nodes", Body: karpv1.FinalizerTermination}, apiproxy.BeforeResponse)
		}, true},
		{"row 7: Registered written", func(f *flow) <-chan struct{} {
			return f.killAt(apiproxy.Match{Verb: "patch", Resource: "nodeclaims/status", Name: f.name + "*", Body: `"reason":"Registered","status":"True"`}, apiproxy.BeforeResponse)
		}, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			f := newFlow(t, killsController)
			f.pool("")
			fired := row.arm(f)
			f.deploy("inflate", 1)
			f.waitUntilKilled(fired)
			f.waitForRunningPods("inflate", 1, restartLimit)
			claims := f.ready(1)
			f.waitUntil(restartLimit, "one instance remains (G1)", func() (bool, string) {
				n := len(f.liveInstances())
				return n == 1, fmt.Sprintf("%d instances", n)
			})
			if got := instanceOf(&claims[0]); got != f.liveInstances()[0].ID {
				t.Errorf("instance %s remains, the claim has %s", f.liveInstances()[0].ID, got)
			}
			if launched := len(f.allInstances()); row.once && launched != 1 {
				t.Errorf("%d instances were launched", launched)
			}
			node := f.nodeOf(&claims[0])
			for _, taint := range node.Spec.Taints {
				if taint.Key == karpv1.TaintKeyUnregistered {
					t.Error("the node is still tainted as unregistered")
				}
			}
		})
	}
}

// Row 3, LC-01: the finalizer was added to a claim that a user made.
func TestFM_C01_CrashAfterTheFinalizerOfAHandmadeClaim(t *testing.T) {
	t.Parallel()
	f := newFlow(t, killsController)
	f.pool("")
	claim := &karpv1.NodeClaim{}
	f.decode(`
metadata: {name: `+f.name+`-handmade, labels: {karpenter.sh/nodepool: `+f.name+`}}
spec:
  requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}]
  nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: `+f.name+`}`, claim)
	f.checker.Excuse(invariant.G8, claim.Name)
	class := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: f.name}}
	f.waitForCondition(class, karpv1.ConditionReady, metav1.ConditionTrue, "")
	fired := f.killAt(apiproxy.Match{Verb: "patch", Resource: "nodeclaims", Name: claim.Name, Body: karpv1.FinalizerTermination}, apiproxy.BeforeResponse)
	f.create(claim)
	f.waitUntilKilled(fired)
	f.ready(1)
	if n := len(f.allInstances()); n != 1 {
		t.Errorf("%d instances were launched", n)
	}
	f.remove(claim)
	f.waitUntilGone(claim)
}

// Row 4 as decision 7 wants it: the restarted controller finds the instance that was paid for.
func TestFM_A01_RestartFindsTheInstanceItPaidFor(t *testing.T) {
	t.Parallel()
	f := newFlow(t, killsController)
	f.pool("")
	fired := f.killAtCall("ec2:CreateFleet", f.name, awsemu.BeforeResponse)
	f.deploy("inflate", 1)
	f.waitUntilKilled(fired)
	f.waitForRunningPods("inflate", 1, restartLimit)
	if n := len(f.allInstances()); n != 1 {
		t.Errorf("%d instances were launched for one claim", n)
	}
}

// Rows 8 to 10: the controller is killed while it holds empty nodes, and then their removal is not wanted any more.
// What it held is let go of, and all of them stay.
func TestFM_C01_CrashesWhileNodesAreHeld(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]struct {
		match  func(*flow) apiproxy.Match
		moment apiproxy.Moment
	}{
		"row 8: nothing written": {func(*flow) apiproxy.Match {
			return apiproxy.Match{Verb: "patch", Resource: "nodes", Body: karpv1.TaintKeyDisrupted}
		}, apiproxy.BeforeRequest},
		"row 9: one of three is tainted": {func(*flow) apiproxy.Match {
			return apiproxy.Match{Verb: "patch", Resource: "nodes", Body: karpv1.TaintKeyDisrupted}
		}, apiproxy.BeforeResponse},
		"row 10: the reason is written": {func(f *flow) apiproxy.Match {
			return apiproxy.Match{Verb: "patch", Resource: "nodeclaims/status", Name: f.name + "*", Body: karpv1.ConditionDisruptionReason}
		}, apiproxy.BeforeResponse},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFlow(t, exclusive) // other tests taint nodes too
			pool := f.pool("", emptyAfter("1s"), withBudget("100%"))
			inflate := f.deploy("inflate", 3, onePerNode("inflate"))
			f.waitForRunningPods("inflate", 3)
			f.ready(3)
			fired, cancel := f.world.Proxy.Once(apiproxy.Trigger{Match: at.match(f), Moment: at.moment, Run: func(apiproxy.Request) {
				patch(f, pool, emptyAfter("Never")) // before the next process decides
				f.killController()
			}})
			t.Cleanup(cancel)
			f.scale(inflate, 0)
			f.waitUntilKilled(fired)
			f.waitUntil(restartLimit, "no node is held", func() (bool, string) {
				held := 0
				for _, c := range f.claims() {
					if hasCondition(karpv1.ConditionDisruptionReason)(&c) || slices.ContainsFunc(f.nodeOf(&c).Spec.Taints, func(t corev1.Taint) bool { return t.Key == karpv1.TaintKeyDisrupted }) {
						held++
					}
				}
				return held == 0, fmt.Sprintf("%d are", held)
			})
			f.checkStays(15*time.Second, "three nodes", func() (bool, string) {
				list := f.claims()
				return len(list) == 3 && !slices.ContainsFunc(list, func(c karpv1.NodeClaim) bool { return isDeleting(&c) }), sayConditions(list)
			})
		})
	}
}

// G4: after a restart the controller cannot read all pods. It takes no node for empty until it can.
func TestFM_G4_NothingIsDisruptedBeforeAllIsKnown(t *testing.T) {
	t.Parallel()
	f := newFlow(t, exclusive)
	f.pool("", emptyAfter("1s"), withBudget("100%"))
	inflate := f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	claim := f.ready(1)[0]
	calmed := f.markDisturbed()
	mend := f.proxyFault(
		apiproxy.Fault{Verb: "list", Resource: "pods", Status: http.StatusInternalServerError},
		apiproxy.Fault{Verb: "watch", Resource: "pods", Status: http.StatusInternalServerError},
	)
	f.killController()
	sighted := f.checker.Blind(time.Now())
	f.scale(inflate, 0)
	f.checkStays(25*time.Second, "the node", func() (bool, string) {
		list := f.claims()
		return len(list) == 1 && !isDeleting(&list[0]) && !hasCondition(karpv1.ConditionDisruptionReason)(&list[0]), sayConditions(list)
	})
	sighted(time.Now())
	mend()
	calmed()
	f.waitUntilGone(&claim, later)
}

// Rows 14 to 17: the controller is killed while a node goes. The node goes all the same, once, and the pods
// find another.
func TestFM_C01_CrashesWhileANodeGoes(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		arm  func(*flow, *karpv1.NodeClaim) <-chan struct{}
	}{
		{"row 14: drain started", func(f *flow, _ *karpv1.NodeClaim) <-chan struct{} {
			return f.killAt(apiproxy.Match{Verb: "create", Resource: "pods/eviction", Namespace: f.namespace}, apiproxy.BeforeResponse)
		}},
		{"row 15: termination timestamp written", func(f *flow, c *karpv1.NodeClaim) <-chan struct{} {
			return f.killAt(apiproxy.Match{Verb: "patch", Resource: "nodeclaims", Name: c.Name, Body: karpv1.AnnotationTerminationTimestamp}, apiproxy.BeforeResponse)
		}},
		{"row 16: TerminateInstances accepted", func(f *flow, c *karpv1.NodeClaim) <-chan struct{} {
			return f.killAtCall("ec2:TerminateInstances", instanceOf(c), awsemu.BeforeResponse)
		}},
		{"row 17: finalizer of the Node removed", func(f *flow, c *karpv1.NodeClaim) <-chan struct{} {
			return f.killAt(apiproxy.Match{Verb: "patch", Resource: "nodes", Name: c.Status.NodeName, Body: `"finalizers"`}, apiproxy.BeforeResponse)
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			f := newFlow(t, killsController)
			f.pool("", withTerminationGracePeriod("10m"))
			f.deploy("inflate", 2, stopsAfter(1))
			f.waitForRunningPods("inflate", 2)
			claims := f.claims()
			gone := &claims[0]
			fired := row.arm(f, gone)
			f.remove(gone)
			var stamped string
			if row.name == "row 15: termination timestamp written" {
				f.waitUntilKilled(fired)
				stamped = f.claim("is deleting", isDeleting).Annotations[karpv1.AnnotationTerminationTimestamp]
			}
			f.claim("is deleting, or gone with its successor there", func(c *karpv1.NodeClaim) bool {
				return c.Name != gone.Name || isDeleting(c) && (stamped == "" || c.Annotations[karpv1.AnnotationTerminationTimestamp] == stamped)
			})
			f.waitUntilKilled(fired)
			f.waitUntilGone(gone, restartLimit)
			f.waitForRunningPods("inflate", 2, restartLimit)
			for _, i := range f.liveInstances() {
				if i.ID == instanceOf(gone) {
					t.Errorf("instance %s is %s", i.ID, i.State)
				}
			}
		})
	}
}

// Row 20: the message that led to a deletion comes again.
func TestFM_C01_CrashBeforeTheMessageIsDeleted(t *testing.T) {
	t.Parallel()
	f := newFlow(t, killsController)
	f.pool("", onlySpot)
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	claim := f.claims()[0]
	fired := f.killAtCall("sqs:DeleteMessage*", "", awsemu.BeforeCall)
	f.sendSpotNotice(&claim, "60s")
	f.waitUntilKilled(fired)
	f.waitUntilGone(&claim, restartLimit)
	f.waitForRunningPods("inflate", 1, restartLimit)
	f.ready(1)
	if n := len(f.allInstances()); n != 2 {
		t.Errorf("%d instances were launched, want the first and its successor", n)
	}
}

// Row 21: a launch template that no process knows is removed.
func TestFM_C01_CrashBetweenTemplateAndFleet(t *testing.T) {
	t.Parallel()
	f := newFlow(t, killsController)
	f.pool("")
	fired := f.killAtCall("ec2:CreateLaunchTemplate", f.name, awsemu.BeforeResponse)
	f.deploy("inflate", 1)
	f.waitUntilKilled(fired)
	f.waitForRunningPods("inflate", 1, restartLimit)
	f.ready(1)
}

// FM D06, G7: the API server is away for a while. No instance is ended, and afterwards all goes on.
func TestFM_D06_NothingIsTerminatedWhileTheAPIServerIsAway(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsAll)
	f.pool("")
	f.deploy("inflate", 2, onePerNode("inflate"))
	f.waitForRunningPods("inflate", 2)
	calmed := f.markDisturbed()
	mend := f.proxyFault(apiproxy.Fault{Drop: true})
	f.checkStays(20*time.Second, "both instances", func() (bool, string) {
		running := 0
		for _, i := range f.liveInstances() {
			if i.State == "running" {
				running++
			}
		}
		return running == 2, fmt.Sprintf("%d run", running)
	})
	mend()
	calmed()
	f.deploy("after", 1, withRequests("3", "3Gi"))
	f.waitForRunningPods("after", 1, later)
	f.waitForRunningPods("inflate", 2)
}

// sendSpotNotice sends the notice that EC2 sends before it takes a spot instance back.
func (f *flow) sendSpotNotice(c *karpv1.NodeClaim, notice string) {
	f.Helper()
	f.callControlAPI("POST", "interrupt", fmt.Sprintf(`{"instance":%q,"notice":%q}`, instanceOf(c), notice))
}

// Rows 9 to 13: the controller is killed while it replaces a node. No taint is left on a node that stays,
// no second replacement is launched, and in the end the pods run on the nodes that were wanted.
func TestFM_C01_CrashesWhileANodeIsReplaced(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		arm  func(*flow, *karpv1.NodeClaim) <-chan struct{}
	}{
		{"row 9: tainted", func(f *flow, c *karpv1.NodeClaim) <-chan struct{} {
			return f.killAt(apiproxy.Match{Verb: "patch", Resource: "nodes", Name: c.Status.NodeName, Body: karpv1.TaintKeyDisrupted}, apiproxy.BeforeResponse)
		}},
		{"row 10: DisruptionReason written", func(f *flow, c *karpv1.NodeClaim) <-chan struct{} {
			return f.killAt(apiproxy.Match{Verb: "patch", Resource: "nodeclaims/status", Name: c.Name, Body: karpv1.ConditionDisruptionReason}, apiproxy.BeforeResponse)
		}},
		{"row 11: replacement created", func(f *flow, _ *karpv1.NodeClaim) <-chan struct{} {
			return f.killAt(apiproxy.Match{Verb: "create", Resource: "nodeclaims", Body: f.name}, apiproxy.BeforeResponse)
		}},
		{"row 12: replacement initialized", func(f *flow, _ *karpv1.NodeClaim) <-chan struct{} {
			return f.killAt(apiproxy.Match{Verb: "patch", Resource: "nodeclaims/status", Name: f.name + "*", Body: `"reason":"Initialized","status":"True"`}, apiproxy.BeforeResponse)
		}},
		{"row 13: old claim deleted", func(f *flow, c *karpv1.NodeClaim) <-chan struct{} {
			return f.killAt(apiproxy.Match{Verb: "delete", Resource: "nodeclaims", Name: c.Name}, apiproxy.BeforeResponse)
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			f := newFlow(t, killsController)
			pool := f.pool("", onlyTypes("m5.large"), withBudget("1"))
			f.deploy("inflate", 1, stopsAfter(1))
			f.waitForRunningPods("inflate", 1)
			old := f.ready(1)[0]
			fired := row.arm(f, &old)
			f.patchPool(pool, func(p *karpv1.NodePool) { p.Spec.Template.ObjectMeta.Labels = map[string]string{"tier": "gold"} })
			f.waitUntilKilled(fired)
			f.waitUntilGone(&old, restartLimit)
			f.waitUntilReleased()
			f.waitForRunningPods("inflate", 1, restartLimit)
			f.ready(1)
			if n := len(f.allInstances()); n != 2 {
				t.Errorf("%d instances were launched, want the old one and its replacement", n)
			}
		})
	}
}
