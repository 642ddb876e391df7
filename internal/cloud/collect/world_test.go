package collect

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/directory"
)

var start = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// nameOf reads provider ids such as sky:///a/i-1.
func nameOf(providerID string) string {
	name, found := strings.CutPrefix(providerID, "sky:///a/")
	if !found {
		return ""
	}
	return name
}

// world is a cloud in memory beside an API server.
type world struct {
	kube      client.Client
	listError error

	mu        sync.Mutex
	instances map[string]cloud.Instance // by name
	endError  map[string]error
	ended     []string
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, karpv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&karpv1.NodeClaim{})
	if err := directory.Index(t.Context(), indexer{builder}, nameOf); err != nil {
		t.Fatal(err)
	}
	return &world{kube: builder.Build(), instances: map[string]cloud.Instance{}, endError: map[string]error{}}
}

// indexer has a client keep the indexes of a cache.
type indexer struct{ *fake.ClientBuilder }

func (i indexer) IndexField(_ context.Context, obj client.Object, field string, values client.IndexerFunc) error {
	i.WithIndex(obj, field, values)
	return nil
}

func (w *world) List(context.Context) ([]cloud.Instance, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []cloud.Instance
	for _, name := range slices.Sorted(maps.Keys(w.instances)) {
		out = append(out, w.instances[name])
	}
	return out, w.listError
}

func (w *world) Terminate(_ context.Context, id cloud.ID) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = append(w.ended, nameOf(string(id)))
	slices.Sort(w.ended)
	return w.endError[nameOf(string(id))]
}

func newClaim(name string, created time.Time, change ...func(*karpv1.NodeClaim)) *karpv1.NodeClaim {
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(created), Labels: map[string]string{karpv1.LabelNodePool: "default"},
	}}
	claim.Spec.NodeClassRef.Name = "default"
	for _, c := range change {
		c(claim)
	}
	return claim
}

func withInstance(name string) func(*karpv1.NodeClaim) {
	return func(c *karpv1.NodeClaim) { c.Status.ProviderID = "sky:///a/" + name }
}

func newInstance(name string, launched time.Time, change ...func(*cloud.Instance)) cloud.Instance {
	i := cloud.Instance{ID: cloud.ID("sky:///a/" + name), Type: "small", Zone: "a", Launched: launched, Pool: "default", Class: "default"}
	for _, c := range change {
		c(&i)
	}
	return i
}
