package drain_test

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/drain"
)

// withCause is an error of the API server for which it names a cause.
func withCause(err *apierrors.StatusError, cause metav1.CauseType, message string) error {
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: cause, Message: message})
	return err
}

// LC-35: what a response to an eviction means, and how users read it.
func TestReadEvictionResponse(t *testing.T) {
	t.Parallel()
	pods := schema.GroupResource{Resource: "pods"}
	for name, tc := range map[string]struct {
		err  error
		want drain.EvictionResponse
		text string
	}{
		"accepted":              {want: drain.EvictionAccepted},
		"the pod is gone":       {err: apierrors.NewNotFound(pods, "web"), want: drain.EvictionObsolete, text: `pods "web" not found`},
		"it is another pod":     {err: apierrors.NewConflict(pods, "web", errors.New("uid")), want: drain.EvictionObsolete, text: "uid"},
		"a budget":              {err: withCause(apierrors.NewTooManyRequests("no", 0), policyv1.DisruptionBudgetCause, "needs 2"), want: drain.EvictionForbidden, text: "no (needs 2)"},
		"several budgets":       {err: apierrors.NewInternalError(errors.New("This pod has more than one PodDisruptionBudget")), want: drain.EvictionForbidden, text: "more than one"},
		"its namespace goes":    {err: withCause(apierrors.NewForbidden(pods, "web", errors.New("ending")), corev1.NamespaceTerminatingCause, ""), want: drain.EvictionNotNeeded, text: "ending"},
		"throttled":             {err: apierrors.NewTooManyRequests("slow down", 1), want: drain.EvictionThrottled, text: "slow down"},
		"not permitted":         {err: apierrors.NewForbidden(pods, "web", errors.New("rbac")), want: drain.EvictionFailed, text: "rbac"},
		"no API server":         {err: errors.New("refused"), want: drain.EvictionFailed, text: "refused"},
		"another internal fail": {err: apierrors.NewInternalError(errors.New("etcd")), want: drain.EvictionFailed, text: "etcd"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := drain.ReadEvictionResponse(tc.err); got != tc.want {
				t.Errorf("read as %v, want %v", got, tc.want)
			}
			if tc.err == nil {
				return
			}
			if text := drain.ResponseText(tc.err); !strings.Contains(text, tc.text) {
				t.Errorf("text %q, want %q in it", text, tc.text)
			}
			if text := drain.FailedEviction(pod("web"), tc.err).Text; !strings.HasPrefix(text, "Pod default/web cannot be evicted: ") {
				t.Errorf("event %q", text)
			}
		})
	}
}

// LC-35: the event about a pod that budgets hold names them and what would free it.
func TestForbiddenEviction(t *testing.T) {
	t.Parallel()
	budget := func(name, app string, most int) policyv1.PodDisruptionBudget {
		b := policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
		b.Spec.MaxUnavailable = new(intstr.FromInt(most))
		b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
		return b
	}
	held := pod("web")
	held.Labels = map[string]string{"app": "web"}
	refusal := withCause(apierrors.NewTooManyRequests("no", 0), policyv1.DisruptionBudgetCause, "needs 2")
	for name, tc := range map[string]struct {
		budgets []policyv1.PodDisruptionBudget
		want    string
	}{
		"one that is spent":       {budgets: []policyv1.PodDisruptionBudget{budget("a", "web", 1), budget("b", "db", 1)}, want: "PodDisruptionBudget a allows no disruption now (needs 2); it is evicted when"},
		"one that never allows":   {budgets: []policyv1.PodDisruptionBudget{budget("a", "web", 0)}, want: "PodDisruptionBudget a can never allow an eviction: maxUnavailable is 0; let it allow at least one, delete the pod"},
		"several":                 {budgets: []policyv1.PodDisruptionBudget{budget("b", "web", 1), budget("a", "web", 1)}, want: "more than one PodDisruptionBudget selects it (a, b)"},
		"they could not be read":  {want: "PodDisruptionBudget  allows no disruption now (needs 2)"},
		"the selector of another": {budgets: []policyv1.PodDisruptionBudget{budget("b", "db", 0)}, want: "PodDisruptionBudget  allows no disruption now (needs 2)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := drain.ForbiddenEviction(held, tc.budgets, refusal)
			if want := "Pod default/web cannot be evicted: " + tc.want; !strings.HasPrefix(got.Text, want) || got.Key != "default/web" {
				t.Errorf("got %q of %s, want %q", got.Text, got.Key, want)
			}
		})
	}
}

// Events and metrics of pods name what their claim is removed for.
func TestReasonOf(t *testing.T) {
	t.Parallel()
	reasons := func(status metav1.ConditionStatus) *karpv1.NodeClaim {
		c := &karpv1.NodeClaim{}
		c.Status.Conditions = []metav1.Condition{{Type: karpv1.ConditionDisruptionReason, Status: status, Reason: "Drifted"}}
		return c
	}
	for name, tc := range map[string]struct {
		claim *karpv1.NodeClaim
		want  string
	}{
		"no claim":             {want: "forceful termination"},
		"deleted by a user":    {claim: &karpv1.NodeClaim{}, want: "forceful termination"},
		"a command":            {claim: reasons(metav1.ConditionTrue), want: "Drifted"},
		"one that was undone":  {claim: reasons(metav1.ConditionFalse), want: "forceful termination"},
		"one that is not sure": {claim: reasons(metav1.ConditionUnknown), want: "forceful termination"},
	} {
		if got := drain.ReasonOf(tc.claim); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
