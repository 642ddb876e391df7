package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/api/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/config"
)

// ReadOptions say how a live cluster becomes a File.
type ReadOptions struct {
	Name    string // of the cluster, as its user calls it
	Tool    string
	Now     time.Time
	Classes []metav1.GroupKind // of node classes that are planned for

	// Settings are those of the controller that reads its own cluster. nil: those of the Deployment that is found.
	Settings *config.Config
	// CloudSettings are what the cloud adds to the settings of such a Deployment. nil: nothing.
	CloudSettings config.Section
	// Market knows what NodePools could launch, and what it costs. nil: nobody does.
	Market MarketSource
	// Progress is told what is done next. nil: nobody is told.
	Progress func(step string)
}

// listing is one kind of objects to list.
type listing struct {
	resource string // as users name it in RBAC, such as nodes or nodeclaims.karpenter.sh
	read     func(ctx context.Context, from client.Reader) error
	then     string // what follows if it may not be read
}

// list reads all objects of a kind in one request, from the cache of the API server.
func list[T any, P interface {
	*T
	client.Object
}, L client.ObjectList](resource string, into *[]T, empty L, items func(L) []T, then string) listing {
	return listing{resource: resource, then: then, read: func(ctx context.Context, from client.Reader) error {
		// Version 0 is any that the cache of the API server has: it is quick, and a second old at most.
		if err := from.List(ctx, empty, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}}); err != nil {
			return err
		}
		all := items(empty)
		for i := range all {
			keep(P(&all[i]))
		}
		*into = sortedByName[T, P](all)
		return nil
	}}
}

// sortedByName sorts objects by namespace and name. Objects are large: they are compared where they are, and moved once.
func sortedByName[T any, P interface {
	*T
	client.Object
}](all []T) []T {
	order := pointers(all)
	compare := func(a, b *T) int {
		x, y := P(a), P(b)
		return cmp.Or(cmp.Compare(x.GetNamespace(), y.GetNamespace()), cmp.Compare(x.GetName(), y.GetName()))
	}
	if slices.IsSortedFunc(order, compare) {
		return all
	}
	slices.SortFunc(order, compare)
	out := make([]T, 0, len(all))
	for _, object := range order {
		out = append(out, *object)
	}
	return out
}

// forbidden is why most of what is missing is.
const forbidden = "forbidden"

// What follows if a kind cannot be read.
const (
	thenNothing  = "nothing can be planned"
	thenPools    = "no node can be launched in a plan, and nodes are taken for unmanaged"
	thenVolumes  = "pods with volumes of claims are not planned for"
	thenBudgets  = "a plan may evict pods that a PodDisruptionBudget protects"
	thenDaemons  = "a plan leaves no room for DaemonSets on new nodes"
	thenSpaces   = "affinity terms that select namespaces by label match none"
	thenSlots    = "limits of volumes per node are not known"
	thenDefaults = "default requests of DaemonSets are not known"
)

