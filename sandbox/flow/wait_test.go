package flow_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu"
)

// waitUntil checks again whenever something changed, until what it requests holds. The function says how it is
// now, for the message when time is up.
func (f *flow) waitUntil(limit time.Duration, what string, holds func() (ok bool, now string)) {
	f.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	for {
		changed := f.view.nextChange()
		ok, now := holds()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-time.After(500 * time.Millisecond): // what no watch shows
		case <-deadline.C:
			f.Fatalf("not within %s: %s; now: %s", limit, what, now)
		}
	}
}

// checkStays waits a while and fails if something stops to be so.
func (f *flow) checkStays(d time.Duration, what string, is func() (ok bool, now string)) {
	f.Helper()
	end := time.NewTimer(d)
	defer end.Stop()
	for {
		changed := f.view.nextChange()
		if ok, now := is(); !ok {
			f.Fatalf("did not stay for %s: %s; now: %s", d, what, now)
		}
		select {
		case <-changed:
		case <-time.After(500 * time.Millisecond):
		case <-end.C:
			return
		}
	}
}

func (f *flow) list(list client.ObjectList, opts ...client.ListOption) {
	f.Helper()
	if err := f.kube.List(context.WithoutCancel(f.Context()), list, opts...); err != nil {
		f.Fatal(err)
	}
}

// claims are those of all pools of the test, or of one.
func (f *flow) claims(pool ...string) []karpv1.NodeClaim {
	f.Helper()
	return copyObjects(f.view, func(c *karpv1.NodeClaim) bool {
		name := c.Labels[karpv1.LabelNodePool]
		return strings.HasPrefix(name, f.name) && (len(pool) == 0 || slices.Contains(pool, name))
	})
}

// nodes are those of all pools of the test.
func (f *flow) nodes() []corev1.Node {
	f.Helper()
	return copyObjects(f.view, func(n *corev1.Node) bool {
		name, has := n.Labels[karpv1.LabelNodePool]
		return has && strings.HasPrefix(name, f.name)
	})
}

// liveInstances are those of all pools of the test that are not terminated.
func (f *flow) liveInstances() []awsemu.InstanceView {
	return slices.DeleteFunc(f.allInstances(), func(i awsemu.InstanceView) bool { return i.State == "terminated" })
}

// allInstances includes those that are terminated.
func (f *flow) allInstances() []awsemu.InstanceView {
	return slices.DeleteFunc(f.world.AWS.Instances(), func(i awsemu.InstanceView) bool {
		return !strings.HasPrefix(i.Tags[karpv1.LabelNodePool], f.name)
	})
}

// stateOf is the state of an instance.
func (f *flow) stateOf(id string) string {
	for _, i := range f.world.AWS.Instances() {
		if i.ID == id {
			return i.State
		}
	}
	return "unknown"
}

// pods are those of a Deployment, or of all.
func (f *flow) pods(app string) []corev1.Pod {
	f.Helper()
	return copyObjects(f.view, func(p *corev1.Pod) bool {
		return p.Namespace == f.namespace && (app == "" || p.Labels["app"] == app)
	})
}

// waitForRunningPods waits until a Deployment has so many pods that run, and no other.
func (f *flow) waitForRunningPods(app string, n int, limit ...time.Duration) []corev1.Pod {
	f.Helper()
	var pods []corev1.Pod
	f.waitUntil(append(limit, soon)[0], fmt.Sprintf("%d pods of %s run", n, app), func() (bool, string) {
		pods = f.pods(app)
		up := 0
		for _, p := range pods {
			if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
				up++
			}
		}
		return up == n && len(pods) == n, fmt.Sprintf("%d of %d run", up, len(pods))
	})
	return pods
}

// claim waits for a claim of the test.
func (f *flow) claim(what string, holds func(*karpv1.NodeClaim) bool, limit ...time.Duration) *karpv1.NodeClaim {
	f.Helper()
	var found *karpv1.NodeClaim
	f.waitUntil(append(limit, soon)[0], "a NodeClaim that "+what, func() (bool, string) {
		list := f.claims()
		for i := range list {
			if holds(&list[i]) {
				found = &list[i]
				return true, ""
			}
		}
		return false, fmt.Sprintf("%d claims: %s", len(list), sayConditions(list))
	})
	return found
}

// ready waits until the pools of the test have so many claims, all of them ready.
func (f *flow) ready(n int) []karpv1.NodeClaim {
	f.Helper()
	var list []karpv1.NodeClaim
	f.waitUntil(soon, fmt.Sprintf("%d NodeClaims, all ready", n), func() (bool, string) {
		list = f.claims()
		open := slices.ContainsFunc(list, func(c karpv1.NodeClaim) bool {
			return c.DeletionTimestamp != nil || !condition.True(c.Status.Conditions, karpv1.ConditionReady)
		})
		return len(list) == n && !open, fmt.Sprintf("%d claims: %s", len(list), sayConditions(list))
	})
	return list
}

