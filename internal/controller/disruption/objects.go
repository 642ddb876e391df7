package disruption

import (
	"context"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

const (
	maxWriteTries = 5  // attempts to write an object that other clients write too
	manyWorkers   = 20 // objects that are read or written at a time
)

// objects reads and writes the objects of commands.
type objects struct {
	client client.Client
	reader client.Reader // of the API server itself
}

// patchWithRetry changes an object that other clients write too. It tries the cached object first. After a
// conflict it reads from the API server. An object that is not found is an error; callers decide whether to
// ignore it.
func (o objects) patchWithRetry(ctx context.Context, obj client.Object, status bool, change func() (done bool)) error {
	var err error
	for i := range maxWriteTries {
		reader := client.Reader(o.client)
		if i > 0 {
			reader = o.reader
		}
		if err = reader.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		before := obj.DeepCopyObject().(client.Object)
		if change() {
			return nil
		}
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if status {
			err = o.client.Status().Patch(ctx, obj, patch)
		} else {
			err = o.client.Patch(ctx, obj, patch)
		}
		if !apierrors.IsConflict(err) {
			return err
		}
	}
	return err
}

// pools is the part of the store that knows NodePools.
type pools interface {
	Pools() []*karpv1.NodePool
}

// poolNamed returns a pool, or nil.
func poolNamed(store pools, name string) *karpv1.NodePool {
	for _, p := range store.Pools() {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// forEach calls do for the numbers below n, several at a time. When all are done it returns their errors, by
// number. One that panics fails, and the others go on (G9).
func forEach(m *metric.Set, n int, do func(i int) error) []error {
	return forEachWith(m, manyWorkers, n, do)
}

// forEachWith is forEach with a number of workers. One worker keeps the order.
func forEachWith(m *metric.Set, workers, n int, do func(i int) error) []error {
	var wait sync.WaitGroup
	slots, failed := make(chan struct{}, workers), make([]error, n)
	for i := range n {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			one := loop.Ticker{Name: "disruption", Metrics: m, Pass: func(context.Context) error { return do(i) }}
			failed[i] = one.RunOnce(context.Background())
		})
	}
	wait.Wait()
	return failed
}
