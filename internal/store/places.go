package store

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/condition"
)

func claimKey(name string) string { return "claim/" + name }
func nodeKey(name string) string  { return "node/" + name }

// setClaim stores a claim; nil removes it.
func (s *Store) setClaim(name string, claim *karpv1.NodeClaim) {
	old := s.claims[name]
	if claimChanged(old, claim) {
		s.changes++
	}
	delete(s.unwatched, name)
	if claim == nil {
		delete(s.claims, name)
		delete(s.planned, name)
		delete(s.ordered, name)
		delete(s.altered, name)
		delete(s.recalledPods, name)
	} else {
		if pods := cluster.ReadHashes(claim.Annotations[karpv1.AnnotationPods]); old == nil && s.planned[name] == nil && len(pods) > 0 {
			s.recalledPods[name] = pods
		}
		s.claims[name] = claim
	}
	if before, after := providerOf(old), providerOf(claim); before != after {
		s.unbind(before, name)
		if after != "" {
			s.objectsOf(after).claim = name
		}
		defer s.rejoinObjects(before)
		defer s.rejoinObjects(after)
	}
	key := claimKey(name)
	if claim == nil {
		if p := s.places[key]; p != nil && p.node != nil {
			delete(s.placeKeys, p.node.Name)
		}
		delete(s.places, key)
		return
	}
	p := s.place(key)
	if old != nil && providerOf(old) == "" && providerOf(claim) != "" {
		p.launchedAt = s.opts.Now()
	}
	p.claim, p.valid = s.effective(claim), false
	if claim.DeletionTimestamp != nil && (old == nil || old.DeletionTimestamp == nil) {
		s.opts.Wake(claim.UID) // its pods need another node
	}
}

// effective reads a claim with its owner.
func (s *Store) effective(claim *karpv1.NodeClaim) *karpv1.NodeClaim {
	var owner *karpv1.NodePool
	if p := s.pools[claim.Labels[karpv1.LabelNodePool]]; p != nil {
		owner = p.effective
	}
	read, _ := claim.Effective(owner, s.opts.Strict)
	return read
}

func providerOf(claim *karpv1.NodeClaim) string {
	if claim == nil {
		return ""
	}
	return claim.Status.ProviderID
}

func (s *Store) objectsOf(provider string) *providerObjects {
	t := s.byProvider[provider]
	if t == nil {
		t = &providerObjects{nodes: map[string]bool{}}
		s.byProvider[provider] = t
	}
	return t
}

// unbind removes the provider id of a claim from the index.
func (s *Store) unbind(provider, claim string) {
	if t := s.byProvider[provider]; t != nil && t.claim == claim {
		t.claim = ""
	}
}

func (s *Store) place(key string) *place {
	p := s.places[key]
	if p == nil {
		p = &place{}
		s.places[key] = p
	}
	return p
}

// setNode stores a Node; nil removes it.
func (s *Store) setNode(name string, node *corev1.Node) {
	old := s.nodes[name]
	s.changes++
	s.requestRefill()
	before, after := "", ""
	if old != nil {
		before = old.Spec.ProviderID
	}
	if node == nil {
		delete(s.nodes, name)
	} else {
		s.nodes[name], after = node, node.Spec.ProviderID
	}
	if t := s.byProvider[before]; t != nil && before != after {
		delete(t.nodes, name)
	}
	if node != nil && after != "" {
		s.objectsOf(after).nodes[name] = true
	}
	s.relinkNode(name)
	if before != after || old == nil || node == nil {
		s.rejoinObjects(before)
		s.rejoinObjects(after)
	}
	if (old == nil) != (node == nil) {
		s.recheckTargets(name)
	}
	if node != nil && isTerminating(node) && (old == nil || !isTerminating(old)) {
		s.opts.Wake(node.UID)
	}
}

// isTerminating reports whether a node is being removed, so that its pods need another node soon (SC-03).
func isTerminating(n *corev1.Node) bool {
	return n.DeletionTimestamp != nil || karpv1.Disrupted(n)
}

// rejoinObjects joins the objects of a provider id again (LC-45). Of several Nodes the first by name represents the claim:
// which of them is right is not known, and internal/lifecycle deletes that claim.
func (s *Store) rejoinObjects(provider string) {
	t := s.byProvider[provider]
	if provider == "" || t == nil {
		return
	}
	if t.claim == "" && len(t.nodes) == 0 {
		delete(s.byProvider, provider)
		return
	}
	if p := s.places[claimKey(t.claim)]; t.claim != "" && p != nil && p.node != nil && !t.nodes[p.node.Name] {
		delete(s.placeKeys, p.node.Name)
		p.node, p.valid = nil, false
	}
	for _, name := range slices.Sorted(maps.Keys(t.nodes)) {
		s.relinkNode(name)
	}
}

// relinkNode puts a Node in the place it belongs to.
func (s *Store) relinkNode(name string) {
	node := s.nodes[name]
	want := s.placeKeyOf(node)
	if have := s.placeKeys[name]; have != "" && have != want {
		if p := s.places[have]; p != nil && p.node != nil && p.node.Name == name { // another may have taken it over
			p.node, p.valid = nil, false
			if p.claim == nil {
				delete(s.places, have)
			}
		}
		delete(s.placeKeys, name)
	}
	if want == "" {
		return
	}
	p := s.place(want)
	p.node, p.valid = node, false
	s.placeKeys[name] = want
}

// placeKeyOf is the key of the place a Node belongs to; empty: none. A managed Node without provider id is not
// complete yet.
func (s *Store) placeKeyOf(node *corev1.Node) string {
	if node == nil {
		return ""
	}
	if node.Spec.ProviderID == "" {
		if _, ours := node.Labels[karpv1.LabelNodePool]; ours {
			return ""
		}
		return nodeKey(node.Name)
	}
	t := s.byProvider[node.Spec.ProviderID]
	if t == nil || t.claim == "" || s.claims[t.claim] == nil {
		return nodeKey(node.Name)
	}
	// any order: whether there is one
	for other := range t.nodes {
		if other < node.Name {
			return nodeKey(node.Name)
		}
	}
	return claimKey(t.claim)
}

// orphaned reports whether a place is a managed Node without a claim. It will be removed, so its capacity does not
// count. Nodes of another controller name pools too, but other pools and another node class.
func (s *Store) orphaned(p *place) bool {
	if p.claim != nil || p.node == nil || p.node.Labels[karpv1.LabelNodePool] == "" {
		return false
	}
	if s.pools[p.node.Labels[karpv1.LabelNodePool]] != nil {
		return true
	}
	return slices.ContainsFunc(s.opts.Classes, func(gk schema.GroupKind) bool {
		return p.node.Labels[karpv1.NodeClassReference{Group: gk.Group, Kind: gk.Kind}.LabelKey()] != ""
	})
}

// insideConsolidateAfter reports whether the consolidateAfter of the pool has not yet passed for a place.
func (p *place) insideConsolidateAfter() bool {
	return p.claim != nil && !condition.True(p.claim.Status.Conditions, karpv1.ConditionConsolidatable)
}

// isDeleting reports whether the claim or the Node of a place is being deleted.
func (p *place) isDeleting() bool {
	return p.claim != nil && p.claim.DeletionTimestamp != nil || p.node != nil && p.node.DeletionTimestamp != nil
}
