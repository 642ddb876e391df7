package cluster

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// NodeFacts is everything about one node. At least one of Node and Claim is there.
type NodeFacts struct {
	Node        *corev1.Node       // nil: only claimed so far
	Claim       *karpv1.NodeClaim  // effective form; nil: not managed
	CSINode     *storagev1.CSINode // nil: nothing published yet
	Pods        []*corev1.Pod      // bound to the node
	Volumes     VolumeLookup       // for the pods; nil: volumes are ignored
	Price       float64            // USD an hour; 0: unknown, unless Free
	Free        bool               // a NodeOverlay made the price 0
	Settling    bool               // inside consolidateAfter
	Deleting    bool               // a command that removes it is running
	RebootWaits bool               // its reboot has waited for its pods for long: they need another place
}

// Node reads a node as scheduling must assume it to be or to become (scheduling 6.1). Its pods come
// in order, those that have ended left out. Labels always have the canonical keys and a hostname.
func (r *Reader) Node(f NodeFacts) Node {
	s := stageOf(f)
	n := Node{
		Taints:       s.taints(),
		Capacity:     r.capacity(s.node.Status.Capacity),
		Allocatable:  r.capacity(s.node.Status.Allocatable),
		Pods:         r.pods(f.Pods, f.Volumes),
		VolumeLimits: publishedLimits(f.CSINode),
		Price:        f.Price,
		Free:         f.Free,
		Initialized:  s.initialized,
		Deleting:     f.Deleting || s.isDeleting(),
		Settling:     f.Settling,
	}
	n.Name, n.Since = s.node.Name, s.node.CreationTimestamp.Time
	if s.managed {
		n.Since = s.claim.CreationTimestamp.Time
		n.Claim, n.Pool = s.claim.Name, s.claim.Labels[karpv1.LabelNodePool]
		if n.Name == "" {
			n.Name = s.claim.Name
		}
	}
	if !s.initialized {
		r.estimateFromClaim(&n, s)
	}
	n.Labels = r.labels(s, n.Name)
	n.InstanceType = n.Labels[corev1.LabelInstanceTypeStable]
	n.Zone = n.Labels[corev1.LabelTopologyZone]
	n.CapacityType = n.Labels[karpv1.LabelCapacityType]
	return n
}

// stage is how far a node has come. node and claim are never nil.
type stage struct {
	node        *corev1.Node // empty while its claim stands for it
	claim       *karpv1.NodeClaim
	managed     bool
	registered  bool
	initialized bool
	rebooting   bool
}

func stageOf(f NodeFacts) stage {
	s := stage{node: f.Node, claim: f.Claim, managed: f.Claim != nil}
	if s.node == nil {
		s.node = &corev1.Node{}
	}
	if !s.managed { // it has no claim that says how far it is; the scheduler uses it as it is
		s.claim, s.registered, s.initialized = &karpv1.NodeClaim{}, true, true
		return s
	}
	s.initialized = s.node.Labels[karpv1.LabelInitialized] == "true"
	_, typed := s.node.Labels[corev1.LabelInstanceTypeStable]
	if s.node.Spec.ProviderID == "" || !typed && !s.initialized {
		s.node, s.initialized = &corev1.Node{}, false // too early to be believed
	}
	s.registered = s.node.Labels[karpv1.LabelRegistered] == "true"
	s.rebooting = condition.True(s.claim.Status.Conditions, karpv1.ConditionRebooting) && !f.RebootWaits
	return s
}

// isDeleting reports whether the objects say that the node is on its way out (3.2).
func (s stage) isDeleting() bool {
	return s.node.DeletionTimestamp != nil || s.claim.DeletionTimestamp != nil ||
		condition.True(s.claim.Status.Conditions, karpv1.ConditionInstanceTerminating)
}

// estimateFromClaim completes what a node has not reported yet from its claim. A claim that is not launched
// has no estimate either; it is then at least as large as what was planned for it, so that those pods
// find their place again and cause no second claim. Who knows its instance types can say more.
func (r *Reader) estimateFromClaim(n *Node, s stage) {
	n.Capacity = resources.Fill(n.Capacity, r.capacity(s.claim.Status.Capacity))
	n.Allocatable = resources.Fill(n.Allocatable, r.capacity(s.claim.Status.Allocatable))
	if n.Allocatable.IsZero() {
		n.Allocatable = r.capacity(s.claim.Spec.Resources.Requests)
		n.Capacity = resources.Fill(n.Capacity, n.Allocatable)
	}
	if s.claim.Status.ProviderID == "" && s.node.Name == "" {
		n.Needs, _ = reqs.FromEntries(karpv1.Entries(s.claim.Spec.Requirements), r.words)
	}
}

