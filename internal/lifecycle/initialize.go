package lifecycle

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/event"
)

// initialize finds out whether pods can run on the node (LC-11, LC-12). What it found once stays: a
// node that flaps later is no new node (FM B11). Only a reboot starts it again (V15-39).
func (m *decision) initialize() {
	if !m.conditionIsTrue(karpv1.ConditionRegistered) || m.conditionIsTrue(karpv1.ConditionInitialized) || m.conditionIsTrue(karpv1.ConditionRebooting) {
		return
	}
	nodes := m.presentNodes()
	if len(nodes) != 1 {
		m.setConditionUnknown(karpv1.ConditionInitialized, NodeNotFound, "There is not exactly one node with provider id "+m.claim.Status.ProviderID)
		return
	}
	have := nodes[0]
	node := have
	if m.step.Node != nil {
		node = m.step.Node // as it will be
	}
	m.step.Nominate = node.Name // its taints go one by one, and a pod that tolerates the others could take its room
	if reason, message := m.initializationObstacle(node); reason != "" {
		m.setConditionUnknown(karpv1.ConditionInitialized, reason, message)
		return
	}
	want := node.DeepCopy()
	want.Labels = union(want.Labels, map[string]string{karpv1.LabelInitialized: "true"})
	m.wantNode(have, want)
	m.setConditionTrue(karpv1.ConditionInitialized)
	m.claim.Status.Conditions, _ = Consistent(m.claim, node, m.facts.Now) // in the same write; the next scan reports it
	m.addLogLine("initialized nodeclaim", "allocatable", node.Status.Allocatable)
}

// unready is what the kubelet says about a node that is not ready.
func unready(node *corev1.Node) string {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Reason+c.Message != "" {
			return strings.Trim(c.Reason+": "+c.Message, ": ")
		}
	}
	return "its kubelet has not reported yet"
}

// initializationObstacle is the first thing that keeps pods from running on the node.
func (m *decision) initializationObstacle(node *corev1.Node) (reason, message string) {
	if !cluster.NodeReady(node) {
		return NodeNotReady, "Node " + node.Name + " is not ready: " + unready(node)
	}
	for _, t := range node.Spec.Taints {
		if slices.ContainsFunc(m.claim.Spec.StartupTaints, sameTaint(t)) {
			return StartupTaintsExist, "Startup taint " + t.ToString() + " is still on node " + node.Name
		}
	}
	for _, t := range node.Spec.Taints {
		if cluster.Ephemeral(t) {
			return KnownEphemeralTaintsExist, "Taint " + t.ToString() + " is still on node " + node.Name
		}
	}
	requests := m.claim.Spec.Resources.Requests
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		wanted, have := requests[name], node.Status.Allocatable[name]
		if !wanted.IsZero() && have.IsZero() {
			return ResourceNotRegistered, "Node " + node.Name + " has no resource " + string(name) + " yet; is its device plugin running?"
		}
	}
	if missing := m.missingDrivers(); len(missing) > 0 {
		m.requeueAfter(driversRetry) // ResourceSlices are not watched here: the API may not be served
		text := "Drivers without a complete pool for node " + node.Name + ": " + strings.Join(missing, ", ")
		if cluster.DriversLate(m.claim, m.facts.Now) {
			text += "; " + cluster.DriverTimeout.String() + " have passed since the node registered. Look at the pods of the driver on it. " +
				"Until the driver has published devices for a node of the NodePool, no further node of it is launched for them"
			m.addEvent(event.DeviceDriverSilent, text)
			m.logOnce(karpv1.ConditionInitialized, text, "no devices published for nodeclaim", "Node", Ref{Name: node.Name}, "drivers", missing)
		}
		return DriverPoolsNotPublished, text
	}
	return "", ""
}

// driversRetry is how often a node that waits for its DRA drivers is checked.
const driversRetry = 5 * time.Second

func (m *decision) missingDrivers() []string {
	if m.facts.Drivers == nil {
		return nil
	}
	return slices.DeleteFunc(cluster.RequestedDrivers(m.claim), func(name string) bool { return slices.Contains(m.facts.Drivers.Ready, name) })
}
