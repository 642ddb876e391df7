package execute_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/execute"
	"github.com/dovetail-sh/dovetail/internal/metric"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

func pool() *karpv1.NodePool {
	p := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general", UID: "pool-uid"}}
	p.Spec.Template = karpv1.NodeClaimTemplate{
		ObjectMeta: karpv1.TemplateMeta{Labels: map[string]string{"team": "shop"}, Annotations: map[string]string{"note": "x"}},
		Spec: karpv1.NodeClaimTemplateSpec{
			NodeClassRef: karpv1.NodeClassReference{Group: awsv1.Group, Kind: awsv1.Kind, Name: "default"},
			Taints:       []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}}, ExpireAfter: "720h", TerminationGracePeriod: "1h",
		},
	}
	return p
}

func req(t *testing.T, op corev1.NodeSelectorOperator, values ...string) reqs.Req {
	t.Helper()
	r, err := reqs.New(op, values, 0)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func order(t *testing.T) execute.Order {
	t.Helper()
	lanes := resources.NewTable()
	return execute.Order{
		Pool: pool(), Lanes: lanes, Words: awsv1.Vocabulary(), Seed: "1",
		Node: solve.NewNode{
			Pool: "general", Types: []string{"m5.large", "c5.large"},
			Requests: lanes.Requests(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m")}),
			Pods:     []cluster.PodKey{{Namespace: "default", Name: "w1"}},
			Needs: reqs.Set{
				karpv1.LabelNodePool:           req(t, corev1.NodeSelectorOpIn, "general"),
				karpv1.LabelCapacityType:       req(t, corev1.NodeSelectorOpIn, "spot", "on-demand"),
				corev1.LabelInstanceTypeStable: req(t, corev1.NodeSelectorOpIn, "c5.large", "m5.large", "r5.large").WithMinValues(2),
				"team":                         req(t, corev1.NodeSelectorOpIn, "shop"),
				"tier":                         req(t, corev1.NodeSelectorOpIn, "gold", "silver"),
				"rank":                         req(t, corev1.NodeSelectorOpExists),
				"size":                         req(t, corev1.NodeSelectorOpGt, "7"),
				"not":                          req(t, corev1.NodeSelectorOpNotIn, "x"),
				"absent":                       req(t, corev1.NodeSelectorOpDoesNotExist),
			},
		},
	}
}

// SC-48, decision 0017: the cheapest hundred, or all that were planned if minValues are requested.
func TestClaimNamesTypes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ planned, minValues, want int }{
		"few":                     {planned: 60, want: 60},
		"many":                    {planned: 600, want: 100},
		"many, and minValues too": {planned: 600, minValues: 2, want: 600},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := order(t)
			o.Node.Types = nil
			for n := range tc.planned {
				o.Node.Types = append(o.Node.Types, fmt.Sprintf("t%d.large", n))
			}
			delete(o.Node.Needs, corev1.LabelInstanceTypeStable)
			o.Node.Needs["tier"] = o.Node.Needs["tier"].WithMinValues(tc.minValues)
			claim, err := execute.Claim(o)
			if err != nil {
				t.Fatal(err)
			}
			last := claim.Spec.Requirements[len(claim.Spec.Requirements)-1]
			if diff := cmp.Diff(o.Node.Types[:tc.want], last.Values); last.Key != corev1.LabelInstanceTypeStable || diff != "" {
				t.Errorf("%s: %s", last.Key, diff)
			}
		})
	}
}

