package disruption_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/controller/controllertest"
	"github.com/dovetail-sh/dovetail/internal/controller/disruption"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/metric"
	"github.com/dovetail-sh/dovetail/internal/store"
)

// seen is a store with a given view, and the marks that were set since.
type seen struct {
	mu        sync.Mutex
	view      cluster.DisruptionView
	marks     map[string]bool
	held      map[string]bool
	planned   map[cluster.PodKey]string
	expected  map[string]bool // nodes that were nominated
	nominated string          // since the first view was cut
	cuts      int
	late      bool // not complete yet
	changes   uint64
	pools     []*karpv1.NodePool
}

func (s *seen) Synced() bool                   { return !s.late }
func (s *seen) Changes() uint64                { return s.changes }
func (s *seen) Pools() []*karpv1.NodePool      { return s.pools }
func (s *seen) Pod(cluster.PodKey) *corev1.Pod { return nil }

func (s *seen) SetRemoving(node string, going bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.marks[node] = going
}

func (s *seen) SetCommanded(node string, held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[node] = held
}

func (s *seen) UnreplicatedLeaderNode() string { return "" }

func (s *seen) Nominate(node string, _ time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expected[node] = true
}

func (s *seen) Replace(nodes []string, claims map[cluster.PodKey]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range nodes {
		s.marks[n] = true
	}
	maps.Copy(s.planned, claims)
}

func (s *seen) Disruption(map[string][]catalog.InstanceType) cluster.DisruptionView {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cuts++
	v := s.view
	v.Nodes = slices.Clone(v.Nodes)
	for i := range v.Nodes {
		n := &v.Nodes[i]
		n.BeingRemoved, n.Commanded = n.BeingRemoved || s.marks[n.Name], n.Commanded || s.held[n.Name]
		n.Nominated = n.Nominated || s.cuts > 1 && s.nominated == n.Name
	}
	return v
}

func (s *seen) Inspect(types map[string][]catalog.InstanceType) (cluster.DisruptionView, store.View) {
	return s.Disruption(types), store.View{}
}

// emptying is a cluster of empty nodes that may all go.
func emptying(t *testing.T, calls interceptor.Funcs, names ...string) (*disruption.Disruption, *seen, client.Client) {
	t.Helper()
	scheme := controllertest.Scheme(t)
	memory := &seen{marks: map[string]bool{}, held: map[string]bool{}, planned: map[cluster.PodKey]string{}, expected: map[string]bool{}, view: cluster.DisruptionView{Now: time.Now(), Pools: map[string]cluster.ManagedPool{
		"general": {Pool: cluster.Pool{Name: "general", Types: make([]catalog.InstanceType, 1)}, Budgets: []cluster.Budget{{Nodes: "100%"}}},
	}}}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(calls).WithStatusSubresource(&karpv1.NodeClaim{}).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} })
	for _, name := range names {
		memory.view.Nodes = append(memory.view.Nodes, cluster.ManagedNode{
			Node: cluster.Node{Name: name, Claim: "claim-" + name, Pool: "general", Initialized: true}, Ready: true,
		})
		builder.WithObjects(
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}},
			&karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "claim-" + name, UID: types.UID(name), Finalizers: []string{karpv1.FinalizerTermination}}},
		)
	}
	c := builder.Build()
	return &disruption.Disruption{
		Client: c, Reader: c, Store: memory, Cloud: &controllertest.Catalogue{}, Events: &controllertest.Transcript{}, Metrics: metric.New(prometheus.NewRegistry()), Pulse: controllertest.Pulse{}, Now: time.Now, Decide: disrupt.Next,
	}, memory, c
}

// held lists the nodes that carry the taint although their claim is not being deleted.
func heldNodes(t *testing.T, c client.Client) []string {
	t.Helper()
	var out []string
	nodes := &corev1.NodeList{}
	if err := c.List(t.Context(), nodes); err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes.Items {
		claim := &karpv1.NodeClaim{}
		if err := c.Get(t.Context(), client.ObjectKey{Name: "claim-" + n.Name}, claim); err != nil {
			t.Fatal(err)
		}
		tainted := slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == karpv1.TaintKeyDisrupted })
		if tainted && claim.DeletionTimestamp == nil {
			out = append(out, n.Name)
		}
	}
	return out
}

