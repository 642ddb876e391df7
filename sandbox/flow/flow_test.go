package flow_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/sandbox/apiproxy"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu"
	"github.com/dovetail-sh/dovetail/sandbox/fakenode"
	"github.com/dovetail-sh/dovetail/sandbox/world"
)

// How long a test waits before it gives up, for what takes one step, and for what takes a round of a
// collector. These are no bars: the machine may be busy, and other tests disturb the same controller.
const (
	soon  = 5 * time.Minute
	later = 10 * time.Minute
)

// recovered is how long the world may take to be as if nothing had gone wrong (G14): five minutes, and the
// time that insufficient capacity is cached, the longest cache time here.
const recovered = 8 * time.Minute

// flow is one test in the world: its objects, and what it waits for.
type flow struct {
	*testing.T
	*cluster

	name      string // of the pool and the class
	namespace string
	own       *world.Controller // in place of the one that all share; nil: none
	faulty    bool              // something went wrong on purpose
}

// newFlow makes a namespace and a node class as in the seeds. At the end, the pools and pods go, their
// nodes with them, and all invariants must have held.
func newFlow(t *testing.T, m mode) *flow {
	t.Helper()
	f := beginFlow(t, all.acquireCluster(t, m), nil)
	f.faulty = m == killsController
	return f
}

// beginFlow makes the objects of a test in a cluster where it has a place, with a controller of its own or that of the cluster.
func beginFlow(t *testing.T, c *cluster, own *world.Controller) *flow {
	t.Helper()
	f := &flow{T: t, cluster: c, namespace: c.server.Namespace(t), own: own}
	f.name = strings.TrimPrefix(f.namespace, "test")
	f.name = "p" + strings.Trim(f.name[max(0, len(f.name)-25):], "-")
	t.Cleanup(func() {
		for _, v := range f.checker.Of(f.name, f.namespace) {
			t.Error(v)
		}
	})
	t.Cleanup(f.cleanUpFlow)
	t.Cleanup(f.waitUntilSettled)
	f.create(f.createClass())
	return f
}

// waitUntilSettled waits, once all faults are lifted, until all is as it would be without them (G14).
func (f *flow) waitUntilSettled() {
	f.Helper()
	if f.Failed() || !f.faulty {
		return
	}
	f.waitUntil(recovered, "all is as if nothing had gone wrong (G14)", func() (bool, string) {
		open := f.checker.Unsettled(f.name, f.namespace)
		return len(open) == 0, strings.Join(open, "; ")
	})
}

// cleanUpFlow removes what the test made, and waits until no instance is left.
func (f *flow) cleanUpFlow() {
	f.Helper()
	if f.Failed() {
		f.describe()
	}
	ctx := context.WithoutCancel(f.Context())
	for _, kind := range []client.Object{&appsv1.Deployment{}, &appsv1.ReplicaSet{}, &appsv1.DaemonSet{}, &policyv1.PodDisruptionBudget{}} {
		if err := f.kube.DeleteAllOf(ctx, kind, client.InNamespace(f.namespace)); err != nil {
			f.Error(err)
		}
	}
	// A ReplicaSet makes pods until its controller knows that it is deleted, and they take their time to stop.
	f.waitUntil(soon, "no pod is left", func() (bool, string) {
		if err := f.kube.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(f.namespace), client.GracePeriodSeconds(0)); err != nil {
			return false, err.Error()
		}
		var sets appsv1.ReplicaSetList
		f.list(&sets, client.InNamespace(f.namespace))
		var pods corev1.PodList
		f.list(&pods, client.InNamespace(f.namespace))
		return len(sets.Items)+len(pods.Items) == 0, fmt.Sprintf("%d ReplicaSets, %d pods", len(sets.Items), len(pods.Items))
	})
	var pools karpv1.NodePoolList
	if err := f.kube.List(ctx, &pools); err != nil {
		f.Error(err)
	}
	for i := range pools.Items {
		if strings.HasPrefix(pools.Items[i].Name, f.name) {
			f.remove(&pools.Items[i])
		}
	}
	f.nothingLeft()
	f.remove(&awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: f.name}})
}

// create makes an object.
func (f *flow) create(obj client.Object) {
	f.Helper()
	if err := f.kube.Create(f.Context(), obj); err != nil {
		f.Fatal(err)
	}
	f.waitForCache(obj)
}

// remove deletes an object; one that is gone is gone.
func (f *flow) remove(obj client.Object) {
	f.Helper()
	if err := f.kube.Delete(context.WithoutCancel(f.Context()), obj); err != nil && !apierrors.IsNotFound(err) {
		f.Error(err)
		return
	}
	f.waitForCacheDeletion(obj)
}

