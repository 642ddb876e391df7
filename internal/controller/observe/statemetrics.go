package observe

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

// informers is where watches come from; the cache of the manager is one.
type informers interface {
	GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error)
}

// StateMetrics exposes the state of pods, nodes and pools (operations 8.2, 8.3, 8.5). It follows watches,
// keeps sums up to date, and makes series when it is scraped. Only the leader exposes it:
// it is both a Runnable and a Collector, and collects nothing until it runs.
type StateMetrics struct {
	Informers informers
	Metrics   *metric.Set
	Now       func() time.Time

	mu    sync.Mutex
	pods  map[types.NamespacedName]*podState
	nodes map[string]*nodeState
	pools map[string]*karpv1.NodePool
}

// nodeState is a node and what the pods on it request. The node is nil while only its pods are known.
type nodeState struct {
	node *corev1.Node
	sums [2]map[corev1.ResourceName]*podAmount // of ordinary and of DaemonSet pods
	pods int
}

// NeedLeaderElection says that only the leader runs it.
func (*StateMetrics) NeedLeaderElection() bool { return true }

// Start follows the watches until the context ends.
func (m *StateMetrics) Start(ctx context.Context) error {
	m.clearState()
	defer m.clearState()
	for _, kind := range []struct {
		object client.Object
		take   func(obj client.Object, gone, first bool)
	}{{&corev1.Node{}, m.takeNode}, {&karpv1.NodePool{}, m.takePool}, {&corev1.Pod{}, m.takePod}} {
		informer, err := m.Informers.GetInformer(ctx, kind.object)
		if err != nil {
			return fmt.Errorf("watch %T: %w", kind.object, err)
		}
		if _, err := informer.AddEventHandler(m.handler(kind.take)); err != nil {
			return fmt.Errorf("watch %T: %w", kind.object, err)
		}
	}
	<-ctx.Done()
	return nil
}

// clearState empties the cached state, so that no series is exported.
func (m *StateMetrics) clearState() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pods, m.nodes, m.pools = map[types.NamespacedName]*podState{}, map[string]*nodeState{}, map[string]*karpv1.NodePool{}
}

// handler calls take under the lock; first says that the object was there before we were.
func (m *StateMetrics) handler(take func(obj client.Object, gone, first bool)) toolscache.ResourceEventHandler {
	locked := func(obj any, gone, first bool) {
		if last, unknown := obj.(toolscache.DeletedFinalStateUnknown); unknown {
			obj = last.Obj
		}
		if object, ok := obj.(client.Object); ok {
			m.mu.Lock()
			defer m.mu.Unlock()
			take(object, gone, first)
		}
	}
	return toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(obj any, initial bool) { locked(obj, false, initial) },
		UpdateFunc: func(_, obj any) { locked(obj, false, false) },
		DeleteFunc: func(obj any) { locked(obj, true, false) },
	}
}

func (m *StateMetrics) takePool(obj client.Object, gone, _ bool) {
	if gone {
		delete(m.pools, obj.GetName())
		return
	}
	m.pools[obj.GetName()] = obj.(*karpv1.NodePool)
}

func (m *StateMetrics) takeNode(obj client.Object, gone, _ bool) {
	state := m.nodeOf(obj.GetName())
	state.node = obj.(*corev1.Node)
	if gone {
		state.node = nil
		m.dropNode(obj.GetName(), state)
	}
}

func (m *StateMetrics) nodeOf(name string) *nodeState {
	state := m.nodes[name]
	if state == nil {
		state = &nodeState{sums: [2]map[corev1.ResourceName]*podAmount{{}, {}}}
		m.nodes[name] = state
	}
	return state
}

// dropNode drops a node that is gone, once its last pod is.
func (m *StateMetrics) dropNode(name string, state *nodeState) {
	if state.node == nil && state.pods == 0 {
		delete(m.nodes, name)
	}
}

// Planned notes that a plan has a place for some pods and none for others.
func (m *StateMetrics) Planned(placed, refused []cluster.PodKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.Now()
	note := func(keys []cluster.PodKey, place bool) {
		for _, key := range keys {
			state := m.pods[types.NamespacedName{Namespace: key.Namespace, Name: key.Name}]
			if state == nil {
				continue
			}
			state.decided = true
			if place && state.placeable.IsZero() {
				state.placeable = now
			}
		}
	}
	note(placed, true)
	note(refused, false)
}

// Describe describes nothing: series leave empty labels out, so they do not all have the same.
func (*StateMetrics) Describe(chan<- *prometheus.Desc) {}

// Collect makes the series of everything that exists now.
func (m *StateMetrics) Collect(out chan<- prometheus.Metric) {
	for _, sample := range m.samples() {
		out <- sample
	}
}

// samples are made under the lock, and sent without it: the reader may be slow.
func (m *StateMetrics) samples() []prometheus.Metric {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.pods)+len(m.nodes)+len(m.pools) == 0 {
		return nil
	}
	s := &scrape{set: m.Metrics, now: m.Now(), pairs: metric.NewPairs(), out: make([]prometheus.Metric, 0, 2*len(m.pods)+20*len(m.nodes))}
	// any order: a scrape is sorted when it is written
	for _, state := range m.nodes {
		if state.node != nil {
			s.node(state)
		}
	}
	s.utilization(m.nodes)
	// any order: a scrape is sorted when it is written
	for _, state := range m.pods {
		s.pod(state, m.nodes[state.pod.Spec.NodeName])
	}
	// any order: a scrape is sorted when it is written
	for name, p := range m.pools {
		s.pool(name, p)
	}
	return s.out
}

// scrape collects the series of one response.
type scrape struct {
	set   *metric.Set
	now   time.Time
	pairs *metric.Pairs
	out   []prometheus.Metric
}

func (s *scrape) add(gauge *metric.Live, value float64, labels ...string) {
	s.out = append(s.out, gauge.Sample(value, s.pairs.Of(gauge.Labels(), labels...)))
}

// since is how long ago something was, and never negative: clocks differ.
func (s *scrape) since(t time.Time) float64 { return max(s.now.Sub(t).Seconds(), 0) }

func (s *scrape) pool(name string, p *karpv1.NodePool) {
	// any order: a scrape is sorted when it is written
	for resource, quantity := range p.Status.Resources {
		s.add(s.set.PoolsUsage, inUnits(quantity), name, metric.ResourceType(string(resource)))
	}
	// any order: a scrape is sorted when it is written
	for resource, quantity := range p.Spec.Limits {
		s.add(s.set.PoolsLimit, inUnits(quantity), name, metric.ResourceType(string(resource)))
	}
}
