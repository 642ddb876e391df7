package sim

import (
	"maps"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// namespace holds all pods.
const namespace = "default"

// kind is a kind of objects, each with a watch of its own.
type kind int

const (
	pods kind = iota
	nodes
	claims
	pools
	budgets
	daemons
	volumeClaims // from here on only of runs with volumes
	volumes
	classes
	drivers
	attachments
	kinds
)

func (k kind) String() string {
	return [...]string{
		"Pod", "Node", "NodeClaim", "NodePool", "PodDisruptionBudget", "DaemonSet",
		"PersistentVolumeClaim", "PersistentVolume", "StorageClass", "CSINode", "VolumeAttachment",
	}[k]
}

func kindOf(obj client.Object) kind {
	switch obj.(type) {
	case *corev1.Pod:
		return pods
	case *corev1.Node:
		return nodes
	case *karpv1.NodeClaim:
		return claims
	case *karpv1.NodePool:
		return pools
	case *policyv1.PodDisruptionBudget:
		return budgets
	case *appsv1.DaemonSet:
		return daemons
	case *corev1.PersistentVolumeClaim:
		return volumeClaims
	case *corev1.PersistentVolume:
		return volumes
	case *storagev1.StorageClass:
		return classes
	case *storagev1.CSINode:
		return drivers
	case *storagev1.VolumeAttachment:
		return attachments
	}
	return kinds
}

// api is the API server: objects by name, none of which is ever changed once it is stored.
type api struct {
	pods    map[string]*corev1.Pod
	nodes   map[string]*corev1.Node
	claims  map[string]*karpv1.NodeClaim
	pools   map[string]*karpv1.NodePool
	budgets map[string]*policyv1.PodDisruptionBudget
	daemons map[string]*appsv1.DaemonSet
	storage [kinds - volumeClaims]map[string]client.Object // the other kinds

	onNode map[string]map[string]bool // pods by node
	rooms  map[string]*nodeHeadroom   // by node, as the scheduler last saw it: those of which nothing changed since
	nodeOf map[string]string          // Node by provider id
	order  [kinds][]string            // names of the nodes and of the claims; nil: since they were put in order, some came or went
	uids   int
	rev    int // counts writes

	changed func(obj client.Object, before client.Object, gone bool)
}

func newAPI(changed func(obj, before client.Object, gone bool)) *api {
	a := &api{
		pods: map[string]*corev1.Pod{}, nodes: map[string]*corev1.Node{}, claims: map[string]*karpv1.NodeClaim{}, pools: map[string]*karpv1.NodePool{},
		budgets: map[string]*policyv1.PodDisruptionBudget{}, daemons: map[string]*appsv1.DaemonSet{},
		onNode: map[string]map[string]bool{}, rooms: map[string]*nodeHeadroom{}, nodeOf: map[string]string{}, changed: changed,
	}
	for i := range a.storage {
		a.storage[i] = map[string]client.Object{}
	}
	return a
}

// stored is an object of one of the kinds of storage, or nil.
func stored[T client.Object](a *api, name string) T {
	var none T
	obj, _ := a.storage[kindOf(none)-volumeClaims][name].(T)
	return obj
}

func (a *api) uid(prefix string) types.UID {
	a.uids++
	return types.UID(prefix + "-" + strconv.Itoa(a.uids))
}

// put stores an object, which is the API server's from now on.
func (a *api) put(obj client.Object) {
	a.rev++
	obj.SetResourceVersion(strconv.Itoa(a.rev))
	var before client.Object
	switch o := obj.(type) {
	case *corev1.Pod:
		if old := a.pods[o.Name]; old != nil {
			before = old
			a.leave(old)
		}
		a.pods[o.Name] = o
		a.enter(o)
	case *corev1.Node:
		if old := a.nodes[o.Name]; old != nil {
			before = old
		} else {
			a.order[nodes] = nil
		}
		a.nodes[o.Name], a.nodeOf[o.Spec.ProviderID] = o, o.Name
		delete(a.rooms, o.Name)
	case *karpv1.NodeClaim:
		if old := a.claims[o.Name]; old != nil {
			before = old
		} else {
			a.order[claims] = nil
		}
		a.claims[o.Name] = o
	case *karpv1.NodePool:
		a.pools[o.Name] = o
	case *policyv1.PodDisruptionBudget:
		a.budgets[o.Name] = o
	case *appsv1.DaemonSet:
		a.daemons[o.Name] = o
	default:
		a.storage[kindOf(obj)-volumeClaims][obj.GetName()] = obj
	}
	a.changed(obj, before, false)
}

func (a *api) enter(p *corev1.Pod) {
	if p.Spec.NodeName == "" {
		return
	}
	if a.onNode[p.Spec.NodeName] == nil {
		a.onNode[p.Spec.NodeName] = map[string]bool{}
	}
	delete(a.rooms, p.Spec.NodeName)
	a.onNode[p.Spec.NodeName][p.Name] = true
}

func (a *api) leave(p *corev1.Pod) {
	delete(a.onNode[p.Spec.NodeName], p.Name)
	delete(a.rooms, p.Spec.NodeName)
}

// drop removes an object for good.
func (a *api) drop(obj client.Object) {
	a.rev++
	switch o := obj.(type) {
	case *corev1.Pod:
		a.leave(o)
		delete(a.pods, o.Name)
	case *corev1.Node:
		delete(a.nodes, o.Name)
		delete(a.rooms, o.Name)
		delete(a.nodeOf, o.Spec.ProviderID)
		a.order[nodes] = nil
	case *karpv1.NodeClaim:
		delete(a.claims, o.Name)
		a.order[claims] = nil
	case *policyv1.PodDisruptionBudget:
		delete(a.budgets, o.Name)
	default:
		delete(a.storage[kindOf(obj)-volumeClaims], obj.GetName())
	}
	a.changed(obj, obj, true)
}

// delete requests the deletion of an object with a finalizer.
func (a *api) delete(obj client.Object, now time.Time) {
	if obj.GetDeletionTimestamp() != nil {
		return
	}
	if len(obj.GetFinalizers()) == 0 {
		a.drop(obj)
		return
	}
	next := obj.DeepCopyObject().(client.Object)
	next.SetDeletionTimestamp(new(metav1.NewTime(now)))
	a.put(next)
}

// nodeNames and claimNames list names in order, for frequent callers. The lists are not written to.
func (a *api) nodeNames() []string {
	if a.order[nodes] == nil {
		a.order[nodes] = sorted(a.nodes)
	}
	return a.order[nodes]
}

func (a *api) claimNames() []string {
	if a.order[claims] == nil {
		a.order[claims] = sorted(a.claims)
	}
	return a.order[claims]
}

// podsOn lists the pods of a node by name.
func (a *api) podsOn(node string) []*corev1.Pod {
	names := slices.Sorted(maps.Keys(a.onNode[node]))
	out := make([]*corev1.Pod, 0, len(names))
	for _, name := range names {
		out = append(out, a.pods[name])
	}
	return out
}

// nodesOf lists the Nodes of a claim; there is one at most.
func (a *api) nodesOf(claim *karpv1.NodeClaim) []*corev1.Node {
	if n := a.nodes[a.nodeOf[claim.Status.ProviderID]]; claim.Status.ProviderID != "" && n != nil {
		return []*corev1.Node{n}
	}
	return nil
}

// claimOf returns the claim of a Node, or nil.
func (a *api) claimOf(node *corev1.Node) *karpv1.NodeClaim {
	for i := range node.OwnerReferences {
		if c := a.claims[node.OwnerReferences[i].Name]; c != nil && c.UID == node.OwnerReferences[i].UID {
			return c
		}
	}
	return nil
}

// all lists every object of a kind, by name.
func (a *api) all(k kind) []client.Object {
	switch k {
	case pods:
		return objects(a.pods)
	case nodes:
		return objects(a.nodes)
	case claims:
		return objects(a.claims)
	case pools:
		return objects(a.pools)
	case budgets:
		return objects(a.budgets)
	case daemons:
		return objects(a.daemons)
	default:
		return objects(a.storage[k-volumeClaims])
	}
}

func objects[T client.Object](m map[string]T) []client.Object {
	out := make([]client.Object, 0, len(m))
	for _, name := range sorted(m) {
		out = append(out, m[name])
	}
	return out
}

// sorted lists the keys of a map in order: the order of maps must not show in a run.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
