package store

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/dovetail-sh/dovetail/internal/cluster"
)

// volumes are the objects that describe the volumes of pods.
type volumes struct {
	cluster.VolumeObjects

	revision uint64 // counts changes
}

func newVolumes() volumes {
	return volumes{VolumeObjects: cluster.VolumeObjects{
		Claims: map[podKey]*corev1.PersistentVolumeClaim{}, Volumes: map[string]*corev1.PersistentVolume{}, Classes: map[string]*storagev1.StorageClass{},
	}}
}

// volumeLimits is how many volumes a node can attach (V15-57, V15-58). As long as a driver has published
// nothing for it, what its type declares counts: else plans would put more pods on a node that is on its way
// than it can take. Of a claim that may still become one of several types the least counts.
func (x index) volumeLimits(n *cluster.Node, published *storagev1.CSINode) map[string]int {
	names := []string{n.InstanceType}
	if n.InstanceType == "" {
		names = n.Needs[corev1.LabelInstanceTypeStable].Values
	}
	limits := n.VolumeLimits
	for _, name := range names {
		t := x.find(n.Pool, name)
		if t == nil {
			continue
		}
		limits = cluster.WithDeclaredLimits(limits, t.VolumeLimits, published)
	}
	return limits
}

// publishedLimits is what drivers have said of the node of a place; nil: nothing yet.
func (s *Store) publishedLimits(p *place) *storagev1.CSINode {
	if p.node == nil {
		return nil
	}
	return s.csi[p.node.Name]
}
