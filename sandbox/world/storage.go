package world

import (
	"context"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// installStorage makes the class that claims get which name none. One that is there stays as it is:
// a user may have changed it.
func (w *World) installStorage(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(w.ControlPlane.Config)
	if err != nil {
		return err
	}
	_, err = client.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta:        metav1.ObjectMeta{Name: "gp3", Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}},
		Provisioner:       ebsDriver,
		Parameters:        map[string]string{"type": "gp3"},
		VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
