package drift_test

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/drift"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

// LC-57: the pool, then the catalogue, then the node class; what is decided is not requested again.
func TestLC57_DriftIsEvaluatedInOrder(t *testing.T) {
	t.Parallel()
	broken := errors.New("no cloud")
	for name, tc := range map[string]struct {
		pending          bool // not launched yet
		pool             bool // the pool has another hash
		catalogue, class reason.Code
		err              error
		want             reason.Code
		called           string
		unknown          bool
	}{
		"nothing":                       {called: "catalogue class "},
		"not launched: nothing counts":  {pending: true, pool: true, catalogue: reason.InstanceTypeNotFound, class: reason.NodeClassDrift},
		"the pool first":                {pool: true, catalogue: reason.InstanceTypeNotFound, class: reason.NodeClassDrift, want: reason.NodePoolDrifted},
		"then the catalogue":            {catalogue: reason.InstanceTypeNotFound, class: reason.NodeClassDrift, want: reason.InstanceTypeNotFound, called: "catalogue "},
		"then the class":                {class: reason.NodeClassDrift, want: reason.NodeClassDrift, called: "catalogue class "},
		"an error leaves it open":       {err: broken, called: "catalogue class ", unknown: true},
		"but not if something is known": {pool: true, err: broken, want: reason.NodePoolDrifted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool, claim := &karpv1.NodePool{}, &karpv1.NodeClaim{}
			stamp := func(hash string) map[string]string {
				return map[string]string{karpv1.AnnotationNodePoolHash: hash, karpv1.AnnotationNodePoolHashVersion: "v"}
			}
			pool.Annotations, claim.Annotations = stamp("1"), stamp("1")
			if tc.pool {
				pool.Annotations = stamp("2")
			}
			if !tc.pending {
				claim.Status.Conditions = []metav1.Condition{{Type: karpv1.ConditionLaunched, Status: metav1.ConditionTrue}}
			}
			called := ""
			why, err := drift.Evaluate(pool, claim, drift.Sources{
				Words:     awsv1.Vocabulary(),
				Catalogue: func() reason.Reason { called += "catalogue "; return reason.Reason{Code: tc.catalogue} },
				Class:     func() (reason.Reason, error) { called += "class "; return reason.Reason{Code: tc.class}, tc.err },
			})
			if why.Code != tc.want || (err != nil) != tc.unknown || called != tc.called {
				t.Errorf("got %q, %v after %q; want %q, unknown %v after %q", why.Code, err, called, tc.want, tc.unknown, tc.called)
			}
			alone, err := drift.Evaluate(pool, claim, drift.Sources{Words: awsv1.Vocabulary()})
			if err != nil || (alone.Code != "") != (tc.pool && !tc.pending) {
				t.Errorf("with the pool alone: %q, %v", alone.Code, err)
			}
		})
	}
}

// A claim is compared every five minutes, and earlier if something else looks at it.
func TestNextCheck(t *testing.T) {
	t.Parallel()
	for after, want := range map[time.Duration]time.Duration{0: 5 * time.Minute, time.Second: time.Second, time.Hour: 5 * time.Minute} {
		if got := drift.NextCheck(after); got != want {
			t.Errorf("NextCheck(%s) = %s, want %s", after, got, want)
		}
	}
}
