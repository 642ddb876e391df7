package fakenode

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// renewLeases renews the lease of one node after the other. A node whose heart does not beat falls out
// of the queue; note puts it back.
func (s *Simulator) renewLeases(ctx context.Context) {
	for {
		name, stop := s.leaseQueue.Get()
		if stop {
			return
		}
		if m, ok := s.machineOfNode(name); ok && m.renewsLease(name) && ctx.Err() == nil {
			again := s.LeaseDuration / 4
			if err := s.renewLease(ctx, name); err != nil {
				again = min(again, time.Second)
				if ctx.Err() == nil {
					s.Log.Warn("fakenode: renew lease", "node", name, "error", err)
				}
			}
			s.leaseQueue.AddAfter(name, again)
		}
		s.leaseQueue.Done(name)
	}
}

func (s *Simulator) renewLease(ctx context.Context, name string) error {
	leases := s.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	now := metav1.NowMicro()
	body := patch(map[string]any{"spec": map[string]any{"renewTime": now}})
	_, err := leases.Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{})
	if !apierrors.IsNotFound(err) {
		return err
	}
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new(name), RenewTime: &now,
			LeaseDurationSeconds: new(max(1, int32(s.LeaseDuration/time.Second))),
		},
	}
	n, err := s.nodes.Get(name)
	if err != nil {
		return client.IgnoreNotFound(err) // the Node has just gone, and its lease with it
	}
	lease.OwnerReferences = []metav1.OwnerReference{ownedBy(n)}
	_, err = leases.Create(ctx, lease, metav1.CreateOptions{})
	return err
}