// always are the kinds that are read from every cluster.
func (o *Objects) always() []listing {
	return []listing{
		list("nodes", &o.Nodes, &corev1.NodeList{}, func(l *corev1.NodeList) []corev1.Node { return l.Items }, thenNothing),
		list("pods", &o.Pods, &corev1.PodList{}, func(l *corev1.PodList) []corev1.Pod { return l.Items }, thenNothing),
		list("nodepools.karpenter.sh", &o.NodePools, &karpv1.NodePoolList{}, func(l *karpv1.NodePoolList) []karpv1.NodePool { return l.Items }, thenPools),
		list("nodeclaims.karpenter.sh", &o.NodeClaims, &karpv1.NodeClaimList{}, func(l *karpv1.NodeClaimList) []karpv1.NodeClaim { return l.Items }, thenPools),
		list("namespaces", &o.Namespaces, &corev1.NamespaceList{}, func(l *corev1.NamespaceList) []corev1.Namespace { return l.Items }, thenSpaces),
		list("persistentvolumeclaims", &o.VolumeClaims, &corev1.PersistentVolumeClaimList{}, func(l *corev1.PersistentVolumeClaimList) []corev1.PersistentVolumeClaim { return l.Items }, thenVolumes),
		list("persistentvolumes", &o.Volumes, &corev1.PersistentVolumeList{}, func(l *corev1.PersistentVolumeList) []corev1.PersistentVolume { return l.Items }, thenVolumes),
		list("storageclasses.storage.k8s.io", &o.StorageClasses, &storagev1.StorageClassList{}, func(l *storagev1.StorageClassList) []storagev1.StorageClass { return l.Items }, thenVolumes),
		list("csinodes.storage.k8s.io", &o.CSINodes, &storagev1.CSINodeList{}, func(l *storagev1.CSINodeList) []storagev1.CSINode { return l.Items }, thenSlots),
		list("poddisruptionbudgets.policy", &o.Budgets, &policyv1.PodDisruptionBudgetList{}, func(l *policyv1.PodDisruptionBudgetList) []policyv1.PodDisruptionBudget { return l.Items }, thenBudgets),
		list("daemonsets.apps", &o.DaemonSets, &appsv1.DaemonSetList{}, func(l *appsv1.DaemonSetList) []appsv1.DaemonSet { return l.Items }, thenDaemons),
		list("limitranges", &o.LimitRanges, &corev1.LimitRangeList{}, func(l *corev1.LimitRangeList) []corev1.LimitRange { return l.Items }, thenDefaults),
	}
}

// further are the kinds that decisions look at with some settings only.
func (o *Objects) further(s *Settings) []listing {
	const spread, devices = "default spread constraints have no effect", "pods with ResourceClaims are not planned for"
	var out []listing
	if s.Overlays {
		out = append(out, list("nodeoverlays.karpenter.sh", &o.NodeOverlays, &v1alpha1.NodeOverlayList{}, func(l *v1alpha1.NodeOverlayList) []v1alpha1.NodeOverlay { return l.Items }, "prices and sizes are those of the cloud"))
	}
	if s.Buffers {
		out = append(out, list("capacitybuffers.autoscaling.x-k8s.io", &o.CapacityBuffers, &autoscalingv1beta1.CapacityBufferList{}, func(l *autoscalingv1beta1.CapacityBufferList) []autoscalingv1beta1.CapacityBuffer { return l.Items }, "no room is kept for CapacityBuffers"))
	}
	if s.Devices {
		out = append(out,
			list("resourceclaims.resource.k8s.io", &o.ResourceClaims, &resourcev1.ResourceClaimList{}, func(l *resourcev1.ResourceClaimList) []resourcev1.ResourceClaim { return l.Items }, devices),
			list("resourceslices.resource.k8s.io", &o.ResourceSlices, &resourcev1.ResourceSliceList{}, func(l *resourcev1.ResourceSliceList) []resourcev1.ResourceSlice { return l.Items }, devices),
			list("deviceclasses.resource.k8s.io", &o.DeviceClasses, &resourcev1.DeviceClassList{}, func(l *resourcev1.DeviceClassList) []resourcev1.DeviceClass { return l.Items }, devices))
	}
	if len(s.DefaultSpread) > 0 {
		out = append(out, list("services", &o.Services, &corev1.ServiceList{}, func(l *corev1.ServiceList) []corev1.Service { return l.Items }, spread))
		for _, l := range []struct {
			kind string
			listing
		}{
			{"ReplicaSet", list("replicasets.apps", &o.ReplicaSets, &appsv1.ReplicaSetList{}, func(l *appsv1.ReplicaSetList) []appsv1.ReplicaSet { return l.Items }, spread)},
			{"StatefulSet", list("statefulsets.apps", &o.StatefulSets, &appsv1.StatefulSetList{}, func(l *appsv1.StatefulSetList) []appsv1.StatefulSet { return l.Items }, spread)},
			{"ReplicationController", list("replicationcontrollers", &o.Controllers, &corev1.ReplicationControllerList{}, func(l *corev1.ReplicationControllerList) []corev1.ReplicationController { return l.Items }, spread)},
		} {
			if o.hasPodsOf(l.kind) {
				out = append(out, l.listing)
			}
		}
	}
	return out
}