// waitUntilGone waits until an object is not there any more.
func (f *flow) waitUntilGone(obj client.Object, limit ...time.Duration) {
	f.Helper()
	key := client.ObjectKeyFromObject(obj)
	uid := obj.GetUID()
	f.waitUntil(append(limit, soon)[0], fmt.Sprintf("%T %s is gone", obj, key), func() (bool, string) {
		now, known := f.view.find(obj)
		if !known {
			now, _ = obj.DeepCopyObject().(client.Object)
			if err := f.kube.Get(f.Context(), key, now); err != nil {
				return apierrors.IsNotFound(err), err.Error()
			}
		}
		return now == nil || uid != "" && now.GetUID() != uid, "it is there"
	})
}

// nothingLeft waits until the test has neither claims nor nodes nor instances.
func (f *flow) nothingLeft() {
	f.Helper()
	f.waitUntil(later, "no claim, node or instance is left", func() (bool, string) {
		if claims, nodes := f.claims(), f.nodes(); len(claims)+len(nodes) > 0 {
			return false, fmt.Sprintf("%d claims, %d nodes", len(claims), len(nodes))
		}
		instances := f.liveInstances()
		return len(instances) == 0, fmt.Sprintf("%d instances", len(instances))
	})
}

// event waits for an event of the controller. The object is known by its kind and the beginning of its name.
func (f *flow) event(kind, name, reason, text string, limit ...time.Duration) *eventsv1.Event {
	f.Helper()
	var found *eventsv1.Event
	f.waitUntil(append(limit, soon)[0], fmt.Sprintf("event %s on %s %s with %q", reason, kind, name, text), func() (bool, string) {
		list := f.events(kind, name)
		for i := range list {
			if list[i].Reason == reason && strings.Contains(list[i].Note, text) {
				found = &list[i]
				return true, ""
			}
		}
		return false, sayEvents(list)
	})
	return found
}

// events of the controller on objects of a kind, and with the beginning of a name.
func (f *flow) events(kind, name string) []eventsv1.Event {
	f.Helper()
	return copyObjects(f.view, func(e *eventsv1.Event) bool {
		return e.ReportingController == "karpenter" && e.Regarding.Kind == kind && strings.HasPrefix(e.Regarding.Name, name) &&
			(kind != "Pod" || e.Regarding.Namespace == f.namespace)
	})
}

// waitForCondition waits for a condition of an object of ours.
func (f *flow) waitForCondition(obj client.Object, kind string, status metav1.ConditionStatus, reason string, limit ...time.Duration) *metav1.Condition {
	f.Helper()
	var found *metav1.Condition
	f.waitUntil(append(limit, soon)[0], fmt.Sprintf("%T %s is %s=%s %s", obj, obj.GetName(), kind, status, reason), func() (bool, string) {
		if err := f.kube.Get(f.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			return false, err.Error()
		}
		f.waitForCache(obj)
		found = condition.Find(conditionsOf(obj), kind)
		if found == nil {
			return false, "no such condition"
		}
		return found.Status == status && (reason == "" || found.Reason == reason), fmt.Sprintf("%s %s: %s", found.Status, found.Reason, found.Message)
	})
	return found
}

func conditionsOf(obj client.Object) []metav1.Condition {
	switch o := obj.(type) {
	case *karpv1.NodeClaim:
		return o.Status.Conditions
	case *karpv1.NodePool:
		return o.Status.Conditions
	case *awsv1.EC2NodeClass:
		return o.Status.Conditions
	}
	return nil
}

