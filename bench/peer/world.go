package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/fake"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	pscheduling "sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/options"
	"sigs.k8s.io/karpenter/pkg/scheduling"
)

const namespace = "default"

// world is a scenario turned into upstream's objects.
type world struct {
	client      *cachedClient
	cloud       *fake.CloudProvider
	cluster     *state.Cluster
	clock       clock.Clock
	recorder    events.Recorder
	provisioner *provisioning.Provisioner
	types       map[string]*cloudprovider.InstanceType
	specs       map[string]InstanceType
	pools       map[string]*v1.NodePool
	pending     []*corev1.Pod
	groupOf     map[string]int // pending pod -> its index in the scenario's pods
	created     metav1.Time
	podSeq      int
	nodeSeq     int
}

// withOptions puts upstream's own default options into the context, with the given flags on top.
func withOptions(ctx context.Context, args ...string) (context.Context, error) {
	o := &options.Options{}
	fs := &options.FlagSet{FlagSet: flag.NewFlagSet("karpenter", flag.ContinueOnError)}
	o.AddFlags(fs)
	if err := o.Parse(fs, args...); err != nil {
		return nil, err
	}
	return o.ToContext(ctx), nil
}

func newWorld(ctx context.Context, s *Scenario) (*world, error) {
	w := &world{
		client:   newCachedClient(),
		cloud:    fake.NewCloudProvider(),
		clock:    clock.RealClock{},
		recorder: events.NewRecorder(&record.FakeRecorder{}),
		types:    map[string]*cloudprovider.InstanceType{},
		specs:    map[string]InstanceType{},
		pools:    map[string]*v1.NodePool{},
		groupOf:  map[string]int{},
		created:  metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second)),
	}
	w.addInstanceTypes(s.InstanceTypes)
	w.cluster = state.NewCluster(w.clock, w.client, w.cloud)
	w.provisioner = provisioning.NewProvisioner(w.client, w.recorder, w.cloud, w.cluster, w.clock, nil, nil)

	nodeClass, err := apiutil.GVKForObject(w.cloud.GetSupportedNodeClasses()[0], scheme.Scheme)
	if err != nil {
		return nil, err
	}
	for i, np := range s.NodePools {
		np.UID = types.UID(fmt.Sprintf("nodepool-%04d", i))
		np.CreationTimestamp = w.created
		np.Spec.Template.Spec.NodeClassRef = &v1.NodeClassReference{Group: nodeClass.Group, Kind: nodeClass.Kind, Name: "default"}
		np.StatusConditions().SetTrue(v1.ConditionTypeValidationSucceeded)
		np.StatusConditions().SetTrue(v1.ConditionTypeNodeClassReady)
		w.pools[np.Name] = np
		w.client.nodePools = append(w.client.nodePools, np)
	}
	for i, ds := range s.DaemonSets {
		w.client.daemonSets = append(w.client.daemonSets, &appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Name: ds.Name, Namespace: namespace, UID: types.UID(fmt.Sprintf("daemonset-%04d", i))},
			Spec:       appsv1.DaemonSetSpec{Template: ds.Template},
		})
	}
	for i := range s.Nodes {
		if err := w.addScenarioNode(ctx, s, &s.Nodes[i]); err != nil {
			return nil, err
		}
	}
	for i, g := range s.Pods {
		t, err := s.template(g)
		if err != nil {
			return nil, err
		}
		for range g.Count {
			p := w.newPod(t)
			p.Status.Phase = corev1.PodPending
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
			w.client.addPod(p)
			w.pending = append(w.pending, p)
			w.groupOf[p.Name] = i
		}
	}
	return w, nil
}

