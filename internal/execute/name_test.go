package execute_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
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

// G11: a decision that is written twice makes one claim. One whose name is taken makes its own.
func TestNameIsTaken(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := karpv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	kube := fake.NewClientBuilder().WithScheme(scheme).Build()
	create := func() *karpv1.NodeClaim {
		store := &memory{pods: map[cluster.PodKey]*corev1.Pod{{Namespace: "default", Name: "w1"}: {}}, pools: []*karpv1.NodePool{pool()}, claimed: make(chan string, 1)}
		claims := &execute.Claims{Client: kube, Store: store, Metrics: metric.New(prometheus.NewRegistry()), Words: awsv1.Vocabulary()}
		got := claims.Create(t.Context(), execute.Batch{
			Nodes: []solve.NewNode{order(t).Node}, Pools: map[string]*karpv1.NodePool{"general": pool()}, Lanes: resources.NewTable(), Reason: execute.Provisioned,
		})
		if got[0].Err != nil {
			t.Fatal(got[0].Err)
		}
		return got[0].Claim
	}
	first := create()
	if again := create(); again.Name != first.Name || again.UID != first.UID {
		t.Errorf("the same decision made %s and %s", first.Name, again.Name)
	}
	first.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("40")}
	if err := kube.Update(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	other := create()
	if other.Name == first.Name {
		t.Errorf("another decision's claim %s was taken for this one's", other.Name)
	}
	if again := create(); again.Name != other.Name {
		t.Errorf("called again it made %s beside %s", again.Name, other.Name)
	}
}