// backdateCondition sets a condition of a claim back in time, and the launch with it, so that a timeout of minutes comes at
// once: the clock of the registration runs from the later of the two (LC-14).
func (f *flow) backdateCondition(c *karpv1.NodeClaim, kind string, by time.Duration) {
	f.Helper()
	f.waitUntil(soon, "the condition "+kind+" is set back", func() (bool, string) {
		if err := f.kube.Get(f.Context(), client.ObjectKeyFromObject(c), c); err != nil {
			return apierrors.IsNotFound(err), err.Error()
		}
		found := condition.Find(c.Status.Conditions, kind)
		if found == nil {
			return false, "no such condition"
		}
		before := c.DeepCopy()
		for i := range c.Status.Conditions {
			if name := c.Status.Conditions[i].Type; name == kind || name == karpv1.ConditionLaunched {
				c.Status.Conditions[i].LastTransitionTime = metav1.NewTime(time.Now().Add(-by))
			}
		}
		err := f.kube.Status().Patch(f.Context(), c, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		return err == nil, fmt.Sprint(err)
	})
	f.waitForCache(c)
}

// backdateCreation makes a claim older than it is, where it is stored, so that an expiry of hours comes when the test wants it.
func (f *flow) backdateCreation(c *karpv1.NodeClaim, by time.Duration) {
	f.Helper()
	err := f.world.ControlPlane.Rewrite(f.Context(), "/registry/karpenter.sh/nodeclaims/"+c.Name, func(stored []byte) ([]byte, error) {
		claim := &unstructured.Unstructured{}
		if err := claim.UnmarshalJSON(stored); err != nil {
			return nil, err
		}
		claim.SetCreationTimestamp(metav1.NewTime(c.CreationTimestamp.Add(-by)))
		return claim.MarshalJSON()
	})
	if err != nil {
		f.Fatal(err)
	}
}

// nodeOf is the Node of a claim.
func (f *flow) nodeOf(c *karpv1.NodeClaim) *corev1.Node {
	f.Helper()
	n := &corev1.Node{}
	if err := f.kube.Get(f.Context(), client.ObjectKey{Name: c.Status.NodeName}, n); err != nil {
		f.Fatal(err)
	}
	return n
}

// instanceOf is the id of the instance of a claim.
func instanceOf(c *karpv1.NodeClaim) string {
	return c.Status.ProviderID[strings.LastIndex(c.Status.ProviderID, "/")+1:]
}

func hasCondition(kind string) func(*karpv1.NodeClaim) bool {
	return func(c *karpv1.NodeClaim) bool { return condition.True(c.Status.Conditions, kind) }
}

func waitsFor(kind, reason string) func(*karpv1.NodeClaim) bool {
	return func(c *karpv1.NodeClaim) bool {
		found := condition.Find(c.Status.Conditions, kind)
		return found != nil && found.Status != metav1.ConditionTrue && found.Reason == reason
	}
}

func isDeleting(c *karpv1.NodeClaim) bool { return c.DeletionTimestamp != nil }

// describe returns all there is to know about a test that failed.
func (f *flow) describe() {
	f.Helper()
	for _, c := range f.claims() {
		f.Logf("NodeClaim %s", sayConditions([]karpv1.NodeClaim{c}))
		f.Logf("%s", sayEvents(f.events("NodeClaim", c.Name)))
	}
	for _, i := range f.allInstances() {
		f.Logf("instance %s %s %s %s: %s", i.ID, i.Type, i.CapacityType, i.State, f.world.Nodes.Why(i.ID))
	}
	for _, p := range f.pods("") {
		f.Logf("pod %s %s on %q deleting=%v", p.Name, p.Status.Phase, p.Spec.NodeName, p.DeletionTimestamp != nil)
	}
	f.Logf("%s", sayEvents(f.events("Pod", "")))
	f.Logf("%s", sayEvents(f.events("NodePool", f.name)))
	f.Logf("%s", sayEvents(f.events("EC2NodeClass", f.name)))
	for _, line := range f.logLines(40) {
		f.Log(line)
	}
}

// controllerLog is the log of the controller, of all its starts.
func (f *flow) controllerLog() []string {
	from := f.controller
	if f.own != nil {
		from = f.own
	}
	text, err := os.ReadFile(from.Log)
	if err != nil {
		return []string{err.Error()}
	}
	return strings.Split(string(text), "\n")
}

// logLines are the last lines of the log that name the pool of the test, shortened, and all that is no line of a log,
// such as the stack of a crash.
func (f *flow) logLines(most int) []string {
	const longest = 500
	lines := slices.DeleteFunc(f.controllerLog(), func(line string) bool {
		return line == "" || !strings.Contains(line, f.name) && strings.HasPrefix(line, "{")
	})
	lines = lines[max(0, len(lines)-most):]
	for i := range lines {
		lines[i] = lines[i][:min(len(lines[i]), longest)]
	}
	return lines
}

func sayConditions(list []karpv1.NodeClaim) string {
	var text []string
	for _, c := range list {
		part := c.Name
		for _, k := range c.Status.Conditions {
			part += fmt.Sprintf(" %s=%s", k.Type, k.Status)
			if k.Status != metav1.ConditionTrue {
				part += fmt.Sprintf("(%s %s)", k.Reason, k.Message)
			}
		}
		if c.DeletionTimestamp != nil {
			part += " deleting"
		}
		text = append(text, part)
	}
	return strings.Join(text, "; ")
}

func sayEvents(list []eventsv1.Event) string {
	text := []string{"events:"}
	for _, e := range list {
		text = append(text, fmt.Sprintf("  %s %s %s %s: %s", e.Type, e.Regarding.Kind, e.Regarding.Name, e.Reason, e.Note))
	}
	return strings.Join(text, "\n")
}
