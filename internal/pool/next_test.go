package pool_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/drift"
	"github.com/dovetail-sh/dovetail/internal/pool"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

func facts(change func(*karpv1.NodePool)) pool.Facts {
	p := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "p", Generation: 1}}
	p.Spec.Template.Spec.NodeClassRef = karpv1.NodeClassReference{Group: awsv1.Group, Kind: awsv1.Kind, Name: "c"}
	change(p)
	return pool.Facts{Pool: p, Words: awsv1.Vocabulary(), Now: metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))}
}

func next(t *testing.T, f pool.Facts) pool.Step {
	t.Helper()
	step, err := pool.Next(f)
	if err != nil {
		t.Fatal(err)
	}
	return step
}

// LC-51: what the schema cannot see.
func TestValidationCondition(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change      func(*karpv1.NodePool)
		strict      bool
		wantStatus  metav1.ConditionStatus
		wantMessage string
	}{
		"API-9 a valid pool": {change: func(*karpv1.NodePool) {}, wantStatus: metav1.ConditionTrue},
		"API-3.2 a restricted label": {
			change:     func(p *karpv1.NodePool) { p.Spec.Template.ObjectMeta.Labels = map[string]string{"karpenter.sh/x": "y"} },
			wantStatus: metav1.ConditionFalse, wantMessage: "spec.template.metadata.labels: label karpenter.sh/x is reserved",
		},
		"FM I19 requirements that no value meets": {
			change: func(p *karpv1.NodePool) {
				p.Spec.Template.Spec.Requirements = []karpv1.Requirement{
					{Key: "a", Operator: "Gt", Values: []string{"8"}}, {Key: "a", Operator: "Lt", Values: []string{"4"}},
				}
			},
			wantStatus: metav1.ConditionFalse, wantMessage: "spec.template.spec.requirements",
		},
		"FM I19 a requirement without values": {
			change: func(p *karpv1.NodePool) {
				p.Spec.Template.Spec.Requirements = []karpv1.Requirement{{Key: "a", Operator: "In"}}
			},
			wantStatus: metav1.ConditionFalse, wantMessage: "spec.template.spec.requirements[0]",
		},
		"L-03 is fine": {
			change:     func(p *karpv1.NodePool) { p.Spec.Disruption.ConsolidationPolicy = "WhenUnderutilized" },
			wantStatus: metav1.ConditionTrue,
		},
		"L-03 under strict compatibility": {
			change:     func(p *karpv1.NodePool) { p.Spec.Disruption.ConsolidationPolicy = "WhenUnderutilized" },
			strict:     true,
			wantStatus: metav1.ConditionFalse, wantMessage: "write WhenEmptyOrUnderutilized",
		},
		"API-3.2 all problems are named": {
			change: func(p *karpv1.NodePool) {
				p.Spec.Template.Spec.Taints = []corev1.Taint{{Key: "a", Effect: "x"}, {Key: "b c", Effect: "NoSchedule"}}
			},
			wantStatus: metav1.ConditionFalse, wantMessage: "taints[1].key",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := facts(tc.change)
			f.Strict = tc.strict
			got := condition.Find(next(t, f).Conditions, karpv1.ConditionValidationSucceeded)
			if got.Status != tc.wantStatus || !strings.Contains(got.Message, tc.wantMessage) {
				t.Errorf("condition %s %q, want %s with %q", got.Status, got.Message, tc.wantStatus, tc.wantMessage)
			}
			if got.Status == metav1.ConditionFalse && got.Reason != "NodePoolValidationFailed" {
				t.Errorf("reason %s", got.Reason)
			}
		})
	}
}

