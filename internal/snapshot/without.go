package snapshot

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/near"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// Short names of labels that launches depend on.
const (
	shortZone         = "zone"
	shortCapacityType = "capacity-type"
	shortInstanceType = "instance-type"
)

// without makes offerings unavailable that have a label with a value: KEY=VALUE. Nodes that exist keep their price.
func (f *File) without(text string, words reqs.Vocabulary) error {
	key, value, found := strings.Cut(text, "=")
	if !found || key == "" || value == "" {
		return fmt.Errorf("--without %q: want KEY=VALUE, such as zone=us-east-1a, capacity-type=spot, instance-type=m5.large or a label of instance types", text)
	}
	label, err := f.offeringLabel(key, words)
	if err != nil {
		return fmt.Errorf("--without %s: %w", text, err)
	}
	f.ownCatalogues()
	known, matched := map[string]bool{}, false
	f.eachOffering(func(t *InstanceType, o *Offering) {
		values := offeringValues(t, o, label)
		for _, v := range values {
			known[v] = true
		}
		if len(values) == 1 && values[0] == value {
			o.Available, o.Out, matched = false, false, true
		}
	})
	for i := range f.Catalogues { // of several values that a node can have, one is ruled out
		for j := range f.Catalogues[i].InstanceTypes {
			t := &f.Catalogues[i].InstanceTypes[j]
			if values := t.Labels[label]; len(values) > 1 && slices.Contains(values, value) {
				t.Labels = maps.Clone(t.Labels)
				t.Labels[label] = slices.DeleteFunc(slices.Clone(values), func(v string) bool { return v == value })
				matched = true
			}
		}
	}
	if !matched {
		return fmt.Errorf("--without %s: no instance type has this value%s", text, near.Hint(value, slices.Sorted(maps.Keys(known))))
	}
	return nil
}

// offeringLabel is the label that a key means: itself, a short name, or the part behind the slash where only one label of
// instance types ends so.
func (f *File) offeringLabel(key string, words reqs.Vocabulary) (string, error) {
	switch key {
	case shortZone:
		return corev1.LabelTopologyZone, nil
	case shortCapacityType:
		return karpv1.LabelCapacityType, nil
	case shortInstanceType:
		return corev1.LabelInstanceTypeStable, nil
	}
	key = words.Canonical(key)
	labels := map[string]bool{corev1.LabelTopologyZone: true, karpv1.LabelCapacityType: true}
	f.eachOffering(func(t *InstanceType, o *Offering) {
		for label := range t.Labels {
			labels[label] = true
		}
		for label := range o.Labels {
			labels[label] = true
		}
	})
	if labels[key] {
		return key, nil
	}
	names, ends := []string{shortZone, shortCapacityType, shortInstanceType}, []string(nil)
	for _, label := range slices.Sorted(maps.Keys(labels)) {
		_, name, _ := strings.Cut(label, "/")
		names = append(names, label, name)
		if name == key {
			ends = append(ends, label)
		}
	}
	if len(ends) == 1 {
		return ends[0], nil
	}
	return "", fmt.Errorf("no instance type has label %s%s", key, near.Hint(key, names))
}

// offeringValues are the values of a label that a node of an offering can have.
func offeringValues(t *InstanceType, o *Offering, label string) []string {
	switch label {
	case corev1.LabelTopologyZone:
		return []string{o.Zone}
	case karpv1.LabelCapacityType:
		return []string{o.CapacityType}
	case corev1.LabelInstanceTypeStable:
		return []string{t.Name}
	}
	if value, has := o.Labels[label]; has {
		return []string{value}
	}
	return t.Labels[label]
}
