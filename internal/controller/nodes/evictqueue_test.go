package nodes_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/go-logr/logr"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/drain"
)

// offlineManager runs controllers that watch nothing.
func offlineManager(t *testing.T, w *world) ctrl.Manager {
	t.Helper()
	mgr, err := ctrl.NewManager(&rest.Config{Host: "http://127.0.0.1:1"}, ctrl.Options{
		Scheme:     w.client.Scheme(),
		Logger:     logr.Discard(),
		Metrics:    server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
			return w.client.RESTMapper(), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return mgr
}

// The queue works what was requested before it started and after, and each pod once although it is requested
// all the time.
func TestTheQueueEvictsEachPodOnce(t *testing.T) {
	t.Parallel()
	const before, all = 50, 300
	evicted := make(chan types.UID, 2*all)
	objects := []client.Object{endNodeObject()}
	for i := range all {
		objects = append(objects, endPod(fmt.Sprintf("p%d", i)))
	}
	w := newWorld(t, interceptor.Funcs{
		SubResourceCreate: func(_ context.Context, _ client.Client, _ string, _, sub client.Object, _ ...client.SubResourceCreateOption) error {
			evicted <- *sub.(*policyv1.Eviction).DeleteOptions.Preconditions.UID
			return nil
		},
	}, objects...)
	w.delete(endNodeObject())
	add := func(i int) {
		name := fmt.Sprintf("p%d", i)
		w.queue.Add(drain.Eviction{Pod: cluster.PodID{Namespace: "default", Name: name, UID: types.UID("uid-" + name)}, Node: "n"})
	}
	for i := range before {
		add(i)
	}
	w.queue.Workers = loop.Workers(100, 5000, 1000)
	mgr := offlineManager(t, w)
	if err := w.queue.Register(mgr); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()

	seen := map[types.UID]int{}
	for len(seen) < all {
		for i := range all {
			add(i)
		}
		seen[<-evicted]++
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	close(evicted)
	for uid := range evicted {
		seen[uid]++
	}
	for uid, times := range seen {
		if times != 1 {
			t.Errorf("pod %s was evicted %d times", uid, times)
		}
	}
}

func TestTerminationControllersRegister(t *testing.T) {
	t.Parallel()
	w := newWorld(t, interceptor.Funcs{})
	if err := w.nodes.Register(offlineManager(t, w)); err != nil {
		t.Error(err)
	}
}