// What was assumed is reported once per generation, also over restarts: the condition records it.
func TestAssumptionsAreReportedOnce(t *testing.T) {
	t.Parallel()
	f := facts(func(p *karpv1.NodePool) { p.Spec.Disruption.ConsolidationPolicy = "WhenUnderutilized" })
	first := next(t, f)
	if len(first.Assumed) == 0 || first.Assumed[0].Code != reason.OldFieldRead {
		t.Fatalf("assumed %v, want the old policy name", first.Assumed)
	}
	f.Pool.Status.Conditions = first.Conditions
	if second := next(t, f); len(second.Assumed) > 0 {
		t.Errorf("reported twice: %v", second.Assumed)
	}
	f.Pool.Generation++
	if third := next(t, f); len(third.Assumed) == 0 {
		t.Error("a changed pool is not told about")
	}
}

// LC-50: hashes of pools and claims.
func TestHashBookkeeping(t *testing.T) {
	t.Parallel()
	claim := func(name, version string, drifted bool) karpv1.NodeClaim {
		c := karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
			karpv1.AnnotationNodePoolHash: "1", karpv1.AnnotationNodePoolHashVersion: version,
		}}}
		if drifted {
			c.Status.Conditions = []metav1.Condition{{Type: karpv1.ConditionDrifted, Status: metav1.ConditionTrue}}
		}
		return c
	}
	f := facts(func(*karpv1.NodePool) {})
	hash, err := drift.PoolHash(f.Pool)
	if err != nil {
		t.Fatal(err)
	}
	stamped := map[string]string{karpv1.AnnotationNodePoolHash: hash.Sum, karpv1.AnnotationNodePoolHashVersion: "dovetail-1", karpv1.AnnotationNodePoolFields: hash.Fields}
	claims := []karpv1.NodeClaim{claim("theirs", "v3", false), claim("drifted", "v3", true), claim("ours", "dovetail-1", false)}
	for name, tc := range map[string]struct {
		have        map[string]string
		wantPool    map[string]string
		wantRestamp []pool.Stamp
	}{
		"API-8 take-over from another version restamps, and what is drifted stays so": {
			have:     map[string]string{karpv1.AnnotationNodePoolHash: "77", karpv1.AnnotationNodePoolHashVersion: "v3"},
			wantPool: stamped,
			wantRestamp: []pool.Stamp{
				{Claim: "theirs", Annotations: stamped},
				{Claim: "drifted", Annotations: map[string]string{karpv1.AnnotationNodePoolHashVersion: "dovetail-1"}},
			},
		},
		"API-8 a changed pool lets its claims drift": {
			have:     map[string]string{karpv1.AnnotationNodePoolHash: "77", karpv1.AnnotationNodePoolHashVersion: "dovetail-1"},
			wantPool: stamped,
		},
		"Trust A04: digests of the fields are added to a pool, and drift nothing": {
			have:     map[string]string{karpv1.AnnotationNodePoolHash: hash.Sum, karpv1.AnnotationNodePoolHashVersion: "dovetail-1"},
			wantPool: stamped,
		},
		"API-8 nothing to do": {have: stamped},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := facts(func(p *karpv1.NodePool) { p.Annotations = tc.have })
			f.Claims = claims
			step := next(t, f)
			if diff := cmp.Diff(tc.wantPool, step.Annotations); diff != "" {
				t.Errorf("annotations of the pool (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantRestamp, step.Restamp); diff != "" {
				t.Errorf("restamped claims (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTrust_C01_APoolThatItsClassRefusesIsNotValid(t *testing.T) {
	t.Parallel()
	f := facts(func(*karpv1.NodePool) {})
	f.Class = &pool.Class{Refusals: []reason.Reason{{Code: reason.KubeletRefused, Subject: "spec.template.spec.kubelet", Have: "staticPodURL may not be set here"}}}
	got := condition.Find(next(t, f).Conditions, karpv1.ConditionValidationSucceeded)
	if got.Status != metav1.ConditionFalse || got.Message != "spec.template.spec.kubelet: staticPodURL may not be set here" {
		t.Errorf("condition %s %q", got.Status, got.Message)
	}
}
