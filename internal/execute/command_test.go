package execute_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/execute"
	"github.com/dovetail-sh/dovetail/internal/metric"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Replacements say which command they are for. Those for no pod in particular are different claims, in
// one command and in several; the same command again gives the same ones.
func TestReplacementsOfCommands(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := karpv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	claims := &execute.Claims{
		Client: fake.NewClientBuilder().WithScheme(scheme).Build(), Metrics: metric.New(prometheus.NewRegistry()), Words: awsv1.Vocabulary(),
		Store: &memory{pods: map[cluster.PodKey]*corev1.Pod{}, pools: []*karpv1.NodePool{pool()}, claimed: make(chan string, 100)},
	}
	seen := map[string]bool{}
	for _, command := range []string{"one", "two", "one"} {
		for _, made := range claims.Create(t.Context(), execute.Batch{
			Nodes: []solve.NewNode{{Pool: "general"}, {Pool: "general"}}, Pools: map[string]*karpv1.NodePool{"general": pool()}, Lanes: resources.NewTable(),
			Reason: "drifted", Command: command, Marks: map[string]string{karpv1.AnnotationReplaces: "old"},
		}) {
			if made.Err != nil || made.Claim.Annotations[karpv1.AnnotationReplaces] != "old" {
				t.Fatalf("created %+v", made)
			}
			seen[made.Claim.Name] = true
		}
	}
	if len(seen) != 4 {
		t.Errorf("%d claims for two commands with two replacements each, one of them written twice", len(seen))
	}
}
