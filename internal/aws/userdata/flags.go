package userdata

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
)

// flags is the command line of the kubelet for families that take no file: AL2 and Windows.
func (in Input) flags() (string, error) {
	k := in.Kubelet
	var list []string
	var wrong error
	quoted := func(name, value string) {
		if value == "" {
			return
		}
		flag, err := quotedFlag(name, value)
		list, wrong = append(list, flag), errors.Join(wrong, err)
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
	return strings.Join(list, " "), wrong
}

// quotedFlag is a flag of the kubelet. On its way it is read by a shell, the bootstrap script of the image and
// systemd, whose ways to quote differ, so what any of them could take for more than a part of the value is refused.
func quotedFlag(name, value string) (string, error) {
	if err := plainText(name, value); err != nil {
		return "", err
	}
	return "--" + name + `="` + value + `"`, nil
}

func plainText(name, value string) error {
	if strings.ContainsFunc(value, func(r rune) bool { return unicode.IsControl(r) || strings.ContainsRune("\"'`$\\", r) }) {
		return fmt.Errorf("user data: the kubelet flag --%s would be %q: control characters, quotation marks, $ and \\ are not allowed", name, value)
	}
	return nil
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
