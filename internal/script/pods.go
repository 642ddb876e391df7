package script

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
)

// podLine is one pod of a script: the object, and what the cluster knows about it besides.
type podLine struct {
	object    *corev1.Pod
	group     string // name= of its line
	virtual   bool
	evictCost float64 // 0: that of the object
}

func readPod(w *World, l *Line) string {
	w.pods = append(w.pods, w.readPods(l, "")...)
	return ""
}

func readBound(w *World, l *Line) string {
	node := l.Name("node")
	if !slices.ContainsFunc(w.nodes, func(n cluster.NodeFacts) bool { return nodeName(n) == node }) {
		l.Failf("there is no node %q; write its line above", node)
	}
	w.pods = append(w.pods, w.readPods(l, node)...)
	return ""
}

func readDaemon(w *World, l *Line) string {
	w.daemons = append(w.daemons, w.readPods(l, "")...)
	return ""
}

// readPods reads the pods of one line.
func (w *World) readPods(l *Line, node string) []podLine {
	name := l.Name("name")
	spec, meta := l.podSpec(name), l.podMeta(name)
	spec.NodeName = node
	if _, known := w.namespaces[meta.Namespace]; !known {
		w.namespaces[meta.Namespace] = map[string]string{}
	}
	template := podLine{group: name, virtual: l.Flag("virtual"), evictCost: l.Price("evictcost")}
	volumes, zones := l.List("volumes"), l.Text("zones")
	count, numbered := l.Int("count", 1), l.Text("count") != ""
	var pods []podLine
	for i := range count {
		one, number := template, strconv.Itoa(i+1)
		one.object = &corev1.Pod{ObjectMeta: *meta.DeepCopy(), Spec: *spec.DeepCopy()}
		if numbered {
			one.object.Name = name + "-" + number
		}
		one.object.UID = types.UID(meta.Namespace + "/" + one.object.Name)
		one.object.CreationTimestamp = metav1.NewTime(epoch().Add(time.Duration(w.size()+i) * time.Second))
		w.attach(l, one.object, volumes, zones, number)
		if w.named(one.object) {
			l.Failf("there is a pod %s already; use another name", one.object.Name)
		}
		pods = append(pods, one)
	}
	return pods
}

// podMeta reads what a pod is besides its spec.
func (l *Line) podMeta(name string) metav1.ObjectMeta {
	meta := metav1.ObjectMeta{Name: name, Namespace: orElse(l.Text("ns"), "default"), Labels: l.Pairs("labels"), Annotations: map[string]string{}}
	if len(meta.Labels) == 0 {
		meta.Labels = map[string]string{"app": name}
	}
	if l.Flag("stays") {
		meta.Annotations[karpv1.AnnotationDoNotDisrupt] = "true"
	}
	if l.Flag("daemon") {
		meta.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: name}}
	}
	if l.Flag("terminating") {
		now := metav1.NewTime(epoch())
		meta.DeletionTimestamp = &now
	}
	return meta
}

// epoch is when scripts begin: any fixed time will do.
func epoch() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

func (w *World) size() int { return len(w.pods) + len(w.daemons) }

func (w *World) named(pod *corev1.Pod) bool {
	return slices.ContainsFunc(slices.Concat(w.pods, w.daemons), func(p podLine) bool {
		return p.object.Namespace == pod.Namespace && p.object.Name == pod.Name
	})
}

// attach gives a pod its claims, bound to volumes. zones= is about the first of them; a pod that names
// none gets one whose driver has no limit.
func (w *World) attach(l *Line, pod *corev1.Pod, volumes []string, zones, number string) {
	if len(volumes) == 0 && zones != "" {
		volumes = []string{"/" + pod.Name}
	}
	for i, text := range volumes {
		driver, name, found := strings.Cut(text, "/")
		if !found {
			l.Failf("volumes=%s is not driver/claim; write volumes=ebs/data-{n}", text)
		}
		name = strings.ReplaceAll(name, "{n}", number)
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
			Name: "v" + strconv.Itoa(i), VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
			},
		})
		var where []corev1.NodeSelectorTerm
		for _, zone := range split(zones, " or ") {
			where = append(where, l.terms("zone in "+zone)...)
		}
		w.claim(cluster.PodKey{Namespace: pod.Namespace, Name: name}, driver, where)
		zones = ""
	}
}

// claim makes a claim and its volume; driver "missing" makes a claim whose volume is not there. A claim
// that several lines name keeps what the last one said.
func (w *World) claim(key cluster.PodKey, driver string, where []corev1.NodeSelectorTerm) {
	claim, volume := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}
	claim.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
	claim.Spec.VolumeName = key.String()
	if driver != "" {
		volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver}
	}
	if len(where) > 0 {
		volume.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: where}}
	}
	w.claims.Claims[key] = claim
	if driver != "missing" {
		w.claims.Volumes[key.String()] = volume
	}
}

