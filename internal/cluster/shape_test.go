package cluster_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/cluster"
)

// selector reads a label selector that is legal.
func selector(t *testing.T, text string) cluster.Selector {
	t.Helper()
	s, err := cluster.NewSelector(read[metav1.LabelSelector](t, text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSpread(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		constraint string
		want       []cluster.Spread
	}{
		"SC-32 a hard constraint": {
			constraint: `{topologyKey: topology.kubernetes.io/zone, maxSkew: 2, minDomains: 3, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}`,
			want:       []cluster.Spread{{Key: "topology.kubernetes.io/zone", MaxSkew: 2, MinDomains: 3, Selector: selector(t, `{matchLabels: {app: web}}`)}},
		},
		"SC-28 policies; a topology key under its old name": {
			constraint: `{topologyKey: failure-domain.beta.kubernetes.io/zone, maxSkew: 1, whenUnsatisfiable: ScheduleAnyway, nodeAffinityPolicy: Ignore, nodeTaintsPolicy: Honor, labelSelector: {}}`,
			want:       []cluster.Spread{{Key: "topology.kubernetes.io/zone", MaxSkew: 1, Soft: true, AnyNode: true, HonorTaint: true, Selector: selector(t, `{}`)}},
		},
		"SC-29 matchLabelKeys narrows the selector by the labels the pod has": {
			constraint: `{topologyKey: k, maxSkew: 1, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {x: y}}, matchLabelKeys: [app, none]}`,
			want:       []cluster.Spread{{Key: "k", MaxSkew: 1, Selector: selector(t, `{matchLabels: {x: y, app: web}}`)}},
		},
		"SC-29 what the API server has merged already is harmless": {
			constraint: `{topologyKey: k, maxSkew: 1, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchExpressions: [{key: app, operator: In, values: [web]}]}, matchLabelKeys: [app]}`,
			want:       []cluster.Spread{{Key: "k", MaxSkew: 1, Selector: selector(t, `{matchLabels: {app: web}}`)}},
		},
		"SC-30 without a selector it is inert": {
			constraint: `{topologyKey: k, maxSkew: 1, whenUnsatisfiable: DoNotSchedule, matchLabelKeys: [app]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			diff(t, "Spread", shapeOf(t, "{topologySpreadConstraints: ["+tc.constraint+"]}").Spread, tc.want)
		})
	}
}

func TestDefaultSpread(t *testing.T) {
	t.Parallel()
	zone := `{topologyKey: topology.kubernetes.io/zone, maxSkew: 3, whenUnsatisfiable: ScheduleAnyway}`
	for name, tc := range map[string]struct {
		spec     string
		selected cluster.Selector
		want     []cluster.Spread
	}{
		"SC-37 a pod without constraints gets the cluster's": {
			selected: selector(t, `{matchLabels: {app: web}}`),
			want:     []cluster.Spread{{Key: "topology.kubernetes.io/zone", MaxSkew: 3, Soft: true, Selector: selector(t, `{matchLabels: {app: web}}`)}},
		},
		"SC-37 a pod with a constraint, even an inert one, gets none": {
			spec:     `{topologySpreadConstraints: [{topologyKey: k, maxSkew: 1, whenUnsatisfiable: DoNotSchedule}]}`,
			selected: selector(t, `{matchLabels: {app: web}}`),
		},
		"SC-37 an empty selector gives the pod none": {selected: selector(t, `{}`)},
		"SC-37 no Service and no controller":         {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReader(cluster.ReaderOptions{
				DefaultSpread: []corev1.TopologySpreadConstraint{*read[corev1.TopologySpreadConstraint](t, zone)},
				SelectorOf:    func(*corev1.Pod) cluster.Selector { return tc.selected },
			})
			diff(t, "Spread", r.Pod(podYAML(t, tc.spec), nil).Shape.Spread, tc.want)
		})
	}
}

func TestPodAffinity(t *testing.T) {
	t.Parallel()
	web := selector(t, `{matchLabels: {app: web}}`)
	for name, tc := range map[string]struct {
		affinity string
		want     []cluster.PodTerm
		wantAnti []cluster.PodTerm
	}{
		"SC-36 the pod's own namespace; required first, then the heaviest": {
			affinity: `
podAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
  - {weight: 1, podAffinityTerm: {topologyKey: a, labelSelector: {matchLabels: {app: web}}}}
  - {weight: 5, podAffinityTerm: {topologyKey: b, labelSelector: {matchLabels: {app: web}}}}
  - {weight: 0, podAffinityTerm: {topologyKey: c, labelSelector: {matchLabels: {app: web}}}}
  requiredDuringSchedulingIgnoredDuringExecution:
  - {topologyKey: d, labelSelector: {matchLabels: {app: web}}}`,
			want: []cluster.PodTerm{
				{Key: "d", Selector: web, Namespaces: []string{"ns"}},
				{Key: "b", Weight: 5, Selector: web, Namespaces: []string{"ns"}},
				{Key: "a", Weight: 1, Selector: web, Namespaces: []string{"ns"}},
			},
		},
		"SC-36 named and selected namespaces are a union, without the pod's own": {
			affinity: `
podAntiAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
  - {topologyKey: a, labelSelector: {matchLabels: {app: web}}, namespaces: [z, a], namespaceSelector: {matchLabels: {env: prod}}}`,
			wantAnti: []cluster.PodTerm{{Key: "a", Selector: web, Namespaces: []string{"a", "prod-1", "prod-2", "z"}}},
		},
		"SC-36 an empty namespaceSelector is every namespace": {
			affinity: `
podAntiAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
  - {topologyKey: a, labelSelector: {matchLabels: {app: web}}, namespaces: [z], namespaceSelector: {}}`,
			wantAnti: []cluster.PodTerm{{Key: "a", Selector: web, Everywhere: true}},
		},
		"SC-30 without a selector: affinity cannot be met, anti-affinity and preferences say nothing": {
			affinity: `
podAffinity:
  requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: a}]
  preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: a}}]
