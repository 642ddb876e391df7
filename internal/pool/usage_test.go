package pool_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/pool"
)

// LC-54, API-9: resources always have the usual names, and equal amounts are no news.
func TestCount(t *testing.T) {
	t.Parallel()
	list := func(values map[corev1.ResourceName]string) corev1.ResourceList {
		out := corev1.ResourceList{}
		for name, v := range values {
			out[name] = resource.MustParse(v)
		}
		return out
	}
	status := func(nodes int64, values map[corev1.ResourceName]string) karpv1.NodePoolStatus {
		return karpv1.NodePoolStatus{Nodes: &nodes, Resources: list(values), NodeClassObservedGeneration: 3}
	}
	for name, tc := range map[string]struct {
		have        karpv1.NodePoolStatus
		usage       corev1.ResourceList
		nodes       int64
		want        karpv1.NodePoolStatus
		wantChanged bool
	}{
		"an empty pool that was never counted": {
			have:        karpv1.NodePoolStatus{NodeClassObservedGeneration: 3},
			want:        status(0, map[corev1.ResourceName]string{"cpu": "0", "memory": "0", "pods": "0", "ephemeral-storage": "0", "nodes": "0"}),
			wantChanged: true,
		},
		"equal amounts in other words": {
			have:  status(2, map[corev1.ResourceName]string{"cpu": "8", "memory": "1Gi", "pods": "0", "ephemeral-storage": "0", "nodes": "2"}),
			usage: list(map[corev1.ResourceName]string{"cpu": "8000m", "memory": "1024Mi"}), nodes: 2,
			want: status(2, map[corev1.ResourceName]string{"cpu": "8000m", "memory": "1024Mi", "pods": "0", "ephemeral-storage": "0", "nodes": "2"}),
		},
		"a kind of resource is gone": {
			have:        status(0, map[corev1.ResourceName]string{"cpu": "0", "memory": "0", "pods": "0", "ephemeral-storage": "0", "nodes": "0", "nvidia.com/gpu": "1"}),
			want:        status(0, map[corev1.ResourceName]string{"cpu": "0", "memory": "0", "pods": "0", "ephemeral-storage": "0", "nodes": "0"}),
			wantChanged: true,
		},
		"a kind of resource took the place of another": {
			have:  status(0, map[corev1.ResourceName]string{"cpu": "0", "memory": "0", "pods": "0", "ephemeral-storage": "0", "nodes": "0", "a.b/c": "1"}),
			usage: list(map[corev1.ResourceName]string{"a.b/d": "1"}), wantChanged: true,
			want: status(0, map[corev1.ResourceName]string{"cpu": "0", "memory": "0", "pods": "0", "ephemeral-storage": "0", "nodes": "0", "a.b/d": "1"}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, changed := pool.Count(tc.have, tc.usage, tc.nodes)
			if changed != tc.wantChanged {
				t.Errorf("changed = %v, want %v", changed, tc.wantChanged)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}
