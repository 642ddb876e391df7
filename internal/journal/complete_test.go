package journal_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/journal"
)

// The record has every node that something keeps, however many there are.
func TestAllBlockedNodesAreRecorded(t *testing.T) {
	t.Parallel()
	const many = 300
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	v := disrupt.View{DisruptionView: cluster.DisruptionView{Now: now, Pools: map[string]cluster.ManagedPool{"general": {Pool: cluster.Pool{Name: "general", Types: make([]catalog.InstanceType, 1)}}}}}
	for i := range many {
		v.Nodes = append(v.Nodes, cluster.ManagedNode{Node: cluster.Node{Name: fmt.Sprintf("n%03d", i), Claim: fmt.Sprintf("c%03d", i), Pool: "general", Initialized: true}, Registered: true, Ready: true, ProtectedBy: karpv1.AnnotationDoNotDisrupt})
	}
	j := journal.New(journal.Limits{Entries: 500, Bytes: 2 << 20}, func() time.Time { return now })
	j.Decided(disrupt.Next(v, func() bool { return false }))
	if page := j.Read(journal.Query{Kind: journal.Blocked}); page.Total != many {
		t.Errorf("%d blocked nodes are recorded, want %d", page.Total, many)
	}
	if page := j.Read(journal.Query{Node: "n299"}); len(page.Blocked) != 1 {
		t.Errorf("node n299: %+v", page.Blocked)
	}
}

// A terminating node without a command is on record by both of its names.
func TestRemovalsAreRecorded(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	j := journal.New(journal.Limits{Entries: 2, Bytes: 2 << 20}, func() time.Time { return now })
	for _, n := range []string{"1", "2", "3"} {
		j.Removed("claim-"+n, "node-"+n, "expired")
	}
	for name, want := range map[string]int{"claim-1": 0, "node-3": 1, "claim-3": 1} {
		page := j.Read(journal.Query{Node: name, Kind: journal.Removal})
		if len(page.Entries) != want || want > 0 && !strings.Contains(string(page.Entries[0].Value), `"expired"`) {
			t.Errorf("%s: %+v, want %d", name, page.Entries, want)
		}
	}
	(*journal.Journal)(nil).Removed("claim", "", "expired")
}
