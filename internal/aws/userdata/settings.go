package userdata

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
)

// settings are the user's with ours on top.
func (in Input) settings() (string, error) {
	document := map[string]any{}
	if _, err := toml.Decode(in.User, &document); err != nil {
		return "", fmt.Errorf("user data is not TOML, which Bottlerocket needs: %w", err)
	}
	settings, err := table(document, "settings")
	if err != nil {
		return "", err
	}
	kubernetes, err := table(settings, "kubernetes")
	if err != nil {
		return "", err
	}
	for key := range kubernetes {
		if !slices.Contains(kubernetesSettings(), key) {
			delete(kubernetes, key)
		}
	}
	if err := in.setKubernetes(kubernetes); err != nil {
		return "", err
	}
	if in.RAID0 {
		commands, err := table(settings, "bootstrap-commands")
		if err != nil {
			return "", err
		}
		commands["000-mount-instance-storage"] = in.mountInstanceStorage()
	}
	var b strings.Builder
	encoder := toml.NewEncoder(&b)
	encoder.Indent = ""
	if err := encoder.Encode(document); err != nil {
		return "", fmt.Errorf("user data: the Bottlerocket settings: %w", err)
	}
	return b.String(), nil
}

// table returns a table of another one and makes it if it is absent.
func table(parent map[string]any, key string) (map[string]any, error) {
	switch value := parent[key].(type) {
	case nil:
		made := map[string]any{}
		parent[key] = made
		return made, nil
	case map[string]any:
		return value, nil
	default:
		return nil, fmt.Errorf("user data: %s of the Bottlerocket settings is not a table", key)
	}
}

// setKubernetes overwrites what is ours. Labels are merged, taints replaced.
func (in Input) setKubernetes(settings map[string]any) error {
	labels, err := table(settings, "node-labels")
	if err != nil {
		return err
	}
	for key, value := range in.Labels {
		labels[key] = value
	}
	if len(labels) == 0 {
		delete(settings, "node-labels")
	}
	settings["cluster-name"], settings["api-server"], settings["cluster-certificate"] = in.Cluster, in.Endpoint, in.CABundle
	delete(settings, "node-taints")
	if len(in.Taints) > 0 {
		taints := map[string]any{}
		for _, t := range in.Taints {
			list, _ := taints[t.Key].([]string)
			taints[t.Key] = append(list, t.Value+":"+string(t.Effect))
		}
		settings["node-taints"] = taints
	}
	if dns := in.dns(); dns != "" && (len(in.Kubelet.ClusterDNS) > 0 || settings["cluster-dns-ip"] == nil) {
		settings["cluster-dns-ip"] = dns
	}
	in.setKubelet(settings)
	return nil
}

// setKubelet writes the fields of spec.kubelet that are set.
func (in Input) setKubelet(settings map[string]any) {
	k := in.Kubelet
	number := func(key string, value *int32) {
		if value != nil {
			settings[key] = int64(*value)
		}
	}
	text := func(key string, value *int32) {
		if value != nil {
			settings[key] = strconv.Itoa(int(*value))
		}
	}
	texts := func(key string, value map[string]string) {
		if len(value) > 0 {
			settings[key] = value
		}
	}
	number("max-pods", k.MaxPods)
	texts("system-reserved", k.SystemReserved)
	texts("kube-reserved", k.KubeReserved)
	texts("eviction-hard", k.EvictionHard)
	texts("eviction-soft", k.EvictionSoft)
	texts("eviction-soft-grace-period", k.EvictionSoftGracePeriod)
	number("eviction-max-pod-grace-period", k.EvictionMaxPodGracePeriod)
	text("image-gc-high-threshold-percent", k.ImageGCHighThresholdPercent)
	text("image-gc-low-threshold-percent", k.ImageGCLowThresholdPercent)
	if k.CPUCFSQuota != nil {
		settings["cpu-cfs-quota-enforced"] = *k.CPUCFSQuota
	}
}

// mountInstanceStorage is the command that makes one file system of the local disks. Images before
// 1.46.0 need a list of what to put on it.
func (in Input) mountInstanceStorage() map[string]any {
	bind := []string{"apiclient", "ephemeral-storage", "bind"}
	if !bindsByItself(in.BottlerocketVersion) {
		bind = append(bind, "--dirs", "/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods")
	}
	return map[string]any{
		"commands": [][]string{{"apiclient", "ephemeral-storage", "init"}, bind}, "mode": "always", "essential": true,
	}
}

// bindsByItself reports whether an image version is 1.46.0 or later. One that cannot be read is old.
func bindsByItself(version string) bool {
	version = strings.TrimPrefix(version, "v")
	if version == "latest" {
		return true
	}
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	x, errMajor := strconv.Atoi(major)
	y, errMinor := strconv.Atoi(minor)
	return errMajor == nil && errMinor == nil && (x > 1 || x == 1 && y >= 46)
}

// kubernetesSettings are the keys Bottlerocket has below settings.kubernetes. Others in a
// user's TOML are left out.
func kubernetesSettings() []string {
	return []string{
		"allowed-unsafe-sysctls", "api-server", "authentication-mode", "bootstrap-token", "cloud-provider", "cluster-certificate",
		"cluster-dns-ip", "cluster-domain", "cluster-name", "container-log-max-files", "container-log-max-size", "cpu-cfs-quota-enforced",
		"cpu-manager-policy", "cpu-manager-policy-options", "cpu-manager-reconcile-period", "credential-providers",
		"device-ownership-from-security-context", "event-burst", "event-qps", "eviction-hard", "eviction-max-pod-grace-period",
		"eviction-soft", "eviction-soft-grace-period", "hostname-override", "hostname-override-source", "ids-per-pod",
		"image-gc-high-threshold-percent", "image-gc-low-threshold-percent", "kube-api-burst", "kube-api-qps", "kube-reserved",
		"log-level", "max-pods", "memory-manager-policy", "memory-manager-reserved-memory", "node-ip", "node-labels", "node-taints",
		"pod-infra-container-image", "pod-pids-limit", "provider-id", "registry-burst", "registry-qps", "reserved-cpus", "seccomp-default",
		"server-certificate", "server-key", "server-tls-bootstrap", "shutdown-grace-period", "shutdown-grace-period-for-critical-pods",
		"single-process-oom-kill", "standalone-mode", "static-pods", "system-reserved", "topology-manager-policy",
		"topology-manager-policy-options", "topology-manager-scope",
	}
}
