package overlay

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/dovetail-sh/dovetail/api/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// Overlay is a NodeOverlay that can be applied.
type Overlay struct {
	Name   string
	Weight int32

	needs    []need // by key
	price    *price // nil: prices stay
	capacity []amount
}

// need is what an overlay requires of one label.
type need struct {
	key  string
	want reqs.Req
	text string // identifies key and want
}

// price is how an overlay changes a price.
type price struct {
	absolute bool
	share    float64 // of the price, which is added to it
	amount   float64 // the price itself if absolute, and otherwise what is added
}

// amount is how much of an extended resource an overlay gives a type.
type amount struct {
	resource corev1.ResourceName
	n        int64
}

// of returns the changed price, which is never below zero, and whether it is known to be zero. A price that is not known,
// which is written as zero, can be replaced but not adjusted.
func (p *price) of(usd float64, known bool) (changed float64, free bool) {
	switch {
	case p.absolute:
		changed = p.amount
	case !known:
		return usd, false
	default:
		changed = max(0, usd+usd*p.share+p.amount)
	}
	return changed, changed <= 0
}

// Read reads a NodeOverlay. The error says what its schema cannot know and a user has to change.
func Read(object *v1alpha1.NodeOverlay, words reqs.Vocabulary) (Overlay, error) {
	o := Overlay{Name: object.Name}
	if object.Spec.Weight != nil {
		o.Weight = *object.Spec.Weight
	}
	var err error
	if o.needs, err = readNeeds(object.Spec.Requirements, words); err != nil {
		return Overlay{}, err
	}
	if o.price, err = readPrice(object.Spec.Price, object.Spec.PriceAdjustment); err != nil {
		return Overlay{}, err
	}
	if o.capacity, err = readCapacity(object.Spec.Capacity); err != nil {
		return Overlay{}, err
	}
	return o, nil
}

// readNeeds reads requirements in the order of their keys.
func readNeeds(list []v1alpha1.Requirement, words reqs.Vocabulary) ([]need, error) {
	entries := make([]reqs.Entry, 0, len(list))
	for i, r := range list {
		if words.Restricted(r.Key) {
			return nil, fmt.Errorf("spec.requirements[%d]: label %s is restricted: no instance type has it; remove the requirement, or use a well-known label, karpenter.sh/nodepool or a label of the NodePool's template", i, r.Key)
		}
		entries = append(entries, reqs.Entry{Key: r.Key, Operator: r.Operator, Values: r.Values})
	}
	set, faults := reqs.FromEntries(entries, words)
	if len(faults) > 0 {
		return nil, fmt.Errorf("spec.requirements[%d]: %w", faults[0].Index, &faults[0])
	}
	needs := make([]need, 0, len(set))
	for _, key := range set.Keys() {
		// All values, unlike Req.String: the text identifies the requirement.
		text := fmt.Sprintf("%s\x00%v\x00%v\x00%s", key, set[key].Not, set[key].Bounds, strings.Join(set[key].Values, "\x00"))
		needs = append(needs, need{key: key, want: set[key], text: text})
	}
	return needs, nil
}

func readPrice(absolute, adjustment *string) (*price, error) {
	switch {
	case absolute != nil && adjustment != nil:
		return nil, errors.New("spec.price and spec.priceAdjustment exclude each other; remove one of them")
	case absolute != nil:
		usd, err := number(*absolute)
		if err != nil || usd < 0 {
			return nil, fmt.Errorf("spec.price %q is no price in USD an hour; write it like 0.25", *absolute)
		}
		return &price{absolute: true, amount: usd}, nil
	case adjustment != nil:
		text, percent := strings.CutSuffix(*adjustment, "%")
		n, err := number(text)
		if err != nil {
			return nil, fmt.Errorf("spec.priceAdjustment %q is no signed amount or percentage; write it like +0.02, -0.02 or -28%%", *adjustment)
		}
		if percent {
			return &price{share: n / 100}, nil
		}
		return &price{amount: n}, nil
	}
	return nil, nil
}

func number(text string) (float64, error) {
	n, err := strconv.ParseFloat(text, 64)
	if err == nil && (math.IsNaN(n) || math.IsInf(n, 0)) {
		err = strconv.ErrRange
	}
	return n, err
}

// readCapacity reads extended resources in the order of their names.
func readCapacity(list corev1.ResourceList) ([]amount, error) {
	var out []amount
	for _, name := range slices.Sorted(maps.Keys(list)) {
		n := list[name]
		if why := refuseResource(name, n); why != "" {
			return nil, fmt.Errorf("spec.capacity[%s]: %s", name, why)
		}
		out = append(out, amount{resource: name, n: resources.Whole(n)})
	}
	return out, nil
}

// refuseResource says why an overlay cannot set a resource.
func refuseResource(name corev1.ResourceName, n resource.Quantity) string {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourcePods:
		return "an overlay cannot change what the machine itself has; remove it"
	}
	domain, _, qualified := strings.Cut(string(name), "/")
	switch {
	case len(validation.IsQualifiedName(string(name))) > 0:
		return "is no name of a resource; write it like example.com/device"
	case strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) && !qualified:
	case !qualified || domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io"):
		return "is no extended resource, so no pod can request it; write it with a domain of its own, like example.com/device"
	}
	if n.Sign() < 0 {
		return "must not be negative"
	}
	if whole := resource.NewQuantity(resources.Whole(n), n.Format); whole.Cmp(n) != 0 {
		return "must be a whole number, and not larger than 2^63-1"
	}
	return ""
}

// ResourceNames are the resources that overlays set, those of refused overlays included, in order.
func ResourceNames(objects []v1alpha1.NodeOverlay) []corev1.ResourceName {
	lists := make([]corev1.ResourceList, 0, len(objects))
	for i := range objects {
		lists = append(lists, objects[i].Spec.Capacity)
	}
	return resources.Names(lists...)
}

// preview returns the price of instance types that an overlay prices and does nothing else to: types that have no
// public price can then be launched. It is nil for every other overlay.
func preview(object *v1alpha1.NodeOverlay, o *Overlay) (types []string, usd float64) {
	if len(object.Spec.Requirements) != 1 || len(o.needs) != 1 || o.price == nil || !o.price.absolute || len(o.capacity) > 0 {
		return nil, 0
	}
	if n := o.needs[0]; n.key == corev1.LabelInstanceTypeStable && object.Spec.Requirements[0].Operator == corev1.NodeSelectorOpIn {
		return n.want.Values, o.price.amount
	}
	return nil, 0
}