// S-037, S-051: an empty node gets its taint, NoSchedule, and then its claim is deleted, in one pass and
// without a wait in between. It is not cordoned: the taint does that, and says who did it.
func TestS_037_S_051_TaintedThenDeletedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var tainted bool
		d, _, c := emptying(t, interceptor.Funcs{
			Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
				node := &corev1.Node{}
				if err := c.Get(ctx, client.ObjectKey{Name: "a"}, node); err != nil {
					return err
				}
				tainted = slices.Contains(node.Spec.Taints, karpv1.DisruptedTaint()) && node.Spec.Taints[0].Effect == corev1.TaintEffectNoSchedule
				return c.Delete(ctx, obj, opts...)
			},
		}, "a")
		began := time.Now()
		if err := d.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 290*time.Millisecond { // the time that users saw in a log
			t.Errorf("waited %s on the way", took)
		}
		if deleted := deletedClaims(t, c); !slices.Equal(deleted, []string{"claim-a"}) || !tainted {
			t.Errorf("claims %v are deleted, tainted before: %v", deleted, tainted)
		}
	})
}

// G7: a command that fails half way leaves no held node behind that no command removes.
func TestFM_G7_FailedCommandsLetGo(t *testing.T) {
	t.Parallel()
	broken := true
	d, memory, c := emptying(t, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, pods := list.(*corev1.PodList); pods && broken {
				return errors.New("the API server is away")
			}
			return c.List(ctx, list, opts...)
		},
	}, "a", "b", "c")
	if err := d.Pass(t.Context()); err == nil {
		t.Error("the pass says nothing of what failed")
	}
	for _, node := range slices.Sorted(maps.Keys(memory.marks)) {
		if memory.marks[node] {
			t.Errorf("node %s counts as going although nothing removes it", node)
		}
	}
	memory.view.Pools = nil // nothing may go now
	if err := d.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	if held := heldNodes(t, c); len(held) > 0 {
		t.Errorf("nodes %v are still held one pass later", held)
	}
}

// G9: a node that cannot be released, here because others keep writing it, keeps no other node held.
func TestFM_G9_OneNodeDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	d, memory, c := emptying(t, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if obj.GetName() == "a" {
				return errors.New("no")
			}
			return c.Patch(ctx, obj, patch, opts...)
		},
	}, "a", "b", "c")
	for _, name := range []string{"a", "b", "c"} {
		node := &corev1.Node{}
		if err := c.Get(t.Context(), client.ObjectKey{Name: name}, node); err != nil {
			t.Fatal(err)
		}
		node.Spec.Taints = []corev1.Taint{karpv1.DisruptedTaint()}
		if err := c.Update(t.Context(), node); err != nil {
			t.Fatal(err)
		}
	}
	memory.view.Pools = nil
	if err := d.Pass(t.Context()); err == nil {
		t.Error("the pass says nothing of what failed")
	}
	if held := heldNodes(t, c); !slices.Equal(held, []string{"a"}) {
		t.Errorf("nodes %v are held, want a alone", held)
	}
}

// Disruption 10: pods that cost less than nothing do not keep a node, neither in the decision nor when
// it is looked at again; else the node would be held and released for ever (G12).
func TestPodsThatCostNothingDoNotKeepANode(t *testing.T) {
	t.Parallel()
	d, _, c := emptying(t, interceptor.Funcs{}, "a")
	pod := controllertest.PendingPod("cheap", "100m")
	pod.Spec.NodeName = "a"
	pod.Annotations = map[string]string{corev1.PodDeletionCost: "-2147483648"}
	if err := c.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if err := d.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	claim := &karpv1.NodeClaim{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "claim-a"}, claim); err != nil {
		t.Fatal(err)
	}
	if claim.DeletionTimestamp == nil {
		t.Error("the node stays although its only pod costs nothing")
	}
}

// Disruption 16: a node that was chosen for a pending pod after the decision stays.
func TestNodesNominatedMeanwhileStay(t *testing.T) {
	t.Parallel()
	d, memory, c := emptying(t, interceptor.Funcs{}, "a", "b")
	memory.nominated = "a"
	if err := d.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, goes := range map[string]bool{"a": false, "b": true} {
		claim := &karpv1.NodeClaim{}
		if err := c.Get(t.Context(), client.ObjectKey{Name: "claim-" + name}, claim); err != nil {
			t.Fatal(err)
		}
		if gone := claim.DeletionTimestamp != nil; gone != goes {
			t.Errorf("claim of %s is deleted: %v, want %v", name, gone, goes)
		}
	}
	if held := heldNodes(t, c); len(held) > 0 || memory.marks["a"] {
		t.Errorf("nodes %v are held although they stay", held)
	}
}

