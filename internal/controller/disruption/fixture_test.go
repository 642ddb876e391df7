package disruption_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/controller/controllertest"
	"github.com/dovetail-sh/dovetail/internal/controller/disruption"
	"github.com/dovetail-sh/dovetail/internal/controller/lookup"
	"github.com/dovetail-sh/dovetail/internal/controller/provisioning"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/execute"
	"github.com/dovetail-sh/dovetail/internal/metric"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/solve"
	"github.com/dovetail-sh/dovetail/internal/store"
)

// scene is a cluster with objects, a store and a Disruption. Processes start and end: boot ends
// one and starts the next over the same objects.
type fixture struct {
	*disruption.Disruption
	t       *testing.T
	client  client.WithWatch
	feed    *informertest.FakeInformers
	memory  *store.Store
	plans   *provisioning.Provisioner
	emitted *controllertest.Transcript
	metrics *metric.Set
	clock   time.Time
	decide  func(disrupt.View) []disrupt.Command // what the next passes decide
}

func newFixture(t *testing.T, calls interceptor.Funcs) *fixture {
	t.Helper()
	scheme := controllertest.Scheme(t)
	s := &fixture{t: t, clock: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	s.client = fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(calls).WithStatusSubresource(&karpv1.NodeClaim{}).
		WithIndex(&corev1.Pod{}, lookup.PodNodeName, func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).Build()
	s.boot()
	pool := controllertest.ReadyPool("general")
	pool.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: intstr.FromString("100%")}}
	s.create(pool)
	return s
}

// boot starts a process that knows nothing.
func (s *fixture) boot() {
	s.feed = &informertest.FakeInformers{Scheme: s.client.Scheme(), Synced: new(true)}
	s.emitted, s.metrics = &controllertest.Transcript{}, metric.New(prometheus.NewRegistry())
	now := func() time.Time { return s.clock }
	s.memory = store.New(store.Options{
		Words: awsv1.Vocabulary(), Lanes: resources.NewTable(), Classes: []schema.GroupKind{{Group: awsv1.Group, Kind: awsv1.Kind}}, Now: now,
		Self: cluster.PodKey{Namespace: "default", Name: "leader"},
	})
	if err := s.memory.Watch(s.t.Context(), s.feed); err != nil {
		s.t.Fatal(err)
	}
	orders := &execute.Claims{Client: s.client, Store: s.memory, Metrics: s.metrics, Words: awsv1.Vocabulary()}
	s.plans = &provisioning.Provisioner{
		Store: s.memory, Cloud: &controllertest.Catalogue{}, Events: s.emitted, Metrics: s.metrics, Batcher: provisioning.NewBatcher(time.Second, time.Second),
		Claims: orders, Nomination: 20 * time.Second, LaunchBackoff: provisioning.NewLaunchBackoff(awsv1.LabelCapacityReservationID), Pulse: controllertest.Pulse{}, Now: now,
	}
	s.Disruption = &disruption.Disruption{
		Client: s.client, Reader: s.client, Store: s.memory, Cloud: &controllertest.Catalogue{}, Claims: orders, Events: s.emitted, Metrics: s.metrics, Pulse: controllertest.Pulse{}, Now: now,
		Nomination: 20 * time.Second,
		Decide: func(v disrupt.View, _ func() bool) disrupt.Decision {
			d := disrupt.Decision{At: v.Now}
			if s.decide != nil {
				d.Commands = s.decide(v)
			}
			return d
		},
	}
	s.sync()
}

func (s *fixture) create(objects ...client.Object) {
	s.t.Helper()
	for _, obj := range objects {
		if err := s.client.Create(s.t.Context(), obj); err != nil {
			s.t.Fatal(err)
		}
	}
	s.sync()
}

// sync gives the store all objects, as watches do.
func (s *fixture) sync() {
	s.t.Helper()
	ctx := s.t.Context()
	pools, claims, nodes, pods := &karpv1.NodePoolList{}, &karpv1.NodeClaimList{}, &corev1.NodeList{}, &corev1.PodList{}
	for _, list := range []client.ObjectList{pools, claims, nodes, pods} {
		if err := s.client.List(ctx, list); err != nil {
			s.t.Fatal(err)
		}
	}
	for i := range pools.Items {
		s.tellMemory(&pools.Items[i])
	}
	for i := range claims.Items {
		s.tellMemory(&claims.Items[i])
	}
	for i := range nodes.Items {
		s.tellMemory(&nodes.Items[i])
	}
	for i := range pods.Items {
		s.tellMemory(&pods.Items[i])
	}
}

