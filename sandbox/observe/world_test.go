package observe

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/sandbox/harness"
	"github.com/dovetail-sh/dovetail/sandbox/kubectl"
	"github.com/dovetail-sh/dovetail/sandbox/world"
)

// patience is how long anything may take. It is no bar: only a defect misses it.
const patience = 5 * time.Minute

// waitUntil polls until something holds. The function says how it is now, for the message when time is up.
func waitUntil(t *testing.T, what string, holds func() (ok bool, now string)) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		ok, now := holds()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s; now: %s", patience, what, now)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// liveWorld is a world with the controller in it, as the chart installs it, for one test.
type liveWorld struct {
	*testing.T
	*harness.Server
	*prometheus

	kube client.WithWatch
}

// start brings a world up until the test ends, and a Prometheus that scrapes its controller.
func start(t *testing.T, program string) *liveWorld {
	t.Helper()
	harness.Tune(100, 0) // all acts wait at the same time
	ctx := context.WithoutCancel(t.Context())
	binary, err := harness.Dovetail.Build(ctx)
	if err != nil {
		t.Fatal(err)
	}
	s, err := harness.Start(ctx, t.TempDir(), harness.Options{World: true, Speed: 1, Boot: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	l := &liveWorld{T: t, Server: s, kube: s.Typed(t)}
	l.callControlAPI(http.MethodPut, "timing", `{"fleetResponse":"50ms","pending":"300ms","shuttingDown":"3s"}`)
	port, err := harness.LastingPort(ctx)
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.World.RunController(ctx, world.ControllerOptions{
		Binary: binary, LeaderElection: true, Flags: []string{fmt.Sprintf("--metrics-port=%d", port)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if text, err := os.ReadFile(c.Log); t.Failed() && err == nil {
			t.Logf("the end of the log of the controller:\n%s", text[max(0, len(text)-20_000):])
		}
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	l.prometheus = startPrometheus(t, program, port)
	return l
}

// forTest is the same world for a part of the test.
func (l *liveWorld) forTest(t *testing.T) *liveWorld {
	t.Helper()
	mine := *l
	mine.T = t
	return &mine
}

// waitUntil is await for this test.
func (l *liveWorld) waitUntil(what string, holds func() (ok bool, now string)) {
	l.Helper()
	waitUntil(l.T, what, holds)
}

// callControlAPI calls the control API of the emulated account.
func (l *liveWorld) callControlAPI(method, path, body string) {
	l.Helper()
	if _, err := l.Control(l.Context(), method, path, body); err != nil {
		l.Fatal(err)
	}
}

// apply is kubectl apply.
func (l *liveWorld) apply(manifests string) {
	l.Helper()
	list, err := kubectl.Read(l.Name(), []byte(manifests))
	if err != nil {
		l.Fatal(err)
	}
	for _, m := range list {
		if _, err := l.Apply(l.Context(), m.Object); err != nil {
			l.Fatalf("%s %s: %v", m.Object.GetKind(), m.Object.GetName(), err)
		}
	}
}

// patch is kubectl patch --type merge.
func (l *liveWorld) patch(obj client.Object, text string) {
	l.Helper()
	if err := l.kube.Patch(l.Context(), obj, client.RawPatch("application/merge-patch+json", []byte(text))); err != nil {
		l.Fatal(err)
	}
}

// scale is kubectl scale.
func (l *liveWorld) scale(deployment string, replicas int) {
	l.Helper()
	l.patch(namedObject("apps/v1", "Deployment", deployment), fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))
}

// namedObject names an object of the namespace default, or of none.
func namedObject(version, kind, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(version)
	o.SetKind(kind)
	o.SetName(name)
	if !strings.HasPrefix(version, "karpenter.") {
		o.SetNamespace(metav1.NamespaceDefault)
	}
	return o
}

// claims are those of a NodePool.
func (l *liveWorld) claims(pool string) []karpv1.NodeClaim {
	l.Helper()
	var list karpv1.NodeClaimList
	if err := l.kube.List(l.Context(), &list, client.MatchingLabels{karpv1.LabelNodePool: pool}); err != nil {
		l.Fatal(err)
	}
	return list.Items
}

// ready waits until a NodePool has so many claims, all of them ready and none on its way out.
func (l *liveWorld) ready(pool string, n int) []karpv1.NodeClaim {
	l.Helper()
	var claims []karpv1.NodeClaim
	l.waitUntil(fmt.Sprintf("%d NodeClaims of %s, all ready", n, pool), func() (bool, string) {
		claims = l.claims(pool)
		all := len(claims) == n
		for i := range claims {
			all = all && claims[i].DeletionTimestamp == nil && condition.True(claims[i].Status.Conditions, karpv1.ConditionReady)
		}
		return all, describe(claims)
	})
	return claims
}

// claim waits for a claim of a NodePool.
func (l *liveWorld) claim(pool, what string, is func(*karpv1.NodeClaim) bool) *karpv1.NodeClaim {
	l.Helper()
	var found *karpv1.NodeClaim
	l.waitUntil("a NodeClaim of "+pool+" that "+what, func() (bool, string) {
		claims := l.claims(pool)
		for i := range claims {
			if is(&claims[i]) {
				found = &claims[i]
				return true, ""
			}
		}
		return false, describe(claims)
	})
	return found
}

// waitUntilGone waits until a claim is not there any more.
func (l *liveWorld) waitUntilGone(claim *karpv1.NodeClaim) {
	l.Helper()
	l.waitUntil("NodeClaim "+claim.Name+" is gone", func() (bool, string) {
		now := &karpv1.NodeClaim{}
		err := l.kube.Get(l.Context(), client.ObjectKeyFromObject(claim), now)
		return apierrors.IsNotFound(err), describe([]karpv1.NodeClaim{*now})
	})
}

// waitForRunningPods waits until a Deployment has so many pods that run.
func (l *liveWorld) waitForRunningPods(deployment string, n int) []corev1.Pod {
	l.Helper()
	var list corev1.PodList
	l.waitUntil(fmt.Sprintf("%d pods of %s run", n, deployment), func() (bool, string) {
		if err := l.kube.List(l.Context(), &list, client.InNamespace(metav1.NamespaceDefault), client.MatchingLabels{"app": deployment}); err != nil {
			return false, err.Error()
		}
		up := 0
		for _, p := range list.Items {
			if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
				up++
			}
		}
		return up == n && len(list.Items) == n, fmt.Sprintf("%d of %d", up, len(list.Items))
	})
	return list.Items
}

// waitForUnschedulable waits until the scheduler found no place for so many pods of a Deployment: a NodePool that is made after that
// has them planned together.
func (l *liveWorld) waitForUnschedulable(deployment string, n int) {
	l.Helper()
	l.waitUntil(fmt.Sprintf("%d pods of %s are unschedulable", n, deployment), func() (bool, string) {
		var list corev1.PodList
		if err := l.kube.List(l.Context(), &list, client.InNamespace(metav1.NamespaceDefault), client.MatchingLabels{"app": deployment}); err != nil {
			return false, err.Error()
		}
		waiting := 0
		for _, p := range list.Items {
			for _, c := range p.Status.Conditions {
				if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
					waiting++
				}
			}
		}
		return waiting == n, fmt.Sprint(waiting)
	})
}

func describe(claims []karpv1.NodeClaim) string {
	var text []string
	for _, c := range claims {
		part := c.Name
		for _, k := range c.Status.Conditions {
			part += fmt.Sprintf(" %s=%s(%s)", k.Type, k.Status, k.Reason)
		}
		if c.DeletionTimestamp != nil {
			part += " deleting"
		}
		text = append(text, part)
	}
	return fmt.Sprintf("%d claims: %s", len(claims), strings.Join(text, "; "))
}