// API 10.4: what a claim takes from its pool and from the plan.
func TestClaim(t *testing.T) {
	t.Parallel()
	o := order(t)
	claim, err := execute.Claim(o)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(claim.Name, "general-") || len(claim.Name) != len("general-")+5 {
		t.Errorf("name = %q, want the pool's and five characters", claim.Name)
	}
	rank, size := claim.Labels["rank"], claim.Labels["size"]
	want := map[string]string{
		"team": "shop", "tier": "gold", "rank": rank, "size": size, karpv1.LabelNodePool: "general", "karpenter.k8s.aws/ec2nodeclass": "default",
	}
	if diff := cmp.Diff(want, claim.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if n, integer := reqs.Integer(size); !integer || n <= 7 {
		t.Errorf("size = %q, want a number above 7", size)
	}
	if claim.Annotations["note"] != "x" || claim.Annotations[karpv1.AnnotationNodePoolHash] == "" || claim.Annotations[karpv1.AnnotationNodePoolHashVersion] != "dovetail-1" ||
		claim.Annotations[karpv1.AnnotationMinValuesRelaxed] != "false" {
		t.Errorf("annotations = %v", claim.Annotations)
	}
	if got, want := claim.Annotations[karpv1.AnnotationPods], cluster.HashPods(o.Node.Pods); got == "" || got != want {
		t.Errorf("pods = %q, want %q: who comes later cannot tell what the claim is for (G8)", got, want)
	}
	if len(claim.Finalizers) != 1 || claim.Finalizers[0] != karpv1.FinalizerTermination {
		t.Errorf("finalizers = %v; LC-01 wants ours from the start", claim.Finalizers)
	}
	if len(claim.OwnerReferences) != 1 || claim.OwnerReferences[0].UID != "pool-uid" || claim.OwnerReferences[0].Kind != "NodePool" {
		t.Errorf("owners = %v", claim.OwnerReferences)
	}
	last := claim.Spec.Requirements[len(claim.Spec.Requirements)-1]
	if diff := cmp.Diff(karpv1.Requirement{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"m5.large", "c5.large"}, MinValues: new(2)}, last); diff != "" {
		t.Errorf("instance types, cheapest first (-want +got):\n%s", diff)
	}
	if cpu := claim.Spec.Resources.Requests[corev1.ResourceCPU]; cpu.String() != "1500m" {
		t.Errorf("requests = %v", claim.Spec.Resources.Requests)
	}
	if claim.Spec.ExpireAfter != "720h" || claim.Spec.TerminationGracePeriod != "1h" || len(claim.Spec.Taints) != 1 {
		t.Errorf("spec = %+v", claim.Spec)
	}
}

// G11: the same decision names the same claim, another decision another.
func TestClaimNames(t *testing.T) {
	t.Parallel()
	name := func(change func(*execute.Order)) string {
		o := order(t)
		change(&o)
		claim, err := execute.Claim(o)
		if err != nil {
			t.Fatal(err)
		}
		return claim.Name
	}
	same := name(func(*execute.Order) {})
	if again := name(func(*execute.Order) {}); again != same {
		t.Errorf("the same order gave %s and %s", same, again)
	}
	for what, change := range map[string]func(*execute.Order){
		"another plan": func(o *execute.Order) { o.Seed = "2" },
		"another pod":  func(o *execute.Order) { o.Node.Pods[0].Name = "w2" },
		"another pool": func(o *execute.Order) { o.Pool.UID = "other" },
	} {
		if other := name(change); other == same {
			t.Errorf("%s gave the same name %s", what, same)
		}
	}
	if long := name(func(o *execute.Order) { o.Pool.Name = strings.Repeat("a", 200) }); len(long) > 63 {
		t.Errorf("name %q is too long for a label", long)
	}
}

type memory struct {
	pods      map[cluster.PodKey]*corev1.Pod
	pools     []*karpv1.NodePool
	used      corev1.ResourceList
	requested atomic.Int64  // for usage
	have      atomic.Int64  // claims of each pool
	late      map[int]error // nodes that find no room
	given     atomic.Int64  // how often room was given back
	claimed   chan string
}

func (m *memory) RecordCreatedClaim(claim *karpv1.NodeClaim, _ []cluster.PodKey) {
	m.have.Add(1)
	m.claimed <- claim.Name
}