func (s *fixture) tellMemory(obj client.Object) {
	informer, err := s.feed.FakeInformerFor(s.t.Context(), obj)
	if err != nil {
		s.t.Fatal(err)
	}
	informer.Add(obj)
}

// node adds a node that is up, with its claim and pods of one core each.
func (s *fixture) node(name string, pods ...string) {
	s.t.Helper()
	size := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi"), corev1.ResourcePods: resource.MustParse("110")}
	labels := map[string]string{
		karpv1.LabelNodePool: "general", karpv1.LabelRegistered: "true", karpv1.LabelInitialized: "true", karpv1.LabelCapacityType: karpv1.CapacityTypeOnDemand,
		corev1.LabelInstanceTypeStable: "large", corev1.LabelTopologyZone: "a", corev1.LabelHostname: name,
	}
	claim := &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "claim-" + name, UID: types.UID(name), Labels: labels, Finalizers: []string{karpv1.FinalizerTermination}},
		Spec:       karpv1.NodeClaimSpec{NodeClassRef: karpv1.NodeClassReference{Group: awsv1.Group, Kind: awsv1.Kind, Name: "default"}},
		Status:     karpv1.NodeClaimStatus{ProviderID: "aws:///a/" + name, NodeName: name, Capacity: size, Allocatable: size},
	}
	for _, c := range []string{karpv1.ConditionLaunched, karpv1.ConditionRegistered, karpv1.ConditionInitialized, karpv1.ConditionConsolidatable} {
		claim.Status.Conditions = append(claim.Status.Conditions, metav1.Condition{Type: c, Status: metav1.ConditionTrue, Reason: c, LastTransitionTime: metav1.NewTime(s.clock)})
	}
	status := claim.Status
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: corev1.NodeSpec{ProviderID: "aws:///a/" + name}}
	node.Status = corev1.NodeStatus{Capacity: size, Allocatable: size, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}
	s.create(claim, node)
	claim.Status = status
	if err := s.client.Status().Update(s.t.Context(), claim); err != nil {
		s.t.Fatal(err)
	}
	for _, pod := range pods {
		s.bind(pod, name)
	}
	s.sync()
}

// bind adds a pod that runs on a node.
func (s *fixture) bind(name, node string) {
	s.t.Helper()
	pod := controllertest.PendingPod(name, "1")
	pod.Spec.NodeName, pod.Status = node, corev1.PodStatus{Phase: corev1.PodRunning}
	s.create(pod)
}

// pass lets both loops do what they have to do once, with the store up to date before and after.
func (s *fixture) pass() error {
	s.t.Helper()
	s.sync()
	err := s.Pass(s.t.Context())
	s.sync()
	return err
}

func (s *fixture) mustPass() {
	s.t.Helper()
	if err := s.pass(); err != nil {
		s.t.Fatal(err)
	}
}

// work lets time go by and the queue look at its commands.
func (s *fixture) work(later time.Duration) {
	s.t.Helper()
	s.clock = s.clock.Add(later)
	s.sync()
	if _, err := s.Work(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	s.sync()
}

// claims lists the names of claims: those that are there and not being deleted, and those that are.
func (s *fixture) claims() (stay, gone []string) {
	s.t.Helper()
	list := &karpv1.NodeClaimList{}
	if err := s.client.List(s.t.Context(), list); err != nil {
		s.t.Fatal(err)
	}
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			stay = append(stay, list.Items[i].Name)
		} else {
			gone = append(gone, list.Items[i].Name)
		}
	}
	return stay, gone
}

// replacements lists the claims that were ordered here.
func (s *fixture) replacements() []karpv1.NodeClaim {
	s.t.Helper()
	list := &karpv1.NodeClaimList{}
	if err := s.client.List(s.t.Context(), list); err != nil {
		s.t.Fatal(err)
	}
	return slices.DeleteFunc(list.Items, func(c karpv1.NodeClaim) bool { return len(c.Name) > 6 && c.Name[:6] == "claim-" })
}

func (s *fixture) claim(name string) *karpv1.NodeClaim {
	s.t.Helper()
	claim := &karpv1.NodeClaim{}
	if err := s.client.Get(s.t.Context(), client.ObjectKey{Name: name}, claim); err != nil {
		s.t.Fatal(err)
	}
	return claim
}

// up makes replacements come up.
func (s *fixture) up(names ...string) {
	s.t.Helper()
	for _, name := range names {
		claim := s.claim(name)
		for _, c := range []string{karpv1.ConditionLaunched, karpv1.ConditionRegistered, karpv1.ConditionInitialized} {
			claim.Status.Conditions = append(claim.Status.Conditions, metav1.Condition{Type: c, Status: metav1.ConditionTrue, Reason: c, LastTransitionTime: metav1.NewTime(s.clock)})
		}
		if err := s.client.Status().Update(s.t.Context(), claim); err != nil {
			s.t.Fatal(err)
		}
	}
	s.sync()
}

