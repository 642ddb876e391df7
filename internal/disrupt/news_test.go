package disrupt_test

import (
	"testing"

	"github.com/dovetail-sh/dovetail/internal/disrupt"
)

// Disruption 5: repeats of an event are dropped for some minutes. A node that stays for another cause than
// before is no repeat, while one whose text has another number in it is.
func TestNewsOfAnotherCauseIsNoRepeat(t *testing.T) {
	t.Parallel()
	key := func(stays func(*disrupt.Node)) string {
		d := disrupt.Next(disrupt.View{Now: noon, Pools: map[string]disrupt.Pool{"general": general()}, Nodes: []disrupt.Node{node("a", stays)}}, nil)
		if len(d.Stay) != 1 {
			t.Fatalf("said %v", d.Stay)
		}
		return d.Stay[0].Event.Key
	}
	held := func(pod string) string { return key(holding(disrupt.Pod{Name: pod, Protected: true})) }
	expected := key(func(n *disrupt.Node) { n.Nominated = true })
	if held("x/p") == expected {
		t.Errorf("both are told as %q", expected)
	}
	if held("x/p") != held("x/q") {
		t.Errorf("one cause is told as %q and %q", held("x/p"), held("x/q"))
	}
}
