package store

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// View is a snapshot with the pods that need a node.
type View struct {
	*cluster.Snapshot

	Pods    []cluster.Pod // pending pods and pods of terminating nodes (scheduling 3.1, 3.2)
	Ignored []cluster.Pod // pending, but cannot be planned for (3.4); their shape says why
	Pending int           // pending pods among Pods

	Virtual        []cluster.Pod // pods that CapacityBuffers keep room for; they are placed after Pods
	InvalidVirtual []cluster.Pod // those that cannot be planned for; their shape says why

	PlannedNodes        map[cluster.PodKey]string // node where an earlier plan placed some of Pods
	AwaitingReplacement map[cluster.PodKey]bool   // some of Pods: their nodes wait for replacements, and stay if those fail
}

// Pools returns the pools of our kinds of node classes, in their effective form, by name.
func (s *Store) Pools() []*karpv1.NodePool {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*karpv1.NodePool, 0, len(s.pools))
	for _, p := range s.pools {
		out = append(out, p.effective)
	}
	slices.SortFunc(out, func(a, b *karpv1.NodePool) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Snapshot returns an immutable view. types holds what each pool could launch; a pool that is missing launches
// nothing. Nodes are read before pods: a pod that is bound in between may be planned for again until the next plan
// corrects it, but it is never lost.
func (s *Store) Snapshot(types map[string][]catalog.InstanceType) View {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.snapshot(types, newIndex(types), s.opts.Now())
}

func (s *Store) snapshot(types map[string][]catalog.InstanceType, sizes index, now time.Time) View {
	s.prepareReader(now)
	s.recordTypes(types)
	parts := cluster.Snapshot{Version: s.revision, Now: now, Nodes: make([]cluster.Node, 0, len(s.places))}
	view := View{AwaitingReplacement: map[cluster.PodKey]bool{}}
	names := make(map[string]string, len(s.places))              // of nodes, by claim
	used, swapped := map[string]total{}, s.claimsBeingReplaced() // by pool, by claim
	var slots holders
	// any order: integers are added up
	for r := range s.reserved {
		used[r.pool] = used[r.pool].plus(r.size)
		slots.add(r.slots, true)
	}
	// any order: nodes and pods are sorted below
	for _, p := range s.places {
		n := s.readPlace(p, sizes)
		slots.add(s.holderOf(p, n.Needs, now))
		if countsTowardLimits(&n, p) {
			used[n.Pool] = used[n.Pool].plus(s.sizeOf(&n, sizes))
		}
		n.Deleting = n.Deleting || n.Claim != "" && swapped[n.Claim]
		parts.Nodes = append(parts.Nodes, n)
		if !n.Deleting {
			names[n.Claim] = n.Name
		}
		if n.Deleting {
			for i := range n.Pods {
				if !n.Pods[i].Stays {
					view.Pods = append(view.Pods, n.Pods[i])
					if (p.removing || swapped[n.Claim]) && !p.read.Deleting && !s.orphaned(p) {
						view.AwaitingReplacement[n.Pods[i].Key] = true
					}
				}
			}
		}
	}
	// any order: pods are sorted below
	for key, slot := range s.waiting {
		switch pod := s.readPod(slot); {
		case pod.Shape.Refuses || s.awaitsAlteredClaim(key):
		case len(pod.Shape.Invalid) > 0:
			view.Ignored = append(view.Ignored, pod)
		default:
			parts.Pending = append(parts.Pending, pod)
		}
	}
	virtual, invalidVirtual := s.readVirtual()
	// In order, since the reader may meet resources for the first time here too.
	for _, uid := range slices.Sorted(maps.Keys(s.daemons)) {
		if d := s.daemons[uid]; d.set != nil {
			parts.Daemons = append(parts.Daemons, s.reader.Daemon(d.set, d.newest, s.defaults[d.set.Namespace]))
		}
	}
	types = slots.subtract(types)
	for _, name := range slices.Sorted(maps.Keys(s.pools)) {
		u := used[name]
		parts.Pools = append(parts.Pools, s.reader.Pool(s.pools[name].effective, types[name], u.list(s.reader.Table()), u.nodes))
	}
	if s.opts.Devices {
		parts.Devices = s.devices.list()
	}
	view.Snapshot = s.reader.Snapshot(parts)
	slices.SortFunc(view.Ignored, func(a, b cluster.Pod) int { return a.Key.Compare(b.Key) })
	view.Pending = len(view.Snapshot.Pending)
	view.Pods = append(view.Pods, view.Snapshot.Pending...)
	slices.SortFunc(view.Pods, func(a, b cluster.Pod) int { return strings.Compare(a.Key.String(), b.Key.String()) })
	planned := view.Pods
	if view.Virtual, view.InvalidVirtual = virtual, invalidVirtual; len(virtual) > 0 {
		planned = slices.Concat(view.Pods, virtual)
	}
	s.restorePlannedClaims(planned)
	view.PlannedNodes = s.keepPlannedClaims(planned, names)
	return view
}

// prepareReader has the reader read as things are now.
func (s *Store) prepareReader(now time.Time) {
	s.renewReader()
	s.expireUnwatched(now)
	s.expireTargets(now)
	s.guards = cluster.NewGuards(now, s.budgetList())
	s.reader.SetNamespaces(s.namespaces)
	s.readChanged()
}

// readChanged reads the places and pods that changed. Lanes are numbered in the order in which resources are
// met, and of several that a node lacks the first is named in what users read. So if several were met for the
// first time, which is rare, they get their lanes by name, and everything is read again.
func (s *Store) readChanged() {
	before := s.reader.Table()
	// any order: lanes are put in order below
	for _, p := range s.places {
		if !p.valid {
			s.refreshPlace(p)
		}
	}
	// any order: lanes are put in order below
	for _, slot := range s.waiting {
		if !slot.valid {
			s.readPod(slot)
		}
	}
	// any order: lanes are put in order below
	for _, slot := range s.virtual {
		if !slot.valid {
			s.readPod(slot)
		}
	}
	table := s.reader.Table()
	var names []corev1.ResourceName
	for lane := before.Len(); lane < table.Len(); lane++ {
		names = append(names, table.Name(lane))
	}
	if !slices.IsSorted(names) {
		s.opts.Lanes = before.Extend(names...)
		s.reader = s.newReader()
		s.invalidateReads()
	}
}

// restorePlannedClaims assigns pods to the claims that an earlier process created for them, until those are
// initialized. Without it, a restart would give their capacity to other pods and launch more nodes (G8).
func (s *Store) restorePlannedClaims(pods []cluster.Pod) {
	claims := map[uint32]string{}
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(s.recalledPods))) { // of several the first by name has the pod
		if p := s.places[claimKey(name)]; p == nil || p.isInitialized() || p.isDeleting() {
			delete(s.recalledPods, name)
			continue
		}
		for _, hash := range s.recalledPods[name] {
			claims[hash] = name
		}
	}
	if len(claims) == 0 {
		return
	}
	for i := range pods {
		key := pods[i].Key
		if claim, found := claims[key.Hash()]; found && s.plannedClaims[key] == "" {
			s.plannedClaims[key] = claim
		}
	}
}