// hasPodsOf reports whether a controller of a kind has pods: the others decide nothing.
func (o *Objects) hasPodsOf(kind string) bool {
	return slices.ContainsFunc(o.Pods, func(p corev1.Pod) bool {
		return slices.ContainsFunc(p.OwnerReferences, func(r metav1.OwnerReference) bool { return r.Kind == kind })
	})
}

// Read reads a live cluster, in one request for each kind of objects. What may not be read is in Missing, kinds that the
// cluster does not serve have no objects. It writes nothing. The error names the kind that could not be read.
func Read(ctx context.Context, from client.Reader, o ReadOptions) (*File, error) {
	progress := o.Progress
	if progress == nil {
		progress = func(string) {}
	}
	f := &File{Format: Format, Name: o.Name, Taken: o.Now.UTC().Round(0), Tool: o.Tool}
	progress("reading the objects of the cluster")
	var managers []appsv1.Deployment
	lists := f.Objects.always()
	if o.Settings == nil {
		lists = append(lists, managerListing(&managers))
	}
	if err := f.listAll(ctx, from, lists); err != nil {
		return nil, err
	}
	m := manager{name: ByDovetail}
	if o.Settings != nil {
		m.settings = *o.Settings
	} else {
		m = managerOf(managers, &f.Objects, o.CloudSettings)
	}
	f.Controller, f.Settings = m.name, SettingsOf(m.settings, o.Classes)
	f.Missing = append(f.Missing, m.missing...)
	if more := f.Objects.further(&f.Settings); len(more) > 0 {
		if err := f.listAll(ctx, from, more); err != nil {
			return nil, err
		}
	}
	if n := len(f.Objects.CapacityBuffers); n > 0 {
		f.Missing = append(f.Missing, Missing{What: "virtual pods of CapacityBuffers", Why: "only a controller has them", Then: fmt.Sprintf("a plan keeps no room for %d of them", n)})
	}
	f.adoptNodeGroups()
	var market Market
	if o.Market != nil {
		progress("reading instance types and prices")
		market = o.Market(ctx, MarketRequest{Pools: f.launchPools(), Config: m.settings, Region: f.region()})
	}
	f.fillCatalogues(market)
	return f, nil
}

// listAll lists kinds at the same time.
func (f *File) listAll(ctx context.Context, from client.Reader, lists []listing) error {
	results := make([]error, len(lists))
	var all sync.WaitGroup
	for i := range lists {
		all.Go(func() { results[i] = lists[i].read(ctx, from) })
	}
	all.Wait()
	for i, err := range results {
		what := lists[i].resource
		switch {
		case err == nil || meta.IsNoMatchError(err) || apierrors.IsNotFound(err):
		case apierrors.IsForbidden(err):
			f.Missing = append(f.Missing, Missing{
				What: what, Why: forbidden,
				Then: fmt.Sprintf("%s; request the right to list %s (docs/how-to/plan-a-live-cluster.md has a ClusterRole)", lists[i].then, what),
			})
		case apierrors.IsUnauthorized(err):
			return fmt.Errorf("list %s: the API server does not accept the credentials of the kubeconfig; log in again: %w", what, err)
		case errors.Is(err, context.Canceled):
			return fmt.Errorf("list %s: %w", what, err)
		default:
			return fmt.Errorf("list %s: the API server cannot be used; check the address of the cluster in the kubeconfig, and the network: %w", what, err)
		}
	}
	return nil
}

// region is that of the nodes; empty if they do not say, or say several.
func (f *File) region() string {
	region := ""
	for i := range f.Objects.Nodes {
		switch found := f.Objects.Nodes[i].Labels[corev1.LabelTopologyRegion]; {
		case found == "" || found == region:
		case region != "":
			return ""
		default:
			region = found
		}
	}
	return region
}

// Lacks reports whether a resource could not be read, with what to do about it.
func (f *File) Lacks(resource string) (Missing, bool) {
	i := slices.IndexFunc(f.Missing, func(m Missing) bool { return m.What == resource })
	if i < 0 {
		return Missing{}, false
	}
	return f.Missing[i], true
}

// String is a sentence for notes.
func (m Missing) String() string { return strings.TrimSuffix(m.What+": "+m.Why, ".") + "; " + m.Then }
