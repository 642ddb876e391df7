package ledger_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/ledger"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

func podIn(namespace string, requests ...int64) cluster.Pod {
	return cluster.Pod{Key: cluster.PodKey{Namespace: namespace, Name: "x"}, Shape: &cluster.Shape{Requests: resources.Of(requests...)}}
}

// A namespace has the share of a node that its pods request: the mean of CPU and memory, or the share of a device. What is
// launched costs; what is not managed, or only claimed so far, does not.
func TestLG_06_NamespacesShareNodes(t *testing.T) {
	t.Parallel()
	const gpu, huge = "nvidia.com/gpu", "hugepages-2Mi"
	table := resources.NewTable(gpu, huge)
	lane, _ := table.Lane(gpu)
	pages, _ := table.Lane(huge)
	vec := func(cpu, memory, gpus, pages2 int64) []int64 {
		out := make([]int64, table.Len())
		out[resources.CPU], out[resources.Memory], out[lane], out[pages] = cpu, memory, gpus, pages2
		return out
	}
	node := func(price float64, gpus int64, pods ...cluster.Pod) cluster.Node {
		return cluster.Node{Name: "n", Claim: "c", Pool: "general", InstanceType: "m5.large", Price: price, Allocatable: resources.Of(vec(1000, 1000, gpus, 1000)...), Pods: pods}
	}
	web := podIn("web", vec(500, 100, 0, 0)...)
	for name, tc := range map[string]struct {
		node     cluster.Node
		want     map[string]float64
		unpriced int
		nodes    int
	}{
		"the mean of CPU and memory":       {node(1, 0, web), map[string]float64{"web": 0.3}, 0, 1},
		"two pods, two namespaces":         {node(1, 0, web, web, podIn("db", vec(0, 400, 0, 0)...)), map[string]float64{"web": 0.6, "db": 0.2}, 0, 1},
		"a device":                         {node(4, 4, podIn("ml", vec(100, 100, 3, 0)...)), map[string]float64{"ml": 3}, 0, 1},
		"a device and others beside it":    {node(1, 1, podIn("ml", vec(100, 100, 1, 0)...), podIn("web", vec(600, 400, 0, 0)...)), map[string]float64{"ml": 1 / 1.5, "web": 0.5 / 1.5}, 0, 1},
		"huge pages are no device":         {node(1, 0, podIn("db", vec(0, 100, 0, 1000)...)), map[string]float64{"db": 0.05}, 0, 1},
		"more than the node":               {node(1, 0, podIn("a", vec(5000, 5000, 0, 0)...), podIn("b", vec(1000, 1000, 0, 0)...)), map[string]float64{"a": 0.5, "b": 0.5}, 0, 1},
		"a price that is not known":        {node(0, 0, web), nil, 1, 1},
		"a node that is not managed":       {cluster.Node{Name: "n", InstanceType: "m5.large", Price: 1}, nil, 0, 0},
		"a claim that is not launched yet": {cluster.Node{Name: "n", Claim: "c", Price: 1}, nil, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := ledger.ObservationOf(&cluster.DisruptionView{Now: noon(), Cluster: &cluster.Snapshot{Resources: table, Nodes: []cluster.Node{tc.node}}}, 0)
			unpriced := 0
			for _, n := range o.Nodes {
				if n.Unpriced {
					unpriced++
				}
			}
			if len(o.Nodes) != tc.nodes || unpriced != tc.unpriced || len(o.Namespaces) != len(tc.want) {
				t.Errorf("got %+v", o)
			}
			for namespace, want := range tc.want {
				near(t, namespace, o.Namespaces[namespace], want)
			}
		})
	}
	if free := (cluster.Node{Claim: "c", InstanceType: "x", Free: true}); ledger.ObservationOf(&cluster.DisruptionView{Cluster: &cluster.Snapshot{Nodes: []cluster.Node{free}}}, 0).Nodes[0].Unpriced {
		t.Error("a node that costs nothing has no known price")
	}
	if o := ledger.ObservationOf(&cluster.DisruptionView{Now: noon()}, 1); len(o.Nodes) > 0 {
		t.Errorf("without a snapshot there is %+v", o)
	}
}

// The shares of namespaces and what is idle add up to the price of the nodes, whatever pods request.
func TestLG_06_SharesAddUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		amount := rapid.SampledFrom([]int64{-5, 0, 1, 700, 1000, 1 << 60})
		s := &cluster.Snapshot{Resources: resources.NewTable("example.com/device"), Pools: []cluster.Pool{{Name: "general"}}}
		sum := 0.0
		for i := range rapid.IntRange(0, 4).Draw(t, "nodes") {
			n := cluster.Node{Claim: fmt.Sprint(i), Pool: "general", InstanceType: "x", Price: rapid.Float64Range(0, 100).Draw(t, "price"), Allocatable: resources.Of(rapid.SliceOfN(amount, 6, 6).Draw(t, "allocatable")...)}
			for range rapid.IntRange(0, 5).Draw(t, "pods") {
				n.Pods = append(n.Pods, podIn(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "namespace"), rapid.SliceOfN(amount, 6, 6).Draw(t, "requests")...))
			}
			sum += n.Price
			s.Nodes = append(s.Nodes, n)
		}
		b := ledger.New(limits())
		for i := range 2 {
			b.Observe(ledger.ObservationOf(&cluster.DisruptionView{Now: noon().Add(time.Duration(i) * 10 * time.Minute), Cluster: s}, 0))
		}
		d := b.Total()
		spent := 0.0
		for _, r := range d.Namespaces {
			spent += r.Spent
			if r.Spent < 0 {
				t.Fatalf("%s: %v", r.Name, r.Spent)
			}
		}
		if !same(spent, sum/6) || !same(d.Total.Spent, sum/6) {
			t.Fatalf("namespaces add up to %v, NodePools to %v, want %v", spent, d.Total.Spent, sum/6)
		}
	})
}

// What a pass costs beside its decision, at 1,000 nodes with 10,000 pods of 50 namespaces.
func BenchmarkObserve(b *testing.B) {
	s := &cluster.Snapshot{Resources: resources.NewTable(corev1.ResourceName("nvidia.com/gpu")), Pools: []cluster.Pool{{Name: "general"}}}
	for i := range 1000 {
		n := cluster.Node{Claim: fmt.Sprintf("general-%04d", i), Pool: "general", InstanceType: "m5.large", Price: 0.1, Allocatable: resources.Of(2000, 8<<30, 0, 110, 0, 0)}
		for j := range 10 {
			n.Pods = append(n.Pods, podIn(fmt.Sprintf("namespace-%d", (i*10+j)%50), 150, 600<<20))
		}
		s.Nodes = append(s.Nodes, n)
	}
	book := ledger.New(ledger.DefaultLimits())
	v := &cluster.DisruptionView{Now: noon(), Cluster: s}
	b.ReportAllocs()
	for b.Loop() {
		v.Now = v.Now.Add(10 * time.Second)
		book.Observe(ledger.ObservationOf(v, 1))
	}
	if book.Total().Total.Bound == 0 || len(book.Savings(inspect.SavingsQuery{}).Days) == 0 {
		b.Error("nothing was observed")
	}
}
