package families_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/scenario"
	"github.com/dovetail-sh/dovetail/internal/scenario/families"
)

func text(tb testing.TB, name string, seed uint64) []byte {
	tb.Helper()
	s, err := families.Make(name, seed)
	if err != nil {
		tb.Fatal(err)
	}
	data, err := json.Marshal(s)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

func load(tb testing.TB, name string) *scenario.Scenario {
	tb.Helper()
	s, err := scenario.Load(text(tb, name, 1), awsv1.Vocabulary())
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// Every family survives being written and read, in a small size, and requests nothing that is refused.
func TestFamiliesAreScenarios(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ pods, pools, nodes, bound, daemons int }{
		"s1-60": {pods: 60, pools: 1},
		"s2-60": {pods: 60, pools: 1, daemons: 3},
		"s3-60": {pods: 60, pools: 1},
		"s4-60": {pods: 60, pools: 100, daemons: 3},
		"s5-20": {pods: 20, pools: 1, nodes: 20, bound: 200, daemons: 3},
		"s6-60": {pods: 60, pools: 3, daemons: 3},
		"s7-60": {pods: 60, pools: 1, daemons: 3},
		"c1-20": {pools: 1, nodes: 20, bound: -1, daemons: 3},
		"c2-20": {pools: 1, nodes: 20, bound: 200, daemons: 3},
		"c3-21": {pools: 1, nodes: 21, bound: -1, daemons: 3},
		"c4-5":  {pools: 1, nodes: 5, bound: -1, daemons: 3},
		"c5-20": {pools: 3, nodes: 20, bound: -1, daemons: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := load(t, name)
			view := s.World(time.Unix(0, 0)).Compile().View
			bound := 0
			for i := range view.Nodes {
				n := &view.Nodes[i]
				bound += len(n.Pods)
				if n.Price == 0 || n.Pool == "" {
					t.Errorf("%s has price %v and pool %q", n.Name, n.Price, n.Pool)
				}
			}
			if tc.bound < 0 { // a third of 12 to 24 on each
				tc.bound = bound
			}
			got := []int{len(view.Pending), len(view.Pools), len(view.Nodes), bound, len(view.Daemons)}
			if want := []int{tc.pods, tc.pools, tc.nodes, tc.bound, tc.daemons}; !slices.Equal(got, want) {
				t.Errorf("pods, pools, nodes, bound pods, DaemonSets: %v, want %v", got, want)
			}
			for _, p := range view.Pending {
				if len(p.Shape.Invalid) > 0 {
					t.Errorf("%s is refused: %s", p.Key, p.Shape.Invalid[0].Text())
				}
			}
		})
	}
}

func TestSeedDecides(t *testing.T) {
	t.Parallel()
	first, again, other := string(text(t, "s2-60", 1)), string(text(t, "s2-60", 1)), string(text(t, "s2-60", 2))
	if first != again {
		t.Error("the same seed gave two scenarios")
	}
	if first == other {
		t.Error("two seeds gave one scenario")
	}
}

// Tools in languages that know null from an empty list read the files too.
func TestListsAreNeverNull(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"s1-10", "s5-10", "c1-10"} {
		if strings.Contains(string(text(t, name, 1)), "null") {
			t.Errorf("%s holds a null", name)
		}
	}
}

// The figures that the reports are read with: how much there is to choose from.
func TestInstanceTypes(t *testing.T) {
	t.Parallel()
	types := load(t, "s1-1").InstanceTypes
	general := 0
	for i := range types {
		l := types[i].Labels
		category, generation := l["karpenter.k8s.aws/instance-category"], l["karpenter.k8s.aws/instance-generation"]
		if types[i].Arch == "amd64" && slices.Contains([]string{"c", "m", "r"}, category) && generation > "2" {
			general++
		}
		if len(types[i].Offerings) == 0 {
			t.Errorf("%s is not offered", types[i].Name)
		}
	}
	if len(types) != 765 || general != 376 {
		t.Errorf("%d types, %d in the general pool; want 765 and 376", len(types), general)
	}
}

// Nodes of a scenario hold what runs on them, with room for the DaemonSets.
func TestNodesAreNotOverfull(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"s5-40", "c1-40", "c2-40", "c3-40", "c4-8", "c5-40"} {
		view := load(t, name).World(time.Unix(0, 0)).Compile().View
		for i := range view.Nodes {
			n := &view.Nodes[i]
			cpu, memory := int64(200), int64(256<<20)
			for _, p := range n.Pods {
				cpu += p.Shape.Requests.At(0)
				memory += p.Shape.Requests.At(1)
			}
			if cpu > n.Allocatable.At(0) || memory > n.Allocatable.At(1) {
				t.Errorf("%s: %s has requests of %dm and %d bytes and allocatable %s", name, n.Name, cpu, memory, view.Resources.Format(n.Allocatable))
			}
		}
	}
}

func TestUnknownNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"s9-10":  `no family "s9"; there are s1 to s7 and c1 to c5`,
		"s1":     `no scenario "s1"; want a family and a size, such as s1-500 or s1-5000`,
		"s1-0":   `no scenario "s1-0"`,
		"s1-two": `no scenario "s1-two"`,
	} {
		if _, err := families.Make(name, 1); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("Make(%q) says %v, want %s", name, err, want)
		}
	}
}
