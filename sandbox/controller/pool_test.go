package controller_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/spf13/pflag"
	coordinationv1 "k8s.io/api/coordination/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/app"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/config"
	"github.com/dovetail-sh/dovetail/sandbox/controlplane"
	"github.com/dovetail-sh/dovetail/sandbox/kubectl"
)

// The API server that all tests share.
var kube *rest.Config

func TestMain(m *testing.M) {
	code, err := withServer(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func withServer(run func() int) (code int, err error) {
	dir, err := os.MkdirTemp("", "dovetail-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	cp, err := controlplane.Start(ctx, controlplane.Options{Dir: dir, NoControllers: true, NoScheduler: true})
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, cp.Stop()) }()
	installer, err := kubectl.New(cp.Config)
	if err != nil {
		return 1, err
	}
	if _, err := installer.InstallCRDs(ctx); err != nil {
		return 1, err
	}
	kube = cp.Config
	return run(), nil
}

func newClient(t *testing.T) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, karpv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.NewWithWatch(kube, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// startController runs the controller until the test ends.
func startController(t *testing.T, args ...string) {
	t.Helper()
	flags := pflag.NewFlagSet("controller", pflag.ContinueOnError)
	loader := config.Bind(flags)
	args = append([]string{"--cluster-name=test", "--metrics-port=0", "--health-probe-port=0", "--leader-election-namespace=default"}, args...)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	cfg, _, err := loader.Load(func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- app.Run(ctx, cfg, kube, testr.NewWithOptions(t, testr.Options{Verbosity: -1})) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the controller ended with: %v", err)
		}
	})
}

// eventually waits on a watch until one object satisfies the test, and returns it.
func eventually[T client.Object](t *testing.T, c client.WithWatch, list client.ObjectList, what string, holds func(T) bool) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w, err := c.Watch(ctx, list)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			t.Fatalf("never seen: %s", what)
		case event, open := <-w.ResultChan():
			if !open {
				t.Fatalf("the watch ended before: %s", what)
			}
			obj, ok := event.Object.(T)
			if ok && event.Type != watch.Deleted && holds(obj) {
				return obj
			}
		}
	}
}

func create[T client.Object](t *testing.T, c client.Client, obj T, text string) T {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), obj); err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Delete(context.WithoutCancel(t.Context()), obj); err != nil {
			t.Error(err)
		}
	})
	return obj
}

func judged(name string) func(*karpv1.NodePool) bool {
	return func(p *karpv1.NodePool) bool {
		c := condition.Find(p.Status.Conditions, karpv1.ConditionValidationSucceeded)
		return p.Name == name && c != nil && c.Status != metav1.ConditionUnknown
	}
}

