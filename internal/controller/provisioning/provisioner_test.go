package provisioning_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/controller/controllertest"
	"github.com/dovetail-sh/dovetail/internal/controller/provisioning"
	"github.com/dovetail-sh/dovetail/internal/execute"
	"github.com/dovetail-sh/dovetail/internal/metric"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/solve"
	"github.com/dovetail-sh/dovetail/internal/store"
)

// lab is a provisioner with a store that the test feeds.
type fixture struct {
	*provisioning.Provisioner
	t        *testing.T
	feed     *informertest.FakeInformers
	client   client.WithWatch
	provider *controllertest.Catalogue
	emitted  *controllertest.Transcript
	metrics  *metric.Set
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	scheme := controllertest.Scheme(t)
	l := &fixture{t: t, feed: &informertest.FakeInformers{Scheme: scheme, Synced: new(true)}, provider: &controllertest.Catalogue{}, emitted: &controllertest.Transcript{}, metrics: metric.New(prometheus.NewRegistry())}
	l.client = fake.NewClientBuilder().WithScheme(scheme).Build()
	batcher := provisioning.NewBatcher(time.Second, 10*time.Second)
	memory := store.New(store.Options{
		Words: awsv1.Vocabulary(), Lanes: resources.NewTable(), Classes: []schema.GroupKind{{Group: awsv1.Group, Kind: awsv1.Kind}}, Now: time.Now, Wake: batcher.Trigger,
	})
	if err := memory.Watch(t.Context(), l.feed); err != nil {
		t.Fatal(err)
	}
	l.Provisioner = &provisioning.Provisioner{
		Store: memory, Cloud: l.provider, Events: l.emitted, Metrics: l.metrics, Batcher: batcher, Policy: solve.Policy{NodeFee: 0.02},
		Claims:     &execute.Claims{Client: l.client, Store: memory, Metrics: l.metrics, Words: awsv1.Vocabulary()},
		Nomination: 20 * time.Second, LaunchBackoff: provisioning.NewLaunchBackoff(awsv1.LabelCapacityReservationID), Pulse: controllertest.Pulse{}, Now: time.Now,
	}
	return l
}

func (l *fixture) add(objects ...metav1.Object) {
	l.t.Helper()
	for _, obj := range objects {
		informer, err := l.feed.FakeInformerFor(l.t.Context(), obj.(client.Object))
		if err != nil {
			l.t.Fatal(err)
		}
		informer.Add(obj)
	}
}

func (l *fixture) claims() []karpv1.NodeClaim {
	l.t.Helper()
	list := &karpv1.NodeClaimList{}
	if err := l.client.List(l.t.Context(), list); err != nil {
		l.t.Fatal(err)
	}
	return list.Items
}

// S-001, S-006: pods that fit together get one node, the cheapest that holds them, and hear of it.
func TestPassOrdersNodes(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	l.add(controllertest.ReadyPool("general"), controllertest.PendingPod("a", "500m"), controllertest.PendingPod("b", "500m"))
	l.Pass(t.Context())
	claims := l.claims()
	if len(claims) != 1 {
		t.Fatalf("%d claims, want one for both pods", len(claims))
	}
	requirements := claims[0].Spec.Requirements
	types := requirements[len(requirements)-1]
	if types.Key != corev1.LabelInstanceTypeStable || types.Values[0] != "small" {
		t.Errorf("types = %+v, want the cheapest first", types)
	}
	for _, pod := range []string{"a", "b"} {
		if !l.emitted.Saw(pod+" Nominated", "nodeclaim/"+claims[0].Name) {
			t.Errorf("no event of pod %s names its claim: %q", pod, l.emitted.Said)
		}
	}
}

// G8, decision 6: the claim in flight is found again, by the same pods and by others that fit, and
// planning does not wait for it.
func TestFM_G8_NoSecondClaim(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	l.add(controllertest.ReadyPool("general"), controllertest.PendingPod("a", "500m"))
	for range 3 {
		l.Pass(t.Context())
	}
	if n := len(l.claims()); n != 1 {
		t.Fatalf("%d claims after three passes, want one", n)
	}
	l.add(controllertest.PendingPod("big", "6"))
	l.Pass(t.Context())
	if n := len(l.claims()); n != 2 {
		t.Errorf("%d claims, want another for a pod that does not fit the first, at once", n)
	}
}

// Scheduling 3.4, 6.3: pods that cannot be helped hear why, and the others are helped.
func TestPodsThatCannotBeHelped(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	invalid := controllertest.PendingPod("invalid", "1")
	invalid.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "x"}
	silent := controllertest.PendingPod("silent", "1")
	silent.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: karpv1.LabelNodePool, Operator: corev1.NodeSelectorOpDoesNotExist}}}},
	}}}
	l.add(controllertest.ReadyPool("general"), invalid, silent, controllertest.PendingPod("huge", "100"), controllertest.PendingPod("fine", "1"))
	l.Pass(t.Context())
	if n := len(l.claims()); n != 1 {
		t.Errorf("%d claims, want one for the pod that can be helped", n)
	}
	if !l.emitted.Saw("invalid FailedScheduling", "kubernetes.io/hostname") {
		t.Errorf("an invalid pod has no event that says why: %q", l.emitted.Said)
	}
	if !l.emitted.Saw("huge FailedScheduling", "cpu") {
		t.Errorf("a pod too large for every type has no event that says why: %q", l.emitted.Said)
	}
	if l.emitted.Saw("silent ") {
		t.Errorf("a pod that wants none of our nodes got an event: %q", l.emitted.Said)
	}
}

// SC-09: a pool whose requirements leave nothing says so.
func TestPoolWithoutTypes(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	pool := controllertest.ReadyPool("arm")
	pool.Spec.Template.Spec.Requirements = []karpv1.Requirement{{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"arm64"}}}
	l.add(pool, controllertest.PendingPod("a", "1"))
	l.Pass(t.Context())
	if !l.emitted.Saw("arm NoCompatibleInstanceTypes", "kubernetes.io/arch") {
		t.Errorf("said %q", l.emitted.Said)
	}
}

// SC-08, FM I17: a pool that cannot say what it offers does not hold up others; nor does a bad object.
func TestPassSurvives(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	l.add(controllertest.ReadyPool("general"), controllertest.PendingPod("a", "1"))
	l.provider.Err = errors.New("no route to host")
	l.Pass(t.Context())
	if n := len(l.claims()); n != 0 {
		t.Errorf("%d claims although nothing is known to launch", n)
	}
	l.provider.Err = nil
	l.Pass(t.Context())
	if n := len(l.claims()); n != 1 {
		t.Errorf("%d claims after the pool recovered, want one", n)
	}
}

// The loop plans a second after the first pod, and a panic in one pass does not end it (G9).
func TestLoop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newFixture(t)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- l.Start(ctx) }()
		l.provider.Panic = true
		l.add(controllertest.ReadyPool("general"), controllertest.PendingPod("a", "1"))
		time.Sleep(time.Second)
		synctest.Wait()
		l.provider.Panic = false
		if n := len(l.claims()); n != 0 {
			t.Fatalf("%d claims", n)
		}
		l.add(controllertest.PendingPod("b", "1"))
		time.Sleep(999 * time.Millisecond)
		synctest.Wait()
		if n := len(l.claims()); n != 0 {
			t.Errorf("%d claims before the window closed", n)
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if n := len(l.claims()); n != 1 {
			t.Errorf("%d claims when the window closed, want one: no poll in between", n)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