// podSpec reads what scheduling depends on.
func (l *Line) podSpec(name string) corev1.PodSpec {
	spec := corev1.PodSpec{
		NodeSelector: l.Pairs("selector"), Tolerations: l.tolerations("tolerates"),
		Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: l.Amounts()}, Ports: l.ports()}},
	}
	affinity := &corev1.Affinity{NodeAffinity: l.nodeAffinity(), PodAffinity: &corev1.PodAffinity{}, PodAntiAffinity: &corev1.PodAntiAffinity{}}
	near, far := affinity.PodAffinity, affinity.PodAntiAffinity
	near.RequiredDuringSchedulingIgnoredDuringExecution, near.PreferredDuringSchedulingIgnoredDuringExecution = l.podTerms("affinity")
	far.RequiredDuringSchedulingIgnoredDuringExecution, far.PreferredDuringSchedulingIgnoredDuringExecution = l.podTerms("anti")
	spec.Affinity = affinity
	own := "app=" + name
	if labels := l.Pairs("labels"); len(labels) > 0 {
		own = metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: labels})
	}
	for _, text := range l.All("spread") {
		spec.TopologySpreadConstraints = append(spec.TopologySpreadConstraints, l.spread(text, own))
	}
	return spec
}

func (l *Line) nodeAffinity() *corev1.NodeAffinity {
	affinity := &corev1.NodeAffinity{}
	if terms := l.terms(l.Text("requires")); len(terms) > 0 {
		affinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: terms}
	}
	for _, text := range l.All("prefers") {
		weight, rest, found := strings.Cut(text, "/")
		terms := l.terms(rest)
		if !found || len(terms) != 1 {
			l.Failf(`prefers=%q is not weight/requirements; write prefers="10/zone in a"`, text)
			continue
		}
		affinity.PreferredDuringSchedulingIgnoredDuringExecution = append(affinity.PreferredDuringSchedulingIgnoredDuringExecution,
			corev1.PreferredSchedulingTerm{Weight: l.int32("weight", weight), Preference: terms[0]})
	}
	return affinity
}

// spread reads "zone/1/ScheduleAnyway/min:2/match:app=x".
func (l *Line) spread(text, own string) corev1.TopologySpreadConstraint {
	at, named := parts(text)
	c := corev1.TopologySpreadConstraint{WhenUnsatisfiable: corev1.DoNotSchedule}
	if len(at) < 2 || len(at) > 3 {
		l.Failf("spread=%s is not key/maxSkew; write spread=zone/1 or spread=zone/1/ScheduleAnyway", text)
		return c
	}
	c.TopologyKey, c.MaxSkew = Key(at[0]), l.int32("maxSkew", at[1])
	if len(at) == 3 {
		c.WhenUnsatisfiable = corev1.UnsatisfiableConstraintAction(at[2])
	}
	if c.WhenUnsatisfiable != corev1.DoNotSchedule && c.WhenUnsatisfiable != corev1.ScheduleAnyway {
		l.Failf("spread=%s: write DoNotSchedule or ScheduleAnyway", text)
	}
	match := own
	for _, option := range slices.Sorted(maps.Keys(named)) { // of several faults the first is reported
		value := named[option]
		switch option {
		case "min":
			n := l.int32("min", value)
			c.MinDomains = &n
		case "match":
			match = value
		case "keys":
			c.MatchLabelKeys = split(value, ",")
		case "affinity":
			policy := corev1.NodeInclusionPolicy(value)
			c.NodeAffinityPolicy = &policy
		case "taints":
			policy := corev1.NodeInclusionPolicy(value)
			c.NodeTaintsPolicy = &policy
		default:
			l.Failf("spread option %s is not known; use min:, match:, keys:, affinity: or taints:", option)
		}
	}
	c.LabelSelector = l.selector(match)
	return c
}

// podTerms reads affinity= and anti=, those with a weight apart.
func (l *Line) podTerms(key string) (required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
	for _, text := range l.All(key) {
		at, named := parts(text)
		if len(at) != 2 {
			l.Failf("%s=%s is not key/selector; write %s=zone/app=web", key, text, key)
			continue
		}
		term := corev1.PodAffinityTerm{TopologyKey: Key(at[0]), LabelSelector: l.selector(at[1])}
		weight := int32(0)
		for _, option := range slices.Sorted(maps.Keys(named)) { // of several faults the first is reported
			value := named[option]
			switch option {
			case "weight":
				weight = l.int32("weight", value)
			case "ns":
				term.Namespaces = split(value, ",")
				if value == "*" {
					term.Namespaces, term.NamespaceSelector = nil, &metav1.LabelSelector{}
				}
			case "nslabels":
				term.NamespaceSelector = l.selector(value)
			default:
				l.Failf("%s option %s is not known; use weight:, ns: or nslabels:", key, option)
			}
		}
		if weight > 0 {
			preferred = append(preferred, corev1.WeightedPodAffinityTerm{Weight: weight, PodAffinityTerm: term})
			continue
		}
		required = append(required, term)
	}
	return required, preferred
}

// ports reads "8080", "8080/UDP", "8080/TCP@10.0.0.1".
func (l *Line) ports() []corev1.ContainerPort {
	var ports []corev1.ContainerPort
	for _, text := range l.List("ports") {
		rest, ip, _ := strings.Cut(text, "@")
		number, protocol, _ := strings.Cut(rest, "/")
		port := l.int32("port", number)
		ports = append(ports, corev1.ContainerPort{HostPort: port, ContainerPort: port, Protocol: corev1.Protocol(orElse(protocol, "TCP")), HostIP: ip})
	}
	return ports
}

func (l *Line) int32(what, text string) int32 {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		l.Failf("%s %q is not a whole number", what, text)
	}
	return int32(n)
}

func resourceOf(n int64) *resource.Quantity { return resource.NewQuantity(n, resource.DecimalSI) }
