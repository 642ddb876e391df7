package cluster_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/cluster"
)

// Trust B07: the controller of a pod creates it again; an owner that is not its controller never does.
func TestTrust_B07_BarePods(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		owners []metav1.OwnerReference
		want   bool
	}{
		"it has no owner":                    {want: true},
		"a ReplicaSet":                       {owners: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Controller: new(true)}}},
		"a controller we do not know":        {owners: []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Game", Controller: new(true)}}},
		"an owner for the garbage collector": {owners: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap"}}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", OwnerReferences: tc.owners}}
			if got := cluster.Bare(pod); got != tc.want {
				t.Errorf("bare: %v, want %v", got, tc.want)
			}
		})
	}
}
