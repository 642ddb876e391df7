package fakenode

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// parseBottlerocket reads settings.kubernetes of a TOML document.
func parseBottlerocket(text string) (Config, error) {
	root, err := parseTOML(text)
	if err != nil {
		return Config{}, fmt.Errorf("the user data is no MIME document, script, NodeConfig or PowerShell, and as TOML: %w", err)
	}
	settings, _ := root["settings"].(map[string]any)
	kubernetes, ok := settings["kubernetes"].(map[string]any)
	if !ok {
		return Config{}, errors.New("the user data has no settings.kubernetes")
	}
	c := Config{Family: Bottlerocket, RAID0: bindsLocalDisks(settings["bootstrap-commands"])}
	c.Cluster, _ = kubernetes["cluster-name"].(string)
	endpoint, _ := kubernetes["api-server"].(string)
	certificate, _ := kubernetes["cluster-certificate"].(string)
	if err := checkTrust("settings.kubernetes.api-server", endpoint, "settings.kubernetes.cluster-certificate", certificate); err != nil {
		return Config{}, err
	}
	for key, into := range map[string]*map[string]string{
		"node-labels": &c.Labels, "kube-reserved": &c.KubeReserved,
		"system-reserved": &c.SystemReserved, "eviction-hard": &c.EvictionHard,
	} {
		if *into, err = stringTable(kubernetes, key); err != nil {
			return Config{}, err
		}
	}
	switch n := kubernetes["max-pods"].(type) {
	case nil:
	case int64:
		c.MaxPods = int(n)
	case string:
		if c.MaxPods, err = strconv.Atoi(n); err != nil {
			return Config{}, fmt.Errorf("settings.kubernetes.max-pods: %q is no number", n)
		}
	default:
		return Config{}, fmt.Errorf("settings.kubernetes.max-pods: %v is no number", n)
	}
	c.Taints, err = bottlerocketTaints(kubernetes["node-taints"])
	return c, err
}

// bindsLocalDisks says whether a bootstrap command puts the folders of pods on the local disks.
func bindsLocalDisks(commands any) bool {
	table, _ := commands.(map[string]any)
	for _, entry := range table {
		one, _ := entry.(map[string]any)
		list, _ := one["commands"].([]any)
		for _, command := range list {
			words, _ := command.([]any)
			if len(words) >= 3 && words[0] == "apiclient" && words[1] == "ephemeral-storage" && words[2] == "bind" {
				return true
			}
		}
	}
	return false
}

func stringTable(parent map[string]any, key string) (map[string]string, error) {
	value, there := parent[key]
	if !there {
		return nil, nil
	}
	table, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("settings.kubernetes.%s is no table", key)
	}
	var out map[string]string
	for k, v := range table {
		text, ok := v.(string)
		if !ok {
			return nil, fmt.Errorf("settings.kubernetes.%s.%s: %v is no string", key, k, v)
		}
		merge(&out, map[string]string{k: text})
	}
	return out, nil
}

// bottlerocketTaints reads a table of key to "value:Effect", or to a list of these.
func bottlerocketTaints(value any) ([]corev1.Taint, error) {
	if value == nil {
		return nil, nil
	}
	table, ok := value.(map[string]any)
	if !ok {
		return nil, errors.New("settings.kubernetes.node-taints is no table")
	}
	var taints []corev1.Taint
	for _, key := range slices.Sorted(maps.Keys(table)) {
		list, ok := table[key].([]any)
		if !ok {
			list = []any{table[key]}
		}
		for _, entry := range list {
			text, ok := entry.(string)
			value, effect, cut := strings.Cut(text, ":")
			if !ok || !cut {
				return nil, fmt.Errorf("settings.kubernetes.node-taints: %s = %v is no value:Effect", key, entry)
			}
			taints = append(taints, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)})
		}
	}
	return taints, nil
}
