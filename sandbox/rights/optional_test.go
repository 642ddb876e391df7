package rights_test

import (
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/rights"
	"github.com/dovetail-sh/dovetail/sandbox/world"
)

// optionalWarnings are what is said of optional rights that are missing.
func optionalWarnings() []string {
	return []string{
		"allow the service account to list and watch limitranges (value optionalRights.limitRanges of the chart)",
		"allow the service account to list and watch services (value settings.schedulerConfig of the chart)",
		"allow the service account to list leases.coordination.k8s.io in all namespaces (value optionalRights.foreignLeases of the chart)",
		"allow the service account to patch pods/status",
	}
}

// createSelectedPods requests two pods that only a Service selects.
func (s *subject) createSelectedPods(name string) []*corev1.Pod {
	s.Helper()
	s.createClass(name)
	pool := s.pool(name, name, "")
	s.isReady(pool, func() []metav1.Condition { return pool.Status.Conditions })
	s.createFromYAML(&corev1.Service{}, `
metadata: {name: `+name+`, namespace: default}
spec: {selector: {app: `+name+`}, ports: [{port: 80}]}
`)
	var pods []*corev1.Pod
	for i := range 2 {
		pods = append(pods, s.pod(fmt.Sprintf("%s-%d", name, i), name, "labels: {app: "+name+"}"))
	}
	return pods
}

// zones are those of the claims of a pool.
func (s *subject) zones(pool string) map[string]bool {
	s.Helper()
	list := &karpv1.NodeClaimList{}
	if err := kube.List(s.Context(), list, client.MatchingLabels{karpv1.LabelNodePool: pool}); err != nil {
		s.Fatal(err)
	}
	zones := map[string]bool{}
	for _, c := range list.Items {
		zones[c.Labels[corev1.LabelTopologyZone]] = true
	}
	return zones
}

// Decision 14, FM C11, SC-37: without the rights that are off in the chart, features that need them rest, with one warning
// each that names the right. Everything else works: pods that only a Service selects are not spread, and run.
func TestS_116_OptionalRightsMayBeMissing(t *testing.T) {
	namespace, deployments := server.Namespace(t), findRight(t, "apps", "deployments", "list")
	s := beginSubject(t, world.Installation{Namespace: namespace, ServiceAccount: "modest"}, []rights.Right{deployments}, world.ControllerOptions{
		LeaderElection: true, Flags: []string{spread, "--nominate-pods=true"}, Env: []string{"SYSTEM_NAMESPACE=" + namespace},
	})
	s.waitForWarning(deployments) // by which another controller would be found without its lease
	for _, pod := range s.createSelectedPods("modest") {
		s.waitForRunningPod(pod)
	}
	if zones := s.zones("modest"); len(zones) != 1 {
		t.Errorf("nodes in %v, want one node", zones)
	}
	s.ready("rights", "")
	for _, text := range optionalWarnings() {
		if n := s.count(text); n != 1 {
			t.Errorf("%d lines of the log say %q, want one", n, text)
		}
	}
}

// Decision 14, FM C11, SC-37: with the rights that values of the chart grant, pods that a Service selects are spread by
// default, nothing is warned of, and a controller that leads in another namespace is found.
func TestS_116_OptionalRightsAreUsed(t *testing.T) {
	s := beginSubject(t, world.Installation{
		Namespace: server.Namespace(t), ServiceAccount: "eager",
		Rules: world.Granted("optionalRights.nominatePods=true", "optionalRights.limitRanges=true", "optionalRights.foreignLeases=true", "settings.schedulerConfig"),
	}, nil, world.ControllerOptions{LeaderElection: true, Flags: []string{spread}})
	for _, pod := range s.createSelectedPods("eager") {
		s.waitForRunningPod(pod)
	}
	if zones := s.zones("eager"); len(zones) != 2 {
		t.Errorf("nodes in %v, want two zones", zones)
	}
	for _, text := range optionalWarnings() {
		if n := s.count(text); n != 0 {
			t.Errorf("%d lines of the log say %q, want none", n, text)
		}
	}
	s.remove(&karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "eager"}})
	s.waitUntil(func() string { // nodes are removed before their controller is
		if len(s.zones("eager")) > 0 {
			return "there are still nodes"
		}
		return ""
	})
	rival := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "karpenter-leader-election", Namespace: server.Namespace(t)},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("karpenter-7d9f"), LeaseDurationSeconds: new(int32(3600)), RenewTime: new(metav1.NewMicroTime(time.Now()))},
	}
	if err := kube.Create(t.Context(), rival); err != nil {
		t.Fatal(err)
	}
	s.waitUntil(func() string {
		if !s.hasLogLine("another controller leads", rival.Namespace, "karpenter-7d9f") {
			return "the other controller is not noticed"
		}
		return ""
	})
}