func (m *memory) NeedsPlace(key cluster.PodKey) bool     { return m.pods[key] != nil }
func (m *memory) RecordListedClaim(*karpv1.NodeClaim)    {}
func (m *memory) RecordAlteredClaim(string)              {}
func (m *memory) UnwatchedClaims() []string              { return nil }
func (m *memory) ConfirmClaim(string, *karpv1.NodeClaim) {}
func (m *memory) Pools() []*karpv1.NodePool              { return m.pools }
func (m *memory) Claims(string) int64                    { return m.have.Load() }
func (m *memory) Reserve([]solve.NewNode, map[string]string, uint64) (map[int]error, func(int)) {
	return m.late, func(int) { m.given.Add(1) }
}

func (m *memory) Usage(string) (corev1.ResourceList, int64) {
	m.requested.Add(1)
	return m.used, 3
}

// SC-51: one that fails does not stop the others; limits are checked again; what no pod needs is dropped.
func TestCreate(t *testing.T) {
	t.Parallel()
	limited := pool()
	limited.Name, limited.Spec.Limits = "limited", corev1.ResourceList{"nodes": resource.MustParse("2")}
	atLimit := pool()
	atLimit.Name, atLimit.Spec.Limits = "at-limit", corev1.ResourceList{"nodes": resource.MustParse("3")}
	denied := pool()
	denied.Name = "denied"
	lowered, deleting, anew := pool(), pool(), pool() // since the plan was made
	lowered.Name, deleting.Name, anew.Name = "lowered", "deleting", "anew"
	loweredNow, deletingNow, anewNow := limited.DeepCopy(), pool(), pool()
	loweredNow.Name, deletingNow.Name, anewNow.Name = "lowered", "deleting", "anew"
	deletingNow.DeletionTimestamp, anewNow.UID = new(metav1.Now()), "another"
	node := func(pool, pod string) solve.NewNode {
		n := order(t).Node
		n.Pool, n.Pods = pool, []cluster.PodKey{{Namespace: "default", Name: pod}}
		return n
	}
	scheme := runtime.NewScheme()
	if err := karpv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	writer := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if strings.HasPrefix(obj.GetName(), "denied-") {
				return apierrors.NewForbidden(karpv1.GroupVersion().WithResource("nodeclaims").GroupResource(), obj.GetName(), errors.New("by admission"))
			}
			return c.Create(ctx, obj, opts...)
		},
	}).Build()
	store := &memory{
		pods: map[cluster.PodKey]*corev1.Pod{{Namespace: "default", Name: "w1"}: {}}, claimed: make(chan string, 10),
		pools: []*karpv1.NodePool{pool(), limited, atLimit, denied, loweredNow, deletingNow, anewNow},
	}
	metrics := metric.New(prometheus.NewRegistry())
	claims := &execute.Claims{Client: writer, Store: store, Metrics: metrics, Words: awsv1.Vocabulary()}
	got := claims.Create(t.Context(), execute.Batch{
		Nodes: []solve.NewNode{
			node("general", "w1"), node("gone", "w1"), node("limited", "w1"), node("at-limit", "w1"), node("denied", "w1"), node("general", "obsolete"),
			node("lowered", "w1"), node("deleting", "w1"), node("anew", "w1"), node("limited", "w1"),
		},
		Pools: map[string]*karpv1.NodePool{
			"general": pool(), "limited": limited, "at-limit": atLimit, "denied": denied, "lowered": lowered, "deleting": deleting, "anew": anew,
		},
		Lanes:   resources.NewTable(),
		Reason:  execute.Provisioned,
		Version: 7,
	})
	for i, want := range []string{
		"", "nodepool gone does not exist", "limit 2 of nodes is exceeded", "", "by admission", execute.ErrObsolete.Error(),
		"limit 2 of nodes is exceeded", "nodepool deleting does not exist", "nodepool anew does not exist", "limit 2 of nodes is exceeded",
	} {
		switch {
		case want == "" && (got[i].Err != nil || got[i].Claim == nil):
			t.Errorf("%s: %v, want a claim", got[i].Node.Pool, got[i].Err)
		case want != "" && (got[i].Err == nil || !strings.Contains(got[i].Err.Error(), want)):
			t.Errorf("%s: %v, want %q", got[i].Node.Pool, got[i].Err, want)
		}
	}
	for i := range got {
		if denied := got[i].Node.Pool == "denied"; got[i].Denied() != denied || len(got[i].Altered) > 0 {
			t.Errorf("%s: denied %v, altered %v", got[i].Node.Pool, got[i].Denied(), got[i].Altered)
		}
	}
	if n := len(store.claimed); n != 2 {
		t.Errorf("%d claims in memory, want 2", n)
	}
	if n := store.requested.Load(); n != 3 {
		t.Errorf("usage was added up %d times, want once for each pool with limits", n)
	}
	if n := testutil.ToFloat64(metrics.NodeClaimsCreated.WithLabelValues("provisioned", "general", "false")); n != 1 {
		t.Errorf("created = %v, want 1", n)
	}
}

