package cluster_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dovetail-sh/dovetail/internal/cluster"
)

// workload is count pods of the given number of deployments, as an API server returns them.
func workload(tb testing.TB, count, deployments int) []*corev1.Pod {
	tb.Helper()
	template := podYAML(tb, `
containers:
- {name: app, image: web, resources: {requests: {cpu: 250m, memory: 512Mi}, limits: {memory: 512Mi}}, ports: [{containerPort: 8080}]}
- {name: proxy, image: proxy, resources: {requests: {cpu: 100m, memory: 128Mi}}}
initContainers:
- {name: migrate, image: web, resources: {requests: {cpu: 100m}}}
nodeSelector: {kubernetes.io/arch: amd64}
tolerations:
- {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 300}
- {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 300}
topologySpreadConstraints:
- {topologyKey: topology.kubernetes.io/zone, maxSkew: 1, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}
`)
	template.OwnerReferences = read[corev1.Pod](tb, "metadata: {ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: x}]}").OwnerReferences
	pods := make([]*corev1.Pod, count)
	for i := range pods {
		p := template.DeepCopy()
		d := i % deployments
		p.Name = fmt.Sprintf("web-%d-%d", d, i)
		p.Labels = map[string]string{"app": "web", "app.kubernetes.io/name": "web", "app.kubernetes.io/part-of": "shop", "pod-template-hash": fmt.Sprint(d)}
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = *resource.NewQuantity(int64(d+1)<<20, resource.BinarySI)
		pods[i] = p
	}
	return pods
}

func benchmarkRead(b *testing.B, count, deployments int, renew bool) {
	b.Helper()
	benchmarkPods(b, workload(b, count, deployments), renew)
}

func benchmarkPods(b *testing.B, pods []*corev1.Pod, renew bool) {
	b.Helper()
	r := newReader(cluster.ReaderOptions{})
	for _, p := range pods {
		r.Pod(p, nil)
	}
	b.ReportAllocs()
	for b.Loop() {
		if renew {
			r = r.Renew()
		}
		for _, p := range pods {
			r.Pod(p, nil)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(pods)), "ns/pod")
}

// Pods whose shape is known: what a store pays for every pod of every snapshot.
func BenchmarkReadPods(b *testing.B) { benchmarkRead(b, 100_000, 500, false) }

// Pods of which each has a shape of its own, known and never seen.
func BenchmarkReadDistinctPods(b *testing.B) { benchmarkRead(b, 10_000, 10_000, false) }
func BenchmarkBuildShapes(b *testing.B)      { benchmarkRead(b, 10_000, 10_000, true) }

// Pods that were never seen, 10,000 of each kind: of another size each, or of another app each.
func BenchmarkNewShapes(b *testing.B) {
	const plain = `containers: [{name: app, resources: {requests: {cpu: 100m, memory: 1Gi}}}]`
	const constraint = `
topologySpreadConstraints: [{topologyKey: topology.kubernetes.io/zone, maxSkew: 1, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}]`
	const term = `
affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}]}}`
	size := func(p *corev1.Pod, i int) {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = *resource.NewQuantity(int64(i+1)<<20, resource.BinarySI)
	}
	app := func(p *corev1.Pod, i int) {
		p.Labels["app"] = fmt.Sprintf("web-%d", i)
		for j := range p.Spec.TopologySpreadConstraints {
			p.Spec.TopologySpreadConstraints[j].LabelSelector.MatchLabels["app"] = p.Labels["app"]
		}
		if a := p.Spec.Affinity; a != nil {
			a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector.MatchLabels["app"] = p.Labels["app"]
		}
	}
	for _, bench := range []struct {
		name, spec string
		change     func(p *corev1.Pod, i int)
	}{
		{"plain/size", plain, size},
		{"plain/app", plain, app},
		{"spread/size", plain + constraint, size},
		{"spread/app", plain + constraint, app},
		{"apart/size", plain + term, size},
		{"apart/app", plain + term, app},
	} {
		b.Run(bench.name, func(b *testing.B) {
			template := podYAML(b, bench.spec)
			pods := make([]*corev1.Pod, 10_000)
			for i := range pods {
				pods[i] = template.DeepCopy()
				pods[i].Namespace, pods[i].Name, pods[i].Labels = "ns", fmt.Sprintf("web-%d", i), map[string]string{"app": "web", "tier": "front"}
				bench.change(pods[i], i)
			}
			benchmarkPods(b, pods, true)
		})
	}
}

// A what-if question on a large cluster: 5,000 nodes of 20 pods, three of them gone.
func BenchmarkWithout(b *testing.B) {
	pods := workload(b, 20, 5)
	r := newReader(cluster.ReaderOptions{})
	nodes := make([]cluster.Node, 5000)
	for i := range nodes {
		nodes[i] = r.Node(cluster.NodeFacts{Node: &corev1.Node{}, Pods: pods})
		nodes[i].Name = fmt.Sprintf("node-%04d", i)
	}
	s := r.Snapshot(cluster.Snapshot{Nodes: nodes})
	b.ReportAllocs()
	for b.Loop() {
		if view, moved := s.Without("node-0100", "node-2000", "node-4999"); len(view.Nodes) != 4997 || len(moved) != 60 {
			b.Fatalf("%d nodes, %d pods", len(view.Nodes), len(moved))
		}
	}
}

// The same with pods that are in the processor's cache: what reading itself takes.
func BenchmarkReadCachedPods(b *testing.B) { benchmarkRead(b, 200, 50, false) }
