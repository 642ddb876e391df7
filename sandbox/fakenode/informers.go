package fakenode

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
)

const podsByNode = "node"

// reader is the watch-fed view of the cluster.
type reader struct {
	nodes       corelisters.NodeLister
	pods        corelisters.PodLister
	podIndex    cache.Indexer
	attachments storagelisters.VolumeAttachmentLister
	classes     storagelisters.StorageClassLister
	claims      corelisters.PersistentVolumeClaimLister
	volumes     corelisters.PersistentVolumeLister
	factories   []informers.SharedInformerFactory
}

func (s *Simulator) startInformers(ctx context.Context) error {
	all := informers.NewSharedInformerFactoryWithOptions(s.Client, 0, informers.WithTransform(stripObject))
	bound := informers.NewSharedInformerFactoryWithOptions(s.Client, 0, informers.WithTransform(stripObject),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermNotEqualSelector("spec.nodeName", "").String()
		}))
	s.factories = []informers.SharedInformerFactory{all, bound}
	nodes, pods, attachments := all.Core().V1().Nodes(), bound.Core().V1().Pods(), all.Storage().V1().VolumeAttachments()
	claims, volumes, classes := all.Core().V1().PersistentVolumeClaims(), all.Core().V1().PersistentVolumes(), all.Storage().V1().StorageClasses()
	s.nodes, s.pods, s.attachments = nodes.Lister(), pods.Lister(), attachments.Lister()
	s.claims, s.volumes, s.classes = claims.Lister(), volumes.Lister(), classes.Lister()
	s.podIndex = pods.Informer().GetIndexer()
	indexErr := pods.Informer().AddIndexers(cache.Indexers{podsByNode: func(o any) ([]string, error) {
		if p, ok := o.(*corev1.Pod); ok {
			return []string{p.Spec.NodeName}, nil
		}
		return nil, nil
	}})
	_, nodeErr := nodes.Informer().AddEventHandler(eventHandler(s.nodeSeen, s.nodeSeen))
	_, podErr := pods.Informer().AddEventHandler(eventHandler(s.podSeen, s.onPodDeleted))
	_, attachmentErr := attachments.Informer().AddEventHandler(eventHandler(s.attachmentSeen, func(*storagev1.VolumeAttachment) {}))
	_, claimErr := claims.Informer().AddEventHandler(eventHandler(s.claimSeen, func(*corev1.PersistentVolumeClaim) {}))
	_, volumeErr := volumes.Informer().AddEventHandler(eventHandler(s.volumeSeen, func(*corev1.PersistentVolume) {}))
	_, classErr := classes.Informer().AddEventHandler(eventHandler(func(*storagev1.StorageClass) {}, func(*storagev1.StorageClass) {}))
	if err := errors.Join(indexErr, nodeErr, podErr, attachmentErr, claimErr, volumeErr, classErr); err != nil {
		return fmt.Errorf("fakenode: %w", err)
	}
	for _, f := range s.factories {
		f.Start(ctx.Done())
	}
	for _, f := range s.factories {
		for kind, ok := range f.WaitForCacheSync(ctx.Done()) {
			if !ok {
				s.stopInformers()
				return fmt.Errorf("fakenode: stopped before the first list of %s", kind)
			}
		}
	}
	return nil
}

func (s *Simulator) stopInformers() {
	for _, f := range s.factories {
		f.Shutdown()
	}
}

// stripObject removes what is large and of no use here.
func stripObject(o any) (any, error) {
	if m, ok := o.(metav1.Object); ok {
		m.SetManagedFields(nil)
	}
	return o, nil
}

// eventHandler calls seen for what is there and gone for what is not any more.
func eventHandler[T any](seen, gone func(T)) cache.ResourceEventHandlerFuncs {
	on := func(f func(T)) func(any) {
		return func(o any) {
			if t, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = t.Obj
			}
			if t, ok := o.(T); ok {
				f(t)
			}
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: on(seen), DeleteFunc: on(gone),
		UpdateFunc: func(_, o any) { on(seen)(o) },
	}
}

// podsOf has all pods of a node looked at.
func (s *Simulator) podsOf(node string) {
	keys, err := s.podIndex.IndexKeys(podsByNode, node)
	if err != nil {
		return // there is no such index before Run
	}
	for _, key := range keys {
		s.podQueue.Add(key)
	}
}

func (s *Simulator) podSeen(p *corev1.Pod) {
	s.addresses.recordAddress(p)
	switch p.Status.Phase {
	case corev1.PodRunning:
		s.room.holdPlace(p)
	case corev1.PodSucceeded, corev1.PodFailed:
		s.room.release(p)
	}
	s.podQueue.Add(p.Namespace + "/" + p.Name)
	s.volumesChanged(p)
}

// volumesChanged has the node of a pod with volumes looked at: it reports which are in use.
func (s *Simulator) volumesChanged(p *corev1.Pod) {
	if len(claimNames(p)) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if id, known := s.byNode[p.Spec.NodeName]; known {
		s.nodeQueue.Add(id)
	}
}

func (s *Simulator) onPodDeleted(p *corev1.Pod) {
	s.addresses.release(p)
	s.room.release(p)
	s.podQueue.Add(p.Namespace + "/" + p.Name) // what runs of it ends
	s.volumesChanged(p)
}

func (s *Simulator) attachmentSeen(a *storagev1.VolumeAttachment) {
	s.storageQueue.Add(attachmentKey + a.Name)
}

func (s *Simulator) claimSeen(c *corev1.PersistentVolumeClaim) {
	s.storageQueue.Add(claimKey + c.Namespace + "/" + c.Name)
}

func (s *Simulator) volumeSeen(v *corev1.PersistentVolume) { s.storageQueue.Add(volumeKey + v.Name) }
