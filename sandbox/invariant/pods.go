package invariant

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/sandbox/apiproxy"
)

func podObject(p *corev1.Pod) string { return "Pod " + p.Namespace + "/" + p.Name }

func nodeObject(name string) string { return "Node " + name }

func (c *Checker) podChanged(at time.Time, kind Kind, next *corev1.Pod) {
	known := c.pods[next.UID]
	if known == nil {
		known = &pod{}
		c.pods[next.UID] = known
	}
	if needsPlace(next) && kind == Set {
		known.wanted = at
	}
	known.Pod = next
	if known.ending.IsZero() && (kind == Removed || next.DeletionTimestamp != nil) {
		known.ending = at
	}
	if kind == Removed {
		known.gone = at
		c.recordHistory(at, podObject(next), "gone")
		return
	}
	text := fmt.Sprintf("%s %s on %q", next.UID, next.Status.Phase, next.Spec.NodeName)
	if next.DeletionTimestamp != nil {
		text += " deleting"
	}
	c.recordHistory(at, podObject(next), text)
}

// nodeChanged follows nodes.
func (c *Checker) nodeChanged(at time.Time, kind Kind, next *corev1.Node) {
	if kind == Removed {
		delete(c.nodes, next.Name)
		if isManaged(next) {
			c.recordHistory(at, nodeObject(next.Name), "gone")
		}
		return
	}
	before := c.nodes[next.Name]
	c.nodes[next.Name] = next
	if !isManaged(next) {
		return
	}
	if hasTaint(next, karpv1.TaintKeyDisrupted) && (before == nil || !hasTaint(before, karpv1.TaintKeyDisrupted)) {
		c.recordTaint(at, next)
	}
	words := []string{fmt.Sprintf("ready=%v registered=%s initialized=%s", ready(next), next.Labels[karpv1.LabelRegistered], next.Labels[karpv1.LabelInitialized])}
	for _, t := range next.Spec.Taints {
		words = append(words, t.Key+":"+string(t.Effect))
	}
	if next.DeletionTimestamp != nil {
		words = append(words, "deleting")
	}
	c.recordHistory(at, nodeObject(next.Name), strings.Join(words, " "))
}

// Request processes a request of the controller to the API server that got its response.
func (c *Checker) Request(r apiproxy.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.countRequest(r)
	switch {
	case r.Verb == "create" && r.Resource == "pods/eviction", r.Verb == "delete" && r.Resource == "pods":
		c.checkRemoval(r)
	}
}

// checkRemoval is G6 for what the controller requests of the API server: it names the pod by its UID, and it
// leaves protected pods alone until the deadline of their node. The API server itself holds evictions
// back for a PodDisruptionBudget, so a budget is looked at for deletions alone.
func (c *Checker) checkRemoval(r apiproxy.Request) {
	uid := types.UID(uidIn(r.Body))
	if uid == "" {
		object := "Pod " + r.Namespace + "/" + r.Name
		c.reportViolation(Violation{Rule: G6, At: r.Time, Object: object, Namespace: r.Namespace, What: fmt.Sprintf("%s %s does not name its UID", r.Verb, r.Resource)})
		return
	}
	p := c.pods[uid]
	if p == nil {
		return // gone long ago, or not seen yet
	}
	c.recordHistory(r.Time, podObject(p.Pod), fmt.Sprintf("%s %s: %d", r.Verb, r.Resource, r.Status))
	before := !p.ending.IsZero() && p.ending.Before(r.Time)
	if r.Status >= http.StatusMultipleChoices || before || isTerminal(p.Pod) || c.isPastDeadline(p.Pod, r.Time) {
		return
	}
	violation := Violation{Rule: G6, At: r.Time, Object: podObject(p.Pod), Namespace: p.Namespace, Pool: c.poolOfNode(p.Spec.NodeName)}
	switch budget := c.blockingBudget(p.Pod); {
	case doNotDisrupt(p.Pod, r.Time):
		violation.What = fmt.Sprintf("%s %s although it is annotated %s=%s and no deadline has come", r.Verb, r.Resource, karpv1.AnnotationDoNotDisrupt, p.Annotations[karpv1.AnnotationDoNotDisrupt])
	case r.Verb == "delete" && budget != "":
		violation.What = fmt.Sprintf("it was deleted past PodDisruptionBudget %s, which allows none, and no deadline has come", budget)
	default:
		return
	}
	c.reportViolation(violation)
}

// uidIn finds the UID that a body names, as JSON or as protobuf: 36 characters with dashes in their places.
func uidIn(body []byte) string {
	const length = 36
	for i := 0; i+length <= len(body); i++ {
		if part := body[i : i+length]; part[8] == '-' && part[13] == '-' && part[18] == '-' && part[23] == '-' && isHexadecimal(part) {
			return string(part)
		}
	}
	return ""
}

func isHexadecimal(text []byte) bool {
	return !slices.ContainsFunc(text, func(b byte) bool { return b != '-' && !(b >= '0' && b <= '9') && !(b >= 'a' && b <= 'f') })
}

// isPastDeadline says whether the deadline of a pod's node allows to end it: from the deadline less the grace of
// the pod (LC-36).
func (c *Checker) isPastDeadline(p *corev1.Pod, at time.Time) bool {
	owner := c.claimOfNode(p.Spec.NodeName)
	if owner == nil {
		return false
	}
	deadline, err := time.Parse(time.RFC3339, owner.Annotations[karpv1.AnnotationTerminationTimestamp])
	if err != nil {
		return false
	}
	var grace time.Duration
	if p.Spec.TerminationGracePeriodSeconds != nil {
		grace = time.Duration(*p.Spec.TerminationGracePeriodSeconds) * time.Second
	}
	return !at.Before(deadline.Add(-grace - time.Second)) // times in annotations are whole seconds
}

