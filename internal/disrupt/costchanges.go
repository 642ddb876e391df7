package disrupt

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// CostInterval is how often it is checked whether nodes have to be ranked again.
const CostInterval = time.Minute

const (
	costRankingTTL = 5 * time.Minute // nodes are ranked again after that, although nothing changed
	maxCostNodes   = 50              // nodes whose pods are written in a pass, besides terminating ones (V15-55)
)

// CostRanking is the state of the cluster on which nodes were last ranked. The zero value is that of none.
type CostRanking struct {
	Changes uint64
	At      time.Time
}

// Covers reports whether nodes need not be ranked again.
func (r CostRanking) Covers(changes uint64, now time.Time) bool {
	return changes == r.Changes && !r.At.IsZero() && now.Sub(r.At) < costRankingTTL
}

// CostChange is the pods of a node whose deletion cost has to be written.
type CostChange struct {
	Node, Pool string
	Pods       []*corev1.Pod
	Value      string // empty: the annotation is removed
}

// CostChanges returns what has to be written so that ReplicaSets that shrink empty the nodes that would go next
// (V15-53 to V15-55). The number of nodes is bounded; terminating ones come first and do not count. Pods are those
// that have not ended, by node.
func CostChanges(v View, nodes []corev1.Node, pods map[string][]*corev1.Pod) []CostChange {
	var out []CostChange
	left := maxCostNodes
	for _, node := range DeletionCosts(v, nodeNotes(nodes, pods)) {
		change := CostChange{Node: node.Node, Pool: node.Pool}
		if node.Value != 0 {
			change.Value = strconv.FormatInt(int64(node.Value), 10)
		}
		for _, p := range pods[node.Node] {
			if ownedBy(p, "apps/v1", "ReplicaSet") && p.Annotations[corev1.PodDeletionCost] != change.Value {
				change.Pods = append(change.Pods, p)
			}
		}
		if len(change.Pods) == 0 {
			continue
		}
		if !node.Deleting {
			if left == 0 {
				break
			}
			left--
		}
		out = append(out, change)
	}
	return out
}

// nodeNotes says of each node whether it is tainted and whether a pod pins it (V15-54).
func nodeNotes(nodes []corev1.Node, pods map[string][]*corev1.Pod) map[string]NodeNote {
	out := make(map[string]NodeNote, len(nodes))
	for i := range nodes {
		n := &nodes[i]
		note := NodeNote{Tainted: karpv1.Disrupted(n)}
		for _, p := range pods[n.Name] {
			note.Pinned = note.Pinned || pinsNode(p)
		}
		out[n.Name] = note
	}
	return out
}

// pinsNode reports whether a pod may not be started again elsewhere by its owner.
func pinsNode(p *corev1.Pod) bool {
	replaced := ownedBy(p, "apps/v1", "ReplicaSet") || ownedBy(p, "apps/v1", "DaemonSet") || ownedBy(p, "batch/v1", "Job")
	return p.Namespace != metav1.NamespaceSystem && !replaced
}

// ownedBy reports whether an object of a kind controls a pod.
func ownedBy(p *corev1.Pod, apiVersion, kind string) bool {
	owner := metav1.GetControllerOf(p)
	return owner != nil && owner.Kind == kind && owner.APIVersion == apiVersion
}
