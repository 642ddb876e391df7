package fakenode

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// syncNode looks at one instance: facts, decision, action.
func (s *Simulator) syncNode(ctx context.Context, id string) (time.Duration, error) {
	f, ok := s.observeInstance(id)
	if !ok {
		return 0, nil
	}
	d := s.decideStep(f)
	s.recordDecision(id, f, d)
	s.wakeAt(ctx, id, d.again)
	if leaves, left := leavesReady(f.node, f.wall); leaves && left > 0 && (d.againWall == 0 || left < d.againWall) {
		d.againWall = left
	}
	return d.againWall, s.performStep(ctx, f, d)
}

func (s *Simulator) observeInstance(id string) (facts, bool) {
	now := s.Clock.Now()
	s.mu.Lock()
	m := s.machines[id]
	if m == nil {
		s.mu.Unlock()
		return facts{}, false
	}
	if gone := !m.present || m.instance.State == stateTerminated; gone && m.goneAt.IsZero() {
		m.goneAt = now
	}
	f := facts{
		instance: m.instance, present: m.present, static: m.static,
		config: m.config, configErr: m.configErr,
		joined: m.joined, seen: m.seen, csiNode: m.csiNode, joinedAt: m.joinedAt, goneAt: m.goneAt,
		now: now, wall: time.Now(),
	}
	s.mu.Unlock()
	// Without the lock: it is code of others.
	f.mayJoin = f.static || f.joined || s.Cloud.MayJoin(f.instance.Profile)
	f.fault, f.flapping = s.Options.Faults.faultsOfInstance(f.instance, f.config)
	if f.instance.PrivateDNS != "" {
		if n, err := s.nodes.Get(f.instance.PrivateDNS); err == nil {
			f.node = n
		}
		if n, err := s.nodes.Get(secondNodePrefix + f.instance.PrivateDNS); err == nil && belongsToInstance(n, f.instance) && n.Annotations[SimulatedAnnotation] != "" {
			f.secondNode = n
		}
	}
	return f, true
}

// recordDecision keeps the decision, so that pods and leases follow it, before anything is written.
func (s *Simulator) recordDecision(id string, f facts, d step) {
	s.mu.Lock()
	m := s.machines[id]
	if m == nil {
		s.mu.Unlock()
		return
	}
	_, allocatable := s.nodeResources(f)
	beats, secondBeats := d.heartbeat && !m.heartbeat, d.heartbeat && d.secondNode && !(m.heartbeat && m.secondNode)
	woke := d.alive != m.alive || d.ready && !m.ready
	m.why, m.refused = d.why, d.refused
	m.alive, m.heartbeat, m.ready, m.secondNode = d.alive, d.heartbeat, d.ready, d.secondNode
	m.allocatable = allocatable
	secondNode := secondNodePrefix + m.instance.PrivateDNS
	if d.secondNode {
		s.byNode[secondNode] = id
	}
	if d.adopt {
		m.joined = true // joinedAt stays zero: it has been up for long
	}
	m.seen = m.seen || f.ownsNode()
	if d.drop {
		delete(s.machines, id)
		if s.byNode[m.instance.PrivateDNS] == id {
			delete(s.byNode, m.instance.PrivateDNS)
			delete(s.byNode, secondNode)
		}
	}
	s.mu.Unlock()
	if beats {
		s.leaseQueue.Add(f.instance.PrivateDNS)
	}
	if secondBeats {
		s.leaseQueue.Add(secondNode)
	}
	if woke { // or died: nothing runs on a machine that is off
		s.podsOf(f.instance.PrivateDNS)
		s.podsOf(secondNode)
	}
}

func (s *Simulator) performStep(ctx context.Context, f facts, d step) error {
	switch {
	case d.deleteNode:
		return errors.Join(s.deleteNode(ctx, f.node), s.deleteNode(ctx, f.secondNode))
	case d.register:
		return s.register(ctx, f)
	case d.alive && f.ownsNode():
		return ignoreNotFound(s.keepNode(ctx, f, d))
	}
	return nil
}

// keepNode writes what is not yet so about a Node that is there, and its second one.
func (s *Simulator) keepNode(ctx context.Context, f facts, d step) error {
	if d.csiNode {
		if err := s.createCSINode(ctx, f); err != nil {
			return err
		}
	}
	if d.identify {
		return s.setProviderID(ctx, f) // the change comes back, and with it the rest
	}
	if err := s.reportStatus(ctx, f, f.node, d.ready); err != nil {
		return err
	}
	if err := s.keepDuplicateNode(ctx, f, d); err != nil {
		return err
	}
	if d.dropStartup {
		return s.dropStartupTaints(ctx, f.node)
	}
	return nil
}

func (s *Simulator) keepDuplicateNode(ctx context.Context, f facts, d step) error {
	switch {
	case d.secondNode && f.secondNode == nil:
		secondNode := s.newNode(f)
		secondNode.Name = secondNodePrefix + secondNode.Name
		secondNode.Labels[corev1.LabelHostname] = secondNode.Name
		_, err := s.Client.CoreV1().Nodes().Create(ctx, secondNode, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	case d.secondNode:
		return s.reportStatus(ctx, f, f.secondNode, d.ready)
	case f.secondNode != nil:
		return s.deleteNode(ctx, f.secondNode)
	}
	return nil
}

func (s *Simulator) deleteNode(ctx context.Context, n *corev1.Node) error {
	if n == nil || n.DeletionTimestamp != nil {
		return nil
	}
	return ignoreNotFound(s.Client.CoreV1().Nodes().Delete(ctx, n.Name, metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(n.UID)),
	}))
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
