package flow_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/dovetail-sh/dovetail/sandbox/controlplane"
	"github.com/dovetail-sh/dovetail/sandbox/fakenode"
	"github.com/dovetail-sh/dovetail/sandbox/harness"
)

// What all tests share: a control plane, a cloud and the simulator between them.
var (
	client    kubernetes.Interface
	aws       = newCloud()
	simulator *fakenode.Simulator
)

const (
	bootTime = 300 * time.Millisecond
	waitTime = 5 * time.Minute // for anything; a busy machine needs seconds
)

func TestMain(m *testing.M) {
	code, err := withSimulator(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func withSimulator(run func() int) (code int, err error) {
	dir, err := os.MkdirTemp("", "dovetail-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cp, err := harness.StartControlPlane(ctx, controlplane.Options{Dir: dir})
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, cp.Stop()) }()
	if client, err = fakenode.NewClient(cp.Config); err != nil {
		return 1, err
	}
	simulator, err = fakenode.New(fakenode.Options{
		Client: client, Cloud: aws, Volumes: disks, Cluster: "demo",
		BootTime: bootTime, ReadyTime: 200 * time.Millisecond, StartupTime: -1, DeleteAfter: time.Second,
		MemoryLoss: 0.02, LeaseDuration: 40 * time.Second, RestartBackoff: time.Second,
		Static: fakenode.Bootstrap(2, "us-east-1"),
		Log:    slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return 1, err
	}
	ended := make(chan error, 1)
	go func() { ended <- simulator.Run(ctx) }()
	code = run()
	cancel()
	return code, <-ended
}

// driverCalls is what the volume driver requested from the cloud, by volume; the same again counts once.
type driverCalls struct {
	mu   sync.Mutex
	list map[string][]string
}

var disks = &driverCalls{list: map[string][]string{}}

func (d *driverCalls) add(id, call string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Contains(d.list[id], call) {
		d.list[id] = append(d.list[id], call)
	}
}

func (d *driverCalls) callsOfVolume(id string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.list[id])
}

func (d *driverCalls) Create(v fakenode.Volume) {
	d.add(v.ID, fmt.Sprintf("create %s %d for %s", v.Zone, v.Bytes>>30, v.Tags["kubernetes.io/created-for/pvc/name"]))
}
func (d *driverCalls) Delete(id string)           { d.add(id, "delete") }
func (d *driverCalls) Attach(id, instance string) { d.add(id, "attach "+instance) }
func (d *driverCalls) Detach(id string)           { d.add(id, "detach") }

// cloud is a list of instances.
type cloud struct {
	mu        sync.Mutex
	instances map[string]fakenode.Instance
	refused   map[string]bool
	change    chan struct{}
	count     int
}

func newCloud() *cloud {
	return &cloud{instances: map[string]fakenode.Instance{}, refused: map[string]bool{}, change: make(chan struct{})}
}

func (c *cloud) Instances() []fakenode.Instance {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []fakenode.Instance
	for _, i := range c.instances {
		list = append(list, i)
	}
	return list
}

func (c *cloud) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.change
}

func (c *cloud) MayJoin(profile string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.refused[profile]
}

func (c *cloud) editInstances(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
	close(c.change)
	c.change = make(chan struct{})
}

// newRunningInstance returns a new instance with user data of AL2023: labels and, unless bare, taints.
func (c *cloud) newRunningInstance(label string, taints ...string) fakenode.Instance {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count++
	list := ""
	for _, t := range taints {
		list += "\n      - " + t
	}
	if list != "" {
		list = "\n      registerWithTaints:" + list
	}
	data := fmt.Sprintf(`apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster: {name: demo, apiServerEndpoint: "https://x", certificateAuthority: eA==, cidr: 10.100.0.0/16}
  kubelet:
    config:
      maxPods: 50%s
    flags: ['--node-labels="karpenter.sh/nodepool=default,test=%s"']
`, list, label)
	return fakenode.Instance{
		ID: fmt.Sprintf("i-%017x", c.count), Type: "m5.large", Zone: "us-east-1a", ZoneID: "use1-az1", Region: "us-east-1",
		PrivateDNS: fmt.Sprintf("ip-10-0-%d-%d.ec2.internal", c.count/256, c.count%256),
		PrivateIP:  fmt.Sprintf("10.0.%d.%d", c.count/256, c.count%256),
		ImageID:    "ami-1", Architecture: "x86_64", CapacityType: "spot", Profile: "node", State: "running",
		Running: time.Now(), UserData: []byte(data),
		Capacity: corev1.ResourceList{
			"cpu": resource.MustParse("2"), "memory": resource.MustParse("8Gi"), "pods": resource.MustParse("29"),
			"ephemeral-storage": resource.MustParse("20Gi"), "nvidia.com/gpu": resource.MustParse("1"),
		},
	}
}

