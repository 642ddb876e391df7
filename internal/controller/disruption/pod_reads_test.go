package disruption_test

import (
	"context"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// rereads is an API server that keeps how pods were listed.
type rereads struct {
	client.Reader

	version string // of its pods

	mu     sync.Mutex
	newest int               // lists of the newest state
	nodes  map[string]string // match and version of lists by node
}

func (r *rereads) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if err := r.Reader.List(ctx, list, opts...); err != nil {
		return err
	}
	if _, pods := list.(*corev1.PodList); !pods {
		return nil
	}
	var o client.ListOptions
	raw := metav1.ListOptions{}
	if o.ApplyOptions(opts); o.Raw != nil {
		raw = *o.Raw
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	list.SetResourceVersion(r.version)
	if o.FieldSelector == nil && o.Limit == 1 && raw.ResourceVersion == "" {
		r.newest++
		return nil
	}
	node, _ := o.FieldSelector.RequiresExactMatch("spec.nodeName")
	r.nodes[node] = string(raw.ResourceVersionMatch) + " " + raw.ResourceVersion
	return nil
}

// Before nodes are removed their pods are read again. One small read says how new the responses must be; the rest is served
// from the watch cache of the API server. Each read of the newest state of a node would be a scan of all pods in etcd.
func TestTrust_C08_PodsAreReadAgainFromTheWatchCache(t *testing.T) {
	t.Parallel()
	s := newFixture(t, interceptor.Funcs{})
	reader := &rereads{Reader: s.client, version: "4711", nodes: map[string]string{}}
	s.Reader = reader
	s.node("a")
	s.node("b")
	s.remove(karpv1.ReasonEmpty, "", "a", "b")
	s.mustPass()
	want := map[string]string{"a": "NotOlderThan 4711", "b": "NotOlderThan 4711"}
	if diff := cmp.Diff(want, reader.nodes); diff != "" {
		t.Errorf("how the pods of nodes were read (-want +got):\n%s", diff)
	}
	if reader.newest != 1 {
		t.Errorf("requested the newest version %d times, want once for all nodes", reader.newest)
	}
	if _, gone := s.claims(); len(gone) != 2 {
		t.Errorf("claims %v are deleted, want both", gone)
	}
}
