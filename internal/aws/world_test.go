package aws

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/inventory"
	"github.com/dovetail-sh/dovetail/internal/aws/launch"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/adopt"
	"github.com/dovetail-sh/dovetail/internal/cloud/directory"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/metric"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

var start = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// world is a provider with everything around it in memory.
type world struct {
	*provider
	kube      client.Client
	now       time.Time
	mu        sync.Mutex
	instances map[string]inventory.Instance
	listError error
	findError error
	endError  map[string]error
	lists     int
	ended     []string
	rebooted  []string
	result    launch.Result
	sellError error
	launches  int
	types     []catalog.InstanceType
	typeError error
	emitted   []string
	held      []string
	reg       *prometheus.Registry
	metrics   *metric.Set
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, karpv1.AddToScheme, awsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{
		now: start, instances: map[string]inventory.Instance{}, endError: map[string]error{}, reg: prometheus.NewRegistry(),
		types:  []catalog.InstanceType{instanceType("m5.large"), instanceType("m5.xlarge")},
		result: launch.Result{ID: "i-new", Type: "m5.large", Zone: "eu-west-1a", ZoneID: "euw1-az1", Image: "ami-1", CapacityType: "spot", Tenancy: "default", Launched: start},
	}
	w.metrics = metric.New(w.reg)
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&karpv1.NodeClaim{})
	if err := directory.Index(t.Context(), indexer{builder}, inventory.InstanceID); err != nil {
		t.Fatal(err)
	}
	w.kube = builder.Build()
	book := adopt.NewLedger(w.clock)
	w.provider = &provider{
		reader: w.kube, types: w, launcher: w, inventory: w, place: w, events: w, ledger: book,
		adopter: newAdopter(w, w.kube, book, w.clock),
		tags: func(class *awsv1.EC2NodeClass, pool string) map[string]string {
			return map[string]string{inventory.TagNodePool: pool, inventory.TagNodeClass: class.Name, inventory.TagCluster: "sandbox"}
		},
		drifted: func(context.Context, *awsv1.EC2NodeClass, *karpv1.NodeClaim) (reason.Reason, error) {
			return reason.Reason{Code: reason.AMIDrift}, nil
		},
		holds: func(reservation, claim string) { w.held = append(w.held, reservation+" "+claim) },
	}
	return w
}

// indexer has a client keep the indexes of a cache.
type indexer struct{ *fake.ClientBuilder }

func (i indexer) IndexField(_ context.Context, obj client.Object, field string, values client.IndexerFunc) error {
	i.WithIndex(obj, field, values)
	return nil
}

func (w *world) clock() time.Time { return w.now }

func instanceType(name string) catalog.InstanceType {
	one := func(v string) reqs.Req { return reqs.Req{Values: []string{v}} }
	return catalog.InstanceType{
		Name: name,
		Labels: reqs.Set{
			corev1.LabelInstanceTypeStable: one(name), corev1.LabelArchStable: one("amd64"), corev1.LabelOSStable: one("linux"),
			awsv1.LabelInstanceTenancy: {Values: []string{"dedicated", "default"}}, awsv1.LabelInstanceGPUName: {},
		},
		Capacity: resources.Table{}.Capacity(corev1.ResourceList{corev1.ResourceCPU: quantity("2"), corev1.ResourceMemory: quantity("8Gi")}),
		Overhead: resources.Table{}.Capacity(corev1.ResourceList{corev1.ResourceCPU: quantity("100m"), corev1.ResourceMemory: quantity("1Gi")}),
		Offerings: []catalog.Offering{
			{Zone: "eu-west-1a", CapacityType: "spot", Price: 0.04, Available: true, Labels: map[string]string{awsv1.LabelZoneID: "euw1-az1"}},
			{Zone: "eu-west-1a", CapacityType: "on-demand", Price: 0.1, Available: true, Labels: map[string]string{awsv1.LabelZoneID: "euw1-az1"}},
		},
	}
}

// The world as catalogue, launcher, inventory, cluster and recorder.

func (w *world) Types(*awsv1.EC2NodeClass, *runtime.RawExtension) ([]catalog.InstanceType, error) {
	return w.types, w.typeError
}

func (w *world) Launch(context.Context, launch.Request) (launch.Result, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.launches++
	return w.result, w.sellError
}

func (w *world) UseNewToken(types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.result.ID = "i-another"
}

