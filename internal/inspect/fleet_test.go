package inspect_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/snapshot/snapshottest"
)

func TestFleetOf(t *testing.T) {
	t.Parallel()
	c, err := snapshottest.New(snapshottest.Options{Nodes: 4, Pending: 3, Huge: 1}).Cluster(awsv1.Vocabulary())
	if err != nil {
		t.Fatal(err)
	}
	f := inspect.FleetOf(c)
	if f.Totals.Nodes != 4 || f.Totals.Pods != 8 || f.Totals.Unpriced != 0 || len(f.Pending) != 4 {
		t.Errorf("got %d nodes, %d pods, %d without a price, %d pending; want 4, 8, 0, 4", f.Totals.Nodes, f.Totals.Pods, f.Totals.Unpriced, len(f.Pending))
	}
	if want := 2*0.192 + 2*0.192*0.4; f.Totals.Hourly < want-1e-9 || f.Totals.Hourly > want+1e-9 {
		t.Errorf("got $%v an hour, want $%v", f.Totals.Hourly, want)
	}
	cpu := f.Totals.Use["cpu"]
	if cpu.Requested != 4*1800 || cpu.Allocatable != 4*3920 {
		t.Errorf("got %d of %d thousandths of a core requested, want 7200 of 15680", cpu.Requested, cpu.Allocatable)
	}
	for _, n := range f.Nodes {
		if n.State != inspect.Ready || n.Pool != snapshottest.PoolName || n.Price == nil {
			t.Errorf("node %s: got %+v, want a ready node of the pool with a price", n.Name, n)
		}
	}
}

// TV-19: the age of a node is that of its NodeClaim from the launch on, or of the Node; an unknown one is absent.
func TestTV_19_AgesAreTrueOrAbsent(t *testing.T) {
	t.Parallel()
	file := snapshottest.Varied()
	for i := range file.Objects.NodeClaims {
		if c := &file.Objects.NodeClaims[i]; c.Name == "claim-node-0002" {
			c.CreationTimestamp = metav1.Time{}
		}
	}
	ages := map[string]time.Duration{}
	for _, n := range inspect.FleetOf(clusterOf(t, file)).Nodes {
		if n.Created != nil {
			ages[n.Name] = snapshottest.Now().Sub(*n.Created)
		}
	}
	want := map[string]time.Duration{"claim-coming": 20 * time.Second}
	for _, name := range []string{"node-0000", "node-0001", "node-held", "node-drifted", "node-leaving", "node-foreign"} {
		want[name] = 24 * time.Hour
	}
	if diff := cmp.Diff(want, ages); diff != "" {
		t.Errorf("ages (-want +got):\n%s", diff)
	}
}

func TestFixtureCanBeConsolidated(t *testing.T) {
	t.Parallel()
	c, err := snapshottest.New(snapshottest.Options{Nodes: 4}).Cluster(awsv1.Vocabulary())
	if err != nil {
		t.Fatal(err)
	}
	if d := disrupt.Next(c.View, nil); len(d.Commands) == 0 {
		t.Errorf("nodes that are half empty are not consolidated: %+v", d.Refused)
	}
}

// EX-05: a fleet says of each node what keeps it until a user acts.
func TestEX_05_BlockedNodesOfAFleet(t *testing.T) {
	t.Parallel()
	c, err := snapshottest.Varied().Cluster(awsv1.Vocabulary())
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range inspect.FleetOf(c).Nodes {
		switch {
		case n.Name == "node-held" && (n.Blocked == nil || n.Blocked.Code != reason.DoNotDisrupt):
			t.Errorf("node %s: got %+v, want the annotation of its pod", n.Name, n.Blocked)
		case n.Name != "node-held" && n.Blocked != nil:
			t.Errorf("node %s: got %+v, want nothing", n.Name, n.Blocked)
		}
	}
}
