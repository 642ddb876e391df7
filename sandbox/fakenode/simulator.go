package fakenode

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/util/workqueue"
)

// Simulator acts for the kubelets of all instances of a Cloud.
type Simulator struct {
	Options
	reader
	nodeQueue, podQueue, storageQueue workqueue.TypedRateLimitingInterface[string]
	leaseQueue                        workqueue.TypedDelayingInterface[string]
	addresses                         *addresses
	room                              *room
	runs                              runs
	ran                               atomic.Bool
	running                           sync.WaitGroup

	mu       sync.Mutex
	machines map[string]*machine // by instance id
	byNode   map[string]string   // instance id by name of the Node
	wakes    map[string]context.CancelFunc
}

// machine is the in-memory state of an instance.
type machine struct {
	instance          Instance
	present, static   bool
	config            Config
	configErr         error
	joined            bool      // it registered
	seen              bool      // and the Node was seen
	joinedAt, goneAt  time.Time // emulated
	why               string
	refused           bool // for want of an access entry, which may come
	alive, heartbeat  bool
	ready, secondNode bool
	csiNode           bool // the volume driver registered
	allocatable       corev1.ResourceList
}

// renewsLease says whether the lease of one of its Nodes is renewed.
func (m machine) renewsLease(node string) bool {
	return m.heartbeat && (node == m.instance.PrivateDNS || m.secondNode)
}

// New checks the options. Nothing happens before Run.
func New(o Options) (*Simulator, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Simulator{
		Options:  o,
		machines: map[string]*machine{}, byNode: map[string]string{}, wakes: map[string]context.CancelFunc{},
		nodeQueue: newQueue(), podQueue: newQueue(), storageQueue: newQueue(),
		leaseQueue: workqueue.NewTypedDelayingQueue[string](),
		addresses:  newAddresses(), room: newRoom(),
	}
	for _, n := range o.Static {
		if n.Instance.ID == "" || n.Instance.PrivateDNS == "" {
			return nil, fmt.Errorf("fakenode: the static node %q of instance %q needs a name and an id", n.Instance.PrivateDNS, n.Instance.ID)
		}
		s.machines[n.Instance.ID] = &machine{instance: n.Instance, config: n.Config, present: true, static: true}
		s.byNode[n.Instance.PrivateDNS] = n.Instance.ID
	}
	return s, nil
}

func newQueue() workqueue.TypedRateLimitingInterface[string] {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](50*time.Millisecond, 10*time.Second)
	return workqueue.NewTypedRateLimitingQueue(limiter)
}

