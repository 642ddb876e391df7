package cluster

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// LC-62, disruption 7: what protects a pod, and by which name.
func TestLC62_PodProtectedBy(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		annotations map[string]string
		started     time.Duration // ago; 0: not
		want        string
	}{
		"nothing":                          {},
		"for ever":                         {annotations: map[string]string{karpv1.AnnotationDoNotDisrupt: "true"}, want: karpv1.AnnotationDoNotDisrupt},
		"as long as it lasts":              {annotations: map[string]string{karpv1.AnnotationDoNotDisrupt: "30m"}, started: 29 * time.Minute, want: karpv1.AnnotationDoNotDisrupt},
		"no longer":                        {annotations: map[string]string{karpv1.AnnotationDoNotDisrupt: "30m"}, started: 30 * time.Minute},
		"before it starts":                 {annotations: map[string]string{karpv1.AnnotationDoNotDisrupt: "30m"}, want: karpv1.AnnotationDoNotDisrupt},
		"a value without meaning":          {annotations: map[string]string{karpv1.AnnotationDoNotDisrupt: "-5m"}},
		"the deprecated pod annotation":    {annotations: map[string]string{karpv1.AnnotationDoNotEvict: "true"}, want: karpv1.AnnotationDoNotEvict},
		"deprecated, no duration":          {annotations: map[string]string{karpv1.AnnotationDoNotEvict: "30m"}, started: time.Minute},
		"deprecated after the current one": {annotations: map[string]string{karpv1.AnnotationDoNotDisrupt: "30m", karpv1.AnnotationDoNotEvict: "true"}, started: time.Hour, want: karpv1.AnnotationDoNotEvict},
		"the deprecated node annotation":   {annotations: map[string]string{karpv1.AnnotationDoNotConsolidate: "true"}, want: karpv1.AnnotationDoNotConsolidate},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: tc.annotations}}
			if tc.started > 0 {
				p.Status.StartTime = new(metav1.NewTime(now.Add(-tc.started)))
			}
			if got := PodProtectedBy(p, now); got != tc.want || DoNotDisrupt(p, now) != (tc.want != "") {
				t.Errorf("protected by %q, want %q", got, tc.want)
			}
			if NewGuards(now, nil).Evictable(p) != (tc.want == "") {
				t.Error("planning does not see it so")
			}
		})
	}
}

// L-15, LC-62: what protects a node, and how that is said.
func TestL15_NodeProtectedBy(t *testing.T) {
	t.Parallel()
	node := func(annotations map[string]string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: annotations}}
	}
	pool := func(annotations map[string]string) *karpv1.NodePool {
		return &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: annotations}}
	}
	today, old := map[string]string{karpv1.AnnotationDoNotDisrupt: "true"}, map[string]string{karpv1.AnnotationDoNotConsolidate: "true"}
	for name, tc := range map[string]struct {
		node *corev1.Node
		pool *karpv1.NodePool
		want string
	}{
		"neither is known":           {},
		"neither forbids it":         {node: node(nil), pool: pool(nil)},
		"the node":                   {node: node(today), pool: pool(nil), want: "node n carries annotation karpenter.sh/do-not-disrupt"},
		"the node, deprecated":       {node: node(old), want: "node n carries annotation karpenter.sh/do-not-consolidate"},
		"the pool":                   {node: node(nil), pool: pool(today), want: "NodePool p carries annotation karpenter.sh/do-not-disrupt"},
		"the pool, without its node": {pool: pool(old), want: "NodePool p carries annotation karpenter.sh/do-not-consolidate"},
		"both: the node is named":    {node: node(old), pool: pool(today), want: "node n carries annotation karpenter.sh/do-not-consolidate"},
		"a duration is for pods":     {node: node(map[string]string{karpv1.AnnotationDoNotDisrupt: "30m"})},
	} {
		if got := NodeProtectedBy(tc.node, tc.pool); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
