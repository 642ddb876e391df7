package store

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/condition"
)

// unwatchedTimeout is how long a created claim counts before the watch has delivered it (FM D10).
const unwatchedTimeout = 15 * time.Second

// RecordCreatedClaim adds a claim that was just created, and the pods it is for, before the watch delivers it
// (SC-51). So the next plan includes it, and no pod gets a second claim.
func (s *Store) RecordCreatedClaim(claim *karpv1.NodeClaim, pods []cluster.PodKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision++
	s.planned[claim.Name], s.ordered[claim.Name] = pods, s.revision
	for _, key := range pods {
		s.plannedClaims[key] = claim.Name
	}
	if s.claims[claim.Name] != nil {
		return // the watch was faster
	}
	s.setClaim(claim.Name, claim)
	s.unwatched[claim.Name] = s.opts.Now().Add(unwatchedTimeout)
}

// RecordListedClaim records a claim that the API server listed, unless the watch has delivered it.
func (s *Store) RecordListedClaim(claim *karpv1.NodeClaim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.claims[claim.Name] != nil {
		return
	}
	s.revision++
	s.setClaim(claim.Name, claim)
	s.unwatched[claim.Name] = s.opts.Now().Add(unwatchedTimeout)
}

// RecordAlteredClaim records that the stored claim differs from the requested one, as admission can cause. Its
// pods may no longer fit. They still wait for it as long as it exists, since the next claim would be altered
// too (FM A13).
func (s *Store) RecordAlteredClaim(claim string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.claims[claim] != nil {
		s.revision++
		s.altered[claim] = true
	}
}

// awaitsAlteredClaim reports whether a pod is planned for an altered claim.
func (s *Store) awaitsAlteredClaim(key podKey) bool {
	name := s.plannedClaims[key]
	return s.altered[name] && s.claims[name].DeletionTimestamp == nil
}

// UnwatchedClaims names the claims that were created some seconds ago and that the watch has not delivered yet.
func (s *Store) UnwatchedClaims() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for name, until := range s.unwatched {
		if until.Sub(s.opts.Now()) < 2*unwatchedTimeout/3 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// ConfirmClaim extends the timeout of such a claim, and updates it if now is not nil. A stalled watch must not
// cause another claim for the same pods (G8).
func (s *Store) ConfirmClaim(name string, now *karpv1.NodeClaim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, unknown := s.unwatched[name]; !unknown {
		return // the watch delivered it meanwhile
	}
	if now != nil {
		s.revision++
		s.setClaim(name, now)
	}
	s.unwatched[name] = s.opts.Now().Add(unwatchedTimeout)
}

// expireUnwatched removes created claims that the watch has not delivered in time.
func (s *Store) expireUnwatched(now time.Time) {
	// any order: entries are independent
	for name, until := range s.unwatched {
		if now.After(until) {
			s.setClaim(name, nil)
		}
	}
}

// Planned returns the pending pods that a claim was created for.
func (s *Store) Planned(claim string) []*corev1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	var pods []*corev1.Pod
	for _, key := range s.planned[claim] {
		if s.isUnbound(key) {
			pods = append(pods, s.pods[key].pod)
		}
	}
	return pods
}

// Nominees returns the pending pods that the last plan placed on a claim and that are not nominated for another
// node.
func (s *Store) Nominees(claim string) []*corev1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	var pods []*corev1.Pod
	for key, name := range s.plannedClaims {
		if slot := s.waiting[key]; name == claim && slot != nil && slot.pod.Status.NominatedNodeName == "" {
			pods = append(pods, slot.pod)
		}
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return keyOf(a).Compare(keyOf(b)) })
	return pods
}

// Nominate records that pods are expected on a node until a time (SC-52). Unknown names are ignored.
func (s *Store) Nominate(node string, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.findPlace(node); p != nil && until.After(p.nominated) {
		p.nominated = until
	}
}