// labels returns those of the node, or of the claim while the node is not registered. Keys that pods
// may request under another name are there under the canonical one.
func (r *Reader) labels(s stage, name string) map[string]string {
	given := s.node.Labels
	if !s.registered {
		given = s.claim.Labels
	}
	out := maps.Clone(given)
	if out == nil {
		out = map[string]string{}
	}
	var aliases []string
	for key, value := range given {
		if r.words.Canonical(key) != key {
			aliases = append(aliases, key)
		} else if v := r.words.Value(key, value); v != value {
			out[key] = v
		}
	}
	slices.Sort(aliases) // of two for one label the first counts
	for _, key := range aliases {
		canonical := r.words.Canonical(key)
		if _, there := out[canonical]; !there {
			out[canonical] = r.words.Value(canonical, given[key])
		}
	}
	if !s.registered { // a label that can have only one value will have it
		set, _ := reqs.FromEntries(karpv1.Entries(s.claim.Spec.Requirements), r.words)
		for key, req := range set {
			if _, there := out[key]; !there && !req.Not && len(req.Values) == 1 {
				out[key] = req.Values[0]
			}
		}
	}
	if out[corev1.LabelHostname] == "" {
		out[corev1.LabelHostname] = name // SC-27
	}
	return out
}

// taints returns those that pods must tolerate. While a managed node starts or restarts, taints that
// go away on their own do not count (6.1, V15-42).
func (s stage) taints() []corev1.Taint {
	list := slices.Clone(s.node.Spec.Taints)
	if !s.registered {
		list = slices.Clone(s.claim.Spec.Taints)
	}
	cordon := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	if s.node.Spec.Unschedulable && !slices.ContainsFunc(list, sameTaint(cordon)) {
		list = append(list, cordon) // the taint follows the field a moment later
	}
	if s.managed && (!s.initialized || s.rebooting) {
		list = slices.DeleteFunc(list, func(t corev1.Taint) bool {
			startup := slices.ContainsFunc(s.claim.Spec.StartupTaints, sameTaint(t))
			return startup || Ephemeral(t) || s.rebooting && t.Key == karpv1.TaintKeyRebooting
		})
	}
	if len(list) == 0 {
		return nil
	}
	for i := range list {
		list[i].TimeAdded = nil
	}
	return list
}

func sameTaint(t corev1.Taint) func(corev1.Taint) bool {
	return func(o corev1.Taint) bool { return t.Key == o.Key && t.Effect == o.Effect }
}

// NodeReady reports whether the kubelet of a node says that it can run pods.
func NodeReady(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// Ephemeral reports whether a taint is known to go away while a node starts.
func Ephemeral(t corev1.Taint) bool {
	switch t.Key {
	case corev1.TaintNodeNotReady:
		return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
	case corev1.TaintNodeUnreachable, "node.cloudprovider.kubernetes.io/uninitialized":
		return t.Effect == corev1.TaintEffectNoSchedule
	case karpv1.TaintKeyUnregistered:
		return t.Effect == corev1.TaintEffectNoExecute
	default:
		return strings.HasPrefix(t.Key, "readiness.k8s.io/")
	}
}

// publishedLimits is how many volumes the drivers of a node say that it can attach. A driver that gives no count has no limit.
func publishedLimits(published *storagev1.CSINode) map[string]int {
	if published == nil {
		return nil
	}
	var limits map[string]int
	for _, driver := range published.Spec.Drivers {
		if driver.Allocatable == nil || driver.Allocatable.Count == nil {
			continue
		}
		if limits == nil {
			limits = map[string]int{}
		}
		limits[driver.Name] = int(*driver.Allocatable.Count)
	}
	return limits
}

// WithDeclaredLimits returns limits of volumes with those that an instance type declares, for drivers that have not published
// anything for the node (V15-58). Of several types that a node may become the least counts. limits stays as it is.
func WithDeclaredLimits(limits, declared map[string]int, published *storagev1.CSINode) map[string]int {
	// any order: each driver is independent of the others
	for driver, limit := range declared {
		if published != nil && slices.ContainsFunc(published.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == driver }) {
			continue
		}
		if have, known := limits[driver]; known && have <= limit {
			continue
		}
		if limits = maps.Clone(limits); limits == nil {
			limits = map[string]int{}
		}
		limits[driver] = limit
	}
	return limits
}

// pods reads the pods of a node that have not ended.
func (r *Reader) pods(list []*corev1.Pod, vols VolumeLookup) []Pod {
	var pods []Pod
	for _, p := range list {
		if p == nil || PodEnded(p) {
			continue
		}
		if pods == nil {
			pods = make([]Pod, 0, len(list))
		}
		pods = append(pods, r.Pod(p, vols))
	}
	slices.SortFunc(pods, comparePods)
	return pods
}
