package snapshot

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// Anonymize returns the File with other names, in the words of its cloud: names of objects and namespaces, labels of users,
// ids of instances and volumes. The same name is replaced by the same everywhere, and replacements sort as the names do, so
// that the plan is the same except for names. A replacement is a number in the order of all names: nothing leads back to a
// name. Instance types, zones, resources, prices and labels that everybody knows stay.
func (f *File) Anonymize(words reqs.Vocabulary) (*File, error) {
	out, _, err := f.anonymize(words)
	return out, err
}

// plannedNames begin the names of nodes that a plan launches. Names before and after them stay so, since ties between nodes
// are broken by name.
const plannedNames = "launch "

// anonymize also returns the replacements by name.
func (f *File) anonymize(words reqs.Vocabulary) (*File, map[string]string, error) {
	var text bytes.Buffer
	if err := f.Encode(&text); err != nil {
		return nil, nil, err
	}
	out, err := Decode(&text)
	if err != nil {
		return nil, nil, err
	}
	out.forgetTexts()
	names, pods := map[string]bool{}, out.podsByHash()
	collect := &renamer{words: words, pods: pods, rename: func(name string) string {
		names[name] = true
		return name
	}}
	collect.file(out)
	replaced := make(map[string]string, len(names))
	width := len(strconv.Itoa(len(names)))
	for i, name := range slices.Sorted(maps.Keys(names)) {
		prefix := "a"
		if name > plannedNames {
			prefix = "n"
		}
		replaced[name] = fmt.Sprintf("%s%0*d", prefix, width, i+1)
	}
	(&renamer{words: words, pods: pods, rename: func(name string) string { return replaced[name] }}).file(out)
	word := regexp.MustCompile(`[A-Za-z0-9][A-Za-z0-9._-]*`)
	for i := range out.Missing {
		m := &out.Missing[i]
		m.What = word.ReplaceAllStringFunc(m.What, func(w string) string {
			if other, is := replaced[w]; is {
				return other
			}
			return w
		})
	}
	out.Name, out.Anonymized = "anonymous", true
	return out, replaced, nil
}

// forgetTexts removes what is written for people, what names other objects inside a text, and what is a digest of names.
func (f *File) forgetTexts() {
	f.Decided = nil // the caller can have it decided again
	for i := range f.Missing {
		if f.Missing[i].Why != forbidden {
			f.Missing[i].Why = "the reason was removed with the names"
		}
	}
	for i := range f.Catalogues {
		if f.Catalogues[i].Problem != "" {
			f.Catalogues[i].Problem = "the reason was removed with the names"
		}
	}
	o := &f.Objects
	for _, obj := range o.list() {
		obj.SetAnnotations(anonymousAnnotations(obj.GetAnnotations()))
	}
	for i := range o.VirtualPods {
		o.VirtualPods[i].Annotations = anonymousAnnotations(o.VirtualPods[i].Annotations)
	}
	o.CapacityBuffers = nil // their virtual pods are what is planned for
	for _, pods := range [][]pod{o.Pods, o.VirtualPods} {
		for i := range pods {
			nameVolumes(&pods[i])
		}
	}
	for i := range o.NodePools {
		t := &o.NodePools[i].Spec.Template
		t.ObjectMeta.Annotations, t.Spec.Kubelet = nil, nil
	}
	for i := range o.NodeClaims {
		o.NodeClaims[i].Spec.Kubelet = nil
	}
}

// nameVolumes names the claims of ephemeral volumes, whose names are made of two others.
func nameVolumes(p *pod) {
	for i := range p.Spec.Volumes {
		if v := &p.Spec.Volumes[i]; v.Ephemeral != nil {
			v.PersistentVolumeClaim = &claimSource{ClaimName: p.Name + "-" + v.Name}
			v.Ephemeral = nil
		}
	}
}

// anonymousAnnotations are those that say something by themselves.
func anonymousAnnotations(all map[string]string) map[string]string {
	kept := keptAnnotations(all)
	maps.DeleteFunc(kept, func(key, _ string) bool {
		switch key {
		case karpv1.AnnotationDoNotDisrupt, karpv1.AnnotationDoNotRepair, karpv1.AnnotationDoNotEvict, karpv1.AnnotationDoNotConsolidate,
			karpv1.AnnotationDisruptionCost, karpv1.AnnotationTerminationTimestamp, karpv1.AnnotationRequestedDRADrivers, selectedNode,
			karpv1.AnnotationReplaces, karpv1.AnnotationCommand, karpv1.AnnotationHeldBy, karpv1.AnnotationPods: // see renamer.commands
			return false
		}
		return domainOf(key) == karpv1.Group || domainOf(key) == karpv1.OwnGroup
	})
	if len(kept) == 0 {
		return nil
	}
	return kept
}

// file renames all of a File.
func (r *renamer) file(f *File) {
	for i := range f.Catalogues {
		r.catalogue(&f.Catalogues[i])
	}
	for i := range f.Objects.NodeClaims {
		r.commands(f.Objects.NodeClaims[i].Annotations)
	}
	for i := range f.Objects.Nodes {
		r.commands(f.Objects.Nodes[i].Annotations)
	}
	r.walk(reflect.ValueOf(&f.Settings.DefaultSpread).Elem(), "")
	r.walk(reflect.ValueOf(&f.Objects).Elem(), "")
}

// catalogue renames what of a catalogue belongs to a user: reservations, claims and labels.
func (r *renamer) catalogue(c *Catalogue) {
	r.all(c.NodePools)
	for i := range c.InstanceTypes {
		t := &c.InstanceTypes[i]
		labels := make(map[string][]string, len(t.Labels))
		// any order: each label is renamed by itself
		for key, values := range t.Labels {
			values = slices.Clone(values)
			for j := range values {
				values[j] = r.value(key, values[j])
			}
			labels[r.key(key)] = values
		}
		t.Labels = labels
		limits := make(map[string]int, len(t.VolumeLimits))
		// any order: each limit is renamed by itself
		for driver, limit := range t.VolumeLimits {
			limits[r.key(driver)] = limit
		}
		if t.VolumeLimits != nil {
			t.VolumeLimits = limits
		}
		for j := range t.Offerings {
			o := &t.Offerings[j]
			o.Reservation = r.name(o.Reservation)
			r.all(o.Takers)
			o.Labels = r.labels(o.Labels)
		}
	}
}