// Of several limits that are exceeded always the same is named.
func TestFirstExceededLimitIsNamed(t *testing.T) {
	t.Parallel()
	limited := pool()
	limited.Spec.Limits = corev1.ResourceList{
		"nodes": resource.MustParse("2"), "memory": resource.MustParse("1Gi"), "cpu": resource.MustParse("1"), "example.com/device": resource.MustParse("1"),
	}
	store := &memory{pools: []*karpv1.NodePool{limited}, used: corev1.ResourceList{
		"memory": resource.MustParse("2Gi"), "cpu": resource.MustParse("2"), "example.com/device": resource.MustParse("2"),
	}}
	claims := &execute.Claims{Store: store}
	for range 50 {
		got := claims.Create(t.Context(), execute.Batch{Nodes: []solve.NewNode{order(t).Node}, Pools: map[string]*karpv1.NodePool{limited.Name: limited}, Lanes: resources.NewTable()})
		if want := "nodepool general: limit 1 of cpu is exceeded, 2 are in use"; got[0].Err == nil || got[0].Err.Error() != want {
			t.Fatalf("%v, want %s", got[0].Err, want)
		}
	}
}

// Launches wait while a batch is written, but not forever.
func TestWritten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		scheme := runtime.NewScheme()
		if err := karpv1.AddToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		takes := 3 * time.Second
		writer := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
			Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
				time.Sleep(takes)
				return nil
			},
		}).Build()
		store := &memory{pods: map[cluster.PodKey]*corev1.Pod{{Namespace: "default", Name: "w1"}: {}}, pools: []*karpv1.NodePool{pool()}, claimed: make(chan string, 10)}
		claims := &execute.Claims{Client: writer, Store: store, Metrics: metric.New(prometheus.NewRegistry()), Words: awsv1.Vocabulary()}
		waited := func() time.Duration {
			start := time.Now()
			claims.Written(t.Context())
			return time.Since(start)
		}
		if got := waited(); got != 0 {
			t.Errorf("waited %v although nothing was written yet", got)
		}
		for _, want := range []time.Duration{3 * time.Second, 10 * time.Second} {
			go claims.Create(t.Context(), execute.Batch{Nodes: []solve.NewNode{order(t).Node}, Pools: map[string]*karpv1.NodePool{"general": pool()}, Lanes: resources.NewTable(), Reason: execute.Provisioned})
			synctest.Wait()
			if got := waited(); got != want {
				t.Errorf("waited %v, want %v", got, want)
			}
			takes = time.Minute
		}
		time.Sleep(time.Hour)
		if got := waited(); got != 0 {
			t.Errorf("waited %v although the batch was written", got)
		}
	})
}