func (w *world) List(context.Context) ([]inventory.Instance, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lists++
	var out []inventory.Instance
	for _, i := range w.instances {
		out = append(out, i)
	}
	slices.SortFunc(out, func(a, b inventory.Instance) int { return strings.Compare(a.ID, b.ID) })
	return out, w.listError
}

func (w *world) Find(_ context.Context, id string) (inventory.Instance, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.findError != nil {
		return inventory.Instance{}, w.findError
	}
	if i, found := w.instances[id]; found {
		return i, nil
	}
	return inventory.Instance{}, &cloud.Error{Kind: cloud.NotFound}
}

func (w *world) Fresh(ctx context.Context, id string) (inventory.Instance, error) {
	return w.Find(ctx, id)
}

func (w *world) Terminate(_ context.Context, id string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = append(w.ended, id)
	slices.Sort(w.ended)
	return w.endError[id]
}

func (w *world) Reboot(_ context.Context, id string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rebooted = append(w.rebooted, id)
	return w.endError[id]
}

func (w *world) RecordLaunched(i inventory.Instance) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.instances[i.ID] = i
}

func (w *world) Facts() awsv1.Facts { return awsv1.Facts{ClusterName: "sandbox", KubernetesMinor: 34} }

func (w *world) CABundle() string { return "Y2E=" }

func (w *world) Emit(obj client.Object, events ...event.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range events {
		w.emitted = append(w.emitted, string(e.Reason)+" "+obj.GetName())
	}
}

// series are the values of a metric by its labels, in order of their names.
func (w *world) series(t *testing.T, name string) map[string]float64 {
	t.Helper()
	families, err := w.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			if f.GetName() == name {
				out[strings.Join(labels, " ")] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return out
}

// Objects.

func newClass(change ...func(*awsv1.EC2NodeClass)) *awsv1.EC2NodeClass {
	class := &awsv1.EC2NodeClass{
		ObjectMeta: metav1.ObjectMeta{Name: "default", Generation: 3},
		Spec:       awsv1.EC2NodeClassSpec{Role: "nodes", AMISelectorTerms: []awsv1.AMISelectorTerm{{Alias: "al2023@latest"}}},
		Status: awsv1.EC2NodeClassStatus{
			InstanceProfile: "nodes-profile",
			Conditions:      []metav1.Condition{{Type: karpv1.ConditionReady, Status: metav1.ConditionTrue, ObservedGeneration: 3}},
		},
	}
	for _, c := range change {
		c(class)
	}
	return class
}

func newClaim(name string, created time.Time, change ...func(*karpv1.NodeClaim)) *karpv1.NodeClaim {
	claim := &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(created),
			Labels: map[string]string{karpv1.LabelNodePool: "default"},
		},
		Spec: karpv1.NodeClaimSpec{
			NodeClassRef: karpv1.NodeClassReference{Group: awsv1.Group, Kind: awsv1.Kind, Name: "default"},
			Requirements: []karpv1.Requirement{
				{Key: corev1.LabelInstanceTypeStable, Operator: "In", Values: []string{"m5.large"}},
				{Key: karpv1.LabelCapacityType, Operator: "In", Values: []string{"spot", "on-demand"}},
				{Key: "team", Operator: "In", Values: []string{"a"}},
			},
		},
	}
	for _, c := range change {
		c(claim)
	}
	return claim
}

func withInstance(id string) func(*karpv1.NodeClaim) {
	return func(c *karpv1.NodeClaim) { c.Status.ProviderID = "aws:///eu-west-1a/" + id }
}

func newInstance(id string, launched time.Time, change ...func(*inventory.Instance)) inventory.Instance {
	i := inventory.Instance{
		ID: id, Type: "m5.large", Zone: "eu-west-1a", ZoneID: "euw1-az1", Image: "ami-1", CapacityType: "spot", State: inventory.StateRunning, Launched: launched,
		Tags: map[string]string{inventory.TagNodePool: "default", inventory.TagNodeClass: "default", inventory.TagCluster: "sandbox"},
	}
	for _, c := range change {
		c(&i)
	}
	return i
}

func tagged(key, value string) func(*inventory.Instance) {
	return func(i *inventory.Instance) { i.Tags[key] = value }
}

func newNode(name, id string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: "aws:///eu-west-1a/" + id}}
}