podAntiAffinity:
  requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: a}]`,
			want: []cluster.PodTerm{{Key: "a", Namespaces: []string{"ns"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReader(cluster.ReaderOptions{})
			r.SetNamespaces(map[string]map[string]string{"prod-2": {"env": "prod"}, "prod-1": {"env": "prod"}, "ns": nil})
			p := podYAML(t, "")
			p.Spec.Affinity = read[corev1.Affinity](t, tc.affinity)
			s := r.Pod(p, nil).Shape
			diff(t, "Affinity", s.Affinity, tc.want)
			diff(t, "AntiAffinity", s.AntiAffinity, tc.wantAnti)
		})
	}
}

func TestSelectedNamespacesFollowTheirLabels(t *testing.T) {
	t.Parallel()
	r := newReader(cluster.ReaderOptions{})
	p := podYAML(t, `
affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [
  {topologyKey: a, labelSelector: {}, namespaceSelector: {matchLabels: {env: prod}}}]}}`)
	before := r.Pod(p, nil).Shape
	r.SetNamespaces(map[string]map[string]string{"shop": {"env": "prod"}})
	after := r.Pod(p, nil).Shape
	diff(t, "SC-36 before", before.AntiAffinity[0].Namespaces, []string(nil))
	diff(t, "SC-36 after", after.AntiAffinity[0].Namespaces, []string{"shop"})
}

func TestHostPorts(t *testing.T) {
	t.Parallel()
	s := shapeOf(t, `
