package inspect_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/snapshot"
	"github.com/dovetail-sh/dovetail/internal/snapshot/snapshottest"
)

func clusterOf(tb testing.TB, f *snapshot.File) *inspect.Cluster {
	tb.Helper()
	c, err := f.Cluster(awsv1.Vocabulary())
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func explain(tb testing.TB, c *inspect.Cluster, kind inspect.Kind, name string) inspect.Explanation {
	tb.Helper()
	e, err := inspect.Explain(c, inspect.Subject{Kind: kind, Name: name})
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

func codesOf(list []inspect.Finding) []reason.Code {
	var codes []reason.Code
	for _, f := range list {
		codes = append(codes, f.Code)
	}
	return codes
}

// EX-01: every object of a cluster has an answer, and exactly one part; the same cluster gives the same answer.
func TestEX_01_EveryObjectHasAnAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]*inspect.Cluster{
		"varied": clusterOf(t, snapshottest.Varied()), "plain": clusterOf(t, snapshottest.New(snapshottest.Options{Nodes: 6, Pending: 3, Huge: 1})),
	} {
		subjects := inspect.Subjects(c)
		if len(subjects) < 20 {
			t.Fatalf("%s: only %d objects", name, len(subjects))
		}
		for _, about := range subjects {
			e, err := inspect.Explain(c, about)
			if err != nil {
				t.Fatalf("%s: %s: %v", name, about, err)
			}
			parts := 0
			for _, set := range []bool{e.Pod != nil, e.Node != nil, e.Pool != nil} {
				if set {
					parts++
				}
			}
			d := e.Document()
			if e.Answer == "" || !strings.HasSuffix(e.Answer, ".") || strings.Contains(e.Answer, "..") || parts != 1 || d.Answer != e.Answer {
				t.Errorf("%s: %s: %d parts, answer %q", name, about, parts, e.Answer)
			}
			for _, s := range d.Sections {
				for _, row := range s.Rows {
					if len(row) != len(s.Columns) {
						t.Errorf("%s: %s: section %s has a row of %d cells, want %d", name, about, s.Title, len(row), len(s.Columns))
					}
				}
			}
			again, _ := inspect.Explain(c, about)
			if diff := cmp.Diff(e, again); diff != "" {
				t.Errorf("%s: %s: a second explanation differs (-first +second):\n%s", name, about, diff)
			}
		}
	}
}

// EX-03, EX-04: a pending pod is told where it goes, or what rules out everything.
func TestEX_04_PendingPods(t *testing.T) {
	t.Parallel()
	c := clusterOf(t, snapshottest.Varied())
	fits, huge, ignored := explain(t, c, inspect.KindPod, "fits").Pod, explain(t, c, inspect.KindPod, "huge").Pod, explain(t, c, inspect.KindPod, "ignored").Pod
	if fits.Launch == nil || fits.Launch.Type != "m7g.xlarge" || fits.Expected != nil || len(fits.Why) > 0 {
		t.Errorf("got %+v, want the launch of the cheapest instance type that fits", fits)
	}
	if huge.Launch != nil || huge.Expected != nil || len(huge.Why) == 0 || huge.Why[0].Code != reason.NoTypeFits {
		t.Errorf("got %+v, want no place, and why", huge)
	}
	nodes := 0
	for _, n := range huge.Nodes {
		nodes += n.Nodes
	}
	if want := len(c.View.Cluster.Nodes); nodes != want {
		t.Errorf("%d nodes are ruled out, want all %d", nodes, want)
	}
	pools := map[string][]reason.Code{}
	for _, p := range huge.Pools {
		pools[p.Pool] = codesOf(p.Why)
	}
	if diff := cmp.Diff(map[string][]reason.Code{
		"default": {reason.NoTypeFits, reason.NearestType}, "small": {reason.NoTypeFits, reason.NearestType}, "closed": {reason.PoolClosed},
		"batch": {reason.TaintNotTolerated, reason.NoTypeFits, reason.NearestType},
	}, pools); diff != "" {
		t.Errorf("NodePools (-want +got):\n%s", diff)
	}
	if ignored.State != inspect.PodIgnored || len(ignored.Why) != 1 || ignored.Why[0].Code != reason.ClaimMissing {
		t.Errorf("got %+v, want a pod that is not planned for because of its claim", ignored)
	}
}

