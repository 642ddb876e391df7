package userdata

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// flags is the command line of the kubelet for families that take no file: AL2 and Windows.
func (in Input) flags() string {
	k := in.Kubelet
	var list []string
	quoted := func(name, value string) {
		if value != "" {
			list = append(list, "--"+name+`="`+value+`"`)
		}
	}
	number := func(name string, value *int32) {
		if value != nil {
			list = append(list, "--"+name+"="+strconv.Itoa(int(*value)))
		}
	}
	quoted("node-labels", pairs(in.Labels, "="))
	quoted("register-with-taints", taints(in.Taints))
	number("max-pods", k.MaxPods)
	number("pods-per-core", k.PodsPerCore)
	quoted("system-reserved", pairs(k.SystemReserved, "="))
	quoted("kube-reserved", pairs(k.KubeReserved, "="))
	quoted("eviction-hard", pairs(k.EvictionHard, "<"))
	quoted("eviction-soft", pairs(k.EvictionSoft, "<"))
	quoted("eviction-soft-grace-period", pairs(k.EvictionSoftGracePeriod, "="))
	number("eviction-max-pod-grace-period", k.EvictionMaxPodGracePeriod)
	number("image-gc-high-threshold", k.ImageGCHighThresholdPercent)
	number("image-gc-low-threshold", k.ImageGCLowThresholdPercent)
	if k.CPUCFSQuota != nil {
		list = append(list, "--cpu-cfs-quota="+strconv.FormatBool(*k.CPUCFSQuota))
	}
	return strings.Join(list, " ")
}

// pairs joins a map in the order of its keys.
func pairs(m map[string]string, separator string) string {
	var list []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		list = append(list, key+separator+m[key])
	}
	return strings.Join(list, ",")
}

// taints joins taints as the kubelet reads them: key=value:Effect.
func taints(all []corev1.Taint) string {
	var list []string
	for _, t := range all {
		text := t.Key
		if t.Value != "" {
			text += "=" + t.Value
		}
		list = append(list, text+":"+string(t.Effect))
	}
	return strings.Join(list, ",")
}
