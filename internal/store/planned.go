package store

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/condition"
)

// unwatchedTimeout is how long a claim that was created counts although no watch has told of it (FM D10).
const unwatchedTimeout = 15 * time.Second

// RecordCreatedClaim takes in a claim that was just created, before a watch tells of it, and the pods it is for
// (SC-51). So the next plan finds it, and no pod gets a second one.
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

// RecordAlteredClaim says that a claim was stored in another form than was asked for, as admission can do. Its pods
// may not fit it any more. They wait for it all the same for as long as it exists, since the next claim
// would be altered too, and the one after it (FM A13).
func (s *Store) RecordAlteredClaim(claim string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.claims[claim] != nil {
		s.revision++
		s.altered[claim] = true
	}
}

// awaitsAlteredClaim reports whether a pod waits for a claim that was altered.
func (s *Store) awaitsAlteredClaim(key podKey) bool {
	name := s.plannedClaims[key]
	return s.altered[name] && s.claims[name].DeletionTimestamp == nil
}

// UnwatchedClaims names the claims that were created some seconds ago and that no watch has told of yet.
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

// ConfirmClaim says that such a claim may be counted on for some more time, and how it looks now if that is
// known: a watch that stands still must not make its pods cause another one (G8).
func (s *Store) ConfirmClaim(name string, now *karpv1.NodeClaim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, unknown := s.unwatched[name]; !unknown {
		return // the watch told of it meanwhile
	}
	if now != nil {
		s.revision++
		s.setClaim(name, now)
	}
	s.unwatched[name] = s.opts.Now().Add(unwatchedTimeout)
}

// expireUnwatched forgets claims that were created and that no watch ever told of.
func (s *Store) expireUnwatched(now time.Time) {
	// any order: each is forgotten by itself
	for name, until := range s.unwatched {
		if now.After(until) {
			s.setClaim(name, nil)
		}
	}
}

// Planned returns the pods that were promised a claim and still wait.
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

// Nominees returns the pods that wait, that the last plan put on a claim, and that nobody has nominated for
// another node.
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

// Nominate says that pods are expected on a node until a time (SC-52). Unknown names are ignored.
func (s *Store) Nominate(node string, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.findPlace(node); p != nil && until.After(p.nominated) {
		p.nominated = until
	}
}

// ExpectPod says that a pod is expected on a node until a time, or until it is bound or gone (SC-52). One that
// still runs on a node that goes will come under another name, so the time counts for it alone.
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

// isUnbound reports whether a pod exists and is on no node yet.
func (s *Store) isUnbound(pod podKey) bool {
	slot := s.pods[pod]
	return slot != nil && slot.pod.Spec.NodeName == "" && slot.pod.DeletionTimestamp == nil
}

// podsExpected reports whether pods that wait are expected on a place, and forgets those that are not any more.
func (s *Store) podsExpected(p *place, now time.Time) bool {
	for pod, until := range p.expected {
		if !now.Before(until) || !s.isUnbound(pod) {
			delete(p.expected, pod)
		}
	}
	return now.Before(p.nominated) || len(p.expected) > 0
}

// RecordPlannedNode notes that a plan put a pod on a node, so that the next plan puts it there again (G8), whatever
// was promised before: a promise that a later plan broke would book its node twice. On a node that is up
// the scheduler decides. So nothing is kept there for a pod whose claim was altered, which might never
// fit, nor on nodes that are not ours.
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

// isInitialized reports whether pods can run on a place.
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

// NeedsPlace reports whether a pod still needs a node: it waits, or runs on a node that goes. While a
// command waits for its replacements, room for the pods of its nodes is made for it by the command alone:
// if that fails they stay where they are.
func (s *Store) NeedsPlace(key cluster.PodKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	slot := s.pods[key]
	if slot == nil || slot.pod.Spec.NodeName == "" {
		return slot != nil
	}
	p := s.places[s.placeKeys[slot.pod.Spec.NodeName]]
	return p == nil || s.orphaned(p) || p.node != nil && p.node.DeletionTimestamp != nil || p.claim != nil &&
		(p.claim.DeletionTimestamp != nil || condition.True(p.claim.Status.Conditions, karpv1.ConditionInstanceTerminating))
}

// Waiting is the number of pods and nodes that ask for a plan; each is looked at again until it is
// served (SC-02, SC-03).
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

// Decided notes that something was decided about pods for the first time, and returns for each for how
// long it had been waiting.
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
