package v1_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

// strictPool is what every variant below has to come out as, but for the field it is about.
const strictPool = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: p}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: c}
      requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]
      expireAfter: 720h
  disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 0s, budgets: [{nodes: 10%}]}
`

func pool(t *testing.T, text string) *karpv1.NodePool {
	t.Helper()
	p := &karpv1.NodePool{}
	if err := yaml.UnmarshalStrict([]byte(text), p); err != nil {
		t.Fatal(err)
	}
	return p
}

func rules(reasons []reason.Reason) string {
	var ids []string
	for _, r := range reasons {
		ids = append(ids, r.Rule)
	}
	return strings.Join(ids, " ")
}

func TestEffectiveNodePool(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		applied   string
		want      string // what differs from strictPool, as text replaced in it
		wantRules string
	}{
		"strict v1 stays as it is": {applied: strictPool},
		"L-01 a reference with only a name": {
			applied:   strings.Replace(strictPool, "group: karpenter.k8s.aws, kind: EC2NodeClass, ", "", 1),
			wantRules: "L-01 L-01",
		},
		"L-02 a requirement without operator": {
			applied:   strings.Replace(strictPool, "operator: In, ", "", 1),
			wantRules: "L-02",
		},
		"L-03 the old name of the policy": {
			applied:   strings.Replace(strictPool, "WhenEmptyOrUnderutilized", "WhenUnderutilized", 1),
			wantRules: "L-03",
		},
		"L-04 no consolidateAfter": {
			applied:   strings.Replace(strictPool, "consolidateAfter: 0s, ", "", 1),
			wantRules: "L-04",
		},
		"L-04 no disruption at all": {
			applied: strings.Replace(strictPool, "disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 0s, budgets: [{nodes: 10%}]}", "", 1),
		},
		"L-05 consolidateAfter with WhenUnderutilized is kept": {
			applied:   strings.Replace(strictPool, "consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 0s", "consolidationPolicy: WhenUnderutilized, consolidateAfter: 30s", 1),
			want:      strings.Replace(strictPool, "consolidateAfter: 0s", "consolidateAfter: 30s", 1),
			wantRules: "L-03",
		},
		"L-09 CV-05 apiVersion instead of group": {
			applied:   strings.Replace(strictPool, "group: karpenter.k8s.aws, kind: EC2NodeClass", "apiVersion: karpenter.k8s.aws/v1beta1, kind: EC2NodeClass", 1),
			wantRules: "L-09",
		},
		"L-09 apiVersion of another group beside the group the schema filled in": {
			applied:   strings.Replace(strictPool, "group: karpenter.k8s.aws", "apiVersion: example.com/v1, group: karpenter.k8s.aws", 1),
			want:      strings.Replace(strictPool, "group: karpenter.k8s.aws", "group: example.com", 1),
			wantRules: "L-09",
		},
		"L-09 a group the user wrote wins over apiVersion": {
			applied: strings.Replace(strictPool, "group: karpenter.k8s.aws", "apiVersion: other.io/v1, group: example.com", 1),
			want:    strings.Replace(strictPool, "group: karpenter.k8s.aws", "group: example.com", 1), wantRules: "L-09",
		},
		"CV-05 an apiVersion without a group is none": {
			applied: strings.Replace(strictPool, "group: karpenter.k8s.aws", "apiVersion: v1beta1, group: karpenter.k8s.aws", 1),
		},
		"CV-05 an apiVersion with an empty group is none": {
			applied: strings.Replace(strictPool, "group: karpenter.k8s.aws", "apiVersion: /v1beta1, group: karpenter.k8s.aws", 1),
		},
		"L-10 expireAfter in its old place": {
			applied:   strings.Replace(strings.Replace(strictPool, "expireAfter: 720h", "", 1), "disruption: {", "disruption: {expireAfter: 2160h, ", 1),
			want:      strings.Replace(strictPool, "720h", "2160h", 1),
			wantRules: "L-10",
		},
		"L-10 the new place wins": {
			applied: strings.Replace(strictPool, "disruption: {", "disruption: {expireAfter: 2160h, ", 1), wantRules: "L-10",
		},
		"L-10 the default that v1beta1 filled in is no choice of the user": {
			applied: strings.Replace(strings.Replace(strictPool, "expireAfter: 720h", "", 1), "disruption: {", "disruption: {expireAfter: 720h, ", 1),
		},
		"an empty list of budgets is no bound and stays": {
			applied: strings.Replace(strictPool, "[{nodes: 10%}]", "[]", 1),
			want:    strings.Replace(strictPool, "[{nodes: 10%}]", "[]", 1),
		},
		"L-13 a budget given as a number": {
			applied: strings.Replace(strictPool, "{nodes: 10%}", "{nodes: 5}", 1),
			want:    strings.Replace(strictPool, "nodes: 10%", `nodes: "5"`, 1), wantRules: "L-13",
		},
		"no expireAfter means 720h": {
			applied: strings.Replace(strictPool, "expireAfter: 720h", "", 1),
		},
		"no budgets means one of 10%": {
			applied: strings.Replace(strictPool, ", budgets: [{nodes: 10%}]", "", 1),
		},
		"the spelling of a duration stays": {
			applied: strings.Replace(strictPool, "720h", "30m3600s", 1),
			want:    strings.Replace(strictPool, "720h", "30m3600s", 1),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.want == "" {
				tc.want = strictPool
			}
			applied := pool(t, tc.applied)
			before := applied.DeepCopy()
			got, notes := applied.Effective(false)
			if diff := cmp.Diff(pool(t, tc.want), got); diff != "" {
				t.Errorf("effective form (-want +got):\n%s", diff)
			}
			if got := rules(notes); got != tc.wantRules {
				t.Errorf("rules %q, want %q", got, tc.wantRules)
			}
			if refused := reason.Refusals(notes); len(refused) > 0 {
				t.Errorf("refused although lenient: %s", reason.Join(refused, 0))
			}
			if diff := cmp.Diff(before, applied); diff != "" {
				t.Errorf("Effective changed its receiver:\n%s", diff)
			}
			again, more := got.Effective(true)
			if diff := cmp.Diff(got, again); diff != "" || len(more) > 0 {
				t.Errorf("the effective form is not strict v1: %s %s", diff, reason.Join(more, 0))
			}
		})
	}
}

// Strict compatibility turns each leniency that can still be seen into a refusal that says what to
// write instead.
func TestStrictCompatibilityRefusesLeniencies(t *testing.T) {
	t.Parallel()
	for rule, text := range map[string]string{
		"L-01": strings.Replace(strictPool, "kind: EC2NodeClass, ", "", 1),
		"L-02": strings.Replace(strictPool, "operator: In, ", "", 1),
		"L-03": strings.Replace(strictPool, "WhenEmptyOrUnderutilized", "WhenUnderutilized", 1),
		"L-09": strings.Replace(strictPool, "group: karpenter.k8s.aws", "apiVersion: karpenter.k8s.aws/v1", 1),
		"L-10": strings.Replace(strings.Replace(strictPool, "expireAfter: 720h", "", 1), "disruption: {", "disruption: {expireAfter: 1h, ", 1),
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			_, notes := pool(t, text).Effective(true)
			refused := reason.Refusals(notes)
			if len(refused) != 1 || refused[0].Rule != rule || refused[0].Want == "" {
				t.Errorf("refusals %q, want one for %s with a fix", reason.Join(refused, 0), rule)
			}
		})
	}
}

func TestEffectiveNodeClaim(t *testing.T) {
	t.Parallel()
	owner, _ := pool(t, strings.Replace(strictPool, "720h", "96h", 1)).Effective(false)
	old := &karpv1.NodeClaim{
		Spec: karpv1.NodeClaimSpec{NodeClassRef: karpv1.NodeClassReference{Name: "c", DeprecatedAPIVersion: "karpenter.k8s.aws/v1beta1"}},
		Status: karpv1.NodeClaimStatus{Conditions: []metav1.Condition{
			{Type: "Empty", Status: metav1.ConditionTrue},
			{Type: karpv1.ConditionLaunched, Status: metav1.ConditionTrue},
			{Type: "Underutilized"},
			{Type: "Expired"},
		}},
	}
	got, _ := old.Effective(owner, false)
	if got.Spec.ExpireAfter != "96h" {
		t.Errorf("CV-14: expireAfter %q, want that of the pool", got.Spec.ExpireAfter)
	}
	if orphan, _ := old.Effective(nil, false); orphan.Spec.ExpireAfter != "720h" {
		t.Errorf("CV-14: expireAfter without a pool %q, want 720h", orphan.Spec.ExpireAfter)
	}
	if ref := got.Spec.NodeClassRef; ref != (karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "c"}) {
		t.Errorf("CV-05: reference %+v", ref)
	}
	if c := got.Status.Conditions; len(c) != 1 || c[0].Type != karpv1.ConditionLaunched {
		t.Errorf("API-11.2: conditions %v, want only Launched", c)
	}
	if len(old.Status.Conditions) != 4 || old.Status.Conditions[0].Type != "Empty" {
		t.Error("Effective changed its receiver")
	}
}

func TestEffectiveKeepsTheKubeletBlockOfAPool(t *testing.T) {
	t.Parallel()
	p := pool(t, strings.Replace(strictPool, "expireAfter: 720h", "kubelet: {maxPods: 20}", 1))
	if _, notes := p.Effective(true); len(reason.Refusals(notes)) != 1 {
		t.Errorf("CV-06: under strict compatibility a kubelet block on a pool is not refused: %v", notes)
	}
	got, _ := p.Effective(false)
	if k := got.Spec.Template.Spec.Kubelet; k == nil || string(k.Raw) != `{"maxPods":20}` {
		t.Errorf("CV-06: kubelet %v, want it to stay in force", k)
	}
}

func TestTaintsTheControllerOwns(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		taint corev1.Taint
		want  string
	}{
		{karpv1.UnregisteredTaint(), "karpenter.sh/unregistered:NoExecute"},
		{karpv1.DisruptedTaint(), "karpenter.sh/disrupted:NoSchedule"},
		{karpv1.RebootingTaint(), "karpenter.sh/rebooting:NoSchedule"},
	} {
		if got := tc.taint.ToString(); got != tc.want {
			t.Errorf("taint %s, want %s", got, tc.want)
		}
	}
}
