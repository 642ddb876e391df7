package flow_test

import (
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/sandbox/fakenode"
	"github.com/dovetail-sh/dovetail/sandbox/invariant"
)

// createClaimByHand is a claim that a user makes, for a class of the test. It goes at the end.
func (f *flow) createClaimByHand(suffix, class string, labels map[string]string) *karpv1.NodeClaim {
	f.Helper()
	claim := &karpv1.NodeClaim{}
	f.decode(`
spec:
  requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}]
  nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: `+class+`}`, claim)
	claim.Name, claim.Labels = f.name+suffix, labels
	f.checker.Excuse(invariant.G8, claim.Name)
	f.create(claim)
	f.Cleanup(func() { f.remove(claim) })
	return claim
}

// LC-04: a claim whose class does not exist, or is not ready, goes, and an event says why.
func TestLC_04_ClaimsWithoutAClassThatIsReady(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	class := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: f.name}}
	f.waitForCondition(class, karpv1.ConditionReady, metav1.ConditionTrue, "")
	patch(f, class, func(c *awsv1.EC2NodeClass) {
		c.Spec.SubnetSelectorTerms[0].Tags = map[string]string{"karpenter.sh/discovery": "nowhere"}
	})
	f.waitForCondition(class, karpv1.ConditionReady, metav1.ConditionFalse, "")
	none, unready := f.createClaimByHand("-none", f.name+"-none", nil), f.createClaimByHand("-unready", f.name, nil)
	f.event("NodeClaim", none.Name, "InsufficientCapacityError", f.name+"-none")
	f.event("NodeClaim", unready.Name, "NodeClassNotReady", f.name)
	f.waitUntilGone(none)
	f.waitUntilGone(unready)
}

// LC-58: a claim without a pool gets its node like any other, and is left alone after that: its class changes, its
// node is empty, and it has neither mark.
func TestLC_58_AClaimWithoutAPool(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	class := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: f.name}}
	f.waitForCondition(class, karpv1.ConditionReady, metav1.ConditionTrue, "")
	claim := f.createClaimByHand("-single", f.name, nil)
	f.waitForCondition(claim, karpv1.ConditionReady, metav1.ConditionTrue, "")
	patch(f, class, func(c *awsv1.EC2NodeClass) { c.Spec.UserData = new("#!/bin/bash\necho drift") })
	f.checkStays(8*time.Second, "the claim, without a mark", func() (bool, string) {
		if err := f.kube.Get(t.Context(), keyOf(claim), claim); err != nil {
			return false, err.Error()
		}
		marked := condition.Find(claim.Status.Conditions, karpv1.ConditionDrifted) != nil || condition.Find(claim.Status.Conditions, karpv1.ConditionConsolidatable) != nil
		return !marked && !isDeleting(claim), sayConditions([]karpv1.NodeClaim{*claim})
	})
	f.remove(claim)
	f.waitUntilGone(claim)
}