// Run acts until ctx ends, and returns when all has stopped. A Simulator runs once.
func (s *Simulator) Run(ctx context.Context) error {
	if !s.ran.CompareAndSwap(false, true) {
		return errors.New("fakenode: a Simulator runs once; make a new one")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.refreshInstances() // first, so that no Node of an earlier run looks like one without an instance
	if err := s.startInformers(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	for id := range s.machines {
		s.nodeQueue.Add(id)
	}
	s.mu.Unlock()
	for range s.Workers {
		s.running.Go(func() { s.processQueue(ctx, s.podQueue, s.syncPod) })
	}
	for range 8 {
		s.running.Go(func() { s.processQueue(ctx, s.nodeQueue, s.syncNode) })
		s.running.Go(func() { s.renewLeases(ctx) })
	}
	s.running.Go(func() { s.processQueue(ctx, s.storageQueue, s.syncStorage) })
	s.running.Go(func() { s.followFaults(ctx) })
	s.followCloud(ctx)
	s.podQueue.ShutDown()
	s.nodeQueue.ShutDown()
	s.storageQueue.ShutDown()
	s.leaseQueue.ShutDown()
	s.stopRuns()
	s.running.Wait()
	s.stopInformers()
	return nil
}

// Faults are those the simulator obeys; set and clear them at any time.
func (s *Simulator) Faults() *Faults { return s.Options.Faults }

// Why says in words why the Node of an instance is not there or not Ready; it is empty when the node is
// Ready.
func (s *Simulator) Why(instanceID string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.machines[instanceID]; m != nil {
		return m.why
	}
	return "no such instance"
}

// processQueue takes keys off a queue until it is shut down. A sync says after what time to come again.
func (s *Simulator) processQueue(ctx context.Context, q workqueue.TypedRateLimitingInterface[string], sync func(context.Context, string) (time.Duration, error)) {
	for {
		key, stop := q.Get()
		if stop {
			return
		}
		after, err := sync(ctx, key)
		switch {
		case ctx.Err() != nil:
		case apierrors.IsConflict(err):
			q.AddAfter(key, 20*time.Millisecond) // what was read is old; the new one is on its way
		case err != nil:
			s.Log.Warn("fakenode", "key", key, "error", err)
			q.AddRateLimited(key)
		default:
			q.Forget(key)
			if after > 0 {
				q.AddAfter(key, after)
			}
		}
		q.Done(key)
	}
}

const (
	refreshPause = 20 * time.Millisecond // so that a burst of changes is read once
	refreshLimit = 10 * time.Second      // for a Cloud that does not notify
)

func (s *Simulator) followCloud(ctx context.Context) {
	limit := time.NewTicker(refreshLimit)
	defer limit.Stop()
	for {
		changed := s.Cloud.Changed()
		s.refreshInstances()
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-limit.C:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(refreshPause):
		}
	}
}

// refreshInstances reads the instances and has those that changed looked at, and those that wait for admission.
func (s *Simulator) refreshInstances() {
	list := s.Cloud.Instances()
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := make(map[string]bool, len(list))
	for _, i := range list {
		seen[i.ID] = true
		m := s.machines[i.ID]
		switch {
		case m == nil || !m.present:
			m = &machine{instance: i, present: true}
			m.config, m.configErr = ParseUserData(i.UserData)
			s.machines[i.ID] = m
		case m.static:
			continue
		case m.instance.State == i.State && m.instance.Running.Equal(i.Running) && m.instance.Rebooted.Equal(i.Rebooted) && m.instance.PrivateDNS == i.PrivateDNS:
			if !m.refused {
				continue
			}
		}
		m.instance = i
		if i.PrivateDNS != "" && i.State != stateTerminated {
			s.byNode[i.PrivateDNS] = i.ID
		}
		s.nodeQueue.Add(i.ID)
	}
	for id, m := range s.machines {
		if !seen[id] && !m.static && m.present {
			m.present = false
			s.nodeQueue.Add(id)
		}
	}
}

func (s *Simulator) followFaults(ctx context.Context) {
	for {
		changed := s.Options.Faults.nextChange()
		s.mu.Lock()
		for id := range s.machines {
			s.nodeQueue.Add(id)
		}
		s.mu.Unlock()
		if list, err := s.attachments.List(labels.Everything()); err == nil {
			for _, a := range list {
				s.attachmentSeen(a)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// wakeAt has an instance looked at again at an emulated time; the zero time cancels that.
func (s *Simulator) wakeAt(ctx context.Context, id string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cancel := s.wakes[id]; cancel != nil {
		cancel()
		delete(s.wakes, id)
	}
	if at.IsZero() || ctx.Err() != nil {
		return
	}
	waiting, cancel := context.WithCancel(ctx)
	s.wakes[id] = cancel
	s.running.Go(func() {
		defer cancel()
		reached, stop := s.Clock.Until(at)
		defer stop()
		select {
		case <-reached:
			s.nodeQueue.Add(id)
		case <-waiting.Done():
		}
	})
}

// machineOfNode returns the machine of a node, as it was at the last decision.
func (s *Simulator) machineOfNode(node string) (machine, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.machines[s.byNode[node]]; m != nil {
		return *m, true
	}
	return machine{}, false
}

// nodeSeen has the instance of a Node looked at, known or not.
func (s *Simulator) nodeSeen(n *corev1.Node) {
	id, ok := instanceID(n.Spec.ProviderID)
	if !ok {
		if id = n.Annotations[SimulatedAnnotation]; id == "" {
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.machines[id] == nil && n.Annotations[SimulatedAnnotation] != "" {
		// Of an earlier run, and its instance may be gone. If the cloud lists it, refresh takes over.
		name := strings.TrimPrefix(n.Name, secondNodePrefix)
		s.machines[id] = &machine{instance: Instance{ID: id, Zone: zoneOf(n.Spec.ProviderID), PrivateDNS: name}}
		s.byNode[name] = id
	}
	if s.machines[id] != nil {
		s.nodeQueue.Add(id)
	}
}