// suspect is a pod that may have been killed with its instance.
type suspect struct {
	at   time.Time
	uid  types.UID
	node string
}

// suspectTermination is G6 for an instance that is ended: nothing that has to be drained may be on its
// node. Who is innocent shows a moment later, when the watches have caught up.
func (c *Checker) suspectTermination(at time.Time, id string) {
	for _, n := range c.nodes {
		owner := c.claimOfNode(n.Name)
		if instanceID(n.Spec.ProviderID) != id || !ready(n) || n.Labels[karpv1.LabelRegistered] == "" ||
			owner == nil || !condition.True(owner.Status.Conditions, karpv1.ConditionRegistered) {
			continue
		}
		for uid, p := range c.pods {
			if p.Spec.NodeName == n.Name && p.gone.IsZero() && isDrainable(p.Pod) && !c.isPastDeadline(p.Pod, at) {
				c.suspects = append(c.suspects, suspect{at: at, uid: uid, node: n.Name})
			}
		}
	}
}

// checkSuspects reports those whose deletion was not requested.
func (c *Checker) checkSuspects(at time.Time) {
	var later []suspect
	for _, s := range c.suspects {
		if at.Sub(s.at) < c.options.Limits.WatchLag {
			later = append(later, s)
			continue
		}
		p := c.pods[s.uid]
		expected := p == nil || p.DeletionTimestamp != nil || !p.gone.IsZero() || isTerminal(p.Pod)
		if expected {
			continue
		}
		c.reportViolation(Violation{
			Rule: G6, At: s.at, Object: podObject(p.Pod), Namespace: p.Namespace, Pool: c.poolOfNode(s.node),
			What: "its instance was ended before it was evicted from node " + s.node,
		})
	}
	c.suspects = later
}

// checkTaints is G7: a taint that announces the end of a node goes when the node stays. A claim with a
// reason for its disruption is in a running command.
func (c *Checker) checkTaints(at time.Time) {
	for _, n := range c.nodes {
		owner := c.claimOfNode(n.Name)
		leftover := isManaged(n) && hasTaint(n, karpv1.TaintKeyDisrupted) && n.DeletionTimestamp == nil &&
			(owner == nil || owner.DeletionTimestamp == nil && !condition.True(owner.Status.Conditions, karpv1.ConditionDisruptionReason))
		if lasts := c.heldFor(at, "taint "+n.Name, leftover); lasts > c.options.Limits.Taint {
			c.reportViolation(Violation{
				Rule: G7, At: at, Object: nodeObject(n.Name), Pool: n.Labels[karpv1.LabelNodePool],
				What: fmt.Sprintf("it has the taint %s for %s and is not going", karpv1.TaintKeyDisrupted, lasts.Round(time.Second)),
			})
		}
	}
}

func (c *Checker) claimOfNode(name string) *claim {
	n := c.nodes[name]
	if n == nil || n.Spec.ProviderID == "" {
		return nil
	}
	for _, candidate := range c.claims {
		if candidate.Status.ProviderID == n.Spec.ProviderID {
			return candidate
		}
	}
	return nil
}

func (c *Checker) poolOfNode(name string) string {
	if n := c.nodes[name]; n != nil {
		return n.Labels[karpv1.LabelNodePool]
	}
	return ""
}

// blockingBudget is the name of a budget that allows no disruption of a pod now.
func (c *Checker) blockingBudget(p *corev1.Pod) string {
	for key, b := range c.budgets {
		if key.Namespace != p.Namespace || b.Status.DisruptionsAllowed > 0 {
			continue
		}
		if s, err := metav1.LabelSelectorAsSelector(b.Spec.Selector); err == nil && !s.Empty() && s.Matches(labels.Set(p.Labels)) {
			return key.Name
		}
	}
	return ""
}

// doNotDisrupt says whether the annotation protects a pod; a duration counts from its creation, the
// earliest moment that it could.
func doNotDisrupt(p *corev1.Pod, at time.Time) bool {
	for _, key := range []string{karpv1.AnnotationDoNotDisrupt, karpv1.AnnotationDoNotEvict} {
		value := p.Annotations[key]
		if value == "true" {
			return true
		}
		if d, err := time.ParseDuration(value); err == nil && at.Before(p.CreationTimestamp.Add(d)) {
			return true
		}
	}
	return false
}

func isManaged(n *corev1.Node) bool { return n.Labels[karpv1.LabelNodePool] != "" }

func ready(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func hasTaint(n *corev1.Node, key string) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
}

func isTerminal(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// isDrainable is what a drain waits for (LC-29).
func isDrainable(p *corev1.Pod) bool {
	_, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]
	disrupted := karpv1.DisruptedTaint()
	tolerates := slices.ContainsFunc(p.Spec.Tolerations, func(t corev1.Toleration) bool {
		return (t.Key == "" || t.Key == disrupted.Key) && (t.Effect == "" || t.Effect == disrupted.Effect) &&
			(t.Operator == corev1.TolerationOpExists || t.Value == disrupted.Value && t.Key != "")
	})
	return !isTerminal(p) && !mirror && !tolerates && p.DeletionTimestamp == nil
}
