package cluster_test

import (
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// read parses one object.
func read[T any](tb testing.TB, text string) *T {
	tb.Helper()
	out := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), out); err != nil {
		tb.Fatalf("%v in:\n%s", err, text)
	}
	return out
}

// podYAML is a pod in namespace ns with the given spec.
func podYAML(tb testing.TB, spec string) *corev1.Pod {
	tb.Helper()
	p := read[corev1.Pod](tb, "metadata: {name: web-1, namespace: ns, labels: {app: web}}")
	p.Spec = *read[corev1.PodSpec](tb, spec)
	return p
}

var words = sync.OnceValue(awsv1.Vocabulary)

func newReader(opts cluster.ReaderOptions) *cluster.Reader {
	return cluster.NewReader(words(), opts)
}

// shapeOf reads the shape of a pod with the given spec.
func shapeOf(t *testing.T, spec string) *cluster.Shape {
	t.Helper()
	return newReader(cluster.ReaderOptions{}).Pod(podYAML(t, spec), nil).Shape
}

func diff(t *testing.T, what string, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// sets renders alternatives for comparison.
func sets(list []reqs.Set) []string {
	var out []string
	for _, s := range list {
		out = append(out, s.String())
	}
	return out
}

// codes lists the reasons a shape is not planned for.
func codes(s *cluster.Shape) []string {
	var out []string
	for _, r := range s.Invalid {
		out = append(out, string(r.Code)+" "+r.Subject)
	}
	return out
}