func (w *world) newPod(t *corev1.PodTemplateSpec) *corev1.Pod {
	w.podSeq++
	name := fmt.Sprintf("pod-%06d", w.podSeq)
	p := &corev1.Pod{ObjectMeta: *t.ObjectMeta.DeepCopy(), Spec: *t.Spec.DeepCopy()}
	p.Name, p.Namespace, p.UID, p.CreationTimestamp = name, namespace, types.UID(name), w.created
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "rs", UID: "rs", Controller: new(true)}}
	return p
}

// addInstanceTypes describes each type the way a cloud provider does: a label that any type has is well known, and
// a type without it says so.
func (w *world) addInstanceTypes(specs []InstanceType) {
	keys := map[string]bool{}
	for _, s := range specs {
		for k := range s.Labels {
			keys[k] = true
		}
	}
	for k := range keys {
		v1.WellKnownLabels.Insert(k)
	}
	for _, s := range specs {
		zones, capacityTypes := map[string]bool{}, map[string]bool{}
		var offerings cloudprovider.Offerings
		for _, o := range s.Offerings {
			zones[o.Zone], capacityTypes[o.CapacityType] = true, true
			offerings = append(offerings, &cloudprovider.Offering{
				Requirements: scheduling.NewLabelRequirements(map[string]string{
					corev1.LabelTopologyZone: o.Zone, v1.CapacityTypeLabelKey: o.CapacityType,
				}),
				Price:     o.Price,
				Available: o.Available,
			})
		}
		reqs := scheduling.NewRequirements(
			scheduling.NewRequirement(corev1.LabelInstanceTypeStable, corev1.NodeSelectorOpIn, s.Name),
			scheduling.NewRequirement(corev1.LabelArchStable, corev1.NodeSelectorOpIn, s.Arch),
			scheduling.NewRequirement(corev1.LabelOSStable, corev1.NodeSelectorOpIn, s.OS...),
			scheduling.NewRequirement(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, slices.Sorted(maps.Keys(zones))...),
			scheduling.NewRequirement(v1.CapacityTypeLabelKey, corev1.NodeSelectorOpIn, slices.Sorted(maps.Keys(capacityTypes))...),
		)
		for k := range keys {
			if value, ok := s.Labels[k]; ok {
				reqs.Add(scheduling.NewRequirement(k, corev1.NodeSelectorOpIn, value))
			} else {
				reqs.Add(scheduling.NewRequirement(k, corev1.NodeSelectorOpDoesNotExist))
			}
		}
		it := &cloudprovider.InstanceType{
			Name: s.Name, Requirements: reqs, Offerings: offerings, Capacity: s.Capacity,
			Overhead: &cloudprovider.InstanceTypeOverhead{KubeReserved: s.Overhead},
		}
		w.cloud.InstanceTypes = append(w.cloud.InstanceTypes, it)
		w.types[s.Name], w.specs[s.Name] = it, s
	}
}