containers:
- {name: a, ports: [{containerPort: 80}, {containerPort: 80, hostPort: 8080}, {containerPort: 81, hostPort: 53, protocol: UDP, hostIP: 10.0.0.1}]}
- {name: b, ports: [{containerPort: 80, hostPort: 8080, hostIP: "::", protocol: TCP}]}
initContainers:
- {name: c, ports: [{containerPort: 80, hostPort: 9}]}`)
	diff(t, "SC-25 app containers only, each use once", s.HostPorts, []cluster.HostPort{
		{IP: "10.0.0.1", Port: 53, Protocol: "UDP"}, {IP: "0.0.0.0", Port: 8080, Protocol: "TCP"},
	})
}

func TestEqualPodsShareAShape(t *testing.T) {
	t.Parallel()
	use := cluster.LabelUse{}
	for name, tc := range map[string]struct {
		a, b string
		same bool
	}{
		"quantities written differently": {
			a: `{containers: [{name: a, resources: {requests: {cpu: "1", memory: 1Gi}}}]}`,
			b: `{containers: [{name: b, resources: {requests: {cpu: 1000m, memory: 1024Mi}}}]}`, same: true,
		},
		"requests split over containers": {
			a: `{containers: [{name: a, resources: {requests: {cpu: 500m}}}, {name: b, resources: {requests: {cpu: 500m}}}]}`,
			b: `{containers: [{name: b, resources: {requests: {cpu: "1"}}}]}`, same: true,
		},
		"tolerations in another order, with other seconds": {
			a: `{tolerations: [{key: a, operator: Exists, tolerationSeconds: 300}, {key: b, value: c}]}`,
			b: `{tolerations: [{key: b, operator: Equal, value: c}, {key: a, operator: Exists}]}`, same: true,
		},
		"a nodeSelector and the same affinity": {
			a: `{nodeSelector: {team: a}}`,
			b: `{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: team, operator: In, values: [a, a]}]}]}}}}`, same: true,
		},
		"a label key and its alias": {
			a: `{nodeSelector: {beta.kubernetes.io/arch: arm64}}`, b: `{nodeSelector: {kubernetes.io/arch: arm64}}`, same: true,
		},
		"different requests":             {a: `{containers: [{name: a, resources: {requests: {cpu: "1"}}}]}`, b: `{containers: [{name: a, resources: {requests: {cpu: "2"}}}]}`},
		"an extended resource":           {a: `{containers: [{name: a, resources: {requests: {x.io/gpu: "1"}}}]}`, b: `{containers: [{name: a, resources: {requests: {y.io/gpu: "1"}}}]}`},
		"different order of preferences": {a: preferring("a", "b"), b: preferring("b", "a")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReader(cluster.ReaderOptions{KeepLabel: use.Keep})
			a, b := r.Pod(podYAML(t, tc.a), nil), r.Pod(podYAML(t, tc.b), nil)
			if (a.Shape == b.Shape) != tc.same || (a.Shape.Key == b.Shape.Key) != tc.same {
				t.Errorf("same shape = %v, want %v\n%s\n%s", a.Shape == b.Shape, tc.same, a.Shape.Key, b.Shape.Key)
			}
		})
	}
}

func preferring(keys ...string) string {
	spec := `{affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [`
	for _, key := range keys {
		spec += `{weight: 3, preference: {matchExpressions: [{key: ` + key + `, operator: Exists}]}},`
	}
	return spec + "]}}}"
}

func TestIrrelevantLabelsDoNotSplitShapes(t *testing.T) {
	t.Parallel()
	one, two := podYAML(t, ""), podYAML(t, "")
	one.Labels = map[string]string{"app": "db", "statefulset.kubernetes.io/pod-name": "db-0", "pod-template-hash": "x"}
	two.Labels = map[string]string{"app": "db", "statefulset.kubernetes.io/pod-name": "db-1", "pod-template-hash": "x"}
	watcher := podYAML(t, `{topologySpreadConstraints: [{topologyKey: k, maxSkew: 1, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: db}}, matchLabelKeys: [pod-template-hash]}]}`)
	pinned := podYAML(t, `{affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: k, labelSelector: {matchExpressions: [{key: statefulset.kubernetes.io/pod-name, operator: Exists}]}}]}}}`)

	use := cluster.LabelUse{}
	for _, p := range []*corev1.Pod{one, two, watcher} {
		use.Note(p)
	}
	r := newReader(cluster.ReaderOptions{KeepLabel: use.Keep})
	diff(t, "labels of the shape", r.Pod(one, nil).Shape.Labels, map[string]string{"app": "db", "pod-template-hash": "x"})
	if r.Pod(one, nil).Shape != r.Pod(two, nil).Shape {
		t.Error("pods of a StatefulSet have shapes of their own although nothing depends on their names")
	}
	use.Note(pinned)
	r = newReader(cluster.ReaderOptions{KeepLabel: use.Keep})
	if r.Pod(one, nil).Shape == r.Pod(two, nil).Shape {
		t.Error("pods share a shape although a selector looks at a label they differ in")
	}
}

func TestDaemon(t *testing.T) {
	t.Parallel()
	set := read[appsv1.DaemonSet](t, `
metadata: {namespace: kube-system, name: agent}
spec:
  selector: {}
  template:
    metadata: {labels: {app: agent}}
    spec:
      nodeSelector: {karpenter.sh/initialized: "true"}
      affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: team, operator: Exists}]}]}}}
      containers:
      - {name: a, resources: {limits: {cpu: 200m, memory: 64Mi}, requests: {cpu: 100m}}}
`)
	newest := read[corev1.Pod](t, `
metadata: {namespace: kube-system, name: agent-x, labels: {app: agent}}
spec:
  nodeSelector: {karpenter.sh/initialized: "true"}
  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [n-1]}]}]}}}
  containers:
  - {name: a, resources: {requests: {cpu: 300m}}}
