package cli

import (
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// A solver that goes round in circles is found out instead of followed.
func TestMovesMustGain(t *testing.T) {
	t.Parallel()
	compiled, _ := tinyPlan(t)
	pods := []cluster.PodKey{}
	for _, p := range compiled.View.Nodes[0].Pods {
		pods = append(pods, p.Key)
	}
	same := []solve.Move{{Remove: []string{"node-1"}, Create: []solve.NewNode{{
		Pool: "default", Pods: pods, Offer: solve.Offer{Type: "small", Zone: "b", CapacityType: "on-demand"},
	}}}}
	r := &consolidateResult{}
	err := r.apply(compiled, same)
	if err == nil || !strings.Contains(err.Error(), "1 move changed 1 node for $0.1000 to 1 node for $0.1000: nothing is gained") {
		t.Errorf("apply() says %v", err)
	}
	if r.Commands != 1 || r.PodsMoved != 2 || r.Replacements != 1 || r.Invalid != 0 {
		t.Errorf("counted %+v", r)
	}
}