// launch has an instance run until the test ends.
func launch(tb testing.TB, i fakenode.Instance) fakenode.Instance {
	tb.Helper()
	aws.editInstances(func() { aws.instances[i.ID] = i })
	tb.Cleanup(func() { aws.editInstances(func() { delete(aws.instances, i.ID) }) })
	return i
}

func injectFault(t *testing.T, i fakenode.Instance, f fakenode.Fault) {
	t.Helper()
	simulator.Faults().Set(t.Name(), fakenode.Selector{Instance: i.ID}, f)
	t.Cleanup(func() { simulator.Faults().Clear(t.Name()) })
}

// waitForObject waits on a watch until one object satisfies the test, and returns it.
func waitForObject[T runtime.Object](tb testing.TB, getter rest.Interface, kind T, resource, namespace, name, what string, holds func(T) bool) T {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), waitTime)
	defer cancel()
	source := cache.NewListWatchFromClient(getter, resource, namespace, fields.OneTermEqualSelector("metadata.name", name))
	event, err := watchtools.UntilWithSync(ctx, source, kind, nil, func(e watch.Event) (bool, error) {
		o, ok := e.Object.(T)
		return ok && e.Type != watch.Deleted && holds(o), nil
	})
	if err != nil {
		tb.Fatalf("%s %s is never %s: %v", resource, name, what, err)
	}
	found, _ := event.Object.(T)
	return found
}

// waitUntilGone waits until an object is not there any more.
func waitUntilGone(t *testing.T, getter rest.Interface, kind runtime.Object, resource, namespace, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTime)
	defer cancel()
	source := cache.NewListWatchFromClient(getter, resource, namespace, fields.OneTermEqualSelector("metadata.name", name))
	there := errors.New("there")
	_, err := watchtools.UntilWithSync(ctx, source, kind, func(s cache.Store) (bool, error) {
		if len(s.ListKeys()) == 0 {
			return false, there
		}
		return false, nil
	}, func(e watch.Event) (bool, error) { return e.Type == watch.Deleted, nil })
	if err != nil && !errors.Is(err, there) {
		t.Fatalf("%s %s is still there: %v", resource, name, err)
	}
}

func node(tb testing.TB, i fakenode.Instance, what string, holds func(*corev1.Node) bool) *corev1.Node {
	tb.Helper()
	defer func() {
		if tb.Failed() {
			tb.Logf("why: %s", simulator.Why(i.ID))
		}
	}()
	return waitForObject(tb, client.CoreV1().RESTClient(), &corev1.Node{}, "nodes", "", i.PrivateDNS, what, holds)
}

func pod(t *testing.T, namespace, name, what string, holds func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	return waitForObject(t, client.CoreV1().RESTClient(), &corev1.Pod{}, "pods", namespace, name, what, holds)
}

func status(n *corev1.Node) corev1.ConditionStatus {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status
		}
	}
	return ""
}

func hasTaint(n *corev1.Node, key string) bool {
	for _, t := range n.Spec.Taints {
		if t.Key == key {
			return true
		}
	}
	return false
}

// isUsable is Ready, and the node lifecycle controller knows it.
func isUsable(n *corev1.Node) bool {
	return status(n) == corev1.ConditionTrue && !hasTaint(n, corev1.TaintNodeNotReady)
}
