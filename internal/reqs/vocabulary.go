package reqs

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Vocabulary says what label keys mean. It is data: build it from CoreVocabulary and With, then only
// read it. The zero value knows no key and restricts none.
type Vocabulary struct {
	WellKnownKeys     map[string]bool              // a pool may leave these undefined; the cloud supplies them
	Aliases           map[string]string            // key as written → canonical key; not chained
	Rewrites          map[string]map[string]string // canonical key → value as written → value meant
	RestrictedDomains []string                     // these domains and their sub-domains belong to the controller
	RestrictedKeys    map[string]bool
	ClosedValues      map[string][]string // keys whose values are all known

	// What of them is the same in all clusters, and may be shown to anybody. Well-known keys and their values are, unless
	// they are among NameKeys.
	PublicDomains []string        // of keys
	PublicKeys    map[string]bool // and their values
	NameKeys      map[string]bool // keys whose values name something of one account

	// What only other nodes of the cloud have: no volume that needs it can be attached to a node that is launched.
	UnsupportedDrivers  map[string]bool // CSI drivers
	UnsupportedTopology map[string]bool // keys of allowedTopologies
}

// CoreVocabulary returns the labels of the core, without any that a cloud adds.
func CoreVocabulary() Vocabulary {
	const (
		nodePool     = "karpenter.sh/nodepool"
		capacityType = "karpenter.sh/capacity-type"
	)
	return Vocabulary{
		WellKnownKeys: map[string]bool{
			nodePool:                       true,
			capacityType:                   true,
			corev1.LabelTopologyZone:       true,
			corev1.LabelTopologyRegion:     true,
			corev1.LabelInstanceTypeStable: true,
			corev1.LabelArchStable:         true,
			corev1.LabelOSStable:           true,
			corev1.LabelWindowsBuild:       true,
		},
		Aliases: map[string]string{
			corev1.LabelFailureDomainBetaZone:   corev1.LabelTopologyZone,
			corev1.LabelFailureDomainBetaRegion: corev1.LabelTopologyRegion,
			"beta.kubernetes.io/arch":           corev1.LabelArchStable,
			"beta.kubernetes.io/os":             corev1.LabelOSStable,
			corev1.LabelInstanceType:            corev1.LabelInstanceTypeStable,
			"karpenter.sh/provisioner-name":     nodePool, // L-14
		},
		RestrictedDomains: []string{"karpenter.sh"},
		RestrictedKeys:    map[string]bool{corev1.LabelHostname: true},
		ClosedValues:      map[string][]string{capacityType: {"on-demand", "reserved", "spot"}},
	}
}

// With returns a vocabulary that knows the words of both; where they differ, other wins. Neither is
// changed, and the result shares no map with them.
func (v Vocabulary) With(other Vocabulary) Vocabulary {
	rewrites := merged(v.Rewrites, nil)
	for key, values := range rewrites {
		rewrites[key] = maps.Clone(values)
	}
	for key, values := range other.Rewrites {
		rewrites[key] = merged(rewrites[key], values)
	}
	return Vocabulary{
		WellKnownKeys:     merged(v.WellKnownKeys, other.WellKnownKeys),
		Aliases:           merged(v.Aliases, other.Aliases),
		Rewrites:          rewrites,
		RestrictedDomains: distinct(slices.Concat(v.RestrictedDomains, other.RestrictedDomains)),
		RestrictedKeys:    merged(v.RestrictedKeys, other.RestrictedKeys),
		ClosedValues:      merged(v.ClosedValues, other.ClosedValues),

		PublicDomains: distinct(slices.Concat(v.PublicDomains, other.PublicDomains)),
		PublicKeys:    merged(v.PublicKeys, other.PublicKeys),
		NameKeys:      merged(v.NameKeys, other.NameKeys),

		UnsupportedDrivers:  merged(v.UnsupportedDrivers, other.UnsupportedDrivers),
		UnsupportedTopology: merged(v.UnsupportedTopology, other.UnsupportedTopology),
	}
}

func merged[K comparable, V any](a, b map[K]V) map[K]V {
	both := make(map[K]V, len(a)+len(b))
	maps.Copy(both, a)
	maps.Copy(both, b)
	return both
}

// Canonical returns the key that an alias stands for; other keys stand for themselves.
func (v Vocabulary) Canonical(key string) string {
	if canonical, isAlias := v.Aliases[key]; isAlias {
		return canonical
	}
	return key
}

// Value returns the value that is meant where value is written for a key, alias or not.
func (v Vocabulary) Value(key, value string) string {
	if meant, rewritten := v.Rewrites[v.Canonical(key)][value]; rewritten {
		return meant
	}
	return value
}

// values returns the values of an entry with rewrites applied; numeric operands are left alone.
func (v Vocabulary) values(key string, e Entry) []string {
	listsValues := e.Operator == corev1.NodeSelectorOpIn || e.Operator == corev1.NodeSelectorOpNotIn
	if len(v.Rewrites[key]) == 0 || !listsValues {
		return e.Values
	}
	meant := make([]string, len(e.Values))
	for i, value := range e.Values {
		meant[i] = v.Value(key, value)
	}
	return meant
}

// WellKnown reports whether a pool may leave the key, or the key it is an alias of, undefined.
func (v Vocabulary) WellKnown(key string) bool { return v.WellKnownKeys[v.Canonical(key)] }

// Restricted reports whether pools and pods may not use the key. Well-known keys and their aliases
// are never restricted; a domain restricts its sub-domains but not names that merely end like it.
func (v Vocabulary) Restricted(key string) bool {
	key = v.Canonical(key)
	if v.WellKnownKeys[key] {
		return false
	}
	domain, _, hasDomain := strings.Cut(key, "/")
	owned := func(d string) bool { return domain == d || strings.HasSuffix(domain, "."+d) }
	return v.RestrictedKeys[key] || hasDomain && slices.ContainsFunc(v.RestrictedDomains, owned)
}
