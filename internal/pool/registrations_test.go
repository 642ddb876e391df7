package pool_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/pool"
)

// LC-53: which results a decision about pool p, of UID 1, is based on.
func TestLC_53_ResultsOfAPoolObject(t *testing.T) {
	t.Parallel()
	object := func(uid types.UID) *karpv1.NodePool {
		return &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: uid}}
	}
	claim := func(uid, owner types.UID) *karpv1.NodeClaim {
		return &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{UID: uid, OwnerReferences: []metav1.OwnerReference{{Kind: "Node"}, {Kind: "NodePool", Name: "p", UID: owner}}}}
	}
	up, failed := pool.Result{Registered: true}, pool.Result{Reason: "LaunchFailed"}
	for name, tc := range map[string]struct {
		do   func(r *pool.Registrations) (decide []string)
		want []string // what is decided about
		seen pool.Launches
	}{
		"nothing is known": {},
		"each claim counts once": {
			do: func(r *pool.Registrations) []string {
				return []string{r.Record(claim("a", "1"), failed), r.Record(claim("a", "1"), up), r.Record(claim("b", "1"), up)}
			},
			want: []string{"p", "", "p"}, seen: pool.Launches{Results: []pool.Result{failed, up}},
		},
		"a pool of the same name made later is another": {
			do:   func(r *pool.Registrations) []string { return []string{r.Record(claim("a", "2"), failed)} },
			want: []string{"p"},
		},
		"a claim without a pool": {
			do:   func(r *pool.Registrations) []string { return []string{r.Record(&karpv1.NodeClaim{}, failed)} },
			want: []string{""},
		},
		"what was decided about is dropped, what came meanwhile is not": {
			do: func(r *pool.Registrations) []string {
				out := []string{r.Record(claim("a", "1"), failed), r.Record(claim("b", "1"), up)}
				r.Decided(object("1"), pool.Ring{}.Add(false), 1)
				return append(out, r.Record(claim("a", "1"), failed))
			},
			want: []string{"p", "p", ""}, seen: pool.Launches{Ring: pool.Ring{}.Add(false), Known: true, Results: []pool.Result{up}},
		},
		"a decision about a later pool drops the earlier one": {
			do: func(r *pool.Registrations) []string {
				out := []string{r.Record(claim("a", "1"), failed)}
				r.Decided(object("2"), pool.Ring{}, 0)
				return out
			},
			want: []string{"p"},
		},
		"the pool is gone": {
			do: func(r *pool.Registrations) []string {
				out := []string{r.Record(claim("a", "1"), failed)}
				r.Drop("p")
				return out
			},
			want: []string{"p"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var r pool.Registrations
			var decide []string
			if tc.do != nil {
				decide = tc.do(&r)
			}
			if diff := cmp.Diff(tc.want, decide); diff != "" {
				t.Errorf("decided about (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.seen, r.Launches(object("1")), cmp.AllowUnexported(pool.Ring{})); diff != "" {
				t.Errorf("launches (-want +got):\n%s", diff)
			}
		})
	}
}

// A pool whose decisions cannot be written keeps a bounded number of results.
func TestRegistrationsAreBounded(t *testing.T) {
	t.Parallel()
	var r pool.Registrations
	for i := range 200 {
		r.Record(&karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{UID: types.UID(fmt.Sprint(i)), OwnerReferences: []metav1.OwnerReference{{Kind: "NodePool", Name: "p", UID: "1"}}}}, pool.Result{})
	}
	if n := len(r.Launches(&karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{UID: "1"}}).Results); n != 64 {
		t.Errorf("%d results are kept, want 64", n)
	}
}
