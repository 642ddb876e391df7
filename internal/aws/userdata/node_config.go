package userdata

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"sigs.k8s.io/yaml"
)

// nodeConfigArchive is an archive whose last part is our NodeConfig: nodeadm merges them and the last one wins.
func (in Input) nodeConfigArchive() (string, error) {
	if in.ServiceCIDR == "" {
		return "", errors.New("user data: the service CIDR of the cluster is not known, and " + in.Family.Name + " nodes do not join without it")
	}
	var parts []part
	switch user := strings.TrimSpace(in.User); {
	case user == "":
	case isArchive(user):
		var err error
		if parts, err = readArchive(user); err != nil {
			return "", err
		}
	case strings.HasPrefix(user, "#!"): // also a script can be read as YAML
		parts = []part{newPart(typeShell, in.User)}
	case isMapping(user):
		parts = []part{newPart(typeNodeConfig, in.User)}
	default:
		parts = []part{newPart(typeShell, in.User)}
	}
	config, err := in.nodeConfig()
	if err != nil {
		return "", err
	}
	return writeArchive(append(parts, newPart(typeNodeConfig, config))), nil
}

// isMapping reports whether a text is a YAML or JSON object.
func isMapping(text string) bool {
	var object map[string]any
	return yaml.Unmarshal([]byte(text), &object) == nil && object != nil
}

func (in Input) nodeConfig() (string, error) {
	kubelet := map[string]any{"config": in.kubeletFile()}
	if labels := pairs(in.Labels, "="); labels != "" {
		flag, err := quotedFlag("node-labels", labels)
		if err != nil {
			return "", err
		}
		kubelet["flags"] = []string{flag}
	}
	spec := map[string]any{
		"cluster": map[string]any{
			"name": in.Cluster, "apiServerEndpoint": in.Endpoint, "certificateAuthority": in.CABundle, "cidr": in.ServiceCIDR,
		},
		"kubelet": kubelet,
	}
	if in.RAID0 {
		spec["instance"] = map[string]any{"localStorage": map[string]any{"strategy": "RAID0"}}
	}
	text, err := yaml.Marshal(map[string]any{"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec})
	if err != nil {
		return "", fmt.Errorf("user data: the NodeConfig: %w", err)
	}
	return string(text), nil
}

// kubeletFile is the whole of spec.kubelet, with what was worked out for the instance type in it. What
// an expression stands for is in the resolved fields alone, so they replace those of the document.
func (in Input) kubeletFile() map[string]any {
	file := maps.Clone(in.Kubelet.Raw)
	if file == nil {
		file = map[string]any{}
	}
	replace := func(name string, value any, known bool) {
		delete(file, name)
		if known {
			file[name] = value
		}
	}
	k := in.Kubelet
	replace("maxPods", k.MaxPods, k.MaxPods != nil)
	replace("kubeReserved", k.KubeReserved, len(k.KubeReserved) > 0)
	replace("systemReserved", k.SystemReserved, len(k.SystemReserved) > 0)
	switch {
	case len(k.ClusterDNS) > 0:
		replace("clusterDNS", k.ClusterDNS, true)
	default:
		replace("clusterDNS", []string{in.DNS}, in.DNS != "")
	}
	var taints []map[string]any // corev1.Taint would write its zero time
	for _, t := range in.Taints {
		taint := map[string]any{"key": t.Key, "effect": t.Effect}
		if t.Value != "" {
			taint["value"] = t.Value
		}
		taints = append(taints, taint)
	}
	replace("registerWithTaints", taints, len(taints) > 0)
	return file
}
