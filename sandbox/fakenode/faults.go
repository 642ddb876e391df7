package fakenode

import (
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Selector says which instances a Fault is for. Empty fields match all.
type Selector struct {
	Instance string `json:"instance,omitempty"`
	Node     string `json:"node,omitempty"`
	Type     string `json:"type,omitempty"`
	Zone     string `json:"zone,omitempty"`
	NodePool string `json:"nodepool,omitempty"`
}

func (s Selector) matches(i Instance, c Config) bool {
	is := func(want, have string) bool { return want == "" || want == have }
	return is(s.Instance, i.ID) && is(s.Node, i.PrivateDNS) && is(s.Type, i.Type) && is(s.Zone, i.Zone) &&
		is(s.NodePool, c.Labels["karpenter.sh/nodepool"])
}

// Fault is what goes wrong on a node. The zero value is nothing.
type Fault struct {
	// NeverJoin keeps an instance from registering. A Node that is there already is not touched.
	NeverJoin bool `json:"neverJoin,omitempty"`
	// JoinLate adds to the boot time, on the emulated clock.
	JoinLate time.Duration `json:"joinLate,omitempty"`
	// JoinTwice registers a second Node with the same provider id, while the fault is in force.
	JoinTwice bool `json:"joinTwice,omitempty"`
	// Rejoin registers a deleted Node again while the instance runs.
	Rejoin bool `json:"rejoin,omitempty"`
	// ProviderIDLate registers without a provider id, and sets it that much later on the emulated clock.
	ProviderIDLate time.Duration `json:"providerIDLate,omitempty"`
	// CSINodeLate is how long after the registration the volume driver registers, on the emulated clock.
	CSINodeLate time.Duration `json:"csiNodeLate,omitempty"`
	// NeverReady holds Ready at False.
	NeverReady bool `json:"neverReady,omitempty"`
	// Flap turns Ready False and True again, each for this long on the wall clock.
	Flap time.Duration `json:"flap,omitempty"`
	// MemoryLoss is a share of the memory, in addition to that of Options.
	MemoryLoss float64 `json:"memoryLoss,omitempty"`
	// Without are resources that the node does not report, as when a device plugin fails.
	Without []corev1.ResourceName `json:"without,omitempty"`
	// Devices are resources that the node reports in addition, as when a device plugin runs. This is no fault.
	Devices corev1.ResourceList `json:"devices,omitempty"`
	// Zero are resources that the node reports as 0.
	Zero []corev1.ResourceName `json:"zero,omitempty"`
	// Conditions of the node by type, such as those of a node monitoring agent.
	Conditions map[corev1.NodeConditionType]corev1.ConditionStatus `json:"conditions,omitempty"`
	// NoUnregisteredTaint registers without the taint karpenter.sh/unregistered.
	NoUnregisteredTaint bool `json:"noUnregisteredTaint,omitempty"`
	// StartupTaintsLate adds to the time until startup taints go, on the emulated clock.
	StartupTaintsLate time.Duration `json:"startupTaintsLate,omitempty"`
	// DetachLate is how long a volume takes to detach, on the wall clock.
	DetachLate time.Duration `json:"detachLate,omitempty"`
	// Dead stops the kubelet: no lease, no status, pods stay as they are.
	Dead bool `json:"dead,omitempty"`
}

// mergeFault is both faults at once.
func (f Fault) mergeFault(g Fault) Fault {
	f.NeverJoin = f.NeverJoin || g.NeverJoin
	f.JoinLate += g.JoinLate
	f.JoinTwice = f.JoinTwice || g.JoinTwice
	f.Rejoin = f.Rejoin || g.Rejoin
	f.ProviderIDLate += g.ProviderIDLate
	f.CSINodeLate += g.CSINodeLate
	f.NeverReady = f.NeverReady || g.NeverReady
	if f.Flap == 0 || g.Flap > 0 && g.Flap < f.Flap {
		f.Flap = g.Flap
	}
	f.MemoryLoss += g.MemoryLoss
	f.Without = append(slices.Clip(f.Without), g.Without...)
	f.Zero = append(slices.Clip(f.Zero), g.Zero...)
	if len(g.Devices) > 0 {
		both := f.Devices.DeepCopy()
		if both == nil {
			both = corev1.ResourceList{}
		}
		maps.Copy(both, g.Devices)
		f.Devices = both
	}
	if len(g.Conditions) > 0 {
		both := map[corev1.NodeConditionType]corev1.ConditionStatus{}
		maps.Copy(both, f.Conditions)
		maps.Copy(both, g.Conditions)
		f.Conditions = both
	}
	f.NoUnregisteredTaint = f.NoUnregisteredTaint || g.NoUnregisteredTaint
	f.StartupTaintsLate += g.StartupTaintsLate
	f.DetachLate += g.DetachLate
	f.Dead = f.Dead || g.Dead
	return f
}

// ActiveFault is a Fault in force.
type ActiveFault struct {
	Name     string    `json:"name"`
	Selector Selector  `json:"selector"`
	Fault    Fault     `json:"fault"`
	Since    time.Time `json:"since"`
}

// Faults in force, by name. It is safe for concurrent use; changes take effect at once.
type Faults struct {
	mu     sync.Mutex
	active map[string]ActiveFault
	change chan struct{}
}

// NewFaults returns an empty set.
func NewFaults() *Faults {
	return &Faults{active: map[string]ActiveFault{}, change: make(chan struct{})}
}

// Set puts a fault in force, in place of the one with the same name.
func (f *Faults) Set(name string, s Selector, fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.active[name] = ActiveFault{Name: name, Selector: s, Fault: fault, Since: time.Now()}
	f.changedLocked()
}

// Clear ends a fault and says whether it was in force.
func (f *Faults) Clear(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, there := f.active[name]
	delete(f.active, name)
	f.changedLocked()
	return there
}

// List returns the faults in force, by name.
func (f *Faults) List() []ActiveFault {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []ActiveFault
	for _, name := range slices.Sorted(maps.Keys(f.active)) {
		list = append(list, f.active[name])
	}
	return list
}

// faultsOfInstance returns what applies to an instance together, and since when it flaps.
func (f *Faults) faultsOfInstance(i Instance, c Config) (all Fault, flapping time.Time) {
	for _, a := range f.List() {
		if !a.Selector.matches(i, c) {
			continue
		}
		all = all.mergeFault(a.Fault)
		if a.Fault.Flap > 0 && (flapping.IsZero() || a.Since.Before(flapping)) {
			flapping = a.Since
		}
	}
	return all, flapping
}

// nextChange returns a channel that is closed at the next change.
func (f *Faults) nextChange() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.change
}

func (f *Faults) changedLocked() {
	close(f.change)
	f.change = make(chan struct{})
}
