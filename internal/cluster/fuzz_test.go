package cluster_test

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	_ "github.com/dovetail-sh/dovetail/internal/seed" // the same values in every run
)

// FuzzPod reads pods of any JSON: it looks for panics, for shapes that break their invariants and for
// reading twice with two results.
func FuzzPod(f *testing.F) {
	for _, text := range []string{
		`{}`, `{spec: {nodeSelector: {a: b, "": ""}, volumes: [{}, {ephemeral: null, name: x}]}}`,
		`{spec: {containers: [{resources: {requests: {cpu: 1e30, memory: -1, x: 1n}}, ports: [{hostPort: 2147483647}]}], overhead: {cpu: "9223372036854775807"}}}`,
		`{spec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{}, {matchExpressions: [{key: a, operator: Gt, values: ["9223372036854775807"]}]}]}}}}}`,
		`{spec: {affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{labelSelector: {matchExpressions: [{key: "!", operator: In}]}, namespaceSelector: {}}]}}}}`,
		`{spec: {topologySpreadConstraints: [{matchLabelKeys: ["", a], labelSelector: {}}], tolerations: [{}]}, metadata: {labels: {a: "?"}}}`,
	} {
		data, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p := &corev1.Pod{}
		if json.Unmarshal(data, p) != nil {
			return
		}
		r := newReader(cluster.ReaderOptions{})
		got := r.Pod(p, cluster.VolumeObjects{})
		if len(got.Shape.Required) == 0 || got.Shape != r.Pod(p, cluster.VolumeObjects{}).Shape {
			t.Fatalf("read twice, or without an alternative: %s", got.Shape.Key)
		}
		r.Shape("ns", &corev1.PodTemplateSpec{ObjectMeta: p.ObjectMeta, Spec: p.Spec}, nil)
		if _, err := json.Marshal(got); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzReader is the first property test under the guidance of the fuzzer.
func FuzzReader(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) {
		s := source{t}
		r, vols := newReader(cluster.ReaderOptions{}), s.volumes()
		for _, p := range s.pods(3) {
			sound(t, r.Pod(p, vols).Shape)
			r.Shape(p.Namespace, &corev1.PodTemplateSpec{ObjectMeta: p.ObjectMeta, Spec: p.Spec}, nil)
		}
		r.Node(cluster.NodeFacts{})
		r.Pod(nil, nil)
		r.Shape("", nil, nil)
	}))
}