// One controller for all flows, as in a cluster: the lease allows no second one.
func TestPools(t *testing.T) {
	c := newClient(t)
	// What another controller left behind: its hashes, under its version.
	taken := create(t, c, &karpv1.NodePool{}, `
metadata: {name: taken, annotations: {karpenter.sh/nodepool-hash: "1", karpenter.sh/nodepool-hash-version: v3}}
spec: {template: {spec: {requirements: [], nodeClassRef: {name: c}}}}`)
	for _, name := range []string{"fresh", "drifted"} {
		claim := create(t, c, &karpv1.NodeClaim{}, `
metadata: {name: `+name+`, labels: {karpenter.sh/nodepool: taken}, annotations: {karpenter.sh/nodepool-hash: "1", karpenter.sh/nodepool-hash-version: v3}}
spec: {requirements: [], nodeClassRef: {name: c}}`)
		if name == "drifted" {
			claim.Status.Conditions = []metav1.Condition{{Type: karpv1.ConditionDrifted, Status: metav1.ConditionTrue, Reason: "NodePoolDrifted", LastTransitionTime: metav1.Now()}}
			if err := c.Status().Update(t.Context(), claim); err != nil {
				t.Fatal(err)
			}
		}
	}
	startController(t)

	t.Run("API-8 take-over restamps claims and drifts none", func(t *testing.T) {
		pool := eventually(t, c, &karpv1.NodePoolList{}, "pool taken judged", judged(taken.Name))
		hash := pool.Annotations[karpv1.AnnotationNodePoolHash]
		if hash == "1" || pool.Annotations[karpv1.AnnotationNodePoolHashVersion] != "dovetail-1" {
			t.Errorf("annotations of the pool %v", pool.Annotations)
		}
		for name, want := range map[string]string{"fresh": hash, "drifted": "1"} {
			claim := &karpv1.NodeClaim{}
			if err := c.Get(t.Context(), client.ObjectKey{Name: name}, claim); err != nil {
				t.Fatal(err)
			}
			if got := claim.Annotations; got[karpv1.AnnotationNodePoolHash] != want || got[karpv1.AnnotationNodePoolHashVersion] != "dovetail-1" {
				t.Errorf("annotations of claim %s %v, want hash %s", name, got, want)
			}
		}
	})
	t.Run("API-13 every assumption is an event of its own", func(t *testing.T) {
		create(t, c, &karpv1.NodePool{}, `
metadata: {name: sloppy}
spec:
  template: {spec: {requirements: [], nodeClassRef: {name: c, apiVersion: karpenter.k8s.aws/v1beta1}}}
  disruption: {consolidationPolicy: WhenUnderutilized, expireAfter: 24h}`)
		for _, rule := range []string{"L-03", "L-09", "L-10"} {
			eventually(t, c, &eventsv1.EventList{}, "event for "+rule, func(e *eventsv1.Event) bool {
				return e.Regarding.Name == "sloppy" && e.Reason == "DefaultAssumed" && strings.Contains(e.Note, rule) && e.ReportingController == "karpenter"
			})
		}
	})
	t.Run("API-3.2 what a schema cannot see is named in the condition, and goes when it is mended", func(t *testing.T) {
		pool := create(t, c, &karpv1.NodePool{}, `
metadata: {name: broken}
spec: {template: {spec: {requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [cheap]}], nodeClassRef: {name: c}}}}`)
		got := eventually(t, c, &karpv1.NodePoolList{}, "pool broken judged", judged(pool.Name))
		failed := condition.Find(got.Status.Conditions, karpv1.ConditionValidationSucceeded)
		if failed.Status != metav1.ConditionFalse || failed.Reason != "NodePoolValidationFailed" || !strings.Contains(failed.Message, "cheap is not a known value") {
			t.Errorf("condition %+v", failed)
		}
		if ready := condition.Find(got.Status.Conditions, karpv1.ConditionReady); ready.Status != metav1.ConditionFalse {
			t.Errorf("Ready is %s", ready.Status)
		}
		before := got.DeepCopy()
		got.Spec.Template.Spec.Requirements[0].Values = []string{"spot"}
		if err := c.Patch(t.Context(), got, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
		eventually(t, c, &karpv1.NodePoolList{}, "pool broken mended", func(p *karpv1.NodePool) bool {
			return p.Name == pool.Name && condition.True(p.Status.Conditions, karpv1.ConditionValidationSucceeded)
		})
	})
	t.Run("API-1 a pool of another provider is left alone", func(t *testing.T) {
		create(t, c, &karpv1.NodePool{}, `
metadata: {name: foreign}
spec: {template: {spec: {requirements: [], nodeClassRef: {group: example.com, kind: Other, name: c}}}}`)
		create(t, c, &karpv1.NodePool{}, `
metadata: {name: later}
spec: {template: {spec: {requirements: [], nodeClassRef: {name: c}}}}`)
		// Pools are taken in the order of their events: once the later one is done, so is the earlier.
		eventually(t, c, &karpv1.NodePoolList{}, "pool later judged", judged("later"))
		foreign := &karpv1.NodePool{}
		if err := c.Get(t.Context(), client.ObjectKey{Name: "foreign"}, foreign); err != nil {
			t.Fatal(err)
		}
		if len(foreign.Status.Conditions) > 0 || len(foreign.Annotations) > 0 {
			t.Errorf("it was written to: %v %v", foreign.Annotations, foreign.Status.Conditions)
		}
	})
	t.Run("the lease is the one Karpenter uses", func(t *testing.T) {
		lease := &coordinationv1.Lease{}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "karpenter-leader-election"}, lease); err != nil {
			t.Fatal(err)
		}
		if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
			t.Error("nobody holds the lease")
		}
	})
}
