package store

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
)

// informers is where watches come from.
type informers interface {
	GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error)
}

// Watch feeds the Store from informers, which it starts. It returns once all are requested; Synced reports when they
// have delivered.
func (s *Store) Watch(ctx context.Context, from informers) error {
	for _, t := range s.kindConsumers() {
		if isOwner(t.object) && len(s.opts.DefaultSpread) == 0 {
			continue
		}
		if err := s.watchKind(ctx, from, t.object, t.take); err != nil {
			return err
		}
	}
	return nil
}

// kindConsumer stores the objects of a kind.
type kindConsumer struct {
	object client.Object // an empty one of the kind
	take   func(obj client.Object, gone bool)
}

// kindConsumers are those of the kinds that every cluster serves.
func (s *Store) kindConsumers() []kindConsumer {
	return []kindConsumer{
		{&karpv1.NodePool{}, s.onPool},
		{&karpv1.NodeClaim{}, s.onClaim},
		{&corev1.Node{}, s.onNodeObject},
		{&corev1.Pod{}, s.onPod},
		{&corev1.Namespace{}, s.onNamespace},
		{&corev1.PersistentVolumeClaim{}, s.onVolumeObject},
		{&corev1.PersistentVolume{}, s.onVolumeObject},
		{&storagev1.StorageClass{}, s.onVolumeObject},
		{&storagev1.CSINode{}, s.onCSINode},
		{&policyv1.PodDisruptionBudget{}, s.onBudget},
		{&appsv1.DaemonSet{}, s.onDaemonSet},
		{&corev1.ReplicationController{}, s.onOwner},
		{&appsv1.ReplicaSet{}, s.onOwner},
		{&appsv1.StatefulSet{}, s.onOwner},
	}
}

// Load stores listed objects instead of watching them: afterwards the cache is complete. Objects must not change
// afterwards. It fails at the first of a kind that no decision depends on.
func (s *Store) Load(objects []client.Object) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	kindConsumers := map[reflect.Type]func(client.Object, bool){}
	for _, t := range append(s.kindConsumers(),
		kindConsumer{&corev1.LimitRange{}, s.onLimitRange}, kindConsumer{&corev1.Service{}, s.onOwner},
		kindConsumer{&resourcev1.ResourceClaim{}, s.onDeviceObject}, kindConsumer{&resourcev1.ResourceSlice{}, s.onDeviceObject}, kindConsumer{&resourcev1.DeviceClass{}, s.onDeviceObject},
	) {
		kindConsumers[reflect.TypeOf(t.object)] = t.take
	}
	for _, o := range objects {
		take := kindConsumers[reflect.TypeOf(o)]
		if take == nil {
			return fmt.Errorf("no decision depends on a %T", o)
		}
		s.revision++
		take(o, false)
	}
	s.feeds = append(s.feeds, feed{kind: "objects", synced: func() bool { return true }})
	return nil
}

// WatchLimitRanges feeds the Store with LimitRanges, which determine the requests of the first pod of a DaemonSet.
// Watch does not include them: the permission to read them may be missing, and then they would never sync.
func (s *Store) WatchLimitRanges(ctx context.Context, from informers) error {
	return s.watchKind(ctx, from, &corev1.LimitRange{}, s.onLimitRange)
}

// WatchServices feeds the Store with Services, which default spread constraints use. Watch does not include them, for
// the same reason.
func (s *Store) WatchServices(ctx context.Context, from informers) error {
	return s.watchKind(ctx, from, &corev1.Service{}, s.onOwner)
}

// watchKind watches a kind. The cache is incomplete until the existing objects are stored.
func (s *Store) watchKind(ctx context.Context, from informers, obj client.Object, take func(client.Object, bool)) error {
	informer, err := from.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch %T: %w", obj, err)
	}
	handle, err := informer.AddEventHandler(s.handler(take))
	if err != nil {
		return fmt.Errorf("watch %T: %w", obj, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.feeds = append(s.feeds, feed{kind: strings.TrimPrefix(fmt.Sprintf("%T", obj), "*v1."), synced: handle.HasSynced})
	return nil
}

// Watches reports whether the Store is fed with objects of a kind, such as LimitRange.
func (s *Store) Watches(kind string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.feeds, func(f feed) bool { return f.kind == kind })
}

func isOwner(obj client.Object) bool {
	switch obj.(type) {
	case *corev1.ReplicationController, *appsv1.ReplicaSet, *appsv1.StatefulSet:
		return true
	}
	return false
}

