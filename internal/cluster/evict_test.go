package cluster_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	"github.com/dovetail-sh/dovetail/internal/cluster"
)

func TestStays(t *testing.T) {
	t.Parallel()
	const (
		labels  = `labels: {app: web}`
		ending  = `deletionTimestamp: "2026-01-01T00:00:00Z"`
		unready = `status: {conditions: [{type: Ready, status: "False"}]}`
	)
	for name, tc := range map[string]struct {
		pod     string
		budgets []string
		want    bool
	}{
		"3.2 an ordinary pod is planned elsewhere":   {pod: `{metadata: {namespace: ns}}`},
		"3.2 a DaemonSet pod stays":                  {pod: `{metadata: {ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: x, uid: x}]}}`, want: true},
		"3.2 another kind called DaemonSet does not": {pod: `{metadata: {ownerReferences: [{apiVersion: x/v1, kind: DaemonSet, name: x, uid: x}]}}`},
		"3.2 a mirror pod stays":                     {pod: `{metadata: {ownerReferences: [{apiVersion: v1, kind: Node, name: x, uid: x}]}}`, want: true},
		"3.2 a terminating pod stays":                {pod: `{metadata: {` + ending + `}}`, want: true},
		"3.2 a terminating StatefulSet pod comes back": {
			pod: `{metadata: {` + ending + `, annotations: {karpenter.sh/do-not-disrupt: "true"}, ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: x, uid: x}]}}`,
		},
		"3.2 an ended pod stays":                           {pod: `{status: {phase: Failed}}`, want: true},
		"7: do-not-disrupt":                                {pod: `{metadata: {annotations: {karpenter.sh/do-not-disrupt: "true"}}}`, want: true},
		"7: do-not-disrupt for a while that is not over":   {pod: `{metadata: {annotations: {karpenter.sh/do-not-disrupt: 2h}}, status: {startTime: "2026-01-01T11:00:00Z"}}`, want: true},
		"7: do-not-disrupt for a while that is over":       {pod: `{metadata: {annotations: {karpenter.sh/do-not-disrupt: 1h}}, status: {startTime: "2026-01-01T11:00:00Z"}}`},
		"7: do-not-disrupt of a pod that has not started":  {pod: `{metadata: {annotations: {karpenter.sh/do-not-disrupt: 1h}}}`, want: true},
		"7: do-not-disrupt false or below zero is nothing": {pod: `{metadata: {annotations: {karpenter.sh/do-not-disrupt: -1h}}}`},
		"6: a budget that never gives way": {
			pod: `{metadata: {namespace: ns, ` + labels + `}}`, budgets: []string{`{maxUnavailable: 0, selector: {matchLabels: {app: web}}}`}, want: true,
		},
		"6: in per cent":                    {pod: `{metadata: {namespace: ns, ` + labels + `}}`, budgets: []string{`{minAvailable: "100%", selector: {}}`}, want: true},
		"6: a budget that gives way":        {pod: `{metadata: {namespace: ns, ` + labels + `}}`, budgets: []string{`{maxUnavailable: 1, selector: {}}`}},
		"6: a budget of other pods":         {pod: `{metadata: {namespace: ns, ` + labels + `}}`, budgets: []string{`{maxUnavailable: 0, selector: {matchLabels: {app: db}}}`}},
		"6: a budget of another namespace":  {pod: `{metadata: {namespace: other, ` + labels + `}}`, budgets: []string{`{maxUnavailable: 0, selector: {}}`}},
		"6: a budget without selector":      {pod: `{metadata: {namespace: ns, ` + labels + `}}`, budgets: []string{`{maxUnavailable: 0}`}},
		"6: two budgets, whatever they say": {pod: `{metadata: {namespace: ns, ` + labels + `}}`, budgets: []string{`{maxUnavailable: 1, selector: {}}`, `{maxUnavailable: 1, selector: {}}`}, want: true},
		"FM K04, 6: an unready pod that may always go": {
			pod: `{metadata: {namespace: ns, ` + labels + `}, ` + unready + `}`, budgets: []string{`{maxUnavailable: 0, unhealthyPodEvictionPolicy: AlwaysAllow, selector: {}}`},
		},
		"6: a ready pod under the same policy": {
			pod: `{metadata: {namespace: ns, ` + labels + `}}`, budgets: []string{`{maxUnavailable: 0, unhealthyPodEvictionPolicy: AlwaysAllow, selector: {}}`}, want: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var budgets []*policyv1.PodDisruptionBudget
			for _, text := range tc.budgets {
				b := read[policyv1.PodDisruptionBudget](t, "{metadata: {namespace: ns}, spec: "+text+"}")
				budgets = append(budgets, b)
			}
			guards := cluster.NewGuards(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC), budgets)
			r := newReader(cluster.ReaderOptions{Evictable: guards.Evictable})
			if got := r.Pod(read[corev1.Pod](t, tc.pod), nil).Stays; got != tc.want {
				t.Errorf("Stays = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestPriority(t *testing.T) {
	t.Parallel()
	r := newReader(cluster.ReaderOptions{})
	for text, want := range map[string]int32{`{spec: {priority: -5}}`: -5, `{}`: 0} {
		if got := r.Pod(read[corev1.Pod](t, text), nil).Priority; got != want {
			t.Errorf("Priority = %d for %s, want %d", got, text, want)
		}
	}
}

// A StatefulSet makes a pod again once the old one is gone; others do when it begins to end.
func TestLate(t *testing.T) {
	t.Parallel()
	r := newReader(cluster.ReaderOptions{})
	for owner, want := range map[string]bool{
		`{apiVersion: apps/v1, kind: StatefulSet, name: x, uid: x}`: true,
		`{apiVersion: apps/v1, kind: ReplicaSet, name: x, uid: x}`:  false,
		`{apiVersion: x/v1, kind: StatefulSet, name: x, uid: x}`:    false,
	} {
		if got := r.Pod(read[corev1.Pod](t, `{metadata: {ownerReferences: [`+owner+`]}}`), nil).Late; got != want {
			t.Errorf("Late = %v for a pod of %s", got, owner)
		}
	}
}

func TestEvictCost(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		pod     string
		managed bool
		want    float64
	}{
		"V15-52 an ordinary pod costs one":             {pod: `{}`, want: 1},
		"V15-52 priority":                              {pod: `{spec: {priority: 33554432}}`, want: 2},
		"V15-52 the cost of the user":                  {pod: `{metadata: {annotations: {karpenter.sh/disruption-cost: "134217728"}}}`, want: 2},
		"V15-52 the deletion cost":                     {pod: `{metadata: {annotations: {controller.kubernetes.io/pod-deletion-cost: "-134217728"}}}`, want: 0},
		"V15-52 the deletion cost under management":    {pod: `{metadata: {annotations: {controller.kubernetes.io/pod-deletion-cost: "134217728"}}}`, managed: true, want: 1},
		"V15-52, FM K16 a bad cost does not fall back": {pod: `{metadata: {annotations: {karpenter.sh/disruption-cost: "1.5", controller.kubernetes.io/pod-deletion-cost: "134217728"}}}`, want: 1},
		"V15-52, FM K16 more than an int32 is bad":     {pod: `{metadata: {annotations: {karpenter.sh/disruption-cost: "3000000000"}}}`, want: 1},
		"V15-52 clamped above":                         {pod: `{spec: {priority: 2000000000}}`, want: 10},
		"V15-52, FM K17 clamped below":                 {pod: `{spec: {priority: -2000000000}}`, want: -10},
		"V15-52, FM K17 the lowest cost there is":      {pod: `{metadata: {annotations: {karpenter.sh/disruption-cost: "-2147483648"}}, spec: {priority: -2147483648}}`, want: -10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := cluster.EvictCost(read[corev1.Pod](t, tc.pod), tc.managed); got != tc.want {
				t.Errorf("EvictCost = %v, want %v", got, tc.want)
			}
		})
	}
}