func (w *world) addScenarioNode(ctx context.Context, s *Scenario, n *Node) error {
	for _, g := range n.Pods {
		t, err := s.template(g)
		if err != nil {
			return err
		}
		for range g.Count {
			p := w.newPod(t)
			p.Spec.NodeName = n.Name
			p.Status.Phase = corev1.PodRunning
			p.Status.StartTime = &w.created
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			w.client.addPod(p)
		}
	}
	if err := w.addNode(ctx, n); err != nil {
		return err
	}
	for _, p := range w.client.podsByNode[n.Name] {
		if err := w.cluster.UpdatePod(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// addNode puts a registered, initialized node (and its NodeClaim, when a NodePool owns it) into the cluster.
func (w *world) addNode(ctx context.Context, n *Node) error {
	it := w.types[n.InstanceType]
	labels := map[string]string{corev1.LabelHostname: n.Name, corev1.LabelOSStable: "linux"}
	if it != nil {
		spec := w.specs[n.InstanceType]
		maps.Copy(labels, spec.Labels)
		labels[corev1.LabelInstanceTypeStable], labels[corev1.LabelArchStable] = spec.Name, spec.Arch
		if n.Capacity == nil {
			n.Capacity = it.Capacity
		}
		if n.Allocatable == nil {
			n.Allocatable = it.Allocatable()
		}
	}
	if n.Zone != "" {
		labels[corev1.LabelTopologyZone] = n.Zone
	}
	if n.CapacityType != "" {
		labels[v1.CapacityTypeLabelKey] = n.CapacityType
	}
	annotations := map[string]string{}
	np := w.pools[n.NodePool]
	if np != nil {
		maps.Copy(annotations, np.Spec.Template.Annotations)
		labels[v1.NodePoolLabelKey], labels[v1.NodeRegisteredLabelKey], labels[v1.NodeInitializedLabelKey] = np.Name, "true", "true"
		maps.Copy(labels, np.Spec.Template.Labels)
	}
	maps.Copy(labels, n.Labels)
	maps.Copy(annotations, n.Annotations)

	providerID := "sim:///" + n.Name
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: types.UID(n.Name), Labels: labels, Annotations: annotations, CreationTimestamp: w.created},
		Spec:       corev1.NodeSpec{ProviderID: providerID, Taints: n.Taints},
		Status: corev1.NodeStatus{
			Capacity: n.Capacity, Allocatable: n.Allocatable,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
	w.client.nodes[n.Name] = node
	if np != nil {
		nc := np.Spec.Template.ToNodeClaim()
		nc.Name, nc.UID, nc.CreationTimestamp = n.Name, types.UID("claim-"+n.Name), w.created
		nc.Labels = maps.Clone(labels)
		nc.Status.NodeName, nc.Status.ProviderID = n.Name, providerID
		nc.Status.Capacity, nc.Status.Allocatable = n.Capacity, n.Allocatable
		for _, c := range []string{v1.ConditionTypeLaunched, v1.ConditionTypeRegistered, v1.ConditionTypeInitialized, v1.ConditionTypeConsolidatable} {
			nc.StatusConditions().SetTrue(c)
		}
		w.client.nodeClaims[nc.Name] = nc
		w.cluster.UpdateNodeClaim(nc)
	}
	return w.cluster.UpdateNode(ctx, node)
}

// launch is the cheapest possible launch of a NodeClaim.
type launch struct {
	instanceType *cloudprovider.InstanceType
	zone         string
	capacityType string
	price        float64
}

func cheapest(nc *pscheduling.NodeClaim) (launch, error) {
	best := launch{price: math.MaxFloat64}
	for _, it := range nc.InstanceTypeOptions {
		for _, o := range it.Offerings {
			if o.Available && o.Price < best.price && nc.Requirements.IsCompatible(o.Requirements, scheduling.AllowUndefinedWellKnownLabels) {
				best = launch{it, o.Zone(), o.CapacityType(), o.Price}
			}
		}
	}
	if best.instanceType == nil {
		return best, fmt.Errorf("a NodeClaim of %s with %d pods has nothing to launch", nc.NodePoolName, len(nc.Pods))
	}
	return best, nil
}

// requests sums what pods request, the pod itself included; used to check placements against allocatable.
func requests(pods []*corev1.Pod) map[corev1.ResourceName]*resource.Quantity {
	sum := map[corev1.ResourceName]*resource.Quantity{corev1.ResourcePods: resource.NewQuantity(int64(len(pods)), resource.DecimalSI)}
	for _, p := range pods {
		for _, c := range p.Spec.Containers {
			for name, q := range c.Resources.Requests {
				if sum[name] == nil {
					sum[name] = &resource.Quantity{}
				}
				sum[name].Add(q)
			}
		}
	}
	return sum
}

func fits(pods []*corev1.Pod, allocatable corev1.ResourceList) error {
	for name, q := range requests(pods) {
		have := allocatable[name]
		if q.Cmp(have) > 0 {
			return fmt.Errorf("%s: %s requested, %s there", name, q, have.String())
		}
	}
	return nil
}
