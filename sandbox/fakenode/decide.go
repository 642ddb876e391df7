package fakenode

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const unregisteredTaint = "karpenter.sh/unregistered"

func agentTaint(t corev1.Taint) bool { return strings.HasSuffix(t.Key, "agent-not-ready") }

// facts are all that a decision about one instance rests on.
type facts struct {
	instance   Instance
	present    bool // the cloud lists it, or it is static
	static     bool
	config     Config
	configErr  error
	mayJoin    bool
	fault      Fault
	flapping   time.Time    // wall time since when, if the fault says so
	node       *corev1.Node // the Node of that name, if there is one
	secondNode *corev1.Node // the second Node of the instance, if there is one
	joined     bool         // it registered before
	seen       bool         // and the Node was seen since
	csiNode    bool         // the volume driver registered
	joinedAt   time.Time    // emulated
	goneAt     time.Time    // emulated; when it was first seen to be terminated
	now, wall  time.Time    // emulated, and that of Kubernetes
}

// step is what to do about one instance now, and when to decide again.
type step struct {
	why         string // for people: why there is no Ready node, empty if there is one
	alive       bool   // the kubelet works: it sees to pods
	heartbeat   bool   // and renews its lease
	ready       bool
	refused     bool // until the cluster admits it
	register    bool
	adopt       bool // the Node is there from an earlier run
	deleteNode  bool
	drop        bool // nothing is left of it
	dropStartup bool // startup taints go now
	identify    bool // the Node gets its provider id now
	csiNode     bool // the volume driver registers now
	secondNode  bool // there is a second Node
	again       time.Time
	againWall   time.Duration
}

// ownsNode says whether the Node that is there is that of the instance.
func (f facts) ownsNode() bool { return belongsToInstance(f.node, f.instance) }

// belongsToInstance goes by the provider id, and before there is one by the annotation.
func belongsToInstance(n *corev1.Node, i Instance) bool {
	if n == nil {
		return false
	}
	return n.Spec.ProviderID == providerID(i) || n.Spec.ProviderID == "" && n.Annotations[SimulatedAnnotation] == i.ID
}

// earlierTime is the earlier of two times, of which the zero one is never.
func earlierTime(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// decideStep is pure: the same facts give the same step.
func (o Options) decideStep(f facts) step {
	switch {
	case !f.present || f.instance.State == stateTerminated:
		return o.decideForMissingInstance(f)
	case f.instance.State != stateRunning || f.instance.Running.IsZero():
		return step{why: "the instance is " + f.instance.State}
	case f.joined || f.ownsNode():
		return o.decideJoined(f)
	}
	return o.decideJoin(f)
}

func (o Options) decideForMissingInstance(f facts) step {
	s := step{why: "the instance is terminated"}
	switch {
	case !f.ownsNode() && f.secondNode == nil:
		s.drop = !f.present
	case o.KeepNodes || f.ownsNode() && f.node.Annotations[SimulatedAnnotation] == "":
		s.drop = !f.present
	case f.ownsNode() && f.node.DeletionTimestamp != nil: // others have a finalizer on it
	case f.now.Before(f.goneAt.Add(o.DeleteAfter)):
		s.again = f.goneAt.Add(o.DeleteAfter)
	default:
		s.deleteNode = true
	}
	return s
}

func (o Options) decideJoin(f facts) step {
	i := f.instance
	at := i.Running.Add(o.BootTime + f.fault.JoinLate)
	switch {
	case f.static:
	case f.configErr != nil:
		return step{why: "never joins: " + f.configErr.Error()}
	case o.Cluster != "" && f.config.Cluster != o.Cluster:
		return step{why: fmt.Sprintf("never joins: its user data names the cluster %q, not %q", f.config.Cluster, o.Cluster)}
	case i.PrivateDNS == "":
		return step{why: "never joins: the instance has no private DNS name"}
	case f.now.Before(at):
		return step{why: "boots until " + at.UTC().Format(time.RFC3339), again: at}
	case !f.mayJoin:
		why := fmt.Sprintf("does not join: the cluster has no access entry for instance profile %q", i.Profile)
		return step{why: why, refused: true}
	}
	switch {
	case f.fault.NeverJoin:
		return step{why: "never joins: fault"}
	case f.fault.Dead:
		return step{why: "does not join: the kubelet is dead (fault)"}
	case f.node != nil:
		return step{why: fmt.Sprintf("does not join: there is a Node %s of %s", f.node.Name, f.node.Spec.ProviderID), againWall: time.Second}
	}
	return step{why: "registers", register: true, alive: true}
}

func (o Options) decideJoined(f facts) step {
	s := step{alive: true, heartbeat: true, adopt: !f.joined}
	up := f.instance.Rebooted.Add(o.BootTime)
	switch {
	case !f.instance.Rebooted.IsZero() && f.now.Before(up):
		return step{why: "reboots until " + up.UTC().Format(time.RFC3339), adopt: s.adopt, again: up}
	case f.fault.Dead:
		return step{why: "the kubelet is dead (fault)", adopt: s.adopt}
	case f.node == nil && !f.seen:
		return step{why: "registered, not Ready yet"} // the watch is behind
	case f.node == nil && f.fault.Rejoin:
		return step{why: "registers again: fault", register: true, alive: true}
	case f.node == nil:
		s.why, s.heartbeat = "its Node was deleted; a kubelet registers only once", false
		return s
	case !f.ownsNode():
		return step{why: "its Node is now that of " + f.node.Spec.ProviderID}
	}
	s.secondNode = f.fault.JoinTwice
	if at := f.joinedAt.Add(f.fault.CSINodeLate); !f.csiNode && f.now.Before(at) {
		s.again = at
	} else {
		s.csiNode = !f.csiNode
	}
	if at := f.joinedAt.Add(f.fault.ProviderIDLate); f.node.Spec.ProviderID == "" && f.now.Before(at) {
		s.again = earlierTime(s.again, at)
	} else {
		s.identify = f.node.Spec.ProviderID == ""
	}
	if f.fault.NeverReady {
		s.why = "never Ready: fault"
		return s
	}
	return o.decideReady(f, s)
}

// leavesReady says whether a kubelet leaves the condition Ready of its Node alone, and for how long still; 0 is forever.
func leavesReady(n *corev1.Node, wall time.Time) (leaves bool, left time.Duration) {
	if n == nil {
		return false, 0
	}
	value := n.Annotations[LeaveReadyAnnotation]
	if value == "always" {
		return true, 0
	}
	until, err := time.Parse(time.RFC3339, value)
	return err == nil && wall.Before(until), max(0, until.Sub(wall))
}

// decideReady adds to a step what depends on the time since the registration.
func (o Options) decideReady(f facts, s step) step {
	readyAt := f.joinedAt.Add(o.ReadyTime)
	if f.static {
		readyAt = f.joinedAt
	}
	if f.now.Before(readyAt) {
		s.why, s.again = "registered, not Ready yet", earlierTime(s.again, readyAt)
		return s
	}
	s.ready = true
	if taintsAt := readyAt.Add(o.StartupTime + f.fault.StartupTaintsLate); f.now.Before(taintsAt) {
		s.again = earlierTime(s.again, taintsAt)
	} else {
		s.dropStartup = true
	}
	if f.fault.Flap > 0 {
		spent := max(f.wall.Sub(f.flapping), 0) % (2 * f.fault.Flap)
		s.againWall = f.fault.Flap - spent%f.fault.Flap
		if spent < f.fault.Flap {
			s.ready, s.why = false, "flaps, now not Ready: fault"
		}
	}
	return s
}
