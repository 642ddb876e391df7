package cluster_test

import (
	"math"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// Quantities with an exponent that arithmetic would not come back from: the Reader takes them for as
// much as it can count. Without the guard in package resources this test does not end.
func TestExtremeQuantitiesAreRead(t *testing.T) {
	t.Parallel()
	huge := resource.MustParse("1e99999999")
	all := corev1.ResourceList{"cpu": huge, "memory": huge, "x.io/gpu": huge, "ephemeral-storage": resource.MustParse("0e2147483646")}
	r := newReader(cluster.ReaderOptions{})

	spec := corev1.PodSpec{
		Containers:     []corev1.Container{{Name: "a", Resources: corev1.ResourceRequirements{Requests: all, Limits: all}}, {Name: "b", Resources: corev1.ResourceRequirements{Requests: all}}},
		InitContainers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: all}}},
		Overhead:       all,
		Resources:      &corev1.ResourceRequirements{Requests: all},
	}
	pod := &corev1.Pod{Spec: spec}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "a", AllocatedResources: all, Resources: &corev1.ResourceRequirements{Requests: all}}}
	set := &appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{Spec: spec}}}
	node := cluster.NodeFacts{Node: &corev1.Node{Status: corev1.NodeStatus{Capacity: all, Allocatable: all}}, Pods: []*corev1.Pod{pod}}
	claim := cluster.NodeFacts{Claim: &karpv1.NodeClaim{Status: karpv1.NodeClaimStatus{Capacity: all, Allocatable: all}}}
	for name, got := range map[string]resources.Vec{
		"pod": r.Pod(pod, nil).Shape.Requests, "daemon": r.Daemon(set, nil, nil).Shape.Requests,
		"node": r.Node(node).Allocatable, "claim": r.Node(claim).Capacity,
	} {
		lane, _ := r.Table().Lane("x.io/gpu")
		if got.At(resources.CPU) != math.MaxInt64 || got.At(resources.Memory) != math.MaxInt64 || got.At(lane) != math.MaxInt64 || got.At(resources.EphemeralStorage) != 0 {
			t.Errorf("%s has %v, want as much as can be counted", name, got)
		}
	}

	np := &karpv1.NodePool{}
	np.Spec.Limits = corev1.ResourceList{"cpu": huge, "nodes": huge}
	pool := r.Pool(np, nil, corev1.ResourceList{"cpu": resource.MustParse("1")}, 3)
	if want := int64(math.MaxInt64 - 1000); len(pool.Limits) != 1 || pool.Limits[0].Remaining != want {
		t.Errorf("limits are %v, want cpu %d", pool.Limits, want)
	}
	if want := int64(math.MaxInt64 - 3); pool.NodeLimit == nil || *pool.NodeLimit != want {
		t.Errorf("the limit of nodes is %v, want %d", pool.NodeLimit, want)
	}
}
