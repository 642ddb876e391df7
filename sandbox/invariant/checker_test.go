package invariant_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/sandbox/apiproxy"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
	"github.com/dovetail-sh/dovetail/sandbox/invariant"
)

var start = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

const role = "KarpenterControllerRole-sandbox"

// checkerEnv is a checker with a clock, and words for what it gets.
type checkerEnv struct {
	*testing.T
	*invariant.Checker
	now       time.Time
	instances map[string]awsemu.InstanceView
}

func newCheckerEnv(t *testing.T) *checkerEnv {
	t.Helper()
	l := &checkerEnv{T: t, Checker: invariant.New(invariant.Options{Cluster: "sandbox", Role: role}), now: start, instances: map[string]awsemu.InstanceView{}}
	l.set(&karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "pool", UID: "pool"}})
	return l
}

func (l *checkerEnv) set(objects ...client.Object) {
	for _, o := range objects {
		l.Object(l.now, invariant.Set, o)
	}
}

func (l *checkerEnv) remove(o client.Object) { l.Object(l.now, invariant.Removed, o) }

// passTime lets time pass, a second at a time.
func (l *checkerEnv) passTime(d time.Duration) {
	for end := l.now.Add(d); l.now.Before(end); {
		l.now = l.now.Add(time.Second)
		l.Advance(l.now)
	}
}

func (l *checkerEnv) setInstance(id, state string, tags ...string) {
	i := awsemu.InstanceView{ID: id, State: state, Tags: map[string]string{}}
	for _, tag := range tags {
		name, value, _ := strings.Cut(tag, "=")
		i.Tags[name] = value
	}
	l.instances[id] = i
	var list []awsemu.InstanceView
	for _, i := range l.instances {
		list = append(list, i)
	}
	l.Cloud(l.now, list)
}

var ourTags = []string{"eks:eks-cluster-name=sandbox", "karpenter.sh/nodepool=pool"}

func (l *checkerEnv) recordCall(action string, parameters ...string) {
	call := awsemu.Call{Service: wire.EC2, Action: action, Role: role, Done: true, Parameters: map[string]string{}}
	for _, p := range parameters {
		name, value, _ := strings.Cut(p, "=")
		call.Parameters[name] = value
	}
	l.Call(l.now, call)
}

func newClaim(name string, change ...func(*karpv1.NodeClaim)) *karpv1.NodeClaim {
	c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID("claim-" + name), Labels: map[string]string{karpv1.LabelNodePool: "pool"}, Finalizers: []string{karpv1.FinalizerTermination},
		CreationTimestamp: metav1.NewTime(start),
	}}
	for _, f := range change {
		f(c)
	}
	return c
}

func has(instance string) func(*karpv1.NodeClaim) {
	return func(c *karpv1.NodeClaim) { c.Status.ProviderID = "aws:///eu-west-1a/" + instance }
}

func withCondition(kind string) func(*karpv1.NodeClaim) {
	return func(c *karpv1.NodeClaim) {
		c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: kind})
	}
}

func withDeletion(c *karpv1.NodeClaim) { c.DeletionTimestamp = new(metav1.NewTime(start)) }

func withoutFinalizer(c *karpv1.NodeClaim) { c.Finalizers = nil }

func withDeadline(at time.Time) func(*karpv1.NodeClaim) {
	return func(c *karpv1.NodeClaim) {
		c.Annotations = map[string]string{karpv1.AnnotationTerminationTimestamp: at.Format(time.RFC3339)}
	}
}

func newNode(name, instance string, taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("node-" + name), Labels: map[string]string{karpv1.LabelNodePool: "pool", karpv1.LabelRegistered: "true"}},
		Spec:       corev1.NodeSpec{ProviderID: "aws:///eu-west-1a/" + instance, Taints: taints},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}

func newPod(name, node string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop", UID: podUID(name), Labels: map[string]string{"app": "web"}, CreationTimestamp: metav1.NewTime(start)},
		Spec:       corev1.PodSpec{NodeName: node, TerminationGracePeriodSeconds: new(int64(30))},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	if node == "" {
		p.Status.Phase = corev1.PodPending
	}
	for _, f := range change {
		f(p)
	}
	return p
}

func podUID(name string) types.UID {
	return types.UID(("11111111-2222-3333-4444-" + fmt.Sprintf("%x", name) + strings.Repeat("0", 12))[:36])
}

func withDoNotDisrupt(p *corev1.Pod) {
	p.Annotations = map[string]string{karpv1.AnnotationDoNotDisrupt: "true"}
}

