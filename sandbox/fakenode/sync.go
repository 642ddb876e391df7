package fakenode

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// syncNode looks at one instance: facts, decision, action.
func (s *Simulator) syncNode(ctx context.Context, id string) (time.Duration, error) {
	f, ok := s.observe(id)
	if !ok {
		return 0, nil
	}
	d := s.decide(f)
	s.note(id, f, d)
	s.wakeAt(ctx, id, d.again)
	return d.againWall, s.perform(ctx, f, d)
}

func (s *Simulator) observe(id string) (facts, bool) {
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
		joined: m.joined, seen: m.seen, joinedAt: m.joinedAt, goneAt: m.goneAt,
		now: now, wall: time.Now(),
	}
	s.mu.Unlock()
	// Without the lock: it is code of others.
	f.mayJoin = f.static || f.joined || s.Cloud.MayJoin(f.instance.Profile)
	f.fault, f.flapping = s.Options.Faults.of(f.instance, f.config)
	if f.instance.PrivateDNS != "" {
		if n, err := s.nodes.Get(f.instance.PrivateDNS); err == nil {
			f.node = n
		}
	}
	return f, true
}

// note remembers the decision, so that pods and leases follow it, before anything is written.
func (s *Simulator) note(id string, f facts, d step) {
	s.mu.Lock()
	m := s.machines[id]
	if m == nil {
		s.mu.Unlock()
		return
	}
	beats := d.heartbeat && !m.heartbeat
	woke := d.alive && !m.alive || d.ready && !m.ready
	m.why, m.refused = d.why, d.refused
	m.alive, m.heartbeat, m.ready = d.alive, d.heartbeat, d.ready
	if d.adopt {
		m.joined = true // joinedAt stays zero: it has been up for long
	}
	m.seen = m.seen || f.own()
	if d.forget {
		delete(s.machines, id)
		if s.byNode[m.instance.PrivateDNS] == id {
			delete(s.byNode, m.instance.PrivateDNS)
		}
	}
	s.mu.Unlock()
	if beats {
		s.leaseQueue.Add(f.instance.PrivateDNS)
	}
	if woke {
		s.podsOf(f.instance.PrivateDNS)
	}
}

func (s *Simulator) perform(ctx context.Context, f facts, d step) error {
	switch {
	case d.deleteNode:
		err := s.Client.CoreV1().Nodes().Delete(ctx, f.node.Name, metav1.DeleteOptions{
			Preconditions: metav1.NewUIDPreconditions(string(f.node.UID)),
		})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	case d.register:
		return s.register(ctx, f)
	case d.alive && f.own():
		if err := s.reportStatus(ctx, f, d.ready); err != nil {
			return ignoreNotFound(err)
		}
		if d.dropStartup {
			return ignoreNotFound(s.dropStartupTaints(ctx, f.node))
		}
	}
	return nil
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
