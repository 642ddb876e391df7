package observe

import (
	"maps"
	"math"
	"slices"
	"strconv"

	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

// podAmount is what pods request of a resource and how far they may go, in thousandths: sums of whole
// numbers return to zero when the last pod is deleted.
type podAmount struct{ request, limit int64 }

// podResource is the amount of one resource that one pod takes.
type podResource struct {
	resource corev1.ResourceName
	podAmount
}

// resourcesOf is what a pod takes from its node.
func resourcesOf(pod *corev1.Pod) []podResource {
	options := resourcehelper.PodResourcesOptions{UseStatusResources: true}
	requests, limits := resourcehelper.PodRequests(pod, options), resourcehelper.PodLimits(pod, options)
	resources := make([]podResource, 0, len(requests)+len(limits)+1)
	// any order: they are added up
	for name, quantity := range requests {
		limit := limits[name]
		resources = append(resources, podResource{name, podAmount{quantity.MilliValue(), limit.MilliValue()}})
	}
	// any order: they are added up
	for name, quantity := range limits {
		if _, requested := requests[name]; !requested {
			resources = append(resources, podResource{name, podAmount{limit: quantity.MilliValue()}})
		}
	}
	return append(resources, podResource{corev1.ResourcePods, podAmount{request: 1000}})
}

// count adds what a pod requests to the sums of its node, or with -1 takes it away.
func (n *nodeState) count(resources []podResource, daemon bool, times int64) {
	sums := n.sums[0]
	if daemon {
		sums = n.sums[1]
	}
	n.pods += int(times)
	for _, a := range resources {
		sum := sums[a.resource]
		if sum == nil {
			sum = &podAmount{}
			sums[a.resource] = sum
		}
		sum.request += times * a.request
		sum.limit += times * a.limit
		if *sum == (podAmount{}) {
			delete(sums, a.resource)
		}
	}
}

func (s *scrape) node(state *nodeState) {
	n := state.node
	common := s.nodeLabels(n)
	add := func(gauge *metric.Live, name corev1.ResourceName, value float64) {
		s.out = append(s.out, gauge.Sample(value, s.pairs.With(common, "resource_type", metric.ResourceType(string(name)))))
	}
	// any order: a scrape is sorted when it is written
	for name, quantity := range n.Status.Allocatable {
		add(s.set.NodesAllocatable, name, inUnits(quantity))
		if capacity, found := n.Status.Capacity[name]; found {
			capacity.Sub(quantity)
			add(s.set.NodesSystemOverhead, name, max(inUnits(capacity), 0))
		}
	}
	for i, gauges := range [][2]*metric.Live{
		{s.set.NodesTotalPodRequests, s.set.NodesTotalPodLimits},
		{s.set.NodesTotalDaemonRequests, s.set.NodesTotalDaemonLimits},
	} {
		// any order: a scrape is sorted when it is written
		for name, sum := range state.sums[i] {
			add(gauges[0], name, float64(sum.request)/1000)
			if sum.limit > 0 {
				add(gauges[1], name, float64(sum.limit)/1000)
			}
		}
	}
	s.out = append(s.out, s.set.NodesCurrentLifetime.Sample(s.since(n.CreationTimestamp.Time), common))
}

func (s *scrape) nodeLabels(n *corev1.Node) []*dto.LabelPair {
	keys := s.set.NodeKeys()
	values := make([]string, 0, len(keys)+3)
	for _, key := range keys {
		values = append(values, n.Labels[key])
	}
	values = append(values, n.Name, string(n.Status.Phase), strconv.FormatBool(isOurs(n)))
	return s.pairs.Of(s.set.NodesCurrentLifetime.Labels(), values...)
}

// inUnits is a quantity in cores, bytes or pieces. Thousandths are exact where a float is not.
func inUnits(q resource.Quantity) float64 {
	if milli := q.MilliValue(); milli < math.MaxInt64 {
		return float64(milli) / 1000
	}
	return q.AsApproximateFloat64()
}

// isOurs says whether a node was launched by us.
func isOurs(n *corev1.Node) bool { return n.Labels[karpv1.LabelNodePool] != "" }

// utilization is what all pods request as a share of what all nodes have for them.
func (s *scrape) utilization(nodes map[string]*nodeState) {
	have, requested := map[corev1.ResourceName]float64{}, map[corev1.ResourceName]float64{}
	for _, name := range slices.Sorted(maps.Keys(nodes)) { // a sum of fractions depends on their order
		state := nodes[name]
		if state.node == nil {
			continue
		}
		// any order: each resource is added up by itself
		for name, quantity := range state.node.Status.Allocatable {
			have[name] += inUnits(quantity)
		}
		for _, sums := range state.sums {
			// any order: each resource is added up by itself
			for name, sum := range sums {
				requested[name] += float64(sum.request) / 1000
			}
		}
	}
	// any order: a scrape is sorted when it is written
	for name, total := range have {
		if total > 0 {
			s.add(s.set.ClusterUtilization, 100*requested[name]/total, metric.ResourceType(string(name)))
		}
	}
}