func (l *checkerEnv) evictPod(pod, uid string) {
	l.Request(apiproxy.Request{Time: l.now, Verb: "create", Resource: "pods/eviction", Namespace: "shop", Name: pod, Status: 201, Body: []byte(`{"deleteOptions":{"preconditions":{` + uid + `}}}`)})
}

func (l *checkerEnv) deletePod(pod string, status int) {
	l.Request(apiproxy.Request{Time: l.now, Verb: "delete", Resource: "pods", Namespace: "shop", Name: pod, Status: status, Body: []byte(`{"preconditions":{"uid":"` + string(podUID(pod)) + `"}}`)})
}

func uidText(pod string) string { return `"uid":"` + string(podUID(pod)) + `"` }

// Each case breaks one rule, or comes near to it and does not.
func TestRules(t *testing.T) {
	t.Parallel()
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "budget"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	}
	limited := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "pool", UID: "pool"}, Spec: karpv1.NodePoolSpec{Limits: corev1.ResourceList{"cpu": resource.MustParse("6")}}}
	cores := func(n string) func(*karpv1.NodeClaim) {
		return func(c *karpv1.NodeClaim) { c.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse(n)} }
	}
	for name, tc := range map[string]struct {
		do   func(*checkerEnv)
		want invariant.Rule // empty: all holds
		text string
	}{
		"G1 two claims with one instance": {func(l *checkerEnv) {
			l.set(newClaim("a", has("i-1")), newClaim("b", has("i-1")))
		}, invariant.G1, "NodeClaim a"},
		"G1 a claim with two instances at rest": {func(l *checkerEnv) {
			l.set(newClaim("a", has("i-1"), withCondition("Initialized")))
			l.setInstance("i-1", "running", append(ourTags, "karpenter.sh/nodeclaim=a")...)
			l.setInstance("i-2", "running", append(ourTags, "karpenter.sh/nodeclaim=a")...)
			l.Excuse(invariant.G2, "i-2")
			l.Excuse(invariant.G11, "a")
			l.passTime(4 * time.Minute)
		}, invariant.G1, "i-2"},
		"G1 a second instance that goes in time": {func(l *checkerEnv) {
			l.set(newClaim("a", has("i-1"), withCondition("Initialized")))
			l.setInstance("i-1", "running", append(ourTags, "karpenter.sh/nodeclaim=a")...)
			l.setInstance("i-2", "running", append(ourTags, "karpenter.sh/nodeclaim=a")...)
			l.Excuse(invariant.G11, "a")
			l.passTime(time.Minute)
			l.setInstance("i-2", "shutting-down", append(ourTags, "karpenter.sh/nodeclaim=a")...)
			l.passTime(3 * time.Minute)
		}, "", ""},
		"G2 an orphan that stays": {func(l *checkerEnv) {
			l.setInstance("i-1", "running", ourTags...)
			l.passTime(170 * time.Second)
		}, invariant.G2, "no NodeClaim"},
		"G2 an orphan of another cluster": {func(l *checkerEnv) {
			l.setInstance("i-1", "running", "eks:eks-cluster-name=another", "karpenter.sh/nodepool=pool")
			l.passTime(10 * time.Minute)
		}, "", ""},
		"G2 an orphan while the API server is down": {func(l *checkerEnv) {
			calm := l.Disturb(l.now)
			l.setInstance("i-1", "running", ourTags...)
			l.passTime(10 * time.Minute)
			calm(l.now)
			l.passTime(time.Minute)
			l.setInstance("i-1", "terminated", ourTags...)
			l.passTime(3 * time.Minute)
		}, "", ""},
		"G2 an instance without our tag is ended": {func(l *checkerEnv) {
			l.setInstance("i-1", "running")
			l.recordCall("TerminateInstances", "InstanceId.1=i-1")
		}, invariant.G2, "tag of the cluster"},
		"G2 an instance that lost its tag and has a claim is ended": {func(l *checkerEnv) {
			l.set(newClaim("a", has("i-1"), withDeletion))
			l.setInstance("i-1", "running")
			l.recordCall("TerminateInstances", "InstanceId.1=i-1")
		}, "", ""},
		"G2 another client ends an instance": {func(l *checkerEnv) {
			l.setInstance("i-1", "running")
			l.Call(l.now, awsemu.Call{Service: wire.EC2, Action: "TerminateInstances", Role: "another", Parameters: map[string]string{"InstanceId.1": "i-1"}})
		}, "", ""},
		"G3 the finalizer goes while the instance runs": {func(l *checkerEnv) {
			l.setInstance("i-1", "shutting-down", ourTags...)
			l.set(newClaim("a", has("i-1"), withDeletion), newClaim("a", has("i-1"), withDeletion, withoutFinalizer))
		}, invariant.G3, "i-1 is shutting-down"},
		"G3 the object goes while the instance runs": {func(l *checkerEnv) {
			l.setInstance("i-1", "running", ourTags...)
			l.set(newClaim("a", has("i-1"), withDeletion))
			l.remove(newClaim("a", has("i-1"), withDeletion))
		}, invariant.G3, "i-1 is running"},
		"G3 the finalizer goes after the instance": {func(l *checkerEnv) {
			l.setInstance("i-1", "terminated", ourTags...)
			l.set(newClaim("a", has("i-1"), withDeletion), newClaim("a", has("i-1"), withDeletion, withoutFinalizer))
		}, "", ""},
		"G3 a claim that was never launched": {func(l *checkerEnv) {
			l.set(newClaim("a", withDeletion), newClaim("a", withDeletion, withoutFinalizer))
		}, "", ""},
		"G3 a test takes the finalizer away": {func(l *checkerEnv) {
			l.Excuse(invariant.G3, "NodeClaim a")
			l.setInstance("i-1", "running", ourTags...)
			l.set(newClaim("a", has("i-1")), newClaim("a", has("i-1"), withoutFinalizer))
		}, "", ""},
		"G6 an eviction without a UID": {func(l *checkerEnv) {
			l.set(newPod("web", "n"))
			l.evictPod("web", "")
		}, invariant.G6, "UID"},
		"G6 an eviction": {func(l *checkerEnv) {
			l.set(newPod("web", "n"))
			l.evictPod("web", uidText("web"))
		}, "", ""},
		"G6 an eviction of a protected pod": {func(l *checkerEnv) {
			l.set(newPod("web", "n", withDoNotDisrupt))
			l.evictPod("web", uidText("web"))
		}, invariant.G6, "do-not-disrupt"},
		"G6 an eviction after the protection is over": {func(l *checkerEnv) {
			l.set(newPod("web", "n", func(p *corev1.Pod) { p.Annotations = map[string]string{karpv1.AnnotationDoNotDisrupt: "30m"} }))
			l.now = l.now.Add(31 * time.Minute)
			l.evictPod("web", uidText("web"))
		}, "", ""},
		"G6 an eviction whose pod is gone before the response": {func(l *checkerEnv) {
			l.set(newPod("web", "n", withDoNotDisrupt))
			requested := l.now
			l.now = l.now.Add(10 * time.Millisecond)
			l.remove(newPod("web", "n", withDoNotDisrupt))
			l.now = requested
			l.evictPod("web", uidText("web"))
		}, invariant.G6, "do-not-disrupt"},
		"G6 an eviction of a pod that goes already": {func(l *checkerEnv) {
			l.remove(newPod("web", "n", withDoNotDisrupt))
			l.now = l.now.Add(time.Second)
			l.evictPod("web", uidText("web"))
		}, "", ""},
		"G6 an eviction of an earlier pod of the name": {func(l *checkerEnv) {
			l.set(newPod("web", "n", withDoNotDisrupt))
			l.evictPod("web", uidText("old"))
		}, "", ""},
		"G6 a deletion past a budget": {func(l *checkerEnv) {
			l.set(budget, newPod("web", "n"))
			l.deletePod("web", 200)
		}, invariant.G6, "PodDisruptionBudget web"},
		"G6 a deletion past a budget at the deadline": {func(l *checkerEnv) {
			l.set(budget, newNode("n", "i-1"), newClaim("a", has("i-1"), withDeletion, withDeadline(start.Add(time.Hour))), newPod("web", "n", withDoNotDisrupt))
			l.now = start.Add(time.Hour - 30*time.Second)
			l.deletePod("web", 200)
		}, "", ""},
		"G6 a deletion past a budget before the deadline": {func(l *checkerEnv) {
			l.set(budget, newNode("n", "i-1"), newClaim("a", has("i-1"), withDeletion, withDeadline(start.Add(time.Hour))), newPod("web", "n", withDoNotDisrupt))
			l.now = start.Add(50 * time.Minute)
			l.deletePod("web", 200)
		}, invariant.G6, "no deadline"},
		"G6 an instance is ended under a pod": {func(l *checkerEnv) {
			l.setInstance("i-1", "running", ourTags...)
			l.set(newNode("n", "i-1"), newClaim("a", has("i-1"), withCondition("Registered"), withDeletion), newPod("web", "n"))
			l.recordCall("TerminateInstances", "InstanceId.1=i-1")
			l.passTime(3 * time.Second)
		}, invariant.G6, "before it was evicted"},
		"G6 an instance is ended and the watch of pods is late": {func(l *checkerEnv) {
			l.setInstance("i-1", "running", ourTags...)
			l.set(newNode("n", "i-1"), newClaim("a", has("i-1"), withCondition("Registered"), withDeletion), newPod("web", "n"))
			l.recordCall("TerminateInstances", "InstanceId.1=i-1")
			l.remove(newPod("web", "n"))
			l.passTime(3 * time.Second)
		}, "", ""},
		"G6 an instance is ended under a pod that tolerates it": {func(l *checkerEnv) {
			l.setInstance("i-1", "running", ourTags...)
			tolerates := func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} }
			l.set(newNode("n", "i-1"), newClaim("a", has("i-1"), withCondition("Registered"), withDeletion), newPod("web", "n", tolerates))
			l.recordCall("TerminateInstances", "InstanceId.1=i-1")
			l.passTime(3 * time.Second)
		}, "", ""},
		"G7 a taint that is dropped": {func(l *checkerEnv) {
			l.set(newNode("n", "i-1", karpv1.DisruptedTaint()), newClaim("a", has("i-1"), withCondition("Initialized")))
			l.passTime(30 * time.Second)
		}, invariant.G7, "Node n"},
		"G7 a taint of a running command": {func(l *checkerEnv) {
			l.set(newNode("n", "i-1", karpv1.DisruptedTaint()), newClaim("a", has("i-1"), withCondition("Initialized"), withCondition("DisruptionReason")))
			l.passTime(30 * time.Second)
		}, "", ""},
		"G7 a taint of a terminating node": {func(l *checkerEnv) {
			l.set(newNode("n", "i-1", karpv1.DisruptedTaint()), newClaim("a", has("i-1"), withDeletion))
			l.passTime(30 * time.Second)
		}, "", ""},
		"G8 two claims for one pod": {func(l *checkerEnv) {
			l.set(newPod("web", ""), newClaim("a"))
			l.passTime(3 * time.Second)
			l.set(newClaim("b"))
			l.passTime(3 * time.Second)
		}, invariant.G8, "1 claims were in flight already for the 1 pods"},
		"G8 a second claim after the first failed": {func(l *checkerEnv) {
			l.set(newPod("web", ""), newClaim("a"))
			l.passTime(3 * time.Second)
			l.set(newClaim("a", withDeletion), newClaim("b"))
			l.passTime(3 * time.Second)
		}, "", ""},
		"G8 a claim for each pod, the watch of claims first": {func(l *checkerEnv) {
			l.set(newClaim("a"), newClaim("b"))
			l.set(newPod("one", ""), newPod("two", ""))
			l.passTime(3 * time.Second)
		}, "", ""},
		"G8 the pod of a claim was deleted, another came": {func(l *checkerEnv) {
			l.set(newPod("one", ""), newClaim("a"))
			l.passTime(3 * time.Second)
			l.remove(newPod("one", ""))
			l.passTime(time.Minute)
			l.set(newPod("two", ""), newClaim("b"))
			l.passTime(3 * time.Second)
		}, "", ""},
		"G8 claims that share their reasons": {func(l *checkerEnv) {
			l.set(newPod("one", ""), newClaim("a"))
			l.passTime(3 * time.Second)
			l.set(newPod("two", ""), newClaim("b"))
			l.passTime(3 * time.Second)
			l.set(newClaim("c"))
			l.passTime(3 * time.Second)
		}, invariant.G8, "NodeClaim c"},
		"G8 pods of another pool are no reason": {func(l *checkerEnv) {
			l.set(newPod("web", "", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{karpv1.LabelNodePool: "another"} }), newClaim("a"))
			l.passTime(3 * time.Second)
		}, invariant.G8, "0 pods"},
		"G8 the replacement of a terminating node": {func(l *checkerEnv) {
			l.set(newNode("n", "i-1"), newClaim("a", has("i-1"), withCondition("Initialized"), withDeletion), newPod("web", "n"), newClaim("b"))
			l.passTime(3 * time.Second)
		}, "", ""},
		"G10 a claim lifts its pool above the limit": {func(l *checkerEnv) {
			l.set(limited, newClaim("a", cores("4"), withCondition("Initialized")), newClaim("b", cores("4"), withCondition("Initialized")))
		}, invariant.G10, "8 of cpu, above its limit of 6"},
		"G10 the limit was lowered": {func(l *checkerEnv) {
			l.set(newClaim("a", cores("4"), withCondition("Initialized")), newClaim("b", withCondition("Initialized")))
			l.set(limited, newClaim("b", cores("4"), withCondition("Initialized")))
		}, "", ""},
		"G10 one that goes is not counted": {func(l *checkerEnv) {
			l.set(limited, newClaim("a", cores("4"), withDeletion), newClaim("b", cores("4"), withCondition("Initialized")))
		}, "", ""},
		"G12 a hot loop of writes": {func(l *checkerEnv) {
			for range 60 {
				l.now = l.now.Add(50 * time.Millisecond)
				l.Request(apiproxy.Request{Time: l.now, Verb: "patch", Resource: "nodeclaims/status", Name: "a", Status: 200})
			}
		}, invariant.G12, "nodeclaims/status a"},
		"G12 many objects at once": {func(l *checkerEnv) {
			for i := range 1000 {
				l.Request(apiproxy.Request{Time: l.now, Verb: "patch", Resource: "nodeclaims/status", Name: fmt.Sprint(i), Status: 200})
			}
		}, "", ""},
		"G12 a hot loop of calls": {func(l *checkerEnv) {
			for i := range 60 {
				l.now = l.now.Add(50 * time.Millisecond)
				l.recordCall("CreateFleet", fmt.Sprintf("ClientToken=%d", i), "Type=instant")
			}
		}, invariant.G12, "ec2:CreateFleet"},
		"G12 each process reads everything once": {func(l *checkerEnv) {
			for i := range 60 {
				if i%20 == 0 {
					l.Restarted()
				}
				l.now = l.now.Add(50 * time.Millisecond)
				l.recordCall("DescribeImages", "Owner.1=amazon")
			}
		}, "", ""},
		"G12 a hot loop of a process that restarted once": {func(l *checkerEnv) {
			l.Restarted()
			for range 60 {
				l.now = l.now.Add(50 * time.Millisecond)
				l.recordCall("DescribeImages", "Owner.1=amazon")
			}
		}, invariant.G12, "ec2:DescribeImages"},
		"G12 paced retries": {func(l *checkerEnv) {
			for range 100 {
				l.now = l.now.Add(200 * time.Millisecond)
				l.recordCall("TerminateInstances", "InstanceId.1=i-1")
			}
		}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkVerdict(t, tc.do, tc.want, tc.text)
		})
	}
}