// handler calls take under the lock, and counts the change.
func (s *Store) handler(take func(obj client.Object, gone bool)) toolscache.ResourceEventHandler {
	feed := func(obj any, gone bool) {
		if last, unknown := obj.(toolscache.DeletedFinalStateUnknown); unknown {
			obj = last.Obj
		}
		object, ok := obj.(client.Object)
		if !ok {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.revision++
		take(object, gone)
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { feed(obj, false) },
		UpdateFunc: func(_, obj any) { feed(obj, false) },
		DeleteFunc: func(obj any) { feed(obj, true) },
	}
}

func (s *Store) onPool(obj client.Object, gone bool) {
	stored := obj.(*karpv1.NodePool)
	effective, _ := stored.Effective(s.opts.Strict)
	if gone || !s.managed(effective.Spec.Template.Spec.NodeClassRef) {
		delete(s.pools, stored.Name)
		s.changes++
		return
	}
	if poolChanged(s.pools[stored.Name], effective) {
		s.changes++
	}
	s.pools[stored.Name] = &pool{effective: effective}
}

func (s *Store) managed(ref karpv1.NodeClassReference) bool {
	return slices.Contains(s.opts.Classes, schema.GroupKind{Group: ref.Group, Kind: ref.Kind})
}

func (s *Store) onClaim(obj client.Object, gone bool) {
	claim := obj.(*karpv1.NodeClaim)
	if effective, _ := claim.Effective(nil, s.opts.Strict); !s.managed(effective.Spec.NodeClassRef) {
		return
	}
	if gone {
		claim = nil
	}
	s.setClaim(obj.GetName(), claim)
}

// onNodeObject stores a Node. Heartbeats change nothing that decisions depend on (FM D13).
func (s *Store) onNodeObject(obj client.Object, gone bool) {
	node := obj.(*corev1.Node)
	if gone {
		node = nil
	} else if old := s.nodes[node.Name]; old != nil && sameNode(old, node) {
		s.nodes[node.Name] = node
		if p := s.places[s.placeKeys[node.Name]]; p != nil {
			p.node = node
		}
		return
	}
	s.setNode(obj.GetName(), node)
}

func sameNode(a, b *corev1.Node) bool {
	return a.UID == b.UID && a.DeletionTimestamp.Equal(b.DeletionTimestamp) &&
		equality.Semantic.DeepEqual(a.Labels, b.Labels) && equality.Semantic.DeepEqual(a.Spec, b.Spec) &&
		equality.Semantic.DeepEqual(a.Status.Capacity, b.Status.Capacity) && equality.Semantic.DeepEqual(a.Status.Allocatable, b.Status.Allocatable)
}

func (s *Store) onPod(obj client.Object, gone bool) {
	pod := obj.(*corev1.Pod)
	if gone {
		pod = nil
	}
	s.setPod(keyOf(obj), pod)
}

// onNamespace stores the labels. The map is replaced, since snapshots hold it.
func (s *Store) onNamespace(obj client.Object, gone bool) {
	name := obj.GetName()
	if _, known := s.namespaces[name]; known && !gone && equality.Semantic.DeepEqual(s.namespaces[name], obj.GetLabels()) {
		return
	}
	next := make(map[string]map[string]string, len(s.namespaces)+1)
	for n, l := range s.namespaces {
		if n != name {
			next[n] = l
		}
	}
	if !gone {
		next[name] = obj.GetLabels()
	}
	s.namespaces = next
	s.invalidateReads() // selectors over namespaces choose others now
}

func (s *Store) onVolumeObject(obj client.Object, gone bool) {
	s.volumes.revision++
	switch o := obj.(type) {
	case *corev1.PersistentVolumeClaim:
		before, after := s.volumes.Claims[keyOf(o)], o
		if delete(s.volumes.Claims, keyOf(o)); !gone {
			s.volumes.Claims[keyOf(o)] = o
		} else {
			after = nil
		}
		s.recheckVolumeTargets(before, after)
	case *corev1.PersistentVolume:
		if delete(s.volumes.Volumes, o.Name); !gone {
			s.volumes.Volumes[o.Name] = o
		}
	case *storagev1.StorageClass:
		if delete(s.volumes.Classes, o.Name); !gone {
			s.volumes.Classes[o.Name] = o
		}
	}
}

func (s *Store) onCSINode(obj client.Object, gone bool) {
	if delete(s.csi, obj.GetName()); !gone {
		s.csi[obj.GetName()] = obj.(*storagev1.CSINode)
	}
	s.invalidateNode(obj.GetName())
}

// onBudget stores a PodDisruptionBudget. Only its spec matters here, and what it says of pods on
// any node may have changed.
func (s *Store) onBudget(obj client.Object, gone bool) {
	budget, old := obj.(*policyv1.PodDisruptionBudget), s.budgets[keyOf(obj)]
	if delete(s.budgets, keyOf(obj)); !gone {
		s.budgets[keyOf(obj)] = budget
	}
	if gone || old == nil || old.Status.DisruptionsAllowed != budget.Status.DisruptionsAllowed {
		s.changes++
	}
	if !gone && old != nil && equality.Semantic.DeepEqual(old.Spec, budget.Spec) {
		return
	}
	s.changes++
	s.invalidateReads()
}

func (s *Store) onDaemonSet(obj client.Object, gone bool) {
	set := obj.(*appsv1.DaemonSet)
	d := s.daemons[set.UID]
	if gone {
		delete(s.daemons, set.UID)
		return
	}
	if d == nil {
		d = &daemon{pods: map[podKey]*corev1.Pod{}}
		s.daemons[set.UID] = d
	}
	d.set = set
}

func (s *Store) onLimitRange(obj client.Object, gone bool) {
	namespace := obj.GetNamespace()
	list := s.ranges[namespace]
	if list == nil {
		list = map[string]*corev1.LimitRange{}
		s.ranges[namespace] = list
	}
	if delete(list, obj.GetName()); !gone {
		list[obj.GetName()] = obj.(*corev1.LimitRange)
	}
	if len(list) == 0 {
		delete(s.ranges, namespace)
		delete(s.defaults, namespace)
		return
	}
	s.defaults[namespace] = cluster.DefaultRequests(slices.Collect(maps.Values(list))...) // any order: the largest counts
}

func (s *Store) onOwner(obj client.Object, gone bool) {
	if svc, is := obj.(*corev1.Service); is {
		if gone {
			svc = nil
		}
		s.owners.setService(keyOf(obj), svc)
	} else {
		s.owners.setController(obj, gone)
	}
	for _, slot := range s.waiting {
		slot.valid = false
	}
	for _, slot := range s.virtual {
		slot.valid = false
	}
}
