package takeover

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const leaseName = "karpenter-leader-election"

// leaseHolder is who has the lease; empty if there is none.
func leaseHolder(t *testing.T, namespace string) string {
	t.Helper()
	lease := &coordinationv1.Lease{}
	if err := kube.Get(context.WithoutCancel(t.Context()), client.ObjectKey{Namespace: namespace, Name: leaseName}, lease); err != nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// waitForLeader waits until there is a suitable leader, and returns it. Pods are processes of one machine here, and have its name.
func waitForLeader(t *testing.T, what string, fits func(holder string) bool) string {
	t.Helper()
	var now string
	waitUntil(t, what+" leads", func() (bool, string) {
		now = leaseHolder(t, namespace)
		return now != "" && fits(now), "the holder is " + now
	})
	return now
}

func isPredecessor(holder string) bool { return strings.HasSuffix(holder, "_predecessor") }

func isDovetail(holder string) bool {
	return !isPredecessor(holder) && !strings.HasSuffix(holder, "_uninstall")
}

// holders is who held a lease, in order; an empty name is a lease that was given back.
type holders struct {
	mu   sync.Mutex
	list []string
	stop func()
}

// followLease writes down who holds the lease until the test ends.
func followLease(t *testing.T) *holders {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	w, err := kube.Watch(ctx, &coordinationv1.LeaseList{}, client.InNamespace(namespace), client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", leaseName)})
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	h := &holders{}
	var ended sync.WaitGroup
	ended.Go(func() {
		for event := range w.ResultChan() {
			if lease, ok := event.Object.(*coordinationv1.Lease); ok && event.Type != watch.Deleted && lease.Spec.HolderIdentity != nil {
				h.add(*lease.Spec.HolderIdentity)
			}
		}
	})
	h.stop = func() {
		cancel()
		w.Stop()
		ended.Wait()
	}
	t.Cleanup(h.stop)
	return h
}

func (h *holders) add(holder string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.list) == 0 || h.list[len(h.list)-1] != holder {
		h.list = append(h.list, holder)
	}
}

// handedOver fails if the lease was ever taken from a holder that had not released it: a leader gives it back when all that
// it ran has stopped, and until then it may act. It returns those who led, in order.
func (h *holders) handedOver(t *testing.T) []string {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, holder := range h.list {
		if i > 0 && holder != "" && h.list[i-1] != "" {
			t.Errorf("%s leads although %s had not given the lease back: %q", holder, h.list[i-1], h.list)
		}
	}
	return slices.DeleteFunc(slices.Clone(h.list), func(holder string) bool { return holder == "" })
}
