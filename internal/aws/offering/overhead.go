package offering

import (
	"math"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dovetail-sh/dovetail/internal/aws/kubelet"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// What the kubelet reserves by default.
const (
	kubeMemoryPerPod   = 11 * mebibyte
	kubeMemoryBase     = 255 * mebibyte
	kubeStorage        = gibibyte
	evictionMemory     = 100 * mebibyte
	signalMemory       = "memory.available"
	signalNodeStorage  = "nodefs.available"
	defaultStorageTent = 10 // a tenth of the volume
)

// overhead is what pods cannot use: kept back for Kubernetes, for the system, and so that the kubelet
// evicts before memory or storage run out. Soft eviction thresholds take nothing away.
func (s *sizer) overhead(m *machine, capacity resources.Vec, own *reserved) resources.Vec {
	storage := capacity.At(resources.EphemeralStorage)
	kube := [...]int64{
		resources.CPU:              kubeCPU(m.vcpus),
		resources.Memory:           kubeMemoryPerPod*s.reservedPods(m, capacity) + kubeMemoryBase,
		resources.EphemeralStorage: kubeStorage,
	}
	var total [resources.EphemeralStorage + 1]int64
	for lane := range total {
		if n, set := own.kube.amountAt(lane); set {
			kube[lane] = n
		}
		system, _ := own.system.amountAt(lane)
		total[lane] = kube[lane] + system
	}
	total[resources.Memory] += own.memory.orDefault(evictionMemory, capacity.At(resources.Memory))
	total[resources.EphemeralStorage] += own.storage.orDefault((storage+defaultStorageTent-1)/defaultStorageTent, storage)
	return resources.Of(total[:]...)
}

// reservedPods is the number of pods that memory is reserved for: those that are admitted, or those that
// the interfaces could serve, whatever maxPods says.
func (s *sizer) reservedPods(m *machine, capacity resources.Vec) int64 {
	if s.family.ReservesForMaxPods {
		return capacity.At(resources.Pods)
	}
	return m.eniPods(s.efaOnlyCard0)
}

// kubeCPU is 6 % of the first core, 1 % of the second, 0.5 % of the next two and 0.25 % of the rest, in
// millicores, each slice rounded down.
func kubeCPU(cores int64) (millicores int64) {
	for _, slice := range []struct{ cores, hundredths int64 }{{1, 600}, {1, 100}, {2, 50}, {math.MaxInt64, 25}} {
		n := min(cores, slice.cores)
		millicores += n * slice.hundredths / 10
		cores -= n
	}
	return millicores
}

// reserved is what kubelet settings say about reservations.
type reserved struct {
	kube, system    amounts
	memory, storage threshold
}

func readReserved(c kubelet.Config) *reserved {
	return &reserved{
		kube: readAmounts(c.KubeReserved), system: readAmounts(c.SystemReserved),
		memory: readThreshold(c.EvictionHard, signalMemory), storage: readThreshold(c.EvictionHard, signalNodeStorage),
	}
}

// amounts are quantities of the first three lanes. A quantity that cannot be read counts as not set:
// the class is refused for it elsewhere.
type amounts struct {
	n   [resources.EphemeralStorage + 1]int64
	set [resources.EphemeralStorage + 1]bool
}

func (a *amounts) amountAt(lane int) (n int64, set bool) { return a.n[lane], a.set[lane] }

func readAmounts(settings map[string]string) (a amounts) {
	for lane := range a.n {
		name := resources.Table{}.Name(lane)
		quantity, err := resource.ParseQuantity(settings[string(name)])
		if err != nil {
			continue
		}
		v := resources.Table{}.Requests(corev1.ResourceList{name: quantity})
		a.n[lane], a.set[lane] = max(0, v.At(lane)), true
	}
	return a
}

// threshold is when the kubelet evicts: an amount, or a part of what there is.
type threshold struct {
	set     bool
	percent float64 // used if not zero
	bytes   int64
}

func readThreshold(settings map[string]string, signal string) threshold {
	value, set := settings[signal]
	if !set {
		return threshold{}
	}
	if part, isPercent := strings.CutSuffix(value, "%"); isPercent {
		percent, err := strconv.ParseFloat(part, 64)
		if err != nil || math.IsNaN(percent) || percent < 0 || percent > 100 {
			return threshold{}
		}
		if percent == 100 { // how one says: never
			percent = 0
		}
		return threshold{set: true, percent: percent}
	}
	quantity, err := resource.ParseQuantity(value)
	if err != nil {
		return threshold{}
	}
	return threshold{set: true, bytes: max(0, resources.Whole(quantity))}
}

// orDefault is the threshold in bytes of a capacity, or the default if it is not set.
func (t threshold) orDefault(standard, capacity int64) int64 {
	switch {
	case !t.set:
		return standard
	case t.percent > 0:
		return int64(math.Ceil(float64(capacity) / 100 * t.percent))
	default:
		return t.bytes
	}
}
