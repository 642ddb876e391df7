package offering

import (
	"slices"
	"strings"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// architectures of Kubernetes by EC2's names for them.
const (
	archAMD64 = "amd64"
	archARM64 = "arm64"
)

// machine is one instance type as EC2 describes it. Frequently used values are read out once.
type machine struct {
	info ec2types.InstanceTypeInfo
	name string
	arch string

	vcpus     int64
	memoryMiB int64
	enis      int64 // of the default network card
	ipsPerENI int64
	efas      int64

	onDemand, spot bool
	zones          uint64 // bit i: offered in zone i of the catalogue
}

func newMachine(info ec2types.InstanceTypeInfo) machine {
	m := machine{info: info, name: string(info.InstanceType), arch: archOf(info.ProcessorInfo)}
	if info.VCpuInfo != nil {
		m.vcpus = number(info.VCpuInfo.DefaultVCpus)
	}
	if info.MemoryInfo != nil && info.MemoryInfo.SizeInMiB != nil {
		m.memoryMiB = *info.MemoryInfo.SizeInMiB
	}
	if network := info.NetworkInfo; network != nil {
		m.enis = defaultENIs(network)
		m.ipsPerENI = number(network.Ipv4AddressesPerInterface)
		if network.EfaInfo != nil {
			m.efas = number(network.EfaInfo.MaximumEfaInterfaces)
		}
	}
	m.onDemand = slices.Contains(info.SupportedUsageClasses, ec2types.UsageClassTypeOnDemand)
	m.spot = slices.Contains(info.SupportedUsageClasses, ec2types.UsageClassTypeSpot)
	return m
}

// archOf is the first architecture that Kubernetes has a name for. The order matters: memory is
// reserved on machines whose first architecture is arm64.
func archOf(info *ec2types.ProcessorInfo) string {
	if info == nil {
		return ""
	}
	for _, a := range info.SupportedArchitectures {
		switch a {
		case ec2types.ArchitectureTypeX8664:
			return archAMD64
		case ec2types.ArchitectureTypeArm64:
			return archARM64
		default: // no kubelet runs there
		}
	}
	return ""
}

// defaultENIs is the number of interfaces of the default card: pods get addresses from that one alone.
func defaultENIs(network *ec2types.NetworkInfo) int64 {
	index := number(network.DefaultNetworkCardIndex)
	for _, card := range network.NetworkCards {
		if number(card.NetworkCardIndex) == index {
			return number(card.MaximumNetworkInterfaces)
		}
	}
	return number(network.MaximumNetworkInterfaces)
}

// family and size are the parts of the name around the dot.
func (m *machine) family() string {
	family, _, _ := strings.Cut(m.name, ".")
	return family
}

func (m *machine) size() string {
	_, size, _ := strings.Cut(m.name, ".")
	return size
}

// generation parts the family name: the letters at its start, and the number after them. A memory size
// between the two, as in u-6tb1, is skipped. Names of another form have neither.
func generation(family string) (category, number string) {
	const digits = "0123456789"
	i := strings.IndexAny(family, digits+"-")
	if i <= 0 {
		return "", ""
	}
	category, rest := family[:i], family[i:]
	if after, found := strings.CutPrefix(rest, "-"); found {
		terabytes := after[:len(after)-len(strings.TrimLeft(after, digits))]
		tail, isSize := strings.CutPrefix(after[len(terabytes):], "tb")
		if terabytes == "" || !isSize {
			return "", ""
		}
		rest = tail
	}
	number = rest[:len(rest)-len(strings.TrimLeft(rest, digits))]
	if number == "" {
		return "", ""
	}
	return category, number
}

func number(n *int32) int64 {
	if n == nil {
		return 0
	}
	return int64(*n)
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func isTrue(b *bool) bool { return b != nil && *b }