// ExpectPod records that a pod is expected on a node until a time, or until it is bound or deleted (SC-52). A pod
// that still runs on a terminating node will be recreated under another name, so only the time applies to it.
func (s *Store) ExpectPod(pod cluster.PodKey, node string, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, slot := s.findPlace(node), s.pods[pod]
	switch {
	case p == nil || slot == nil:
	case s.isUnbound(pod):
		if p.expected == nil {
			p.expected = map[podKey]time.Time{}
		}
		p.expected[pod] = until
	case slot.pod.Spec.NodeName == "" || slot.pod.Spec.NodeName == node:
	case until.After(p.displacedUntil):
		p.displacedUntil = until
	}
}

// isUnbound reports whether a pod exists and is not bound to a node.
func (s *Store) isUnbound(pod podKey) bool {
	slot := s.pods[pod]
	return slot != nil && slot.pod.Spec.NodeName == "" && slot.pod.DeletionTimestamp == nil
}

// podsExpected reports whether pending pods are expected on a place, and drops expired expectations.
func (s *Store) podsExpected(p *place, now time.Time) bool {
	for pod, until := range p.expected {
		if !now.Before(until) || !s.isUnbound(pod) {
			delete(p.expected, pod)
		}
	}
	return now.Before(p.nominated) || len(p.expected) > 0
}

// RecordPlannedNode records that a plan placed a pod on a node, so that the next plan places it there again (G8).
// It replaces an earlier record: keeping both would reserve capacity twice. On an initialized node the
// scheduler decides. So nothing is reserved there for a pod whose claim was altered, which might never fit,
// nor on nodes that Dovetail does not manage.
func (s *Store) RecordPlannedNode(pod cluster.PodKey, node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.findPlace(node)
	switch {
	case p == nil:
	case p.claim == nil, p.isInitialized() && s.altered[p.claim.Name]:
		delete(s.plannedClaims, pod)
	default:
		s.plannedClaims[pod] = p.claim.Name
	}
}

// isInitialized reports whether the Node of a place is initialized, so that pods can run on it.
func (p *place) isInitialized() bool {
	return p.node != nil && p.node.Labels[karpv1.LabelInitialized] == "true"
}

// Nominated reports whether pods are expected on a node.
func (s *Store) Nominated(node string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.findPlace(node)
	now := s.opts.Now()
	return p != nil && (s.podsExpected(p, now) || now.Before(p.displacedUntil))
}

// findPlace returns the place of a name as snapshots show it: of a Node, or of a claim.
func (s *Store) findPlace(name string) *place {
	if p := s.places[s.placeKeys[name]]; p != nil {
		return p
	}
	return s.places[claimKey(name)]
}

// Pod returns a pod that has not ended, or nil.
func (s *Store) Pod(key cluster.PodKey) *corev1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slot := s.pods[key]; slot != nil {
		return slot.pod
	}
	return nil
}

// NeedsPlace reports whether a pod still needs a node: it is pending, or runs on a terminating node. Pods of a
// node whose command waits for replacements do not: the command provides their capacity, and if it fails they
// stay where they are.
func (s *Store) NeedsPlace(key cluster.PodKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	slot := s.pods[key]
	if slot == nil || slot.pod.Spec.NodeName == "" {
		return slot != nil || s.virtual[key] != nil
	}
	p := s.places[s.placeKeys[slot.pod.Spec.NodeName]]
	return p == nil || s.orphaned(p) || p.node != nil && p.node.DeletionTimestamp != nil || p.claim != nil &&
		(p.claim.DeletionTimestamp != nil || condition.True(p.claim.Status.Conditions, karpv1.ConditionInstanceTerminating))
}

// Waiting is the number of pods and nodes that need a plan. Each counts until it is served (SC-02, SC-03).
func (s *Store) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expireTargets(s.opts.Now())
	n := len(s.waiting)
	for _, p := range s.places {
		if p.node != nil && isTerminating(p.node) && len(s.onNode[p.node.Name]) > 0 || p.claim != nil && p.claim.DeletionTimestamp != nil {
			n++
		}
	}
	return n
}

// Decided records the first decision about pods, and returns how long each had been pending.
func (s *Store) Decided(pods []cluster.PodKey) []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.opts.Now()
	var waited []time.Duration
	for _, key := range pods {
		if slot := s.waiting[key]; slot != nil && slot.decided.IsZero() {
			slot.decided = now
			waited = append(waited, max(now.Sub(slot.seen), 0))
		}
	}
	return waited
}
