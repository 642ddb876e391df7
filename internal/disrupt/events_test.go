package disrupt_test

import (
	"fmt"
	"testing"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
)

// Disruption 5: repeats of an event are dropped for some minutes. A node that stays for another cause than
// before is no repeat, while one whose text has another number in it is.
func TestNewsOfAnotherCauseIsNoRepeat(t *testing.T) {
	t.Parallel()
	key := func(stays func(*cluster.ManagedNode)) string {
		d := disrupt.Next(disrupt.View{DisruptionView: cluster.DisruptionView{Now: noon, Pools: map[string]cluster.ManagedPool{"general": general()}, Nodes: []cluster.ManagedNode{node("a", stays)}}}, nil)
		if len(d.Events) != 1 {
			t.Fatalf("said %v", d.Events)
		}
		return d.Events[0].Event.Key
	}
	held := func(pod string) string {
		return key(podBlockingDrain(cluster.ManagedPod{Pod: podOf(pod, 0), ProtectedBy: karpv1.AnnotationDoNotDisrupt}))
	}
	expected := key(func(n *cluster.ManagedNode) { n.Nominated = true })
	if held("x/p") == expected {
		t.Errorf("both are told as %q", expected)
	}
	if held("x/p") != held("x/q") {
		t.Errorf("one cause is told as %q and %q", held("x/p"), held("x/q"))
	}
}

// Disruption 5: a node that starts passes through several causes within a minute. They are one piece of news, and
// those of a thousand nodes do not push what stands out of the record.
func TestTransientEventsAreEmittedOnce(t *testing.T) {
	t.Parallel()
	const many = 1000
	v := disrupt.View{DisruptionView: cluster.DisruptionView{Now: noon, Pools: map[string]cluster.ManagedPool{"general": general()}}}
	stages := []func(*cluster.ManagedNode){
		func(n *cluster.ManagedNode) { n.Registered, n.Initialized = false, false },
		func(n *cluster.ManagedNode) { n.Initialized = false },
		func(n *cluster.ManagedNode) { n.Nominated = true },
		func(n *cluster.ManagedNode) { n.ProtectedBy = karpv1.AnnotationDoNotDisrupt },
	}
	for i := range many {
		v.Nodes = append(v.Nodes, node(fmt.Sprintf("n%03d", i), stages[i%len(stages)]))
	}
	d := disrupt.Next(v, nil)
	keys := map[string]int{}
	for _, news := range d.Events {
		keys[news.Event.Key]++
	}
	if len(keys) != 2 || keys[""] != many*3/4 {
		t.Errorf("said under the keys %v", keys)
	}
	if d.Kept != many/4 || len(d.Refused) >= many/2 {
		t.Errorf("%d of %d in the record stand", d.Kept, len(d.Refused))
	}
	for i, r := range d.Refused[:d.Kept] {
		if want := v.Nodes[i*len(stages)+3].Name; r.Nodes[0] != want {
			t.Fatalf("record %d is of %v, want %s", i, r.Nodes, want)
		}
	}
}