// patch changes an object that others may be changing too.
func patch[T client.Object](f *flow, obj T, change func(T)) {
	f.Helper()
	before, _ := obj.DeepCopyObject().(client.Object)
	change(obj)
	if err := f.kube.Patch(f.Context(), obj, client.MergeFrom(before)); err != nil {
		f.Fatal(err)
	}
	f.waitForCache(obj)
}

// createClass is a node class like that of the seeds (S-080), for the cluster of the sandbox.
func (f *flow) createClass(change ...func(*awsv1.EC2NodeClass)) *awsv1.EC2NodeClass {
	c := &awsv1.EC2NodeClass{}
	f.decode(`
spec:
  role: KarpenterNodeRole-sandbox
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: sandbox}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: sandbox}}]`, c)
	c.Name = f.name
	for _, do := range change {
		do(c)
	}
	return c
}

// classReady waits until the class of the test is ready.
func (f *flow) classReady() {
	f.Helper()
	f.waitForCondition(&awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: f.name}}, karpv1.ConditionReady, metav1.ConditionTrue, "")
}

func (f *flow) decode(text string, into any) {
	f.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		f.Fatal(err)
	}
}

func (f *flow) decodeLoosely(text string, into any) {
	f.Helper()
	if err := yaml.Unmarshal([]byte(text), into); err != nil {
		f.Fatal(err)
	}
}

// pool makes a NodePool of the test, like that of the seeds (S-079). More than one have a suffix.
func (f *flow) pool(suffix string, change ...func(*karpv1.NodePool)) *karpv1.NodePool {
	f.Helper()
	p := &karpv1.NodePool{}
	f.decode(`
spec:
  template:
    spec:
      requirements:
      - {key: kubernetes.io/arch, operator: In, values: [amd64]}
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}
      - {key: karpenter.k8s.aws/instance-generation, operator: Gt, values: ["2"]}
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: `+f.name+`}
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: Never}`, p)
	p.Name = f.name + suffix
	for _, do := range change {
		do(p)
	}
	f.create(p)
	return p
}

// withRequirement replaces a requirement of a pool.
func withRequirement(key string, operator corev1.NodeSelectorOperator, values ...string) func(*karpv1.NodePool) {
	return func(p *karpv1.NodePool) {
		spec := &p.Spec.Template.Spec
		for i := range spec.Requirements {
			if spec.Requirements[i].Key == key {
				spec.Requirements[i].Operator, spec.Requirements[i].Values = operator, values
				return
			}
		}
		spec.Requirements = append(spec.Requirements, karpv1.Requirement{Key: key, Operator: operator, Values: values})
	}
}

func onlySpot(p *karpv1.NodePool) {
	withRequirement(karpv1.LabelCapacityType, corev1.NodeSelectorOpIn, karpv1.CapacityTypeSpot)(p)
}

func onlyTypes(names ...string) func(*karpv1.NodePool) {
	return func(p *karpv1.NodePool) {
		p.Spec.Template.Spec.Requirements = nil
		withRequirement(corev1.LabelInstanceTypeStable, corev1.NodeSelectorOpIn, names...)(p)
		withRequirement(karpv1.LabelCapacityType, corev1.NodeSelectorOpIn, karpv1.CapacityTypeOnDemand)(p)
	}
}

func emptyAfter(d karpv1.Duration) func(*karpv1.NodePool) {
	return func(p *karpv1.NodePool) { p.Spec.Disruption.ConsolidateAfter = d }
}

func withTerminationGracePeriod(d karpv1.Duration) func(*karpv1.NodePool) {
	return func(p *karpv1.NodePool) { p.Spec.Template.Spec.TerminationGracePeriod = d }
}

// deploy makes a Deployment like inflate (S-078), which selects the pool of the test.
func (f *flow) deploy(name string, replicas int32, change ...func(*corev1.PodTemplateSpec)) *appsv1.Deployment {
	f.Helper()
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: f.namespace},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}},
				Spec: corev1.PodSpec{
					NodeSelector: map[string]string{karpv1.LabelNodePool: f.name}, TerminationGracePeriodSeconds: new(int64(0)),
					Containers: []corev1.Container{{
						Name: name, Image: "public.ecr.aws/eks-distro/kubernetes/pause:3.7",
						Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1536Mi")}},
					}},
				},
			},
		},
	}
	for _, do := range change {
		do(&d.Spec.Template)
	}
	f.create(d)
	return d
}

func withRequests(cpu, memory string) func(*corev1.PodTemplateSpec) {
	return func(p *corev1.PodTemplateSpec) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}
	}
}

func withNodeSelector(pairs ...string) func(*corev1.PodTemplateSpec) {
	return func(p *corev1.PodTemplateSpec) {
		p.Spec.NodeSelector = map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			p.Spec.NodeSelector[pairs[i]] = pairs[i+1]
		}
	}
}

func withTolerations(t ...corev1.Toleration) func(*corev1.PodTemplateSpec) {
	return func(p *corev1.PodTemplateSpec) { p.Spec.Tolerations = append(p.Spec.Tolerations, t...) }
}