`)
	r := newReader(cluster.ReaderOptions{})
	for name, tc := range map[string]struct {
		newest       *corev1.Pod
		wantRequests string
	}{
		"SC-22 the template, limits copied into missing requests":      {wantRequests: "cpu:100m,memory:64Mi,pods:1"},
		"SC-22 the newest pod, with the node affinity of the template": {newest: newest, wantRequests: "cpu:300m,pods:1"},
	} {
		d := r.Daemon(set, tc.newest, nil)
		diff(t, name+": key", d.Key.String(), "kube-system/agent")
		diff(t, name+": requests", r.Table().Format(d.Shape.Requests), tc.wantRequests)
		diff(t, name+": required", sets(d.Shape.Required), []string{"karpenter.sh/initialized In [true]; team Exists"})
		diff(t, name+": SC-23 restricted labels are fine", codes(d.Shape), []string(nil))
	}
	set.Spec.Template.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}}
	diff(t, "17: with devices it is ignored", codes(r.Daemon(set, nil, nil).Shape), []string{"DevicesUnsupported spec.resourceClaims"})
	if set.Spec.Template.Spec.Containers[0].Resources.Requests.Memory().Sign() != 0 {
		t.Error("reading changed the object")
	}
}

func TestPodsOfADaemonSetShareAShape(t *testing.T) {
	t.Parallel()
	r := newReader(cluster.ReaderOptions{})
	pinned := func(node string) *corev1.Pod {
		return podYAML(t, `{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
			{matchFields: [{key: metadata.name, operator: In, values: [`+node+`]}]}]}}}}`)
	}
	if r.Pod(pinned("n-1"), nil).Shape != r.Pod(pinned("n-2"), nil).Shape {
		t.Error("each pod of a DaemonSet has a shape of its own")
	}
}

func TestKeysOfEqualValueAreDistinguished(t *testing.T) {
	t.Parallel()
	r := newReader(cluster.ReaderOptions{})
	texts := map[string]bool{}
	for _, key := range []string{"app", "tier"} {
		p := podYAML(t, `{topologySpreadConstraints: [{topologyKey: k, maxSkew: 1, whenUnsatisfiable: DoNotSchedule, labelSelector: {}, matchLabelKeys: [`+key+`]}]}`)
		p.Labels = map[string]string{"app": "web", "tier": "web"}
		texts[r.Pod(p, nil).Shape.Spread[0].Selector.Text] = true
	}
	diff(t, "SC-29 selectors", texts, map[string]bool{"app in (web)": true, "tier in (web)": true})
}

// Pods that differ in size alone share what was read of all the rest.
func TestSizesShareTheRest(t *testing.T) {
	t.Parallel()
	const spec = `
tolerations: [{key: a, operator: Exists}]
topologySpreadConstraints: [{topologyKey: zone, maxSkew: 1, labelSelector: {matchLabels: {app: web}}}]
nodeSelector: {team: a}
containers: [{name: app, resources: {requests: {cpu: `
	r := newReader(cluster.ReaderOptions{})
	read := func(cpu string) *cluster.Shape {
		p := podYAML(t, spec+cpu+"}}}]")
		p.Labels = map[string]string{"app": "web"}
		return r.Pod(p, nil).Shape
	}
	small, large := read("1"), read("2")
	if small == large || small.Key == large.Key {
		t.Fatal("two sizes are one shape")
	}
	if again := read("1000m"); again != small {
		t.Error("the same size, written in another way, is another shape")
	}
	if &small.Required[0] != &large.Required[0] || &small.Tolerations[0] != &large.Tolerations[0] || &small.Spread[0] != &large.Spread[0] {
		t.Error("shapes that differ in size alone have lists of their own")
	}
	if cap(small.Spread) != len(small.Spread) || cap(small.Required) != len(small.Required) {
		t.Error("a shared list has room to be written to behind its end")
	}
}

// Of several illegal labels the first in order is named, whatever order a map is read in: the text is part
// of the shape's key, and a pod whose key changed would be another pod.
func TestFirstIllegalLabelIsNamed(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Labels: map[string]string{"d": "-", "c": "-", "b": "-", "a": "-", "e": "ok"}}}
	pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		TopologyKey: corev1.LabelTopologyZone, MaxSkew: 1, LabelSelector: &metav1.LabelSelector{}, MatchLabelKeys: []string{"d", "c", "e", "b", "a"},
	}}
	for range 100 {
		invalid := newReader(cluster.ReaderOptions{}).Pod(pod, nil).Shape.Invalid
		if len(invalid) != 1 || !strings.Contains(invalid[0].Text(), "values[0][a]") {
			t.Fatalf("the pod is refused with %v, want one reason that names label a", invalid)
		}
	}
}
