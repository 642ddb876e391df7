package execute_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/execute"
	"github.com/dovetail-sh/dovetail/internal/metric"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Names have five characters, so that of some thousand nodes two get the same one. What shows whether a claim
// was written before is what it was ordered for, not its name (G11).
func TestTrust_A11_NodesWhoseNamesCollideGetAClaimEach(t *testing.T) {
	t.Parallel()
	one, two := podsWithOneName(t)
	node := func(pod cluster.PodKey) solve.NewNode {
		n := order(t).Node
		n.Pods = []cluster.PodKey{pod}
		return n
	}
	replacements := make([]solve.NewNode, replacementsOfOneName)
	for i := range replacements {
		replacements[i] = solve.NewNode{Pool: "general"}
	}
	for name, batch := range map[string]execute.Batch{
		"for pods":         {Nodes: []solve.NewNode{node(one), node(two)}, Reason: execute.Provisioned},
		"for none: number": {Nodes: replacements, Reason: "drifted", Command: commandOfOneName, Marks: map[string]string{karpv1.AnnotationReplaces: "old"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scheme := runtime.NewScheme()
			if err := karpv1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			kube := fake.NewClientBuilder().WithScheme(scheme).Build()
			claims := &execute.Claims{
				Client: kube, Metrics: metric.New(prometheus.NewRegistry()), Words: awsv1.Vocabulary(),
				Store: &memory{pods: map[cluster.PodKey]*corev1.Pod{one: {}, two: {}}, pools: []*karpv1.NodePool{pool()}, claimed: make(chan string, 1000)},
			}
			batch.Pools, batch.Lanes = map[string]*karpv1.NodePool{"general": pool()}, resources.NewTable()
			for range 2 { // the second time as if every response of the first had been lost
				for _, made := range claims.Create(t.Context(), batch) {
					if made.Err != nil {
						t.Fatal(made.Err)
					}
				}
				list := &karpv1.NodeClaimList{}
				if err := kube.List(t.Context(), list, &client.ListOptions{}); err != nil {
					t.Fatal(err)
				}
				if len(list.Items) != len(batch.Nodes) {
					t.Fatalf("%d claims for %d nodes", len(list.Items), len(batch.Nodes))
				}
			}
		})
	}
}

// A command two of whose replacements get the same name, and how many it has.
const (
	commandOfOneName      = "command-2590"
	replacementsOfOneName = 200
)

// podsWithOneName returns two pods whose nodes get the same name.
func podsWithOneName(t *testing.T) (one, two cluster.PodKey) {
	t.Helper()
	one, two = cluster.PodKey{Namespace: "default", Name: "w5295"}, cluster.PodKey{Namespace: "default", Name: "w28350"}
	o, names := order(t), map[string]bool{}
	o.Seed = string(make([]byte, 8)) // of a batch of version 0
	for _, pod := range []cluster.PodKey{one, two} {
		o.Node.Pods = []cluster.PodKey{pod}
		claim, err := execute.Claim(o)
		if err != nil {
			t.Fatal(err)
		}
		names[claim.Name] = true
	}
	if len(names) != 1 {
		t.Fatalf("the names differ now, choose other pods: %v", names)
	}
	return one, two
}
