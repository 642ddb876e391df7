package ami

import (
	"slices"
	"strings"
)

// Names of the families, as spec.amiFamily has them.
const (
	AL2          = "AL2"
	AL2023       = "AL2023"
	Bottlerocket = "Bottlerocket"
	Windows2019  = "Windows2019"
	Windows2022  = "Windows2022"
	Windows2025  = "Windows2025"
	Custom       = "Custom"
	Ubuntu       = "Ubuntu" // v1beta1 only (CV-09)
)

// Latest is the version in an alias that follows the newest image.
const Latest = "latest"

// Family is a kind of machine image: where its images are found, how its nodes boot, and what of a
// machine is left for pods.
type Family struct {
	Name  string
	Title string // the name as messages write it
	// ReadAs is set for a name that v1 no longer has: the family that a class with it is read as. Of
	// such an entry only the disks count.
	ReadAs string

	// Alias is the family in an alias such as al2023@latest. Empty: AWS publishes no images for it, and
	// terms have to select them.
	Alias string
	// Images are the public parameters that hold the ids of its images, under a Kubernetes version such
	// as 1.34, for the version in an alias.
	Images func(kubernetes, version string) []Image
	// FirstMinor and LastMinor are the minor versions of Kubernetes that EKS publishes images for; zero
	// is no limit. Instead says which alias to use outside them.
	FirstMinor, LastMinor int
	Instead               string
	// Successor is the family that the latest alias is read as after LastMinor (L-17).
	Successor string

	UserData Format
	// BootstrapScript is the script on the image that the format ShellScript calls. User data that calls
	// it too bootstraps the node twice (L-16).
	BootstrapScript string
	// NeedsServiceCIDR: nodes join only if user data names the service CIDR of the cluster.
	NeedsServiceCIDR bool
	// AnyKubeletField: nodes take a whole KubeletConfiguration, or their owner passes it on. The others
	// get the fields that have a flag or setting, and one DNS server.
	AnyKubeletField bool
	// PodsPerCore: the kubelet can limit pods by the number of cores.
	PodsPerCore bool

	// Disks are the volumes of a class that names none. Pods and images share the last one. Without any
	// the image decides, and the last volume that a class names is taken for the one that pods use.
	Disks []Disk
	// WindowsBuild is the value of node.kubernetes.io/windows-build; empty: Linux.
	WindowsBuild string
	// FixedPods is the number of pods a node takes, whatever its network interfaces; zero: as many as
	// get an address from them.
	FixedPods int64
	// ReservesForMaxPods: the kubelet reserves memory for the pods that it admits. Otherwise it does so
	// for the pods that the network interfaces could serve, whatever maxPods says.
	ReservesForMaxPods bool
	// NotOn are the families of instance types, such as a1, that the images do not run on.
	NotOn []string
}

// Disk is an encrypted gp3 volume.
type Disk struct {
	Device string
	GiB    int64
}

// Format is how user data is written.
type Format int

// Formats of user data; the zero value is none.
const (
	Verbatim    Format = iota + 1 // the user's own text and nothing else
	ShellScript                   // MIME archive whose last part calls the bootstrap script
	NodeConfig                    // MIME archive whose last part is a NodeConfig, for nodeadm
	TOML                          // settings of Bottlerocket
	PowerShell                    // one PowerShell block
)

// Windows reports whether the nodes run Windows.
func (f Family) Windows() bool { return f.WindowsBuild != "" }

// DataDisk is the volume that pods and images share; none: the image decides.
func (f Family) DataDisk() (Disk, bool) {
	if len(f.Disks) == 0 {
		return Disk{}, false
	}
	return f.Disks[len(f.Disks)-1], true
}

// Of returns the family of a name. Admission refuses a name that is not in the table; the family that
// is returned for it has no user data, so nothing is launched with it.
func Of[Name ~string](name Name) Family {
	for i := range table {
		if table[i].Name == string(name) {
			return table[i]
		}
	}
	return Family{Name: string(name), Title: string(name), Alias: strings.ToLower(string(name))}
}

// ByAlias finds the family that an alias names, in any case, without its version.
func ByAlias(alias string) (Family, bool) {
	for i := range table {
		if alias != "" && strings.EqualFold(table[i].Alias, alias) {
			return table[i], true
		}
	}
	return Family{}, false
}

// All returns every family, by name.
func All() []Family {
	return slices.SortedFunc(slices.Values(table), func(a, b Family) int { return strings.Compare(a.Name, b.Name) })
}
