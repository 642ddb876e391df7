package random_test

import (
	"cmp"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/check/random"
	"github.com/dovetail-sh/dovetail/internal/cluster"
)

func source(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

func TestSameSourceSameProblem(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		one, errOne := json.Marshal(random.Problem(source(seed), random.Options{}))
		two, errTwo := json.Marshal(random.Problem(source(seed), random.Options{}))
		if errOne != nil || errTwo != nil || string(one) != string(two) {
			t.Errorf("seed %d gives two problems (%v, %v)", seed, errOne, errTwo)
		}
	}
}

// What a Snapshot promises: order, unique names, one pointer per shape, no shape without alternatives.
func TestProblemsKeepTheInvariantsOfASnapshot(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		p := random.Problem(source(seed), random.Options{})
		byPool := func(a, b cluster.Pool) int {
			return cmp.Or(cmp.Compare(b.Weight, a.Weight), cmp.Compare(b.Name, a.Name))
		}
		if !slices.IsSortedFunc(p.View.Pools, byPool) || !slices.IsSortedFunc(p.View.Nodes, func(a, b cluster.Node) int { return cmp.Compare(a.Name, b.Name) }) {
			t.Errorf("seed %d: pools or nodes are out of order", seed)
		}
		keys, shapes := map[cluster.PodKey]bool{}, map[string]*cluster.Shape{}
		for _, pod := range p.Pods {
			if keys[pod.Key] || len(pod.Shape.Required) == 0 || pod.Key.Namespace != pod.Shape.Namespace {
				t.Errorf("seed %d: %s is twice there, has no alternative, or the shape of another namespace", seed, pod.Key)
			}
			keys[pod.Key] = true
			if known := shapes[pod.Shape.Key]; known != nil && known != pod.Shape {
				t.Errorf("seed %d: two shapes with one key", seed)
			}
			shapes[pod.Shape.Key] = pod.Shape
		}
	}
}

// Everything that problems are meant to contain does come up.
func TestProblemsHaveEverything(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	note := func(what string, is bool) { seen[what] = seen[what] || is }
	for seed := range uint64(600) {
		p := random.Problem(source(seed), random.Options{})
		for i := range p.View.Pools {
			pool := &p.View.Pools[i]
			note("taints", len(pool.Taints) > 0)
			note("limits", len(pool.Limits) > 0)
			note("node limit", pool.NodeLimit != nil)
			note("closed", pool.Closed)
			for _, r := range pool.Requirements {
				note("minValues", r.MinValues > 0)
			}
			for j := range pool.Types {
				for _, o := range pool.Types[j].Offerings {
					note("reserved", o.Reservation != "" && o.Remaining > 0)
					note("full", o.Reservation != "" && o.Remaining == 0)
					note("no capacity", !o.Available)
				}
			}
		}
		for i := range p.View.Nodes {
			n := &p.View.Nodes[i]
			note("deleting", n.Deleting)
			note("settling", n.Settling)
			note("in flight", len(n.Needs) > 0)
			note("unmanaged", n.Pool == "")
		}
		for _, pod := range p.Pods {
			s := pod.Shape
			note("alternatives", len(s.Required) > 1)
			note("preferences", len(s.Preferred) > 0)
			note("affinity", len(s.Affinity) > 0)
			note("anti-affinity", len(s.AntiAffinity) > 0)
			note("ports", len(s.HostPorts) > 0)
			note("volumes", len(s.Volumes) > 0)
			note("invalid", len(s.Invalid) > 0)
			note("refuses", s.Refuses)
			for _, c := range s.Spread {
				note("hard spread over "+c.Key, !c.Soft)
				note("soft spread", c.Soft)
				note("minDomains", c.MinDomains > 0)
				note("taints honoured", c.HonorTaint)
				note("any node", c.AnyNode)
			}
		}
		note("daemons", len(p.View.Daemons) > 0)
	}
	for what, is := range seen {
		if !is {
			t.Errorf("%s never comes up", what)
		}
	}
	if len(seen) < 29 {
		t.Errorf("only %d kinds of things come up: %v", len(seen), seen)
	}
}

func TestQuestionsHaveCandidates(t *testing.T) {
	t.Parallel()
	candidates := 0
	for seed := range uint64(100) {
		q := random.Question(source(seed), random.Options{Plain: true})
		candidates += len(q.Candidates)
		if len(q.View.Pending) > 0 {
			t.Errorf("seed %d: pods are pending", seed)
		}
	}
	if candidates < 100 {
		t.Errorf("%d candidates in 100 questions", candidates)
	}
}
