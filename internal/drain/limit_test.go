package drain_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/drain"
)

func TestV15_63_WhichNodesAreStillDrained(t *testing.T) {
	t.Parallel()
	terminating := func(n *corev1.Node) { n.DeletionTimestamp = at(0) }
	staying := func(n *corev1.Node) { n.DeletionTimestamp, n.Spec.Taints = nil, nil }
	rebooting := func(n *corev1.Node) {
		n.DeletionTimestamp, n.Spec.Taints = nil, []corev1.Taint{{Key: karpv1.TaintKeyRebooting}}
	}
	for name, tc := range map[string]struct {
		node *corev1.Node
		stay bool
		want bool
	}{
		"a terminating node":                      {node: node(terminating), want: true},
		"a node that is not terminating any more": {node: node(staying)},
		"a node that reboots":                     {node: node(rebooting), stay: true, want: true},
		"a node whose reboot is over":             {node: node(staying), stay: true},
		"a reboot does not end a termination":     {node: node(rebooting)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := (drain.Limit{Stay: tc.stay}).Empties(tc.node); got != tc.want {
				t.Errorf("Empties() = %t, want %t", got, tc.want)
			}
		})
	}
}

func TestWhenGuardsAreRead(t *testing.T) {
	t.Parallel()
	terminating := node(func(n *corev1.Node) { n.DeletionTimestamp = at(0) })
	for d, want := range map[time.Duration]bool{0: false, 9 * time.Second: false, 10 * time.Second: true, time.Hour: true} {
		if got := drain.ReadsGuards(terminating, after(d)); got != want {
			t.Errorf("after %s: %t, want %t", d, got, want)
		}
	}
	if staying := node(func(n *corev1.Node) { n.DeletionTimestamp = nil }); drain.ReadsGuards(staying, after(time.Hour)) {
		t.Error("guards are read for a node that is not terminating")
	}
}

func TestSinceWhenAnEvictionIsRefused(t *testing.T) {
	t.Parallel()
	const budget, other = true, false
	queued := drain.Try{Since: after(0)}
	for name, tc := range map[string]struct {
		try    drain.Try
		budget bool
		want   time.Time
	}{
		"the first refusal":                        {try: queued, budget: budget, want: after(time.Minute)},
		"another one by a budget":                  {try: queued.Refused("no", budget, after(time.Second)), budget: budget, want: after(time.Second)},
		"a webhook refuses what a budget did":      {try: queued.Refused("no", budget, after(time.Second)), budget: other, want: after(time.Minute)},
		"a webhook refuses again, with other text": {try: queued.Refused("no", other, after(time.Second)), budget: other, want: after(time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := tc.try.Refused("never", tc.budget, after(time.Minute))
			if want := (drain.Try{Since: tc.want, Response: "never", Budget: tc.budget}); got != want {
				t.Errorf("Refused() = %+v, want %+v", got, want)
			}
		})
	}
}
