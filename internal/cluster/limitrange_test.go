package cluster_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/cluster"
)

// A12: a DaemonSet requests what its pods will request once the API server has applied the LimitRanges of its
// namespace.
func TestTrust_A12_LimitRangesOfADaemonSet(t *testing.T) {
	t.Parallel()
	const both = `{limits: [{type: Container, default: {cpu: 500m, memory: 512Mi}, defaultRequest: {cpu: 200m, memory: 256Mi}}]}`
	for name, tc := range map[string]struct {
		ranges []string
		spec   string
		newest string
		want   string
	}{
		"no LimitRange":                                  {spec: `{containers: [{name: a}]}`, want: "pods:1"},
		"each container gets the default":                {ranges: []string{both}, spec: `{containers: [{name: a}, {name: b}]}`, want: "cpu:400m,memory:512Mi,pods:1"},
		"its own requests win":                           {ranges: []string{both}, spec: `{containers: [{name: a, resources: {requests: {cpu: 50m}}}]}`, want: "cpu:50m,memory:256Mi,pods:1"},
		"its own limit is its request":                   {ranges: []string{both}, spec: `{containers: [{name: a, resources: {limits: {cpu: "1"}}}]}`, want: "cpu:1,memory:256Mi,pods:1"},
		"zero is a request":                              {ranges: []string{both}, spec: `{containers: [{name: a, resources: {requests: {cpu: "0", memory: "0"}}}]}`, want: "pods:1"},
		"init containers too":                            {ranges: []string{both}, spec: `{initContainers: [{name: i}], containers: [{name: a, resources: {requests: {cpu: 50m, memory: 1Gi}}}]}`, want: "cpu:200m,memory:1Gi,pods:1"},
		"sidecars too":                                   {ranges: []string{both}, spec: `{initContainers: [{name: i, restartPolicy: Always}], containers: [{name: a}]}`, want: "cpu:400m,memory:512Mi,pods:1"},
		"the default limit is the request":               {ranges: []string{`{limits: [{type: Container, default: {cpu: 500m}}]}`}, spec: `{containers: [{name: a}]}`, want: "cpu:500m,pods:1"},
		"else the largest limit":                         {ranges: []string{`{limits: [{type: Container, max: {cpu: "2"}, min: {cpu: 100m}}]}`}, spec: `{containers: [{name: a}]}`, want: "cpu:2,pods:1"},
		"else the least request":                         {ranges: []string{`{limits: [{type: Container, min: {cpu: 100m}}]}`}, spec: `{containers: [{name: a}]}`, want: "cpu:100m,pods:1"},
		"what is said of pods and volumes is no default": {ranges: []string{`{limits: [{type: Pod, max: {cpu: "2"}}, {type: PersistentVolumeClaim, min: {storage: 1Gi}}]}`}, spec: `{containers: [{name: a}]}`, want: "pods:1"},
		"of several the largest": {
			ranges: []string{both, `{limits: [{type: Container, defaultRequest: {cpu: 100m, memory: 1Gi, ephemeral-storage: 5Gi}}]}`},
			spec:   `{containers: [{name: a}]}`, want: "cpu:200m,memory:1Gi,ephemeral-storage:5Gi,pods:1",
		},
		"requests of the pod as a whole stay": {
			ranges: []string{both}, spec: `{resources: {requests: {cpu: 300m, memory: 100Mi}}, containers: [{name: a}]}`, want: "cpu:300m,memory:100Mi,pods:1",
		},
		"the next pod, where the newest is older than the LimitRange": {
			ranges: []string{both}, spec: `{containers: [{name: a}]}`, newest: `{containers: [{name: a, resources: {requests: {cpu: 70m}}}]}`, want: "cpu:70m,memory:256Mi,pods:1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := read[appsv1.DaemonSet](t, `{metadata: {namespace: kube-system, name: agent}, spec: {template: {spec: `+tc.spec+`}}}`)
			var ranges, backwards []*corev1.LimitRange
			for _, text := range tc.ranges {
				one := read[corev1.LimitRange](t, `{spec: `+text+`}`)
				ranges, backwards = append(ranges, one), append([]*corev1.LimitRange{one}, backwards...)
			}
			var newest *corev1.Pod
			if tc.newest != "" {
				newest = podYAML(t, tc.newest)
			}
			r, before := newReader(cluster.ReaderOptions{}), set.DeepCopy()
			for _, list := range [][]*corev1.LimitRange{ranges, backwards} {
				d := r.Daemon(set, newest, cluster.DefaultRequests(list...))
				diff(t, "requests", r.Table().Format(d.Shape.Requests), tc.want)
			}
			diff(t, "the object", set, before)
		})
	}
}