// keepPlannedClaims drops entries of claims that are being deleted, and of pods that no longer need a node. It
// returns the rest, with the node names of the snapshot.
func (s *Store) keepPlannedClaims(pods []cluster.Pod, names map[string]string) map[podKey]string {
	kept, shown := map[podKey]string{}, map[podKey]string{}
	for i := range pods {
		key := pods[i].Key
		claim, planned := s.plannedClaims[key]
		if name, there := names[claim]; planned && there {
			kept[key], shown[key] = claim, name
		}
	}
	for key, claim := range s.plannedClaims {
		_, there := names[claim]
		if s.waiting[key] != nil && s.awaitsAlteredClaim(key) || s.nearlyBound[key] != nil && there {
			kept[key] = claim
		}
	}
	s.plannedClaims = kept
	return shown
}

// renewReader replaces the reader when selectors use labels that it has left out, when other resources are served by
// devices, or when most of its shapes belong to deleted pods.
func (s *Store) renewReader() {
	const few, share = 10_000, 4
	extended := s.extendedResources()
	switch {
	case len(s.selects) != s.keys || !maps.Equal(extended, s.extended):
		s.extended = extended
		table := s.reader.Table()
		s.opts.Lanes = table
		s.reader = s.newReader()
	case s.reader.Len() > few+share*(len(s.pods)+len(s.virtual)):
		s.reader = s.reader.Renew()
	default:
		return
	}
	s.invalidateReads()
}

// invalidateReads marks every place and pending pod to be read again.
func (s *Store) invalidateReads() {
	for _, p := range s.places {
		p.valid = false
	}
	for _, slot := range s.waiting {
		slot.valid = false
	}
	for _, slot := range s.virtual {
		slot.valid = false
	}
}

// readPlace reads a place, unless that was done and nothing it depends on changed.
func (s *Store) readPlace(p *place, sizes index) cluster.Node {
	if !p.valid || p.timeLimited || p.volumes && p.volumesAt != s.volumes.revision {
		s.refreshPlace(p)
	}
	n := p.read
	n.Settling = p.insideConsolidateAfter()
	n.Deleting = n.Deleting || p.removing || s.orphaned(p)
	if s.opts.Devices && !n.Initialized {
		n.LateDrivers = cluster.LateDrivers(p.claim, s.opts.Now())
	}
	n.Price, n.Free = sizes.price(&n)
	n.VolumeLimits = sizes.volumeLimits(&n, s.publishedLimits(p))
	if n.Needs != nil {
		// The planned requests of the claim are less than its later capacity: pods that come before the launch would
		// get another node although this one is large enough.
		n.Allocatable = resources.Max(n.Allocatable, sizes.leastAllocatable(n.Pool, n.Needs[corev1.LabelInstanceTypeStable]))
	}
	return n
}

func (s *Store) refreshPlace(p *place) {
	facts := cluster.NodeFacts{Node: p.node, Claim: p.claim, Volumes: s.volumes}
	if p.node != nil {
		facts.Pods, facts.CSINode = s.podsOn(p.node.Name), s.csi[p.node.Name]
	}
	p.volumes = false
	p.timeLimited, facts.RebootWaits = rebootWaits(p.claim, s.opts.Now())
	for _, pod := range facts.Pods {
		p.volumes = p.volumes || mountsVolumes(pod)
		p.timeLimited = p.timeLimited || protectedTemporarily(pod)
	}
	p.read, p.valid, p.volumesAt = s.reader.Node(facts), true, s.volumes.revision
}

func (s *Store) budgetList() []*policyv1.PodDisruptionBudget {
	list := make([]*policyv1.PodDisruptionBudget, 0, len(s.budgets))
	// any order: a pod checks all of them
	for _, b := range s.budgets {
		list = append(list, b)
	}
	return list
}