// EX-04: a pod that fits an existing node needs no other, and one whose node is on its way waits for that.
func TestEX_04_PlacesThatExist(t *testing.T) {
	t.Parallel()
	f := snapshottest.New(snapshottest.Options{Nodes: 1})
	f.Objects.Pods = append(f.Objects.Pods, *snapshottest.Pod("small", "", "100m", "128Mi"))
	e := explain(t, clusterOf(t, f), inspect.KindPod, "small")
	if e.Pod.Expected == nil || e.Pod.Expected.Name != "node-0000" || !strings.HasPrefix(e.Answer, "Node node-0000 has room for it") {
		t.Errorf("%s: got %+v, want the node that exists", e.Answer, e.Pod)
	}
}

// EX-04: NodePools whose instance types are not known are not blamed for having none.
func TestEX_04_UnknownTypes(t *testing.T) {
	t.Parallel()
	f := snapshottest.New(snapshottest.Options{Nodes: 1, Pending: 1})
	f.Objects.Pods = append(f.Objects.Pods, *snapshottest.Pod("large", "", "3", "1Gi"))
	f.Catalogues[0].InstanceTypes, f.Catalogues[0].Problem = nil, "access denied"
	e := explain(t, clusterOf(t, f), inspect.KindPod, "large")
	want := []inspect.PoolFindings{{Pool: "default", Why: []inspect.Finding{inspect.FindingOf(reason.Reason{Code: reason.PoolUnresolved, Have: "default"})}}}
	want[0].Why[0].Text += " (access denied)"
	if diff := cmp.Diff(want, e.Pod.Pools); diff != "" {
		t.Errorf("NodePools (-want +got):\n%s", diff)
	}
	if !strings.Contains(e.Answer, "access denied") || len(e.Notes) != 1 {
		t.Errorf("answer %q, notes %v: want why the types are not known", e.Answer, e.Notes)
	}
}

// EX-06: what would be done with a node is what disruption decides, for every node.
func TestEX_06_ProposalsAreDecisions(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]*snapshot.File{"varied": snapshottest.Varied(), "plain": snapshottest.New(snapshottest.Options{Nodes: 8, Pods: 3, Pending: 1})} {
		c := clusterOf(t, f)
		decided := map[string]string{} // command by node
		for _, command := range disrupt.Next(c.View, nil).Commands {
			for _, n := range command.Remove {
				decided[n.Node] = command.ID
			}
		}
		if len(decided) == 0 {
			t.Fatalf("%s: no node would be removed", name)
		}
		for i := range c.View.Nodes {
			n := &c.View.Nodes[i]
			e := explain(t, c, inspect.KindNode, n.Name)
			got := ""
			if e.Node.Proposal != nil {
				got = e.Node.Proposal.ID
			}
			if got != decided[n.Name] {
				t.Errorf("%s: node %s: got command %q, decided was %q", name, n.Name, got, decided[n.Name])
			}
			if got == "" && e.Node.Node.State != inspect.Removing && len(e.Node.Stays)+len(e.Node.Blockers) == 0 {
				t.Errorf("%s: node %s stays, and nothing says why: %s", name, n.Name, e.Answer)
			}
		}
	}
}

// EX-07: the alternatives of a node are instance types that hold its pods, cheapest first, and include its own.
func TestEX_07_Alternatives(t *testing.T) {
	t.Parallel()
	n := explain(t, clusterOf(t, snapshottest.New(snapshottest.Options{Nodes: 2, Pods: 1})), inspect.KindNode, "node-0000").Node
	var got []string
	for _, a := range n.Alternatives {
		if len(a.Launch) != 1 || a.Price != a.Launch[0].Price {
			t.Errorf("alternative %+v, want one node", a)
		}
		got = append(got, a.Launch[0].Type)
	}
	// The pod requests 1800m, which m5.large has.
	if diff := cmp.Diff([]string{"m5.large", "m7g.xlarge", "c5.xlarge", "m5.xlarge", "r5.xlarge"}, got); diff != "" {
		t.Errorf("alternatives (-want +got):\n%s", diff)
	}
	if !slices.IsSortedFunc(n.Alternatives, func(a, b inspect.Alternative) int { return int(1e6 * (a.Price - b.Price)) }) {
		t.Errorf("alternatives are not sorted by price: %+v", n.Alternatives)
	}
}

