package claims_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// FM L12: a user took the finalizer off a Node and deleted it. Its claim must not stay: pods would be
// planned onto a node that never comes, and the instance is paid for. Only the API server itself is
// believed about that, not the cache.
func TestFM_L12_ClaimOfAVanishedNodeGoes(t *testing.T) {
	t.Parallel()
	reused := joinedNode()
	reused.Spec.ProviderID = "aws:///a/i-another"
	for name, tc := range map[string]struct {
		live    []client.Object // nodes that the API server knows and the cache does not
		blind   bool            // the API server cannot be read
		deleted bool
	}{
		"gone":                              {deleted: true},
		"FM B05 its name belongs to others": {live: []client.Object{reused}, deleted: true},
		"the cache is behind":               {live: []client.Object{joinedNode()}},
		"the API server is unreachable":     {blind: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			claim := readyClaim()
			claim.Status.NodeName = "n"
			w := newClaimWorld(t, claim)
			w.now = claimBorn.Add(time.Hour)
			if !tc.blind {
				w.reconciler.Live = fake.NewClientBuilder().WithScheme(w.api.Scheme()).WithObjects(tc.live...).Build()
			}
			w.pass(t)
			got := &karpv1.NodeClaim{}
			if err := w.api.Get(t.Context(), client.ObjectKey{Name: "c"}, got); err != nil {
				t.Fatal(err)
			}
			if deleted := got.DeletionTimestamp != nil; deleted != tc.deleted {
				t.Errorf("the claim is being deleted: %v, want %v", deleted, tc.deleted)
			}
			counted := testutil.ToFloat64(w.metrics.NodeClaimsDisrupted.WithLabelValues("garbage_collected", claim.Labels[karpv1.LabelNodePool], "", "", "graceful"))
			if (counted == 1) != tc.deleted {
				t.Errorf("counted %v times", counted)
			}
		})
	}
}
