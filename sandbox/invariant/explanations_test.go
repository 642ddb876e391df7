package invariant_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/sandbox/invariant"
)

func withNodeName(node string) func(*karpv1.NodeClaim) {
	return func(c *karpv1.NodeClaim) { c.Status.NodeName = node }
}

func withWaitingCondition(kind, reason, message string) func(*karpv1.NodeClaim) {
	return func(c *karpv1.NodeClaim) {
		c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionUnknown, Reason: reason, Message: message})
	}
}

func TestG13_WhatIsStuckSaysSo(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		do   func(*checkerEnv)
		want invariant.Rule
		text string
	}{
		"a pod waits and nothing says why": {func(l *checkerEnv) {
			l.set(newPod("web", ""))
			l.passTime(6 * time.Minute)
		}, invariant.G13, "Pod shop/web"},
		"a pod waits and an event says why": {func(l *checkerEnv) {
			l.set(newPod("web", ""), &eventsv1.Event{
				ObjectMeta: metav1.ObjectMeta{Name: "e", UID: "e"}, ReportingController: "karpenter", Reason: "FailedScheduling",
				Regarding: corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: "web"},
			})
			l.passTime(6 * time.Minute)
		}, "", ""},
		"a claim does not become ready": {func(l *checkerEnv) {
			l.set(newPod("web", ""), newClaim("a"))
			l.Excuse(invariant.G13, "Pod")
			l.passTime(6 * time.Minute)
		}, invariant.G13, "NodeClaim a"},
		"a claim says what it waits for": {func(l *checkerEnv) {
			l.set(newPod("web", ""), newClaim("a", func(c *karpv1.NodeClaim) {
				c.Status.Conditions = []metav1.Condition{{Type: "Registered", Status: metav1.ConditionUnknown, Reason: "NodeNotFound"}}
			}))
			l.Excuse(invariant.G13, "Pod")
			l.passTime(6 * time.Minute)
		}, "", ""},
		"a pod holds a drain that only says that it drains": {func(l *checkerEnv) {
			l.set(newNode("n", "i-1"), newPod("web", "n"), newClaim("a", has("i-1"), withDeletion, withNodeName("n"), withWaitingCondition(karpv1.ConditionDrained, "Draining", "pods are leaving the node")))
			l.passTime(3 * time.Minute)
		}, invariant.G13, "NodeClaim a: pods hold it, none of them is named in condition Drained for"},
		"although it said a lot before": {func(l *checkerEnv) {
			l.set(newNode("n", "i-1"), newPod("web", "n"), newClaim("a", has("i-1"), withDeletion, withNodeName("n"), withWaitingCondition(karpv1.ConditionDrained, "Draining", "pods are leaving the node")),
				&eventsv1.Event{
					ObjectMeta: metav1.ObjectMeta{Name: "e", UID: "e"}, ReportingController: "karpenter", Reason: "Registered",
					Regarding: corev1.ObjectReference{Kind: "NodeClaim", Name: "a"},
				})
			l.passTime(3 * time.Minute)
		}, invariant.G13, "NodeClaim a: pods hold it"},
		"or names a pod that is not there": {func(l *checkerEnv) {
			l.set(newNode("n", "i-1"), newPod("web", "n"), newClaim("a", has("i-1"), withDeletion, withNodeName("n"), withWaitingCondition(karpv1.ConditionDrained, "Draining", "waits for (shop/other)")))
			l.passTime(3 * time.Minute)
		}, invariant.G13, "NodeClaim a: pods hold it"},
		"a drain that names what holds it": {func(l *checkerEnv) {
			l.set(newNode("n", "i-1"), newPod("web", "n"), newPod("web2", "n"), newClaim("a", has("i-1"), withDeletion, withNodeName("n"), withWaitingCondition(karpv1.ConditionDrained, "Draining", "waits since then: pods carry an annotation (shop/web2)")))
			l.passTime(6 * time.Minute)
		}, "", ""},
		"a drain whose pods end": {func(l *checkerEnv) {
			l.set(newNode("n", "i-1"), newPod("web", "n", func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(start)) }),
				newClaim("a", has("i-1"), withDeletion, withNodeName("n"), withWaitingCondition(karpv1.ConditionDrained, "Draining", "pods are leaving the node")))
			l.passTime(3 * time.Minute)
		}, "", ""},
		"a drain that pods follow each other in": {func(l *checkerEnv) {
			l.set(newNode("n", "i-1"), newClaim("a", has("i-1"), withDeletion, withNodeName("n"), withWaitingCondition(karpv1.ConditionDrained, "Draining", "pods are leaving the node")))
			for i := range 4 {
				p := newPod(fmt.Sprintf("web%d", i), "n")
				l.set(p)
				l.passTime(time.Minute)
				l.remove(p)
				l.passTime(time.Second)
			}
		}, "", ""},
		"an instance that does not go": {func(l *checkerEnv) {
			l.set(newClaim("a", has("i-1"), withDeletion, withCondition(karpv1.ConditionDrained), withCondition(karpv1.ConditionVolumesDetached)))
			l.passTime(6 * time.Minute)
		}, invariant.G13, "NodeClaim a: it is going for"},
		"an instance that does not go and says why": {func(l *checkerEnv) {
			l.set(newClaim("a", has("i-1"), withDeletion, withCondition(karpv1.ConditionDrained), withWaitingCondition(karpv1.ConditionInstanceTerminating, "Unauthorized", "the cloud does not end it")))
			l.passTime(6 * time.Minute)
		}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkVerdict(t, tc.do, tc.want, tc.text)
		})
	}
}
