package collect

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/adopt"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

func newCollector(w *world, claims client.Reader) *Collector {
	now := start
	ledger := adopt.NewLedger(func() time.Time { return now })
	ledger.Started()
	now = start.Add(time.Hour)
	return &Collector{
		Cloud: w, Claims: claims, Client: w.kube, Ledger: ledger, Name: nameOf,
		Synced: func() bool { return true }, Metrics: metric.New(prometheus.NewRegistry()), Now: func() time.Time { return now },
	}
}

func newNode(name, id string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: "sky:///a/" + id}}
}

// panicky is a stock that cannot end one instance without a panic.
type panicky struct {
	provider

	id cloud.ID
}

func (p panicky) Terminate(ctx context.Context, id cloud.ID) error {
	if id == p.id {
		panic("odd instance")
	}
	return p.provider.Terminate(ctx, id)
}

// G9: one odd instance keeps no other from being collected, and its panic is counted.
func TestG9_APanicOverOneInstanceIsCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, id := range []string{"i-1", "i-2"} {
		w.instances[id] = newInstance(id, start)
	}
	c := newCollector(w, w.kube)
	c.Cloud = panicky{provider: w, id: "sky:///a/i-1"}
	if _, err := c.Collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"i-2"}, w.ended); diff != "" {
		t.Error(diff)
	}
	if n := testutil.ToFloat64(c.Metrics.Panics.WithLabelValues("instance.garbagecollection")); n != 1 {
		t.Errorf("%g panics counted, want 1", n)
	}
}

// E06: a claim was deleted by force. Instance and Node go.
func TestFM_E06_InstanceAndNodeAreCollected(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newNode("orphan", "i-1"), newNode("used", "i-2"), newClaim("a", start, withInstance("i-2")))
	for _, id := range []string{"i-1", "i-2"} {
		w.instances[id] = newInstance(id, start)
	}
	c := newCollector(w, w.kube)
	var pauses []time.Duration
	for range 25 {
		next, err := c.Collect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		pauses = append(pauses, next)
	}
	if w.ended[0] != "i-1" || slices.Contains(w.ended, "i-2") {
		t.Errorf("ended %v", w.ended)
	}
	if err := w.kube.Get(t.Context(), client.ObjectKey{Name: "orphan"}, &corev1.Node{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Node is still there: %v", err)
	}
	if err := w.kube.Get(t.Context(), client.ObjectKey{Name: "used"}, &corev1.Node{}); err != nil {
		t.Error(err)
	}
	if pauses[18] != 10*time.Second || pauses[19] != 2*time.Minute || pauses[24] != 2*time.Minute {
		t.Errorf("pauses %v", pauses)
	}
}

func TestANodeIsKeptUntilItsInstanceGoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newNode("orphan", "i-1"))
	w.instances["i-1"] = newInstance("i-1", start)
	w.endError["i-1"] = &cloud.Error{Kind: cloud.Throttled}
	if _, err := newCollector(w, w.kube).Collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.kube.Get(t.Context(), client.ObjectKey{Name: "orphan"}, &corev1.Node{}); err != nil {
		t.Error("the Node went before its instance:", err)
	}
}

// pages responds with claims page by page; one page may fail.
type pages struct {
	client.Reader
	list [][]karpv1.NodeClaim
	fail int // from this page on; 0: never
}

func (p *pages) List(_ context.Context, out client.ObjectList, opts ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(opts)
	n, _ := strconv.Atoi(o.Continue) // the first page has no token
	if p.fail > 0 && n+1 >= p.fail {
		return errors.New("no API server")
	}
	claims := out.(*karpv1.NodeClaimList)
	claims.Items = p.list[n]
	if n+1 < len(p.list) {
		claims.Continue = strconv.Itoa(n + 1)
	}
	return nil
}

func TestFM_D06_D07_WithoutACompleteListNothingEnds(t *testing.T) {
	t.Parallel()
	two := [][]karpv1.NodeClaim{{*newClaim("a", start, withInstance("i-1"))}, {*newClaim("b", start, withInstance("i-2"))}}
	for name, tc := range map[string]struct {
		claims    *pages
		instances error
		unsynced  bool
		ended     []string
		fails     bool
	}{
		"all is well, over two pages":         {claims: &pages{list: two}, ended: []string{"i-3"}},
		"D06 the API server does not respond": {claims: &pages{list: two, fail: 1}, fails: true},
		"D07 it breaks off after a page":      {claims: &pages{list: two, fail: 2}, fails: true},
		"the cloud does not respond":          {claims: &pages{list: two}, instances: &cloud.Error{Kind: cloud.Throttled}, fails: true},
		"LC-61 memory is not complete yet":    {claims: &pages{list: two}, unsynced: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			for _, id := range []string{"i-1", "i-2", "i-3"} {
				w.instances[id] = newInstance(id, start)
			}
			w.listError = tc.instances
			c := newCollector(w, tc.claims)
			c.Synced = func() bool { return !tc.unsynced }
			if _, err := c.Collect(t.Context()); (err != nil) != tc.fails {
				t.Error(err)
			}
			if diff := cmp.Diff(tc.ended, w.ended); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A thousand claims are not read from the API server while each instance has one in the cache.
func TestClaimsAreReadWhenAnInstanceIsInDoubt(t *testing.T) {
	t.Parallel()
	down := &pages{fail: 1}
	w := newWorld(t, newClaim("a", start, withInstance("i-1")))
	w.instances["i-1"] = newInstance("i-1", start)
	c := newCollector(w, down)
	if _, err := c.Collect(t.Context()); err != nil || len(w.ended) > 0 {
		t.Errorf("LC-39: ended %v, %v", w.ended, err)
	}
	w.instances["i-2"] = newInstance("i-2", start)
	if _, err := c.Collect(t.Context()); err == nil || len(w.ended) > 0 {
		t.Errorf("D06: ended %v, %v", w.ended, err)
	}
	c.Claims = &pages{list: [][]karpv1.NodeClaim{{*newClaim("a", start, withInstance("i-1")), *newClaim("b", start, withInstance("i-2"))}}}
	if _, err := c.Collect(t.Context()); err != nil || len(w.ended) > 0 {
		t.Errorf("a claim that the cache lacks: ended %v, %v", w.ended, err)
	}
}
