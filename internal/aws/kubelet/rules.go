package kubelet

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/ami"
)

// Reasons of ValidationSucceeded=False that a kubelet document gives.
const (
	InvalidKubeletConfiguration       = "InvalidKubeletConfiguration"
	KubeletExpressionsDisabled        = "KubeletExpressionsDisabled"
	KubeletExpressionInvalid          = "KubeletExpressionInvalid"
	UnsupportedKubeletConfiguration   = "UnsupportedKubeletConfiguration"
	KubeletExpressionEvaluationFailed = "KubeletExpressionEvaluationFailed"
)

// signals are what the kubelet can evict on.
func signals() []string {
	return []string{"memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree", "pid.available"}
}

// reservable is what can be set aside for the system and the kubelet.
func reservable() []string { return []string{"cpu", "memory", "ephemeral-storage", "pid"} }

// managed are the fields that every family can apply (but for podsPerCore), and those of v1beta1's kubelet
// block on pools and claims.
func managed() []string {
	return []string{
		"clusterDNS", fieldMaxPods, "podsPerCore", fieldSystemReserved, fieldKubeReserved, "evictionHard", "evictionSoft", "evictionSoftGracePeriod",
		"evictionMaxPodGracePeriod", "imageGCHighThresholdPercent", "imageGCLowThresholdPercent", "cpuCFSQuota",
	}
}

// Check says why a document is refused, as a condition reason and what to change; both are empty when
// it is fine. The gate is NodeClassCEL.
func Check(c Config, family awsv1.AMIFamily, gate bool) (reason, message string) {
	switch {
	case len(c.problems) > 0:
		return InvalidKubeletConfiguration, strings.Join(c.problems, "; ")
	case c.Expressions() && !gate:
		return KubeletExpressionsDisabled, "spec.kubelet." + c.expressions[0].name() + " is no number; write one, or turn the gate NodeClassCEL on to use expressions"
	}
	for _, e := range c.expressions {
		if e.err != nil {
			return KubeletExpressionInvalid, "spec.kubelet." + e.name() + ": " + e.err.Error()
		}
	}
	if fields := unsupported(c, family); len(fields) > 0 {
		return UnsupportedKubeletConfiguration, fmt.Sprintf("the AMI family %s cannot apply spec.kubelet %s; remove that, or use AL2023", family, strings.Join(fields, ", "))
	}
	return "", ""
}

// CheckOverride says why the kubelet block of a pool or claim is refused, in the words of Check. It is checked
// like that of a class, and it may set only what v1beta1 documents: a user who edits a pool must not become able to
// run anything on its nodes, which the rest of the kubelet's configuration amounts to. No block is fine.
func CheckOverride(override *runtime.RawExtension, family awsv1.AMIFamily, gate bool) (reason, message string) {
	c, problems := Parse(override)
	for _, name := range slices.Sorted(maps.Keys(c.Raw)) {
		if !slices.Contains(managed(), name) {
			problems = append(problems, name+" may not be set here, only "+strings.Join(managed(), ", ")+"; set it in spec.kubelet of the EC2NodeClass")
		}
	}
	for _, text := range c.ClusterDNS {
		if _, err := netip.ParseAddr(text); err != nil {
			problems = append(problems, fmt.Sprintf("clusterDNS: %q is not an IP address", text))
		}
	}
	c.problems = problems
	return Check(c, family, gate)
}

// unsupported lists the fields that a family cannot apply (EC2NodeClass 9).
func unsupported(c Config, name awsv1.AMIFamily) []string {
	family := ami.Of(name)
	if family.AnyKubeletField {
		return nil
	}
	fields := slices.DeleteFunc(slices.Sorted(maps.Keys(c.Raw)), func(name string) bool { return slices.Contains(managed(), name) })
	if !family.PodsPerCore && c.PodsPerCore != nil {
		fields = append(fields, "podsPerCore")
	}
	if len(c.ClusterDNS) > 1 {
		fields = append(fields, "clusterDNS with more than one address")
	}
	return fields
}

