package claims_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/controller/claims"
	"github.com/dovetail-sh/dovetail/internal/controller/controllertest"
	"github.com/dovetail-sh/dovetail/internal/controller/write"
	"github.com/dovetail-sh/dovetail/internal/event"
)

func TestExpiration(t *testing.T) {
	t.Parallel()
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	pool.Spec.Template.Spec.ExpireAfter = "2h"
	for name, tc := range map[string]struct {
		change      func(*karpv1.NodeClaim)
		age         time.Duration
		wantDeleted bool
		wantAfter   time.Duration
		paused      bool
	}{
		"LC-16 not yet":                          {change: func(c *karpv1.NodeClaim) { c.Spec.ExpireAfter = "1h" }, age: 59 * time.Minute, wantAfter: time.Minute},
		"LC-16 now":                              {change: func(c *karpv1.NodeClaim) { c.Spec.ExpireAfter = "1h" }, age: time.Hour, wantDeleted: true},
		"section 15, case 15 while we were down": {change: func(c *karpv1.NodeClaim) { c.Spec.ExpireAfter = "1h" }, age: 100 * time.Hour, wantDeleted: true},
		"LC-16 never":                            {change: func(c *karpv1.NodeClaim) { c.Spec.ExpireAfter = "Never" }, age: 10000 * time.Hour},
		"CV-14 the pool says":                    {change: func(*karpv1.NodeClaim) {}, age: time.Hour, wantAfter: time.Hour},
		"CV-14 no label":                         {change: func(c *karpv1.NodeClaim) { c.Labels = nil }, age: 719 * time.Hour, wantAfter: time.Hour},
		"FM N08 made in the future":              {change: func(c *karpv1.NodeClaim) { c.Spec.ExpireAfter = "1h" }, age: -time.Hour, wantAfter: 2 * time.Hour},
		"FM N06 the clock is wrong":              {change: func(c *karpv1.NodeClaim) { c.Spec.ExpireAfter = "1h" }, age: 3 * time.Hour, paused: true, wantAfter: time.Minute},
		"another kind of class":                  {change: func(c *karpv1.NodeClaim) { c.Spec.NodeClassRef.Kind = "Other" }, age: 10000 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := readyClaim()
			tc.change(c)
			w := newClaimWorld(t, c, pool.DeepCopy())
			r := &claims.Expiration{Client: w.api, Remover: write.NewRemover(w.api, &controllertest.Recorder{}, w.metrics, nil), Classes: claimKinds(), Now: func() time.Time { return claimBorn.Add(tc.age) }, ClockOff: func() bool { return tc.paused }}
			result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "c"}})
			if err != nil {
				t.Fatal(err)
			}
			if deleted := w.claim(t).DeletionTimestamp != nil; deleted != tc.wantDeleted || result.RequeueAfter != tc.wantAfter {
				t.Errorf("deleted %t, requeues after %s; want %t and %s", deleted, result.RequeueAfter, tc.wantDeleted, tc.wantAfter)
			}
		})
	}
}

// What is counted: the claim once, and the pods that have to move.
func TestExpirationIsCountedOnce(t *testing.T) {
	t.Parallel()
	pod := func(name, owner string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"}}
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: owner, Name: "o", UID: "o"}}
		p.Spec.NodeName = "n"
		return p
	}
	c := readyClaim()
	c.Spec.ExpireAfter, c.Spec.TerminationGracePeriod = "1h", "10m"
	w := newClaimWorld(t, c, joinedNode(), pod("web", "ReplicaSet"), pod("agent", "DaemonSet"))
	lagging := &staleClient{Client: w.api, old: w.claim(t)}
	said := &controllertest.Recorder{}
	var record []string
	remover := write.NewRemover(lagging, said, w.metrics, func(claim, node, why string) { record = append(record, claim+" "+node+" "+why) })
	r := &claims.Expiration{Client: lagging, Remover: remover, Classes: claimKinds(), Now: func() time.Time { return claimBorn.Add(time.Hour) }}
	for range 3 {
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "c"}}); err != nil {
			t.Fatal(err)
		}
	}
	labels := []string{"expired", "p", "", "", "eventual"}
	if got := testutil.ToFloat64(w.metrics.NodeClaimsDisrupted.WithLabelValues(labels...)); got != 1 {
		t.Errorf("LC-16: %v claims counted", got)
	}
	if got := testutil.ToFloat64(w.metrics.PodsDisruptionInitiated.WithLabelValues(labels...)); got != 1 {
		t.Errorf("LC-19: %v pods counted", got)
	}
	if len(record) != 1 || record[0] != "c n expired" {
		t.Errorf("on record is %q", record)
	}
	const want = "Disrupting the node, reason Expired: it has lived since "
	for _, name := range []string{"c", "n"} {
		if text := said.Text(name, event.DisruptionTerminating); !strings.HasPrefix(text, want) || !strings.HasSuffix(text, "and its expireAfter is 1h") {
			t.Errorf("%s says %q", name, text)
		}
	}
	if len(said.Events) != 2 {
		t.Errorf("reported %+v, want it once", said.Events)
	}
}
