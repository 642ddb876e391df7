package disrupt_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
)

// V15-33, LC-41, LC-42: when a node is removed by force, and when it is not.
func TestDecideForcedRepair(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	ailments, err := lifecycle.NewAilments([]cloud.Repair{{Condition: "Disk", Status: "False", Toleration: 30 * time.Minute, Action: cloud.ReplaceNode}})
	if err != nil {
		t.Fatal(err)
	}
	node := func(pool string, unhealthyFor time.Duration) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{karpv1.LabelNodePool: pool}, CreationTimestamp: metav1.NewTime(now.Add(-24 * time.Hour))}}
		if unhealthyFor > 0 {
			n.Status.Conditions = []corev1.NodeCondition{{Type: "Disk", Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(now.Add(-unhealthyFor))}}
		}
		return n
	}
	terminating := node("a", time.Hour)
	terminating.DeletionTimestamp = new(metav1.NewTime(now))
	claim := []*karpv1.NodeClaim{{}}
	ten := func(pool string, unhealthy int) (out []*corev1.Node) {
		for i := range 10 {
			out = append(out, node(pool, time.Duration(max(0, unhealthy-i))*time.Hour))
		}
		return out
	}
	for name, tc := range map[string]struct {
		node   *corev1.Node
		claims []*karpv1.NodeClaim
		all    []*corev1.Node
		want   string // condition, the time until the next decision, and whether it is blocked
		text   string
	}{
		"a healthy node":                        {node("a", 0), claim, nil, `"" 0s`, ""},
		"LC-41 tolerated so far":                {node("a", 10*time.Minute), claim, nil, `"" 20m0s`, ""},
		"LC-41 tolerated to the second":         {node("a", 30*time.Minute), claim, ten("a", 1), `"Disk" 0s`, ""},
		"a terminating node":                    {terminating, claim, nil, `"" 0s`, ""},
		"a terminating claim":                   {node("a", time.Hour), []*karpv1.NodeClaim{{ObjectMeta: terminating.ObjectMeta}}, nil, `"" 0s`, ""},
		"a node without a claim":                {node("a", time.Hour), nil, nil, `"" 0s`, ""},
		"a node with two":                       {node("a", time.Hour), append(claim, claim...), nil, `"" 0s`, ""},
		"LC-42 a fifth of the pool":             {node("a", time.Hour), claim, ten("a", 2), `"Disk" 0s`, ""},
		"LC-42 more than a fifth of the pool":   {node("a", time.Hour), claim, append(ten("a", 3), ten("b", 0)...), `"" 5m0s`, "3 of 10 nodes"},
		"LC-42 other pools do not count":        {node("a", time.Hour), claim, append(ten("a", 1), ten("b", 9)...), `"Disk" 0s`, ""},
		"LC-42 without a pool, of the cluster":  {node("", time.Hour), claim, append(ten("a", 3), ten("b", 0)...), `"Disk" 0s`, ""},
		"LC-42 without a pool, too many of all": {node("", time.Hour), claim, append(ten("a", 3), ten("b", 2)...), `"" 5m0s`, "5 of 20 nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := disrupt.DecideForcedRepair(ailments, tc.node, tc.claims, tc.all, now)
			if s := fmt.Sprintf("%q %s", got.Condition, got.After); s != tc.want || (got.Blocked == "") != (tc.text == "") || !strings.HasPrefix(got.Blocked, tc.text) {
				t.Errorf("got %s %q, want %s %q", s, got.Blocked, tc.want, tc.text)
			}
		})
	}
}