// LC-44, LC-59, LC-62: objects as an older Karpenter left them. The hash of another version is no drift and is
// written anew, labels that it did not know are added, and its taint is removed. Its annotation of pods protects
// them as the new one does, and the node says so.
func TestLC_62_WhatAnOlderVersionLeft(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	pool := f.pool("", onlyTypes("m5.large"))
	f.deploy("inflate", 1, withAnnotation(karpv1.AnnotationDoNotEvict, "true"))
	pod := f.waitForRunningPods("inflate", 1)[0]
	claim := f.ready(1)[0]
	f.event("Node", claim.Status.NodeName, "DisruptionBlocked", karpv1.AnnotationDoNotEvict)
	const classLabel = awsv1.Group + "/ec2nodeclass"
	patch(f, &claim, func(c *karpv1.NodeClaim) {
		c.Annotations[karpv1.AnnotationNodePoolHash], c.Annotations[karpv1.AnnotationNodePoolHashVersion] = "12345", "v3"
		delete(c.Labels, classLabel)
	})
	f.waitForCondition(pool, karpv1.ConditionReady, metav1.ConditionTrue, "") // reads it
	patch(f, pool, func(p *karpv1.NodePool) {
		p.Annotations[karpv1.AnnotationNodePoolHash], p.Annotations[karpv1.AnnotationNodePoolHashVersion] = "12345", "v3"
	})
	patch(f, f.nodeOf(&claim), func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: karpv1.TaintKeyDisruption, Value: "disrupting", Effect: corev1.TaintEffectNoSchedule})
		delete(n.Labels, classLabel)
		delete(n.Labels, karpv1.LabelProvisionerName)
	})
	f.waitUntil(soon, "the claim and its node are as new", func() (bool, string) {
		list := f.claims()
		if len(list) != 1 || list[0].UID != claim.UID || isDeleting(&list[0]) || hasCondition(karpv1.ConditionDrifted)(&list[0]) {
			t.Fatalf("what was taken over is replaced: %s", sayConditions(list))
		}
		if err := f.kube.Get(t.Context(), keyOf(pool), pool); err != nil {
			return false, err.Error()
		}
		hash, node := pool.Annotations[karpv1.AnnotationNodePoolHash], f.nodeOf(&claim)
		written := hash != "12345" && list[0].Annotations[karpv1.AnnotationNodePoolHash] == hash && list[0].Labels[classLabel] == f.name
		cleaned := node.Labels[classLabel] == f.name && node.Labels[karpv1.LabelProvisionerName] == f.name &&
			!slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == karpv1.TaintKeyDisruption })
		return written && cleaned, sayConditions(list)
	})
	if now := f.waitForRunningPods("inflate", 1)[0]; now.UID != pod.UID {
		t.Error("the pod was moved")
	}
}

// createVolumeWorkload makes a volume and a Deployment that uses it.
func (f *flow) createVolumeWorkload(name string) *appsv1.Deployment {
	f.Helper()
	f.create(&corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: f.namespace},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}},
		},
	})
	return f.deploy(name, 1, func(p *corev1.PodTemplateSpec) {
		p.Spec.Volumes = []corev1.Volume{{Name: name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}}
	})
}

// LC-37: a volume that is never detached holds the node until its deadline. Then the claim says that the volume
// was not waited for any longer, and all goes.
func TestLC_37_TheDeadlineBeatsTheVolume(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	mend := f.nodeFault(fakenode.Fault{DetachLate: time.Hour})
	f.pool("", onlyTypes("m5.large"), withTerminationGracePeriod("1h"))
	f.createVolumeWorkload("store")
	f.waitForRunningPods("store", 1)
	claim := f.ready(1)[0]
	const ours = "sandbox.dovetail.sh/read-to-the-end"
	patch(f, &claim, func(c *karpv1.NodeClaim) { c.Finalizers = append(c.Finalizers, ours) })
	f.remove(&claim)
	f.event("Node", claim.Status.NodeName, "AwaitingVolumeDetachment", "")
	f.waitForCondition(&claim, karpv1.ConditionVolumesDetached, metav1.ConditionUnknown, "AwaitingVolumeDetachment")
	// The hour is over, however long it took to come this far.
	deadline := time.Now().Truncate(time.Second).Add(time.Second)
	patch(f, &claim, func(c *karpv1.NodeClaim) {
		c.Annotations[karpv1.AnnotationTerminationTimestamp] = deadline.UTC().Format(time.RFC3339)
	})
	waited := f.waitForCondition(&claim, karpv1.ConditionVolumesDetached, metav1.ConditionFalse, "TerminationGracePeriodElapsed")
	if waited.LastTransitionTime.Time.Before(deadline) {
		t.Errorf("the volume was given up at %s, before %s", waited.LastTransitionTime, deadline)
	}
	held := f.claim("only the test holds", func(c *karpv1.NodeClaim) bool {
		return c.Name == claim.Name && slices.Equal(c.Finalizers, []string{ours})
	})
	patch(f, held, func(c *karpv1.NodeClaim) { c.Finalizers = nil })
	f.waitUntilGone(held)
	mend()
}