func withAnnotation(key, value string) func(*corev1.PodTemplateSpec) {
	return func(p *corev1.PodTemplateSpec) { metav1.SetMetaDataAnnotation(&p.ObjectMeta, key, value) }
}

func stopsAfter(seconds int64) func(*corev1.PodTemplateSpec) {
	return func(p *corev1.PodTemplateSpec) { p.Spec.TerminationGracePeriodSeconds = &seconds }
}

// onePerNode spreads the pods of a Deployment, one to a node.
func onePerNode(name string) func(*corev1.PodTemplateSpec) {
	return func(p *corev1.PodTemplateSpec) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
		}}}}
	}
}

// overZones spreads the pods of a Deployment evenly over zones.
func overZones(name string) func(*corev1.PodTemplateSpec) {
	return func(p *corev1.PodTemplateSpec) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
		}}
	}
}

// withCriticalPriority makes the pods of a Deployment the last to leave a node.
func withCriticalPriority(p *corev1.PodTemplateSpec) {
	p.Spec.PriorityClassName = "system-cluster-critical"
}

// scale is kubectl scale. It returns when the pods that are too many were requested to terminate: until then they would be
// planned for.
func (f *flow) scale(d *appsv1.Deployment, replicas int32) {
	f.Helper()
	patch(f, d, func(d *appsv1.Deployment) { d.Spec.Replicas = &replicas })
	f.waitUntil(soon, fmt.Sprintf("at most %d pods of %s stay", replicas, d.Name), func() (bool, string) {
		stay := 0
		for _, p := range f.pods(d.Name) {
			if p.DeletionTimestamp == nil {
				stay++
			}
		}
		return stay <= int(replicas), fmt.Sprintf("%d do", stay)
	})
}

// createPodDisruptionBudget makes a PodDisruptionBudget for a Deployment.
func (f *flow) createPodDisruptionBudget(name string, maxUnavailable int) *policyv1.PodDisruptionBudget {
	f.Helper()
	b := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: f.namespace},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromInt32(int32(maxUnavailable))), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}},
	}
	f.create(b)
	return b
}

// nodeFault lets something go wrong on the nodes of the test, until the test ends or it is cleared.
func (f *flow) nodeFault(fault fakenode.Fault) (clearFault func()) {
	f.Helper()
	f.world.Nodes.Faults().Set(f.name, fakenode.Selector{NodePool: f.name}, fault)
	clearFault = func() { f.world.Nodes.Faults().Clear(f.name) }
	f.Cleanup(clearFault)
	return clearFault
}

func joinLate(d time.Duration) fakenode.Fault { return fakenode.Fault{JoinLate: d} }

// markDisturbed says that a fault is in force, until the test ends or it is calmed.
func (f *flow) markDisturbed() (calm func()) {
	f.Helper()
	f.faulty = true
	end := f.checker.Disturb(time.Now())
	calm = func() { end(time.Now()) }
	f.Cleanup(calm)
	return calm
}

// callControlAPI steers the emulated account, and undoes it at the end with DELETE when the control has that.
func (f *flow) callControlAPI(method, path, body string) string {
	f.Helper()
	response, err := f.server.Control(context.WithoutCancel(f.Context()), method, path, body)
	if err != nil {
		f.Fatal(err)
	}
	return response
}

// awsFault makes calls of AWS go wrong, until the test ends or the fault is removed. A test of mode disturbsNone gives a text that
// only its own calls hold.
func (f *flow) awsFault(fault awsemu.Fault) (mend func()) {
	f.Helper()
	post := func(method string, fault awsemu.Fault) {
		body, err := json.Marshal(fault)
		if err != nil {
			f.Fatal(err)
		}
		f.callControlAPI(method, "faults", string(body))
	}
	post(http.MethodPost, fault)
	mend = func() { post(http.MethodDelete, awsemu.Fault{Action: fault.Action, Text: fault.Text}) }
	f.Cleanup(mend)
	return mend
}

// delayVisibility has something of AWS be seen late, until the test ends.
func (f *flow) delayVisibility(what string, d time.Duration) {
	f.Helper()
	set := func(d time.Duration) {
		f.lags.Lock()
		defer f.lags.Unlock()
		f.lags.by[what] = awsemu.Duration(d)
		body, err := json.Marshal(f.lags.by)
		if err != nil {
			f.Fatal(err)
		}
		f.callControlAPI(http.MethodPut, "lag", string(body))
	}
	set(d)
	f.Cleanup(func() { set(0) })
}

// proxyFault makes requests of the controller to the API server go wrong, until the test ends or it is
// mended. A test of mode disturbsNone gives a name that only its own objects have.
func (f *flow) proxyFault(faults ...apiproxy.Fault) (mend func()) {
	f.Helper()
	mend, err := f.world.Proxy.Add(faults...)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(mend)
	return mend
}
