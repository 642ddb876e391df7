package cluster

import (
	"encoding/binary"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/resources"
)

// digest writes the fields a shape depends on as bytes, in reused memory. Every text and list is
// preceded by its length and every optional value by a flag, so that no two inputs read alike.
type digest struct {
	buf    []byte
	sorted []label // of the map written last
}

// label is one entry of a map.
type label struct{ key, value string }

func (d *digest) number(n int64) { d.buf = binary.AppendVarint(d.buf, n) }

func (d *digest) text(s string) {
	d.number(int64(len(s)))
	d.buf = append(d.buf, s...)
}

func (d *digest) flag(b bool) {
	var n byte
	if b {
		n = 1
	}
	d.buf = append(d.buf, n)
}

func (d *digest) texts(list []string) {
	d.number(int64(len(list)))
	for _, s := range list {
		d.text(s)
	}
}

// labels writes a map in the order of its keys.
func (d *digest) labels(m map[string]string, keep func(string) bool) {
	list := d.sorted[:0]
	if len(m) == 0 { // beginning to range over a map takes longer than to see that it is empty
		d.sorted = list
		d.number(0)
		return
	}
	few := len(m) <= 32 // nothing sorts those faster than putting each in its place
	// any order: they are sorted here or below
	for key, value := range m {
		if keep != nil && !keep(key) {
			continue
		}
		at := len(list)
		list = append(list, label{key, value})
		for ; at > 0 && few && list[at-1].key > key; at-- {
			list[at], list[at-1] = list[at-1], list[at]
		}
	}
	if !few {
		slices.SortFunc(list, func(a, b label) int { return strings.Compare(a.key, b.key) })
	}
	d.sorted = list
	d.number(int64(len(list)))
	for i := range list {
		d.text(list[i].key)
		d.text(list[i].value)
	}
}

// lanes writes the lanes that are not zero, so that the bytes stay the same when the table grows.
func (d *digest) lanes(v resources.Vec, table resources.Table) {
	for lane := range table.Len() {
		if n := v.At(lane); n != 0 {
			d.number(int64(lane))
			d.number(n)
		}
	}
	d.number(-1)
}

// writeConstraints writes everything the constraints of the input depend on; build must read nothing else.
func (r *Reader) writeConstraints(in input) {
	d := &r.digest
	spec := &in.pod.Spec
	d.flag(in.template)
	d.labels(spec.NodeSelector, nil)
	d.number(int64(len(spec.Tolerations)))
	for i := range spec.Tolerations {
		t := &spec.Tolerations[i]
		d.text(t.Key)
		d.text(string(t.Operator))
		d.text(t.Value)
		d.text(string(t.Effect))
	}
	d.ports(spec.Containers)
	d.devices(in.pod, r.opts.Devices && !in.template)
	d.text(in.extended)
	d.texts(in.examples)
	d.flag(spec.Affinity != nil)
	if spec.Affinity != nil {
		d.text(in.pod.Namespace) // terms that name none mean it
		d.nodeAffinity(spec.Affinity.NodeAffinity)
		d.podAffinity(spec.Affinity, r.epoch)
	}
	d.spread(spec.TopologySpreadConstraints, in.pod.Labels)
	d.text(in.spread.Text)
	d.number(int64(len(in.claims)))
	if len(in.claims) > 0 {
		d.text(in.pod.Namespace)
	}
	for i := range in.claims {
		d.claim(&in.claims[i])
	}
}

func (d *digest) ports(containers []corev1.Container) {
	for i := range containers {
		for j := range containers[i].Ports {
			if p := &containers[i].Ports[j]; p.HostPort > 0 {
				d.number(int64(p.HostPort))
				d.text(p.HostIP)
				d.text(string(p.Protocol))
			}
		}
	}
	d.number(0)
}

func (d *digest) nodeAffinity(a *corev1.NodeAffinity) {
	d.flag(a != nil)
	if a == nil {
		return
	}
	required := a.RequiredDuringSchedulingIgnoredDuringExecution
	d.flag(required != nil)
	if required != nil {
		d.terms(required.NodeSelectorTerms)
	}
	preferred := a.PreferredDuringSchedulingIgnoredDuringExecution
	d.number(int64(len(preferred)))
	for i := range preferred {
		d.number(int64(preferred[i].Weight))
		d.term(&preferred[i].Preference)
	}
}

func (d *digest) terms(terms []corev1.NodeSelectorTerm) {
	d.number(int64(len(terms)))
	for i := range terms {
		d.term(&terms[i])
	}
}

