package controller_test

import (
	"context"
	"strings"
	"testing"

	"github.com/go-logr/logr/testr"
	"github.com/spf13/pflag"
	coordinationv1 "k8s.io/api/coordination/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/app"
	"github.com/dovetail-sh/dovetail/internal/aws"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/config"
	"github.com/dovetail-sh/dovetail/sandbox/harness"
	"github.com/dovetail-sh/dovetail/sandbox/world"
)

// The control plane that all tests share.
var server *harness.Server

func TestMain(m *testing.M) { harness.Main(m, harness.Options{World: true}, &server) }

// startController runs the controller until the test ends.
func startController(t *testing.T, args ...string) {
	t.Helper()
	for _, line := range server.World.Environment() {
		name, value, _ := strings.Cut(line, "=")
		t.Setenv(name, value)
	}
	flags := pflag.NewFlagSet("controller", pflag.ContinueOnError)
	loader := config.Bind(flags, aws.Driver().Settings)
	args = append([]string{"--cluster-name=" + world.Cluster, "--metrics-port=0", "--health-probe-port=0", "--leader-election-namespace=default"}, args...)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	cfg, _, err := loader.Load(func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() {
		done <- app.Run(ctx, aws.Driver(), cfg, server.Config, testr.NewWithOptions(t, testr.Options{Verbosity: -1}))
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the controller ended with: %v", err)
		}
	})
}

func isValidated(name string) func(*karpv1.NodePool) bool {
	return func(p *karpv1.NodePool) bool {
		c := condition.Find(p.Status.Conditions, karpv1.ConditionValidationSucceeded)
		return p.Name == name && c != nil && c.Status != metav1.ConditionUnknown
	}
}

// One controller for all flows, as in a cluster: the lease allows no second one.
func TestPools(t *testing.T) {
	c := server.Typed(t)
	// What another controller left behind: its hashes, under its version.
	taken := harness.Create(t, c, &karpv1.NodePool{}, `
metadata: {name: taken, annotations: {karpenter.sh/nodepool-hash: "1", karpenter.sh/nodepool-hash-version: v3}}
spec: {template: {spec: {requirements: [], nodeClassRef: {name: c}}}}`)
	for name, hash := range map[string]string{"fresh": "1", "drifted": "2"} {
		claim := harness.Create(t, c, &karpv1.NodeClaim{}, `
metadata: {name: `+name+`, labels: {karpenter.sh/nodepool: taken}, annotations: {karpenter.sh/nodepool-hash: "`+hash+`", karpenter.sh/nodepool-hash-version: v3}}
spec: {requirements: [], nodeClassRef: {name: c}}`)
		claim.Status.ProviderID = "aws:///eu-west-1a/i-" + name // launched, so that no controller launches it
		claim.Status.Conditions = []metav1.Condition{{Type: karpv1.ConditionLaunched, Status: metav1.ConditionTrue, Reason: "Launched", LastTransitionTime: metav1.Now()}}
		if name == "drifted" {
			claim.Status.Conditions = append(claim.Status.Conditions,
				metav1.Condition{Type: karpv1.ConditionDrifted, Status: metav1.ConditionTrue, Reason: "NodePoolDrifted", LastTransitionTime: metav1.Now()})
		}
		if err := c.Status().Update(t.Context(), claim); err != nil {
			t.Fatal(err)
		}
	}
	startController(t)

	t.Run("API-8 take-over restamps claims and drifts none", func(t *testing.T) {
		pool := harness.Eventually(t, c, &karpv1.NodePoolList{}, "pool taken judged", isValidated(taken.Name))
		hash := pool.Annotations[karpv1.AnnotationNodePoolHash]
		if hash == "1" || pool.Annotations[karpv1.AnnotationNodePoolHashVersion] != "dovetail-1" {
			t.Errorf("annotations of the pool %v", pool.Annotations)
		}
		for name, want := range map[string]string{"fresh": hash, "drifted": "2"} {
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
		harness.Create(t, c, &karpv1.NodePool{}, `
metadata: {name: sloppy}
spec:
  template: {spec: {requirements: [], nodeClassRef: {name: c, apiVersion: karpenter.k8s.aws/v1beta1}}}
  disruption: {consolidationPolicy: WhenUnderutilized, expireAfter: 24h}`)
		for _, rule := range []string{"L-03", "L-09", "L-10"} {
			harness.Eventually(t, c, &eventsv1.EventList{}, "event for "+rule, func(e *eventsv1.Event) bool {
				return e.Regarding.Name == "sloppy" && e.Reason == "DefaultAssumed" && strings.Contains(e.Note, rule) && e.ReportingController == "karpenter"
			})
		}
	})
	t.Run("API-3.2 what a schema cannot see is named in the condition, and goes when it is mended", func(t *testing.T) {
		pool := harness.Create(t, c, &karpv1.NodePool{}, `
metadata: {name: broken}
spec: {template: {spec: {requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [cheap]}], nodeClassRef: {name: c}}}}`)
		got := harness.Eventually(t, c, &karpv1.NodePoolList{}, "pool broken judged", isValidated(pool.Name))
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
		harness.Eventually(t, c, &karpv1.NodePoolList{}, "pool broken mended", func(p *karpv1.NodePool) bool {
			return p.Name == pool.Name && condition.True(p.Status.Conditions, karpv1.ConditionValidationSucceeded)
		})
	})
	t.Run("API-1 a pool of another provider is left alone", func(t *testing.T) {
		harness.Create(t, c, &karpv1.NodePool{}, `
metadata: {name: foreign}
spec: {template: {spec: {requirements: [], nodeClassRef: {group: example.com, kind: Other, name: c}}}}`)
		harness.Create(t, c, &karpv1.NodePool{}, `
metadata: {name: later}
spec: {template: {spec: {requirements: [], nodeClassRef: {name: c}}}}`)
		// Pools are taken in the order of their events: once the later one is done, so is the earlier.
		harness.Eventually(t, c, &karpv1.NodePoolList{}, "pool later judged", isValidated("later"))
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
			t.Error("the lease has no holder")
		}
	})
}
