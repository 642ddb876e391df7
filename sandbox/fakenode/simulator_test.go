package fakenode

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
)

// fixedCloud lists the same instances until they are set anew.
type fixedCloud struct {
	mu     sync.Mutex
	list   []Instance
	change chan struct{}
}

func newFixedCloud(list ...Instance) *fixedCloud {
	return &fixedCloud{list: list, change: make(chan struct{})}
}

func (c *fixedCloud) Instances() []Instance {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.list
}

func (c *fixedCloud) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.change
}

func (*fixedCloud) MayJoin(string) bool { return true }

func (c *fixedCloud) set(list ...Instance) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = list
	close(c.change)
	c.change = make(chan struct{})
}

// handClock moves on request.
type handClock struct {
	mu     sync.Mutex
	now    time.Time
	change chan struct{}
}

func (c *handClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *handClock) Until(t time.Time) (<-chan struct{}, func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.now.Before(t) {
		reached := make(chan struct{})
		close(reached)
		return reached, func() {}
	}
	return c.change, func() {}
}

func (c *handClock) advanceClock(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	close(c.change)
	c.change = make(chan struct{})
}

func startSimulator(t *testing.T, o Options) (s *Simulator, stop func()) {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	before := nodeWatches(o.Client)
	go func() { done <- s.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	// A fake client has no versions: what happens between a list and its watch is never delivered.
	for nodeWatches(o.Client) == before {
		select {
		case <-time.After(time.Millisecond):
		case err := <-done:
			t.Fatalf("the simulator ended: %v", err)
		}
	}
	return s, stop
}

// nodeWatches is how many watches of Nodes were begun.
func nodeWatches(client kubernetes.Interface) int {
	count := 0
	if recorded, is := client.(*fake.Clientset); is {
		for _, action := range recorded.Actions() {
			if action.Matches("watch", "nodes") {
				count++
			}
		}
	}
	return count
}

// awaitNode waits on a watch for the Node "one"; nil means that it went.
func awaitNode(t *testing.T, client kubernetes.Interface, holds func(*corev1.Node) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	w, err := client.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	n, err := client.CoreV1().Nodes().Get(ctx, "one", metav1.GetOptions{})
	if err != nil {
		n = nil
	}
	for !holds(n) {
		select {
		case e := <-w.ResultChan():
			n, _ = e.Object.(*corev1.Node)
			if e.Type == "DELETED" {
				n = nil
			}
		case <-ctx.Done():
			t.Fatal("never seen")
		}
	}
}

// awaitWhy queries until the reason is there: there is no watch on a reason.
func awaitWhy(t *testing.T, s *Simulator, want string) {
	t.Helper()
	deadline := time.After(3 * time.Minute)
	for !strings.Contains(s.Why("i-1"), want) {
		select {
		case <-time.After(time.Millisecond):
		case <-deadline:
			t.Fatalf("why is %q, want %q in it", s.Why("i-1"), want)
		}
	}
}

func isReady(n *corev1.Node) bool {
	return n != nil && slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// The emulated clock decides when a node registers, turns Ready and is deleted; a second simulator
// carries on with the Nodes of the first.
func TestClockAndRestart(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset()
	clock := &handClock{now: epoch, change: make(chan struct{})}
	i := Instance{
		ID: "i-1", Type: "m5.large", Zone: "a", Region: "r", PrivateDNS: "one", PrivateIP: "10.0.0.1", State: stateRunning, Running: epoch,
		UserData: readSample(t, "bottlerocket"), Capacity: m5LargeCapacity(),
	}
	cloud := newFixedCloud(i)
	o := Options{Client: client, Cloud: cloud, Clock: clock, Cluster: "demo", Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	s, stop := startSimulator(t, o)
	awaitWhy(t, s, "boots until 2026-01-02T03:04:25Z")
	clock.advanceClock(20 * time.Second)
	awaitNode(t, client, func(n *corev1.Node) bool { return n != nil && !isReady(n) })
	awaitWhy(t, s, "registered, not Ready yet")
	clock.advanceClock(2 * time.Second)
	awaitNode(t, client, isReady)
	stop()

	s, stop = startSimulator(t, o)
	awaitWhy(t, s, "")
	s.Faults().Set("f", Selector{Node: "one"}, Fault{NeverReady: true})
	awaitNode(t, client, func(n *corev1.Node) bool { return n != nil && !isReady(n) })
	stop()

	// The instance was terminated between two looks.
	cloud.set()
	s, _ = startSimulator(t, o)
	awaitWhy(t, s, "terminated")
	awaitNode(t, client, func(n *corev1.Node) bool { return n != nil })
	clock.advanceClock(5 * time.Second)
	awaitNode(t, client, func(n *corev1.Node) bool { return n == nil })
	awaitWhy(t, s, "no such instance")
	if err := s.Run(t.Context()); err == nil {
		t.Error("a second Run: no error")
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	good := Options{Client: fake.NewClientset(), Cloud: newFixedCloud()}
	for name, edit := range map[string]func(*Options){
		"no client":           func(o *Options) { o.Client = nil },
		"no cloud":            func(o *Options) { o.Cloud = nil },
		"all memory lost":     func(o *Options) { o.MemoryLoss = 1 },
		"a node without name": func(o *Options) { o.Static = []StaticNode{{}} },
	} {
		o := good
		edit(&o)
		if _, err := New(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := New(good); err != nil {
		t.Error(err)
	}
}