// term writes a term. That it uses matchFields is enough: no shape says which node is meant, and every
// pod of a DaemonSet means another.
func (d *digest) term(t *corev1.NodeSelectorTerm) {
	d.flag(len(t.MatchFields) > 0)
	d.number(int64(len(t.MatchExpressions)))
	for i := range t.MatchExpressions {
		d.text(t.MatchExpressions[i].Key)
		d.text(string(t.MatchExpressions[i].Operator))
		d.texts(t.MatchExpressions[i].Values)
	}
}

// podAffinity writes the four lists. Terms that select namespaces also depend on the labels of those.
func (d *digest) podAffinity(a *corev1.Affinity, epoch int64) {
	d.flag(a.PodAffinity != nil)
	if a.PodAffinity != nil {
		d.podTerms(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, epoch)
		d.weightedTerms(a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution, epoch)
	}
	d.flag(a.PodAntiAffinity != nil)
	if a.PodAntiAffinity != nil {
		d.podTerms(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, epoch)
		d.weightedTerms(a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution, epoch)
	}
}

func (d *digest) podTerms(terms []corev1.PodAffinityTerm, epoch int64) {
	d.number(int64(len(terms)))
	for i := range terms {
		d.podTerm(&terms[i], epoch)
	}
}

func (d *digest) weightedTerms(terms []corev1.WeightedPodAffinityTerm, epoch int64) {
	d.number(int64(len(terms)))
	for i := range terms {
		d.number(int64(terms[i].Weight))
		d.podTerm(&terms[i].PodAffinityTerm, epoch)
	}
}

func (d *digest) podTerm(t *corev1.PodAffinityTerm, epoch int64) {
	d.text(t.TopologyKey)
	d.selector(t.LabelSelector)
	d.texts(t.Namespaces)
	d.selector(t.NamespaceSelector)
	if t.NamespaceSelector != nil {
		d.number(epoch)
	}
}

func (d *digest) selector(s *metav1.LabelSelector) {
	d.flag(s != nil)
	if s == nil {
		return
	}
	d.labels(s.MatchLabels, nil)
	d.number(int64(len(s.MatchExpressions)))
	for i := range s.MatchExpressions {
		d.text(s.MatchExpressions[i].Key)
		d.text(string(s.MatchExpressions[i].Operator))
		d.texts(s.MatchExpressions[i].Values)
	}
}

// spread writes the constraints, with the values of the labels that matchLabelKeys names: KeepLabel may
// have left those out.
func (d *digest) spread(list []corev1.TopologySpreadConstraint, labels map[string]string) {
	d.number(int64(len(list)))
	for i := range list {
		c := &list[i]
		d.text(c.TopologyKey)
		d.number(int64(c.MaxSkew))
		d.text(string(c.WhenUnsatisfiable))
		d.selector(c.LabelSelector)
		d.number(int64(len(c.MatchLabelKeys)))
		for _, key := range c.MatchLabelKeys {
			value, has := labels[key]
			d.text(key)
			d.flag(has)
			d.text(value)
		}
		d.flag(c.MinDomains != nil)
		if c.MinDomains != nil {
			d.number(int64(*c.MinDomains))
		}
		d.flag(c.NodeAffinityPolicy != nil && *c.NodeAffinityPolicy == corev1.NodeInclusionPolicyIgnore)
		d.flag(c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor)
	}
}

// claim writes the state of one claim. A claim that is bound is described by its volume, one that
// is not by its class.
func (d *digest) claim(c *claimFacts) {
	d.text(c.name)
	d.flag(c.claim != nil)
	if c.claim == nil {
		return
	}
	d.flag(c.claim.DeletionTimestamp != nil)
	d.text(string(c.claim.Status.Phase))
	d.flag(c.bindCompleted())
	d.text(c.claim.Spec.VolumeName)
	d.flag(c.volume != nil)
	if c.volume != nil {
		d.flag(c.volume.DeletionTimestamp != nil)
		d.text(driverOf(c.volume))
		d.flag(onNode(c.volume))
		if required := volumeTerms(c.volume); required != nil {
			d.flag(true)
			d.terms(required)
		} else {
			d.flag(false)
		}
	}
	d.text(c.className)
	d.flag(c.class != nil)
	if c.class != nil {
		d.text(c.class.Provisioner)
		d.flag(c.class.VolumeBindingMode != nil)
		if c.class.VolumeBindingMode != nil {
			d.text(string(*c.class.VolumeBindingMode))
		}
		d.number(int64(len(c.class.AllowedTopologies)))
		for _, t := range c.class.AllowedTopologies {
			d.number(int64(len(t.MatchLabelExpressions)))
			for _, e := range t.MatchLabelExpressions {
				d.text(e.Key)
				d.texts(e.Values)
			}
		}
	}
}
