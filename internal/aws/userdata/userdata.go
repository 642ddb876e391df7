package userdata

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/aws/ami"
	"github.com/dovetail-sh/dovetail/internal/aws/kubelet"
)

// Input is everything a boot document says.
type Input struct {
	Family ami.Family

	Cluster     string
	Endpoint    string
	CABundle    string // base64
	ServiceCIDR string // for families that need it
	DNS         string // of the cluster; spec.kubelet.clusterDNS wins over it

	Labels map[string]string // complete: only those a kubelet may set
	Taints []corev1.Taint    // complete: with the unregistered one

	Kubelet kubelet.Config // of the instance type: no expressions, MaxPods set

	RAID0               bool
	User                string
	BottlerocketVersion string // such as 1.46.0 or latest; empty if it is not known
}

// Render writes the document, not yet in base64. It fails where the user's text cannot be read in the
// form of the family.
func Render(in Input) (string, error) {
	switch in.Family.UserData {
	case ami.ShellScript:
		return in.shellScript()
	case ami.NodeConfig:
		return in.nodeConfigArchive()
	case ami.TOML:
		return in.settings()
	case ami.PowerShell:
		return in.powerShell()
	case ami.Verbatim:
		return in.User, nil
	}
	return "", fmt.Errorf("user data: the image family %q is not known", in.Family.Name)
}

// dns is the address kubelets give to pods, empty if it is not known.
func (in Input) dns() string {
	if len(in.Kubelet.ClusterDNS) > 0 {
		return in.Kubelet.ClusterDNS[0]
	}
	return in.DNS
}

// ipv6 reports whether the cluster speaks IPv6, which its DNS address shows.
func (in Input) ipv6() bool {
	address, err := netip.ParseAddr(in.dns())
	return err == nil && address.Is6() && !address.Is4In6()
}
