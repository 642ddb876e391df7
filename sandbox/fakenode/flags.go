package fakenode

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

// applyFlagText applies command-line flags of the kubelet. Unknown flags are passed over: there are
// hundreds, and the few here are those that show on a Node.
func (c *Config) applyFlagText(text string) error {
	statements, err := shellStatements(text)
	if err != nil {
		return fmt.Errorf("kubelet flags: %w", err)
	}
	var words []string
	for _, s := range statements {
		words = append(words, s...)
	}
	for i := 0; i < len(words); i++ {
		name, value, inline := strings.Cut(words[i], "=")
		if !strings.HasPrefix(name, "--") {
			continue
		}
		if !inline && i+1 < len(words) && !strings.HasPrefix(words[i+1], "--") {
			i++
			value = words[i]
		}
		if err := c.applyFlag(name, value); err != nil {
			return fmt.Errorf("kubelet flag %s: %w", name, err)
		}
	}
	return nil
}

func (c *Config) applyFlag(name, value string) (err error) {
	switch name {
	case "--node-labels":
		return parsePairs(&c.Labels, value, "=")
	case "--register-with-taints":
		c.Taints, err = parseTaints(value)
	case "--max-pods":
		c.MaxPods, err = strconv.Atoi(value)
	case "--pods-per-core":
		c.PodsPerCore, err = strconv.Atoi(value)
	case "--kube-reserved":
		return parsePairs(&c.KubeReserved, value, "=")
	case "--system-reserved":
		return parsePairs(&c.SystemReserved, value, "=")
	case "--eviction-hard":
		return parsePairs(&c.EvictionHard, value, "<")
	}
	return err
}

func parsePairs(into *map[string]string, text, separator string) error {
	for pair := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		k, v, ok := strings.Cut(pair, separator)
		if !ok {
			return fmt.Errorf("%q has no %q", pair, separator)
		}
		merge(into, map[string]string{strings.TrimSpace(k): strings.TrimSpace(v)})
	}
	return nil
}

func parseTaints(text string) ([]corev1.Taint, error) {
	var taints []corev1.Taint
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		at := strings.LastIndex(part, ":")
		if at < 0 {
			return nil, fmt.Errorf("taint %q has no effect", part)
		}
		key, value, _ := strings.Cut(part[:at], "=")
		taints = append(taints, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(part[at+1:])})
	}
	return taints, nil
}

// check applies the rules by which a kubelet refuses to start.
func (c *Config) check() error {
	for _, key := range slices.Sorted(maps.Keys(c.Labels)) {
		if problems := validation.IsQualifiedName(key); len(problems) > 0 {
			return fmt.Errorf("node label %q: %s", key, problems[0])
		}
		if problems := validation.IsValidLabelValue(c.Labels[key]); len(problems) > 0 {
			return fmt.Errorf("value of node label %s: %s", key, problems[0])
		}
		if isReservedLabel(key) {
			return fmt.Errorf("node label %s: a kubelet may not set labels of kubernetes.io and k8s.io", key)
		}
	}
	seen := map[string]bool{}
	for _, t := range c.Taints {
		if problems := validation.IsQualifiedName(t.Key); len(problems) > 0 {
			return fmt.Errorf("taint %q: %s", t.Key, problems[0])
		}
		if problems := validation.IsValidLabelValue(t.Value); len(problems) > 0 {
			return fmt.Errorf("value of taint %s: %s", t.Key, problems[0])
		}
		switch t.Effect {
		case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
		default:
			return fmt.Errorf("taint %s: %q is no effect", t.Key, t.Effect)
		}
		id := t.Key + ":" + string(t.Effect)
		if seen[id] {
			return fmt.Errorf("taint %s is given twice", id)
		}
		seen[id] = true
	}
	for _, n := range []int{c.MaxPods, c.PodsPerCore} {
		if n < 0 || n > math.MaxInt32 {
			return fmt.Errorf("max pods %d, pods per core %d: negative, or too many", c.MaxPods, c.PodsPerCore)
		}
	}
	return c.checkQuantities()
}

func (c *Config) checkQuantities() error {
	for name, list := range map[string]map[string]string{
		"kube-reserved": c.KubeReserved, "system-reserved": c.SystemReserved, "eviction-hard": c.EvictionHard,
	} {
		for _, key := range slices.Sorted(maps.Keys(list)) {
			value := list[key]
			if name == "eviction-hard" && strings.HasSuffix(value, "%") {
				if share, err := strconv.ParseFloat(strings.TrimSuffix(value, "%"), 64); err != nil || !(share >= 0 && share <= 100) {
					return fmt.Errorf("%s %s: %q is no percentage", name, key, value)
				}
				continue
			}
			if q, err := parseQuantity(value); err != nil || q.Sign() < 0 {
				return fmt.Errorf("%s %s: %q is no amount", name, key, value)
			}
		}
	}
	return nil
}

// parseQuantity is resource.ParseQuantity for text of strangers: that one computes forever on an
// exponent of many digits.
func parseQuantity(text string) (resource.Quantity, error) {
	if at := strings.IndexAny(text, "eE"); at >= 0 && len(strings.TrimLeft(text[at+1:], "+-")) > 2 || len(text) > 40 {
		return resource.Quantity{}, resource.ErrFormatWrong
	}
	return resource.ParseQuantity(text)
}

// isReservedLabel says whether a kubelet may not give itself a label.
func isReservedLabel(key string) bool {
	domain, _, qualified := strings.Cut(key, "/")
	if !qualified {
		return false
	}
	below := func(parent string) bool { return domain == parent || strings.HasSuffix(domain, "."+parent) }
	if !below("kubernetes.io") && !below("k8s.io") {
		return false
	}
	if below("kubelet.kubernetes.io") || below("node.kubernetes.io") {
		return false
	}
	switch key {
	case corev1.LabelHostname, corev1.LabelTopologyZone, corev1.LabelTopologyRegion,
		corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion,
		corev1.LabelInstanceType, corev1.LabelInstanceTypeStable,
		corev1.LabelOSStable, corev1.LabelArchStable, "beta.kubernetes.io/os", "beta.kubernetes.io/arch":
		return false
	}
	return true
}
