package fakenode

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// Families of images, by the form of their user data.
const (
	AL2          = "AL2"
	AL2023       = "AL2023"
	Bottlerocket = "Bottlerocket"
	Windows      = "Windows"
)

// Config is what user data configures of a kubelet.
type Config struct {
	// Family is AL2, AL2023, Bottlerocket or Windows.
	Family string
	// Cluster is the name of the cluster to join.
	Cluster string
	Labels  map[string]string
	Taints  []corev1.Taint
	// MaxPods is 0 where nothing was said.
	MaxPods int
	// PodsPerCore is 0 where nothing was said.
	PodsPerCore int
	// RAID0 joins the disks of the machine, and pods write to these.
	RAID0                                      bool
	KubeReserved, SystemReserved, EvictionHard map[string]string
}

// ParseUserData reads the user data of an instance as the boot software of its family does. It tells
// the family by the content. An error means that a kubelet would not start, or not know its cluster.
func ParseUserData(data []byte) (Config, error) {
	text := strings.TrimSpace(string(data))
	var c Config
	var err error
	switch {
	case text == "":
		return Config{}, errors.New("the instance has no user data")
	case strings.Contains(strings.ToLower(text), "<powershell>"):
		c, err = parseWindows(text)
	case hasPrefixFold(text, "MIME-Version:"), hasPrefixFold(text, "Content-Type:"):
		c, err = parseMIME(text)
	case strings.HasPrefix(text, "#!"):
		c, err = parseScripts([]string{text})
	case isNodeConfig(text):
		c, err = parseNodeConfigs([]string{text})
	default:
		c, err = parseBottlerocket(text)
	}
	if err != nil {
		return Config{}, err
	}
	if c.Cluster == "" {
		return Config{}, errors.New("the user data names no cluster")
	}
	if err := c.check(); err != nil {
		return Config{}, err
	}
	return c, nil
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}

// parseMIME reads a multipart document: of AL2023 if it has a NodeConfig part, else of AL2.
func parseMIME(text string) (Config, error) {
	message, err := mail.ReadMessage(strings.NewReader(text + "\n"))
	if err != nil {
		return Config{}, fmt.Errorf("the user data is no MIME document: %w", err)
	}
	media, params, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil {
		return Config{}, fmt.Errorf("content type of the user data: %w", err)
	}
	if !strings.HasPrefix(media, "multipart/") || params["boundary"] == "" {
		return Config{}, fmt.Errorf("the user data has content type %s, not multipart with a boundary", media)
	}
	var configs, scripts []string
	parts := multipart.NewReader(message.Body, params["boundary"])
	for {
		part, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Config{}, fmt.Errorf("a part of the user data: %w", err)
		}
		body, err := io.ReadAll(part)
		if err != nil {
			return Config{}, fmt.Errorf("a part of the user data: %w", err)
		}
		kind, _, err := mime.ParseMediaType(part.Header.Get("Content-Type"))
		switch {
		case err != nil:
			continue // cloud-init passes over what it does not know
		case kind == "application/node.eks.aws":
			configs = append(configs, string(body))
		case kind == "text/x-shellscript":
			scripts = append(scripts, string(body))
		}
	}
	if len(configs) > 0 {
		return parseNodeConfigs(configs)
	}
	return parseScripts(scripts)
}

// parseScripts finds the last call of the bootstrap script of AL2. Its arguments are separated from
// their values by a space, never by "=".
func parseScripts(scripts []string) (Config, error) {
	var call []string
	var bad error
	for _, script := range scripts {
		statements, err := shellStatements(script)
		if err != nil {
			bad = err
		}
		for _, words := range statements {
			for i, w := range words {
				if w == "/etc/eks/bootstrap.sh" {
					call = words[i:]
				}
			}
		}
	}
	if call == nil {
		if bad != nil {
			return Config{}, fmt.Errorf("a script of the user data: %w", bad)
		}
		return Config{}, errors.New("no script of the user data calls /etc/eks/bootstrap.sh, and there is no NodeConfig")
	}
	c := Config{Family: AL2}
	var flags string
	for args := call[1:]; len(args) > 0; args = args[1:] {
		switch {
		case !strings.HasPrefix(args[0], "--"):
			if c.Cluster == "" {
				c.Cluster = args[0]
			}
			continue
		case strings.Contains(args[0], "=") || len(args) == 1:
			continue // not understood, and the script goes on
		case args[0] == "--kubelet-extra-args":
			flags = args[1]
		case args[0] == "--local-disks":
			c.RAID0 = args[1] == "raid0"
		}
		args = args[1:]
	}
	return c, c.applyFlagText(flags)
}

// nodeCluster is where a node finds its cluster. Nothing starts without all of it.
type nodeCluster struct {
	Name        string `json:"name"`
	Endpoint    string `json:"apiServerEndpoint"`
	Certificate string `json:"certificateAuthority"`
	CIDR        string `json:"cidr"`
}

// check says why a node could not find its cluster; the name is checked for all families.
func (n nodeCluster) check() error {
	if n.CIDR == "" {
		return errors.New("the NodeConfig of the user data has no spec.cluster.cidr")
	}
	return checkTrust("apiServerEndpoint", n.Endpoint, "certificateAuthority", n.Certificate)
}