// checkVerdict says whether what was done to an environment breaks the rule that it should, or none.
func checkVerdict(t *testing.T, do func(*checkerEnv), want invariant.Rule, text string) {
	t.Helper()
	l := newCheckerEnv(t)
	l.Excuse(invariant.G13, "NodePool")
	do(l)
	found := l.Violations()
	switch {
	case want == "" && len(found) > 0:
		t.Errorf("found %v", found[0])
	case want == "":
	case len(found) == 0:
		t.Errorf("%s was not found to be broken", want)
	case found[0].Rule != want || !strings.Contains(found[0].Error(), text):
		t.Errorf("found %v, want %s and %q", found[0], want, text)
	}
}

// A violation says what happened to the object, and is reported once.
func TestViolationsCarryTheHistory(t *testing.T) {
	t.Parallel()
	l := newCheckerEnv(t)
	l.Excuse(invariant.G11, "a") // it processes the same claim again
	l.setInstance("i-1", "running", ourTags...)
	for range 3 {
		l.set(newClaim("a"), newClaim("a", has("i-1"), withCondition("Launched")), newClaim("a", has("i-1"), withDeletion), newClaim("a", has("i-1"), withDeletion, withoutFinalizer))
	}
	found := l.Violations()
	if len(found) != 1 {
		t.Fatalf("%d violations, want 1", len(found))
	}
	text := found[0].Error()
	for _, want := range []string{"G3", "Launched=True(Launched)", "deleting held by karpenter.sh/termination", "12:00:00"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}

// A test gets its own violations, and of those that belong to none.
func TestViolationsAreGivenToTheirTests(t *testing.T) {
	t.Parallel()
	l := newCheckerEnv(t)
	l.setInstance("i-1", "running")
	l.recordCall("TerminateInstances", "InstanceId.1=i-1")
	l.set(newPod("web", "n", withDoNotDisrupt))
	l.evictPod("web", uidText("web"))
	for _, tc := range []struct {
		pool, namespace string
		want            int
	}{{"pool", "another", 1}, {"pool", "shop", 2}, {"", "", 1}} {
		if found := l.Of(tc.pool, tc.namespace); len(found) != tc.want {
			t.Errorf("pool %q, namespace %q: %d violations, want %d: %v", tc.pool, tc.namespace, len(found), tc.want, found)
		}
	}
}