// ice ends a replacement as life cycle does when there is no capacity.
func (s *fixture) ice(name string) {
	s.t.Helper()
	claim := s.claim(name)
	claim.Finalizers = nil
	if err := s.client.Update(s.t.Context(), claim); err != nil {
		s.t.Fatal(err)
	}
	if err := s.client.Delete(s.t.Context(), claim); err != nil {
		s.t.Fatal(err)
	}
	informer, err := s.feed.FakeInformerFor(s.t.Context(), claim)
	if err != nil {
		s.t.Fatal(err)
	}
	informer.Delete(claim)
}

// tainted lists the nodes that are held.
func (s *fixture) tainted() []string {
	s.t.Helper()
	nodes := &corev1.NodeList{}
	if err := s.client.List(s.t.Context(), nodes); err != nil {
		s.t.Fatal(err)
	}
	var out []string
	for i := range nodes.Items {
		if karpv1.Disrupted(&nodes.Items[i]) {
			out = append(out, nodes.Items[i].Name)
		}
	}
	return out
}

// replace is a decision to replace nodes by one node for all of their pods, made once.
func (s *fixture) replace(why karpv1.DisruptionReason, kind string, nodes ...string) {
	s.decide = func(v disrupt.View) []disrupt.Command {
		s.decide = nil
		c := command(v, why, kind, disrupt.Replace, nodes...)
		if why == karpv1.ReasonUnderutilized { // is checked by the rules, so it has to obey them
			rest, pods := v.Cluster.Without(nodes...)
			plan := solve.Solve(solve.Problem{View: rest, Moved: pods, Policy: solve.Policy{ReservedFallback: true}}, func() bool { return false })
			c.Bind, c.Create = plan.Bind, plan.Create
			return []disrupt.Command{c}
		}
		c.Create = []solve.NewNode{{
			Pool: "general", Types: []string{"small"}, Requests: v.Cluster.Resources.Requests(corev1.ResourceList{
				corev1.ResourceCPU: *resource.NewQuantity(int64(c.Moved), resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(int64(c.Moved)<<30, resource.BinarySI),
				corev1.ResourcePods: *resource.NewQuantity(int64(c.Moved), resource.DecimalSI),
			}), Pods: podsOf(c),
			Needs: reqs.FromLabels(map[string]string{karpv1.LabelNodePool: "general"}, awsv1.Vocabulary()),
		}}
		return []disrupt.Command{c}
	}
}

// remove is a decision to remove nodes without replacement, made once.
func (s *fixture) remove(why karpv1.DisruptionReason, kind string, nodes ...string) {
	s.decide = func(v disrupt.View) []disrupt.Command {
		s.decide = nil
		return []disrupt.Command{command(v, why, kind, disrupt.Delete, nodes...)}
	}
}

// command removes nodes as they are in a view.
func command(v disrupt.View, why karpv1.DisruptionReason, kind, decision string, nodes ...string) disrupt.Command {
	c := disrupt.Command{ID: string(why) + nodes[0], Reason: why, Type: kind, Decision: decision, Decided: v.Now}
	for _, n := range v.Nodes {
		if !slices.Contains(nodes, n.Name) {
			continue
		}
		candidate := disrupt.Candidate{Node: n.Name, Claim: n.Claim, Pool: n.Pool, InstanceType: n.InstanceType, CapacityType: n.CapacityType}
		for _, p := range n.Pods {
			if p.Moves {
				candidate.Pods = append(candidate.Pods, p.Key.String())
			}
		}
		c.Remove, c.Moved = append(c.Remove, candidate), c.Moved+len(candidate.Pods)
	}
	return c
}

func podsOf(c disrupt.Command) []cluster.PodKey {
	var out []cluster.PodKey
	for _, n := range c.Remove {
		for _, p := range n.Pods {
			out = append(out, cluster.PodKey{Namespace: "default", Name: p[len("default/"):]})
		}
	}
	return out
}

// edit changes an object as a user does.
func edit[T client.Object](s *fixture, obj T, change func(T)) {
	s.t.Helper()
	if err := s.client.Get(context.WithoutCancel(s.t.Context()), client.ObjectKeyFromObject(obj), obj); err != nil {
		s.t.Fatal(err)
	}
	change(obj)
	if err := s.client.Update(s.t.Context(), obj); err != nil {
		s.t.Fatal(err)
	}
	s.sync()
}
