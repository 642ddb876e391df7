package store

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// SetCommanded records whether a node is part of a running command. Until SetRemoving is called too, its pods need
// no other node.
func (s *Store) SetCommanded(node string, commanded bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.findPlace(node); p != nil {
		if p.known = true; p.commanded != commanded {
			p.commanded = commanded
			s.revision++
		}
	}
}

// SetRemoving records whether a node is being removed by a command.
func (s *Store) SetRemoving(node string, removing bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setRemoving(node, removing)
}

func (s *Store) setRemoving(node string, removing bool) {
	if p := s.findPlace(node); p != nil && p.removing != removing {
		p.removing = removing
		s.revision++
		s.changes++
	}
}

// Replace marks nodes and records where their pods were planned to run, in one step: no plan sees the pods as
// unschedulable and launches another node for them (disruption 17).
func (s *Store) Replace(nodes []string, places map[cluster.PodKey]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, node := range nodes {
		s.setRemoving(node, true)
	}
	for pod, name := range places {
		if p := s.findPlace(name); p != nil && p.claim != nil {
			s.plannedClaims[pod] = p.claim.Name
		}
	}
}

// claimsBeingReplaced returns the claims of nodes that are not marked although replacements are created for them: a
// command is still marking the others, or a restarted process has not resumed it yet (disruption 25.8). Capacity of
// the replacements is reserved for the pods of these nodes.
func (s *Store) claimsBeingReplaced() map[string]bool {
	orders, count := map[string]cluster.Order{}, map[string]int{}
	// any order: all claims of a command say the same of it
	for _, claim := range s.claims {
		if o, is := cluster.ReadOrder(claim.Annotations); is && claim.DeletionTimestamp == nil {
			orders[o.Token] = o
			count[o.Token]++
		}
	}
	out := map[string]bool{}
	for token, o := range orders {
		for _, name := range o.Replaces {
			p := s.places[claimKey(name)]
			if p != nil && !p.removing && !p.isDeleting() && (p.commanded || !p.known && count[token] == o.Of && p.commandedBy(token)) {
				out[name] = true
			}
		}
	}
	return out
}

// commandedBy reports whether a place says that a command holds it, as a process does that can be taken over from.
func (p *place) commandedBy(token string) bool {
	return p.claim != nil && p.node != nil && p.node.Annotations[karpv1.AnnotationHeldBy] == token &&
		condition.Find(p.claim.Status.Conditions, karpv1.ConditionDisruptionReason) != nil
}

// replacesUnmarked reports whether a claim is a replacement of nodes that are not marked yet, for example because a command
// is just being started or that a process that began a moment ago has not found it again. Of the two
// only one counts, else a static pool would shrink by one. After a rollback both count, also before a watch shows that the
// claim is no replacement any more: the pool has one too many until it shrinks.
func (s *Store) replacesUnmarked(claim *karpv1.NodeClaim) bool {
	o, is := cluster.ReadOrder(claim.Annotations)
	return is && slices.ContainsFunc(o.Replaces, func(name string) bool {
		p := s.places[claimKey(name)]
		return p != nil && p.claim != nil && !p.removing && p.claim.DeletionTimestamp == nil && (p.commanded || !p.known)
	})
}

// Changes counts the changes that may affect which nodes could be removed (disruption 4). Heartbeats of nodes do not
// count.
func (s *Store) Changes() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changes
}

// RecordPriceChange counts as a change: prices or sizes of instance types are others, so other nodes may be worth
// removing.
func (s *Store) RecordPriceChange() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes++
}

// Lanes returns the table of resources, with a lane for each of these names. Vectors that are written with it are valid
// in all later snapshots: lanes never move.
func (s *Store) Lanes(names ...corev1.ResourceName) resources.Table {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opts.Lanes = s.reader.AddResources(names...)
	return s.opts.Lanes
}

// isDisplaced reports whether a pod runs on a terminating node.
func (s *Store) isDisplaced(key podKey) bool {
	slot := s.pods[key]
	if slot == nil || slot.pod.Spec.NodeName == "" {
		return false
	}
	p := s.places[s.placeKeys[slot.pod.Spec.NodeName]]
	return p != nil && (p.removing || p.claim != nil && p.claim.DeletionTimestamp != nil)
}

// claimChanged reports whether a claim changed in a way that matters to consolidation.
func claimChanged(before, after *karpv1.NodeClaim) bool {
	if before == nil || after == nil || (before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) {
		return before != after
	}
	for _, name := range []string{karpv1.ConditionInitialized, karpv1.ConditionConsolidatable, karpv1.ConditionDrifted, karpv1.ConditionInstanceTerminating} {
		if condition.True(before.Status.Conditions, name) != condition.True(after.Status.Conditions, name) {
			return true
		}
	}
	return false
}

// podChanged reports whether a pod came to a node, left it, or changed what protects it.
func podChanged(before, after *corev1.Pod) bool {
	if before == nil || after == nil {
		return before != after
	}
	return before.UID != after.UID || before.Spec.NodeName != after.Spec.NodeName || before.Status.NominatedNodeName != after.Status.NominatedNodeName || (before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
		before.Annotations[karpv1.AnnotationDoNotDisrupt] != after.Annotations[karpv1.AnnotationDoNotDisrupt] ||
		cluster.ProtectedBy(before.Annotations) != cluster.ProtectedBy(after.Annotations)
}

// poolChanged reports whether a pool says something else now.
func poolChanged(before *pool, after *karpv1.NodePool) bool {
	return before == nil || !equality.Semantic.DeepEqual(before.effective.Spec, after.Spec) ||
		!equality.Semantic.DeepEqual(before.effective.Annotations, after.Annotations) ||
		condition.True(before.effective.Status.Conditions, karpv1.ConditionReady) != condition.True(after.Status.Conditions, karpv1.ConditionReady)
}