// checkTrust says why a kubelet could not talk to its API server. Members are named as the user data does.
func checkTrust(endpointName, endpoint, certificateName, certificate string) error {
	if address, err := url.Parse(endpoint); err != nil || address.Scheme != "https" || address.Host == "" {
		return fmt.Errorf("the user data has %s %q, which is no https address", endpointName, endpoint)
	}
	if _, err := base64.StdEncoding.DecodeString(certificate); err != nil || certificate == "" {
		return fmt.Errorf("the user data has a %s that is no certificate in base64", certificateName)
	}
	return nil
}

type nodeConfig struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Spec       struct {
		Cluster nodeCluster `json:"cluster"`
		Kubelet struct {
			Config struct {
				MaxPods        *int              `json:"maxPods"`
				PodsPerCore    *int              `json:"podsPerCore"`
				Taints         []corev1.Taint    `json:"registerWithTaints"`
				KubeReserved   map[string]string `json:"kubeReserved"`
				SystemReserved map[string]string `json:"systemReserved"`
				EvictionHard   map[string]string `json:"evictionHard"`
			} `json:"config"`
			Flags []string `json:"flags"`
		} `json:"kubelet"`
		Instance struct {
			LocalStorage struct {
				Strategy string `json:"strategy"`
			} `json:"localStorage"`
		} `json:"instance"`
	} `json:"spec"`
}

func isNodeConfig(text string) bool {
	var n nodeConfig
	return yaml.Unmarshal([]byte(text), &n) == nil && n.Kind == "NodeConfig"
}

// parseNodeConfigs merges the NodeConfig documents of AL2023; a later one wins.
func parseNodeConfigs(documents []string) (Config, error) {
	c := Config{Family: AL2023}
	var flags []string
	var found nodeCluster
	for _, document := range documents {
		var n nodeConfig
		if err := yaml.Unmarshal(bytes.TrimSpace([]byte(document)), &n); err != nil {
			return Config{}, fmt.Errorf("the NodeConfig of the user data: %w", err)
		}
		if n.Kind != "NodeConfig" || !strings.HasPrefix(n.APIVersion, "node.eks.aws/") {
			return Config{}, fmt.Errorf("the user data has a %s of %s where a NodeConfig of node.eks.aws is due", n.Kind, n.APIVersion)
		}
		found.Name, found.Endpoint = cmp.Or(n.Spec.Cluster.Name, found.Name), cmp.Or(n.Spec.Cluster.Endpoint, found.Endpoint)
		found.Certificate, found.CIDR = cmp.Or(n.Spec.Cluster.Certificate, found.Certificate), cmp.Or(n.Spec.Cluster.CIDR, found.CIDR)
		if strategy := n.Spec.Instance.LocalStorage.Strategy; strategy != "" {
			c.RAID0 = strategy == "RAID0"
		}
		k := n.Spec.Kubelet.Config
		if k.MaxPods != nil {
			c.MaxPods = *k.MaxPods
		}
		if k.PodsPerCore != nil {
			c.PodsPerCore = *k.PodsPerCore
		}
		if k.Taints != nil {
			c.Taints = k.Taints
		}
		merge(&c.KubeReserved, k.KubeReserved)
		merge(&c.SystemReserved, k.SystemReserved)
		merge(&c.EvictionHard, k.EvictionHard)
		flags = append(flags, n.Spec.Kubelet.Flags...)
	}
	if err := found.check(); err != nil {
		return Config{}, err
	}
	c.Cluster = found.Name
	// Flags win over the file, as in the kubelet, and systemd takes their quotes away.
	for _, flag := range flags {
		if err := c.applyFlagText(flag); err != nil {
			return Config{}, err
		}
	}
	return c, nil
}

// parseWindows finds the last call of the bootstrap script in the PowerShell block.
func parseWindows(text string) (Config, error) {
	lower := strings.ToLower(text)
	if len(lower) != len(text) { // a letter that grows; then offsets would differ
		return Config{}, errors.New("the PowerShell of the user data has letters that cannot be read")
	}
	from := strings.Index(lower, "<powershell>") + len("<powershell>")
	to := strings.Index(lower[from:], "</powershell>")
	if to < 0 {
		return Config{}, errors.New("the <powershell> block of the user data has no end")
	}
	statements, bad := powershellStatements(text[from : from+to])
	c := Config{Family: Windows}
	var flags string
	for _, words := range statements {
		for i := 0; i+1 < len(words); i++ {
			switch strings.ToLower(words[i]) {
			case "-eksclustername":
				c.Cluster = words[i+1]
			case "-kubeletextraargs":
				flags = words[i+1]
			}
		}
	}
	if c.Cluster == "" {
		if bad != nil {
			return Config{}, fmt.Errorf("the PowerShell of the user data: %w", bad)
		}
		return Config{}, errors.New("the PowerShell of the user data gives no -EKSClusterName")
	}
	return c, c.applyFlagText(flags)
}

func merge(into *map[string]string, from map[string]string) {
	for k, v := range from {
		if *into == nil {
			*into = map[string]string{}
		}
		(*into)[k] = v
	}
}
