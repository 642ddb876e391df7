package store

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/dovetail-sh/dovetail/internal/cluster"
)

// volumes finds what stands behind the volumes of pods.
type volumes struct {
	cluster.VolumeObjects

	revision uint64 // counts changes
}

func newVolumes() volumes {
	return volumes{VolumeObjects: cluster.VolumeObjects{
		Claims: map[podKey]*corev1.PersistentVolumeClaim{}, Volumes: map[string]*corev1.PersistentVolume{}, Classes: map[string]*storagev1.StorageClass{},
	}}
}