// EX-08: a NodePool counts its nodes by why they stay, and the pods that it launches nothing for.
func TestEX_08_NodePools(t *testing.T) {
	t.Parallel()
	c := clusterOf(t, snapshottest.Varied())
	p := explain(t, c, inspect.KindNodePool, snapshottest.PoolName).Pool
	nodes, fleet := 0, inspect.FleetOf(c)
	for _, n := range p.Nodes {
		nodes += n.Nodes
	}
	at := slices.IndexFunc(fleet.Pools, func(p inspect.Pool) bool { return p.Name == snapshottest.PoolName })
	if want := fleet.Pools[at].Totals.Nodes; nodes != want {
		t.Errorf("%d nodes are counted, want %d", nodes, want)
	}
	if len(p.Launch) != 1 || len(p.Refused) != 1 || p.Refused[0].Pod != "default/huge" || p.Refused[0].Pods != 1 {
		t.Errorf("launches %+v and refuses %+v, want one node for one pod, and one pod refused", p.Launch, p.Refused)
	}
	if len(p.Budgets) != 2 || !p.Budgets[0].Active || p.Budgets[1].Active {
		t.Errorf("budgets %+v, want the first active and the second, which is for weekdays, not", p.Budgets)
	}
	closed := explain(t, c, inspect.KindNodePool, snapshottest.ClosedPool)
	if !strings.Contains(closed.Answer, "Nothing is launched from it: it is not ready") {
		t.Errorf("answer %q, want why nothing is launched", closed.Answer)
	}
}

// EX-09: a pod that cannot be evicted says why, on a node that stays and on one that is removed.
func TestEX_09_Evictions(t *testing.T) {
	t.Parallel()
	c := clusterOf(t, snapshottest.Varied())
	for name, tc := range map[string]struct {
		state inspect.PodState
		want  []reason.Code
	}{
		"db-0": {inspect.PodRunning, []reason.Code{reason.EvictionImpossible}}, "important": {inspect.PodRunning, []reason.Code{reason.DoNotDisrupt}},
		"web-0000-0": {state: inspect.PodRunning}, "web-leaving": {state: inspect.PodLeaving},
	} {
		p := explain(t, c, inspect.KindPod, name).Pod
		if p.State != tc.state || !p.Moves {
			t.Errorf("pod %s: state %s, moves %v", name, p.State, p.Moves)
		}
		if diff := cmp.Diff(tc.want, codesOf(p.Blockers)); diff != "" {
			t.Errorf("pod %s: blockers (-want +got):\n%s", name, diff)
		}
	}
	n := explain(t, c, inspect.KindNode, "node-leaving")
	if !strings.Contains(n.Answer, "waits for default/db-1, which cannot be evicted") {
		t.Errorf("answer %q, want the pod that the drain waits for", n.Answer)
	}
	if got := codesOf(n.Node.Blockers); !slices.Equal(got, []reason.Code{reason.EvictionImpossible}) {
		t.Errorf("blockers %v", got)
	}
}

// EX-11: an error names objects that were perhaps meant.
func TestEX_11_NotFound(t *testing.T) {
	t.Parallel()
	c := clusterOf(t, snapshottest.Varied())
	for about, want := range map[inspect.Subject][]string{
		{Kind: inspect.KindPod, Name: "fist"}:                     {"pod/default/fits"},
		{Kind: inspect.KindPod, Namespace: "shop", Name: "huge"}:  {"pod/default/huge"},
		{Kind: inspect.KindNode, Name: "node-0003"}:               {"node/node-0000"},
		{Kind: inspect.KindNodeClaim, Name: "node-0000"}:          {"node/node-0000"},
		{Kind: inspect.KindNodePool, Name: "defalt"}:              {"nodepool/default"},
		{Kind: inspect.KindNodePool, Name: "something-different"}: {},
	} {
		_, err := inspect.Explain(c, about)
		missing, ok := errors.AsType[inspect.NotFoundError](err)
		if !ok {
			t.Fatalf("%s: got %v", about, err)
		}
		if diff := cmp.Diff(want, missing.Similar); diff != "" {
			t.Errorf("%s: similar (-want +got):\n%s", about, diff)
		}
	}
}