// FM D01: a pod that was bound after the decision keeps its node, although the cache does not show it yet
// (FM D03). It is not evicted, and the node is released.
func TestFM_D01_PodsThatSlippedInKeepTheirNode(t *testing.T) {
	t.Parallel()
	d, memory, c := emptying(t, interceptor.Funcs{}, "a", "b")
	pod := controllertest.PendingPod("late", "100m")
	pod.Spec.NodeName = "a"
	if err := c.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if err := d.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	if deleted := deletedClaims(t, c); !slices.Equal(deleted, []string{"claim-b"}) {
		t.Errorf("claims %v are deleted, want that of the empty node alone", deleted)
	}
	if held := heldNodes(t, c); len(held) > 0 || memory.marks["a"] {
		t.Errorf("nodes %v are held although they stay", held)
	}
}

// FM H10: a node is interrupted in the middle of the command that removes it. Its claim is deleted once,
// the taint stays since the node goes, and the rest of the command is carried out.
func TestFM_H10_InterruptedInTheMiddleOfACommand(t *testing.T) {
	t.Parallel()
	var deletes []string
	d, _, c := emptying(t, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, pods := list.(*corev1.PodList); pods { // the command looks at its nodes again: now the message comes
				claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "claim-a"}}
				if err := c.Get(ctx, client.ObjectKeyFromObject(claim), claim); err == nil && claim.DeletionTimestamp == nil {
					if err := c.Delete(ctx, claim); err != nil {
						return err
					}
				}
			}
			return c.List(ctx, list, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			deletes = append(deletes, obj.GetName())
			return c.Delete(ctx, obj, opts...)
		},
	}, "a", "b")
	for range 2 {
		if err := d.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if deleted := deletedClaims(t, c); !slices.Equal(deleted, []string{"claim-a", "claim-b"}) {
		t.Errorf("claims %v are deleted, want both", deleted)
	}
	if slices.Sort(deletes); len(slices.Compact(slices.Clone(deletes))) != len(deletes) {
		t.Errorf("deleted %v, some more than once", deletes)
	}
}

// operations 8.4, 8.5, FM K17, FM N03: what pools cost and may lose, and nothing about pools that are gone.
func TestPoolGauges(t *testing.T) {
	t.Parallel()
	d, memory, _ := emptying(t, interceptor.Funcs{}, "a", "b")
	memory.view.Nodes[0].Price, memory.view.Nodes[1].Price = 0.25, -1 // FM K17: what is below zero is no price
	for i := range memory.view.Nodes {
		memory.view.Nodes[i].Settling = true
	}
	for range 2 {
		if err := d.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if cost := testutil.ToFloat64(d.Metrics.PoolsCost.WithLabelValues("general")); cost != 0.25 {
		t.Errorf("the pool costs %v, want 0.25", cost)
	}
	if n := testutil.ToFloat64(d.Metrics.PoolsCostErrors.WithLabelValues("general")); n != 1 {
		t.Errorf("%v nodes without a price were counted, want 1", n)
	}
	if n := testutil.ToFloat64(d.Metrics.PoolsAllowedDisruptions.WithLabelValues("general", "empty")); n != 2 {
		t.Errorf("%v nodes may go, want 2", n)
	}
	memory.view.Pools, memory.view.Nodes = nil, nil
	if err := d.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, gauge := range map[string]*prometheus.GaugeVec{"cost": d.Metrics.PoolsCost, "allowed": d.Metrics.PoolsAllowedDisruptions, "busy": d.Metrics.PoolsNodesConsumingBudgets} {
		if n := testutil.CollectAndCount(gauge); n != 0 {
			t.Errorf("%s: %d series of a pool that is gone", name, n)
		}
	}
}

// deletedClaims are the names of the claims that are being deleted.
func deletedClaims(t *testing.T, c client.Client) []string {
	t.Helper()
	var out []string
	claims := &karpv1.NodeClaimList{}
	if err := c.List(t.Context(), claims); err != nil {
		t.Fatal(err)
	}
	for _, claim := range claims.Items {
		if claim.DeletionTimestamp != nil {
			out = append(out, claim.Name)
		}
	}
	return out
}
