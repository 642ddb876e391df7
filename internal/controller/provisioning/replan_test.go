package provisioning_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/controller/controllertest"
)

// launchAll is what happens when the cloud responds: each claim has the cheapest type it allows.
func (l *fixture) launchAll() {
	for _, c := range l.claims() {
		types := c.Spec.Requirements[len(c.Spec.Requirements)-1]
		cpu := map[string]string{"small": "2", "large": "8"}[types.Values[0]]
		size := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("32Gi"), corev1.ResourcePods: resource.MustParse("110")}
		c.Status.ProviderID, c.Status.Capacity, c.Status.Allocatable = "aws:///a/"+c.Name, size, size
		c.Labels[corev1.LabelInstanceTypeStable], c.Labels[corev1.LabelTopologyZone] = types.Values[0], "a"
		c.Labels[karpv1.LabelCapacityType] = karpv1.CapacityTypeOnDemand
		l.add(&c)
	}
}

// G8: whatever mix of pods comes in whatever waves, a later plan finds a place for each of them on the
// claims that are on their way, and orders nothing for pods that were planned before.
func TestFM_G8_MixedPodsFindTheirClaimsAgain(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(l *fixture){
		"not launched yet": func(*fixture) {},
		"launched":         (*fixture).launchAll,
		"with a DaemonSet": func(*fixture) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(15) {
				l := newFixture(t)
				l.add(controllertest.ReadyPool("general"))
				if name == "with a DaemonSet" {
					set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "agent", UID: "agent"}}
					set.Spec.Template.Spec = controllertest.PendingPod("agent", "200m").Spec
					l.add(set)
				}
				random := rand.New(rand.NewPCG(seed, 1))
				for wave := range 3 {
					for i := range 3 + random.IntN(20) {
						l.add(controllertest.PendingPod(fmt.Sprintf("p%d-%d", wave, i), fmt.Sprintf("%dm", 100+100*random.IntN(40))))
					}
					l.Pass(t.Context())
				}
				before := len(l.claims())
				prepare(l)
				l.Pass(t.Context())
				l.Pass(t.Context())
				if after := len(l.claims()); after != before {
					t.Errorf("seed %d: %d claims, and %d after two more plans for the same pods", seed, before, after)
				}
			}
		})
	}
}

// A pod that comes before the node of another is launched goes there too if whatever is launched has room for it.
func TestRoomOfClaimsIsUsedBeforeTheyAreLaunched(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	l.add(controllertest.ReadyPool("general"), controllertest.PendingPod("first", "500m"))
	l.Pass(t.Context())
	l.add(controllertest.PendingPod("second", "500m"))
	l.Pass(t.Context())
	if claims := l.claims(); len(claims) != 1 {
		t.Errorf("%d claims for two pods of half a core that come one after the other, want one", len(claims))
	}
}

// G8, FM D03, D04: the watch of claims stands still for minutes. Claims that the API server has count,
// so their pods get no others; one that vanished before any watch delivered it does not (FM D10).
func TestFM_G8_ClaimsThatNoWatchTellsOf(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newFixture(t)
		l.add(controllertest.ReadyPool("general"), controllertest.PendingPod("a", "1"))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.Start(ctx) }()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		claims := l.claims()
		if len(claims) != 1 {
			t.Fatalf("%d claims for one pod, want one", len(claims))
		}
		claims[0].Finalizers = nil
		if err := l.client.Update(ctx, &claims[0]); err != nil {
			t.Fatal(err)
		}
		if err := l.client.Delete(ctx, &claims[0]); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if now := l.claims(); len(now) != 1 || now[0].Name == claims[0].Name {
			t.Errorf("claims are %v half a minute after the first vanished, want another", now)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// G8, FM C03: a new leader knows what the leader before it created, though no watch has delivered it yet. It
// plans nothing while the API server does not say.
func TestFM_C03_ANewLeaderKnowsAllClaims(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		before := newFixture(t)
		before.add(controllertest.ReadyPool("general"), controllertest.PendingPod("a", "1"))
		before.Pass(t.Context())

		l := newFixture(t)
		l.add(controllertest.ReadyPool("general"), controllertest.PendingPod("a", "1"), controllertest.PendingPod("b", "1")) // it has seen other pods, so it would name its claim otherwise
		for i := range before.claims() {
			claim := &before.claims()[i]
			claim.ResourceVersion = ""
			if err := l.client.Create(t.Context(), claim); err != nil {
				t.Fatal(err)
			}
		}
		var readable atomic.Bool
		l.Claims.Client = interceptor.NewClient(l.client, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
			if !readable.Load() {
				return errors.New("the API server does not respond")
			}
			return c.List(ctx, list, o...)
		}})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.Start(ctx) }()
		for range 2 {
			time.Sleep(time.Minute)
			synctest.Wait()
			if claims := l.claims(); len(claims) != 1 {
				t.Errorf("%d claims, want that of the leader before, which has room for both pods; it could be read: %v", len(claims), readable.Load())
			}
			readable.Store(true)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// FM I18: a pod that has no place says so once, and again when the reason changes, not every ten
// seconds.
func TestFM_I18_NoErrorSpam(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	l.add(controllertest.ReadyPool("general"), controllertest.PendingPod("huge", "100"))
	lines := 0
	ctx := log.IntoContext(t.Context(), funcr.New(func(_, args string) {
		if strings.Contains(args, "could not schedule pod") {
			lines++
		}
	}, funcr.Options{}))
	for range 3 {
		l.Pass(ctx)
	}
	if lines != 1 {
		t.Errorf("%d lines about one pod after three plans, want one", lines)
	}
	l.provider.None = true
	l.Pass(ctx)
	if lines != 2 {
		t.Errorf("%d lines, want another when the reason changed", lines)
	}
}

// The scheduler puts a pod where another was expected. That one needs a node, and the log says why; the
// place that is free now is not launched again.
func TestPodsWhosePlaceIsTaken(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	l.add(controllertest.ReadyPool("general"), controllertest.PendingPod("large", "7"))
	l.Pass(t.Context())
	l.launchAll()
	claim := l.claims()[0]
	size := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi"), corev1.ResourcePods: resource.MustParse("110")}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "ip-1", UID: "ip-1", Labels: map[string]string{karpv1.LabelNodePool: "general", karpv1.LabelRegistered: "true", karpv1.LabelInitialized: "true"}},
		Spec:       corev1.NodeSpec{ProviderID: "aws:///a/" + claim.Name},
		Status:     corev1.NodeStatus{Capacity: size, Allocatable: size},
	}
	maps.Copy(node.Labels, claim.Labels)
	intruder := controllertest.PendingPod("intruder", "2")
	intruder.Spec.NodeName, intruder.Status = "ip-1", corev1.PodStatus{Phase: corev1.PodRunning}
	l.add(node, intruder)
	var logged []string
	ctx := log.IntoContext(t.Context(), funcr.New(func(_, args string) {
		if strings.Contains(args, "other pods were scheduled") {
			logged = append(logged, args)
		}
	}, funcr.Options{}))
	l.Pass(ctx)
	l.Pass(ctx)
	if n := len(l.claims()); n != 2 {
		t.Errorf("%d claims, want a second for the pod that lost its place", n)
	}
	if len(logged) != 1 || !strings.Contains(logged[0], `"pods"=1`) {
		t.Errorf("the log says %q, want one line about one pod", logged)
	}
}
