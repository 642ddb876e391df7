package lifecycle

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/event"
)

// Reasons of Registered and Initialized.
const (
	NodeNotFound              = "NodeNotFound"
	MultipleNodesFound        = "MultipleNodesFound"
	RegistrationHookPending   = "RegistrationHookPending"
	NodeNotReady              = "NodeNotReady"
	StartupTaintsExist        = "StartupTaintsExist"
	KnownEphemeralTaintsExist = "KnownEphemeralTaintsExist"
	ResourceNotRegistered     = "ResourceNotRegistered"
	DriverPoolsNotPublished   = "DRADriverPoolsNotPublished"
)

// gateRetry is when a gate that failed is queried again.
const gateRetry = 5 * time.Second

// presentNodes returns the nodes that are not terminating: a terminating node is not the one that the claim
// waits for (FM B05, B17).
func (m *decision) presentNodes() []*corev1.Node {
	if m.claim.Status.ProviderID == "" {
		return nil // nodes without an id belong to no claim yet (FM B06)
	}
	var out []*corev1.Node
	for _, n := range m.facts.Nodes {
		if n.DeletionTimestamp == nil && n.Spec.ProviderID == m.claim.Status.ProviderID {
			out = append(out, n)
		}
	}
	return out
}

// register joins the claim and its node (LC-06 to LC-10).
func (m *decision) register() {
	if !m.conditionIsTrue(karpv1.ConditionLaunched) || m.findCondition(karpv1.ConditionRegistered).Status != metav1.ConditionUnknown {
		return
	}
	nodes := m.presentNodes()
	switch {
	case len(nodes) == 0:
		m.setConditionUnknown(karpv1.ConditionRegistered, NodeNotFound,
			"No node with provider id "+m.claim.Status.ProviderID+" has joined yet; if none does, see whether the role of the node may join the cluster (access entry or aws-auth), and the kubelet log of the instance")
		return
	case len(nodes) > 1:
		m.apply(condition.Change{
			Type: karpv1.ConditionRegistered, Status: metav1.ConditionFalse, Reason: MultipleNodesFound,
			Message: strconv.Itoa(len(nodes)) + " nodes have provider id " + m.claim.Status.ProviderID + ": " + names(nodes),
		})
		return
	case m.facts.Gated && m.facts.Gates == nil:
		m.step.CallGates = true
		return
	}
	pending := m.passGates()
	node := m.syncedNode(nodes[0])
	if len(pending) > 0 {
		m.setConditionUnknown(karpv1.ConditionRegistered, RegistrationHookPending, "Waiting for "+strings.Join(pending, ", "))
	} else {
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, sameTaint(karpv1.UnregisteredTaint()))
		node.Labels[karpv1.LabelRegistered] = "true"
		m.claim.Status.NodeName = node.Name
		m.setConditionTrue(karpv1.ConditionRegistered)
		m.step.Registered, m.step.Nominate = true, node.Name
		m.addLogLine("registered nodeclaim", "Node", Ref{node.Name})
	}
	m.wantNode(nodes[0], node)
}

// passGates adds the labels of the gates and returns the names of the gates that are not open (LC-09).
func (m *decision) passGates() []string {
	var pending []string
	for _, g := range m.facts.Gates {
		// any order: each label is added by itself
		for key, value := range g.Labels {
			if _, own := m.claim.Labels[key]; !own {
				m.claim.Labels = union(m.claim.Labels, map[string]string{key: value})
			}
		}
		switch {
		case g.Err != nil:
			pending = append(pending, g.Name+" ("+g.Err.Error()+")")
			m.requeueAfter(gateRetry)
		case g.Wait > 0:
			pending = append(pending, g.Name)
			m.requeueAfter(g.Wait)
		}
	}
	slices.Sort(pending)
	return pending
}

// syncedNode returns the node with everything of the claim on it (LC-08). Taints are added only the first
// time: one that its daemon removed since must not come back (FM B07).
func (m *decision) syncedNode(have *corev1.Node) *corev1.Node {
	node := have.DeepCopy()
	first := !slices.ContainsFunc(node.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == m.claim.UID })
	registered := node.Labels[karpv1.LabelRegistered] != ""
	if first && !registered && !slices.ContainsFunc(node.Spec.Taints, sameTaint(karpv1.UnregisteredTaint())) { // LC-07
		text := "Node " + node.Name + " joined without the taint karpenter.sh/unregistered:NoExecute, so pods may have started before it was labelled; let the kubelet register with that taint"
		m.addEvent(event.UnregisteredTaintMissing, text)
		m.step.News = append(m.step.News, News{Message: "node joined without the taint karpenter.sh/unregistered", Fields: []any{"Node", Ref{node.Name}}, Err: errors.New("pods may have started before the node was labelled")})
	}
	if !slices.Contains(node.Finalizers, karpv1.FinalizerTermination) {
		node.Finalizers = append(node.Finalizers, karpv1.FinalizerTermination)
	}
	if first {
		node.OwnerReferences = append(node.OwnerReferences, metav1.OwnerReference{
			APIVersion: karpv1.GroupVersion().String(), Kind: "NodeClaim", Name: m.claim.Name, UID: m.claim.UID, BlockOwnerDeletion: new(true),
		})
	}
	node.Labels = union(node.Labels, m.claim.Labels)
	if node.Labels == nil {
		node.Labels = map[string]string{}
	}
	if pool := m.claim.Labels[karpv1.LabelNodePool]; pool != "" {
		node.Labels[karpv1.LabelProvisionerName] = pool // L-14
	}
	node.Annotations = union(node.Annotations, m.claim.Annotations)
	if first && !registered && node.Labels[karpv1.LabelDoNotSyncTaints] != "true" {
		for _, t := range slices.Concat(m.claim.Spec.Taints, m.claim.Spec.StartupTaints) {
			if !slices.ContainsFunc(node.Spec.Taints, sameTaint(t)) {
				node.Spec.Taints = append(node.Spec.Taints, t)
			}
		}
	}
	return node
}

// wantNode requests a write of the node if that changes it.
func (m *decision) wantNode(have, want *corev1.Node) {
	if !equality.Semantic.DeepEqual(have, want) {
		m.step.Node = want
	}
}

func sameTaint(t corev1.Taint) func(corev1.Taint) bool {
	return func(o corev1.Taint) bool { return t.Key == o.Key && t.Effect == o.Effect }
}

func names(nodes []*corev1.Node) string {
	list := make([]string, 0, len(nodes))
	for _, n := range nodes {
		list = append(list, n.Name)
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}
