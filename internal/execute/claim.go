package execute

import (
	"encoding/binary"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/drift"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Order is a node that was decided on, and what its claim is made from.
type Order struct {
	Pool  *karpv1.NodePool // effective
	Node  solve.NewNode
	Lanes resources.Table // of the snapshot the node was planned on
	Words reqs.Vocabulary
	Seed  string            // identifies the decision; the name of the claim follows from it
	Try   int               // how many names already belonged to other decisions
	Marks map[string]string // annotations of our own
}

// Claim writes an order down as a NodeClaim (API 10.4). The finalizer is there from the start:
// nothing is launched without it (LC-01).
func Claim(o Order) (*karpv1.NodeClaim, error) {
	hash, err := drift.PoolHash(o.Pool)
	if err != nil {
		return nil, err
	}
	template := &o.Pool.Spec.Template
	claim := &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name:        claimName(o),
			Labels:      o.labels(),
			Finalizers:  []string{karpv1.FinalizerTermination},
			Annotations: hash.OnPool(),
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: karpv1.GroupVersion().String(), Kind: "NodePool", Name: o.Pool.Name, UID: o.Pool.UID, BlockOwnerDeletion: new(true),
			}},
		},
		Spec: karpv1.NodeClaimSpec{
			Requirements:           o.requirements(),
			Resources:              karpv1.ResourceRequirements{Requests: o.Lanes.List(o.Node.Requests)},
			NodeClassRef:           template.Spec.NodeClassRef,
			Taints:                 template.Spec.Taints,
			StartupTaints:          template.Spec.StartupTaints,
			ExpireAfter:            template.Spec.ExpireAfter,
			TerminationGracePeriod: template.Spec.TerminationGracePeriod,
			Kubelet:                template.Spec.Kubelet,
		},
	}
	claim.Annotations[karpv1.AnnotationMinValuesRelaxed] = strconv.FormatBool(o.Node.Relaxed)
	for key, value := range template.ObjectMeta.Annotations {
		if _, ours := claim.Annotations[key]; !ours {
			claim.Annotations[key] = value
		}
	}
	maps.Copy(claim.Annotations, o.Marks)
	claim.Annotations[karpv1.AnnotationOrder] = strconv.FormatUint(o.digest(), 36)
	if len(o.Node.Pods) > 0 {
		claim.Annotations[karpv1.AnnotationPods] = cluster.HashPods(o.Node.Pods)
	}
	if len(o.Node.Drivers) > 0 {
		claim.Annotations[karpv1.AnnotationRequestedDRADrivers] = strings.Join(o.Node.Drivers, ",")
	}
	if o.Node.Overlaid {
		claim.Annotations[karpv1.AnnotationPriceOverlayApplied] = "true"
	}
	if o.Node.CapacityOverlaid {
		claim.Annotations[karpv1.AnnotationCapacityOverlayApplied] = "true"
	}
	return claim, nil
}

// digest identifies the decision to launch a node: the same decision has the same digest, whatever its name.
func (o Order) digest() uint64 { return o.hash("") }

func (o Order) hash(more string) uint64 {
	h := fnv.New64a()
	for _, text := range []string{string(o.Pool.UID), o.Seed + more} {
		h.Write([]byte(text))
		h.Write([]byte{0})
	}
	for _, pod := range o.Node.Pods {
		h.Write([]byte(pod.String()))
		h.Write([]byte{0})
	}
	return h.Sum64()
}

// claimName is the name of the pool and five characters. The same decision gives the same name: a write that is
// repeated because its response was lost creates no second claim.
func claimName(o Order) string {
	const alphabet, length = "bcdfghjklmnpqrstvwxz2456789", 5
	sum := o.hash(strings.Repeat("+", o.Try))
	var suffix strings.Builder
	for range length {
		suffix.WriteByte(alphabet[sum%uint64(len(alphabet))])
		sum /= uint64(len(alphabet))
	}
	const longest = 63 - length - 1 // a name is also the value of a label
	return o.Pool.Name[:min(len(o.Pool.Name), longest)] + "-" + suffix.String()
}

// labels are those of the template, the names of pool and class, and one value for each label of the
// user's own that the node has to have.
func (o Order) labels() map[string]string {
	template := &o.Pool.Spec.Template
	labels := maps.Clone(template.ObjectMeta.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[karpv1.LabelNodePool] = o.Pool.Name
	ref := template.Spec.NodeClassRef
	labels[ref.LabelKey()] = ref.Name
	for _, key := range o.Node.Needs.Keys() {
		if _, set := labels[key]; set || o.Words.WellKnown(key) || o.Words.Restricted(key) {
			continue
		}
		if value, one := choose(key, o.Node.Needs[key]); one {
			labels[key] = value
		}
	}
	return labels
}

// choose picks one value of a label: the first that is allowed, or a number where any will do.
func choose(key string, r reqs.Req) (string, bool) {
	if !r.Not {
		if len(r.Values) == 0 {
			return "", false // must not exist
		}
		return r.Values[0], true
	}
	if len(r.Values) > 0 && !r.Bounds.Limited() {
		return "", false // NotIn: the label need not exist
	}
	lo, hi := int64(0), int64(1<<15)
	if r.Bounds.HasLo {
		lo, hi = r.Bounds.Lo, r.Bounds.Lo+1<<15
	}
	if r.Bounds.HasHi {
		hi = min(hi, r.Bounds.Hi)
		if !r.Bounds.HasLo {
			lo = min(lo, hi)
		}
	}
	h := fnv.New64a()
	h.Write([]byte(key))
	start := lo + int64(h.Sum64()%uint64(hi-lo+1))
	for n := start; n <= hi; n++ {
		if value := strconv.FormatInt(n, 10); r.Has(value) {
			return value, true
		}
	}
	return "", false
}

// namedTypes is how many instance types a claim names unless minValues are required (decision 0017). A launch
// requests sixty at a time; the rest are for insufficient capacity of those.
const namedTypes = 100

// requirements are the needs of the node; the instance types come cheapest first, as planned.
func (o Order) requirements() []karpv1.Requirement {
	var out []karpv1.Requirement
	names := o.Node.Types
	// any order: whether there is one
	if !slices.ContainsFunc(slices.Collect(maps.Values(o.Node.Needs)), func(r reqs.Req) bool { return r.MinValues > 0 }) {
		names = names[:min(len(names), namedTypes)]
	}
	for _, e := range o.Node.Needs.Requirements() {
		if e.Key == corev1.LabelHostname || e.Key == corev1.LabelInstanceTypeStable && len(names) > 0 {
			continue
		}
		out = append(out, requirement(e))
	}
	if len(names) > 0 {
		types := reqs.Entry{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: slices.Clone(names)}
		types.MinValues = o.Node.Needs[corev1.LabelInstanceTypeStable].MinValues
		out = append(out, requirement(types))
	}
	return out
}

func requirement(e reqs.Entry) karpv1.Requirement {
	r := karpv1.Requirement{Key: e.Key, Operator: e.Operator, Values: e.Values}
	if e.MinValues > 0 {
		r.MinValues = new(e.MinValues)
	}
	return r
}

// seed is text that identifies the decision to launch a node of the batch. Nodes without pods are distinguished by
// their number.
func (b *Batch) seed(i int) string {
	var version [8]byte
	binary.BigEndian.PutUint64(version[:], b.Version)
	text := string(version[:])
	if b.Command != "" {
		text = b.Command // after any number of restarts
	}
	if len(b.Nodes[i].Pods) == 0 {
		text += strconv.Itoa(i)
	}
	return text
}