// rules are what the kubelet's type does not say. plain is the document without expressions.
func rules(typed kubeletv1beta1.KubeletConfiguration, plain, tree map[string]any) []string {
	var problems []string
	if _, isSet := tree["registerWithTaints"]; isSet {
		problems = append(problems, "registerWithTaints is set by the controller; use taints of the NodePool")
	}
	problems = append(problems, eviction("evictionHard", typed.EvictionHard, threshold)...)
	problems = append(problems, eviction("evictionSoft", typed.EvictionSoft, threshold)...)
	problems = append(problems, eviction("evictionSoftGracePeriod", typed.EvictionSoftGracePeriod, gracePeriod)...)
	problems = append(problems, eviction("evictionMinimumReclaim", typed.EvictionMinimumReclaim, threshold)...)
	problems = append(problems, unpaired("evictionSoft", typed.EvictionSoft, "evictionSoftGracePeriod", typed.EvictionSoftGracePeriod)...)
	problems = append(problems, unpaired("evictionSoftGracePeriod", typed.EvictionSoftGracePeriod, "evictionSoft", typed.EvictionSoft)...)
	problems = append(problems, reservations(fieldKubeReserved, tree)...)
	problems = append(problems, reservations(fieldSystemReserved, tree)...)
	return append(problems, ranges(typed, plain)...)
}

func eviction(field string, values map[string]string, check func(string) string) []string {
	var problems []string
	for _, signal := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(signals(), signal) {
			problems = append(problems, fmt.Sprintf("%s: signal %q is none of %s", field, signal, strings.Join(signals(), ", ")))
		}
		if want := check(values[signal]); want != "" {
			problems = append(problems, fmt.Sprintf("%s: %s is %q, want %s", field, signal, values[signal], want))
		}
	}
	return problems
}

// threshold returns what was expected instead, or nothing.
func threshold(text string) string {
	const want = "a percentage from 0% to 100% or a quantity of 0 or more"
	if number, found := strings.CutSuffix(text, "%"); found {
		if percent, err := strconv.ParseFloat(number, 64); err != nil || !(percent >= 0 && percent <= 100) {
			return want
		}
		return ""
	}
	if q, err := resource.ParseQuantity(text); err != nil || q.Sign() < 0 {
		return want
	}
	return ""
}

func gracePeriod(text string) string {
	if d, err := time.ParseDuration(text); err != nil || d < 0 {
		return "a duration of 0 or more, such as 1m30s"
	}
	return ""
}

func unpaired(field string, values map[string]string, partner string, partners map[string]string) []string {
	var problems []string
	for _, signal := range slices.Sorted(maps.Keys(values)) {
		if _, found := partners[signal]; !found {
			problems = append(problems, fmt.Sprintf("%s: %s has no entry in %s", field, signal, partner))
		}
	}
	return problems
}

func reservations(field string, tree map[string]any) []string {
	values, _ := tree[field].(map[string]any)
	var problems []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(reservable(), key) {
			problems = append(problems, fmt.Sprintf("%s: %q is none of %s", field, key, strings.Join(reservable(), ", ")))
		}
		if text, _ := values[key].(string); strings.HasPrefix(text, "-") {
			problems = append(problems, fmt.Sprintf("%s: %s is %q, want nothing below zero", field, key, text))
		}
	}
	return problems
}

func ranges(typed kubeletv1beta1.KubeletConfiguration, plain map[string]any) []string {
	var problems []string
	percent := func(field string, value *int32) {
		if value != nil && (*value < 0 || *value > 100) {
			problems = append(problems, fmt.Sprintf("%s is %d, want 0 to 100", field, *value))
		}
	}
	high, low := typed.ImageGCHighThresholdPercent, typed.ImageGCLowThresholdPercent
	percent("imageGCHighThresholdPercent", high)
	percent("imageGCLowThresholdPercent", low)
	if high != nil && low != nil && *high <= *low {
		problems = append(problems, fmt.Sprintf("imageGCHighThresholdPercent is %d, want more than imageGCLowThresholdPercent, which is %d", *high, *low))
	}
	for _, f := range []struct {
		name  string
		value int32
	}{{fieldMaxPods, typed.MaxPods}, {"podsPerCore", typed.PodsPerCore}, {"evictionMaxPodGracePeriod", typed.EvictionMaxPodGracePeriod}} {
		if _, isSet := plain[f.name]; isSet && f.value < 0 {
			problems = append(problems, fmt.Sprintf("%s is %d, want 0 or more", f.name, f.value))
		}
	}
	return problems
}
