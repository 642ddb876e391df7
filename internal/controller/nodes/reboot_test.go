package nodes_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/controller/nodes"
	"github.com/dovetail-sh/dovetail/internal/controller/write"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/event"
)

// surgery is a cluster in which nodes are rebooted. It is the cloud and the store, too.
type surgery struct {
	*world
	reboots    *nodes.Reboots
	operations []string
	response   error
	committed  []types.UID
}

func (s *surgery) Reboot(_ context.Context, _ *karpv1.NodeClaim, operation string) error {
	s.operations = append(s.operations, operation)
	return s.response
}

func (s *surgery) Rebooted(claim types.UID) { s.committed = append(s.committed, claim) }

func newSurgery(t *testing.T, calls interceptor.Funcs, objects ...client.Object) *surgery {
	t.Helper()
	s := &surgery{world: newWorld(t, calls, objects...)}
	s.reboots = s.process()
	return s
}

// process is a controller that knows nothing yet.
func (s *surgery) process() *nodes.Reboots {
	return &nodes.Reboots{
		Client: s.client, Provider: s, Queue: s.queue, Store: s, Events: s.emitted, Metrics: s.metrics, Remover: write.NewRemover(s.client, s.emitted, s.metrics, nil),
		Classes: []schema.GroupKind{{Group: "g", Kind: "k"}}, Now: func() time.Time { return s.clock },
	}
}

func (s *surgery) commit(bound *time.Duration) error {
	s.t.Helper()
	return s.reboots.Commit(s.t.Context(), disrupt.Command{
		Reason: karpv1.ReasonUnhealthy, Decision: disrupt.Reboot, Bound: bound, Because: "DiskReady",
		Remove: []disrupt.Candidate{{Node: "n", Claim: "c"}}, Repair: &disrupt.Diagnosis{Condition: "DiskReady", Status: "False", Reason: "ReadErrors"},
	})
}

func (s *surgery) look() (ctrl.Result, error) {
	s.t.Helper()
	return s.reboots.Reconcile(s.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "c"}})
}

// must looks and fails on errors.
func (s *surgery) must() time.Duration {
	s.t.Helper()
	result, err := s.look()
	if err != nil {
		s.t.Fatal(err)
	}
	return result.RequeueAfter
}

func (s *surgery) tainted() bool {
	s.t.Helper()
	n := &corev1.Node{}
	return s.has("n", n) && slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == karpv1.TaintKeyRebooting })
}

func (s *surgery) boot(id string) {
	s.t.Helper()
	n := &corev1.Node{}
	s.has("n", n)
	n.Status.NodeInfo.BootID = id
	if err := s.client.Status().Update(s.t.Context(), n); err != nil {
		s.t.Fatal(err)
	}
}

func (s *surgery) ended(result string) float64 {
	return testutil.ToFloat64(s.metrics.NodesReboots.WithLabelValues(result))
}

func nodeWithConditions(n *corev1.Node) {
	n.Labels[karpv1.LabelInitialized] = "true"
	n.Status.NodeInfo.BootID = "old"
}

func upClaim(c *karpv1.NodeClaim) {
	c.Spec.NodeClassRef = karpv1.NodeClassReference{Group: "g", Kind: "k", Name: "x"}
	c.Status.NodeName = "n"
	for _, name := range []string{karpv1.ConditionLaunched, karpv1.ConditionInitialized} {
		c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{Type: name, Status: metav1.ConditionTrue, Reason: name, LastTransitionTime: metav1.NewTime(time.Unix(0, 0))})
	}
}

// V15-08, V15-09, V15-10, V15-34 to V15-43: a reboot from the request to the node that is back.
func TestReboot(t *testing.T) {
	t.Parallel()
	s := newSurgery(t, interceptor.Funcs{}, endNodeObject(nodeWithConditions), endClaimObject(upClaim), endPod("web"))
	if after := s.must(); after != 0 || s.tainted() {
		t.Error("a claim without a request to reboot was touched")
	}
	if err := s.commit(new(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if got := s.mark(karpv1.ConditionRebooting) + " " + s.mark(karpv1.ConditionDisruptionReason); got != "True/RebootRequested True/Unhealthy" || s.tainted() {
		t.Errorf("after the request: %s", got)
	}
	if diff := cmp.Diff([]types.UID{"c"}, s.committed); diff != "" {
		t.Error(diff)
	}
	if n := testutil.ToFloat64(s.metrics.NodeClaimsUnhealthyDisrupted.WithLabelValues("disk_ready", "default", "spot", "", "eventual")); n != 1 {
		t.Errorf("%v counted as repaired", n)
	}
	s.must()
	if !s.tainted() || s.queue.Len() != 1 || len(s.operations) != 0 {
		t.Errorf("tainted %v, %d to evict, %d calls", s.tainted(), s.queue.Len(), len(s.operations))
	}
	s.clock = s.clock.Add(time.Minute)
	s.must()
	if got := s.mark(karpv1.ConditionRebooting) + " " + s.mark(karpv1.ConditionInitialized); got != "True/RebootIssued Unknown/Rebooting" || len(s.operations) != 1 {
		t.Errorf("after the drain: %s, %d calls", got, len(s.operations))
	}
	n := &corev1.Node{}
	if s.has("n", n); n.Labels[karpv1.LabelInitialized] != "" || !s.tainted() {
		t.Errorf("labels %v, tainted %v", n.Labels, s.tainted())
	}
	s.clock = s.clock.Add(time.Minute)
	if after := s.must(); after != 15*time.Second {
		t.Errorf("requeues after %s", after)
	}
	s.boot("new")
	s.clock = s.clock.Add(time.Minute)
	s.must()
	claim := &karpv1.NodeClaim{}
	s.has("c", claim)
	if _, left := claim.Annotations[karpv1.AnnotationRebootPreBootID]; left || s.mark(karpv1.ConditionRebooting) != "False/RebootSucceeded" || s.tainted() {
		t.Errorf("at the end: %s, annotations %v, tainted %v", s.mark(karpv1.ConditionRebooting), claim.Annotations, s.tainted())
	}
	if s.ended("succeeded") != 1 || len(s.operations) != 1 || testutil.CollectAndCount(s.metrics.NodesRebootRecovery) != 1 {
		t.Errorf("%v successes counted, %d calls", s.ended("succeeded"), len(s.operations))
	}
	if s.emitted.Text("c", event.RebootObserved) == "" {
		t.Errorf("reported %v", s.emitted.Events)
	}
}

// V15-38, V15-41: what the cloud refuses for good ends the node; the deletion is tried until it works,
// nothing is counted before, and the cloud is not called again.
func TestRebootIsRefused(t *testing.T) {
	t.Parallel()
	conflicts := 1
	s := newSurgery(t, interceptor.Funcs{Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
		if conflicts > 0 {
			conflicts--
			return apierrors.NewConflict(schema.GroupResource{}, obj.GetName(), errors.New("changed"))
		}
		return c.Delete(ctx, obj, opts...)
	}}, endNodeObject(nodeWithConditions), endClaimObject(upClaim))
	s.response = &cloud.Error{Kind: cloud.Denied, Message: "no"}
	if err := s.commit(new(time.Duration(0))); err != nil {
		t.Fatal(err)
	}
	s.must()
	if s.ended("provider_error") != 0 {
		t.Error("counted before the claim was deleted")
	}
	s.must()
	claim := &karpv1.NodeClaim{}
	if s.has("c", claim); claim.DeletionTimestamp == nil || s.tainted() {
		t.Errorf("deleted %v, tainted %v", claim.DeletionTimestamp, s.tainted())
	}
	if at := claim.Annotations[karpv1.AnnotationTerminationTimestamp]; at != s.clock.UTC().Format(time.RFC3339) {
		t.Errorf("ends at %q", at)
	}
	if s.ended("provider_error") != 1 || len(s.operations) != 1 || s.emitted.Text("c", event.RebootFailed) == "" {
		t.Errorf("%v counted, %d calls, told %v", s.ended("provider_error"), len(s.operations), s.emitted.Events)
	}
	if n := testutil.ToFloat64(s.metrics.NodeClaimsDisrupted.WithLabelValues("unhealthy", "default", "spot", "", "graceful")); n != 1 {
		t.Errorf("%v claims counted as disrupted", n)
	}
	s.must()
	if s.ended("provider_error") != 1 {
		t.Error("a claim that goes is counted again")
	}
}

// V15-36, V15-38: a call whose error is transient is repeated, under the same operation, also by the
// next process, which counts its own five minutes.
func TestRebootIsTriedAgain(t *testing.T) {
	t.Parallel()
	s := newSurgery(t, interceptor.Funcs{}, endNodeObject(nodeWithConditions), endClaimObject(upClaim))
	s.response = errors.New("odd")
	if err := s.commit(new(time.Duration(0))); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := s.look(); err == nil {
			t.Error("no error, so no back-off")
		}
		s.clock = s.clock.Add(4 * time.Minute)
		s.reboots = s.process()
	}
	if s.ended("provider_error") != 0 {
		t.Error("given up too early")
	}
	if _, err := s.look(); err == nil {
		t.Error("no error")
	}
	s.clock = s.clock.Add(5 * time.Minute)
	s.must()
	if s.ended("provider_error") != 1 || len(s.operations) != 4 || len(slices.Compact(slices.Sorted(slices.Values(s.operations)))) != 1 {
		t.Errorf("%v counted, operations %v", s.ended("provider_error"), s.operations)
	}
}

// V15-34: what goes or reboots already is skipped, and the pass begins anew; a claim that is gone is none.
func TestCommitSkips(t *testing.T) {
	t.Parallel()
	s := newSurgery(t, interceptor.Funcs{}, endNodeObject(nodeWithConditions), endClaimObject(upClaim))
	if err := s.commit(nil); err != nil {
		t.Fatal(err)
	}
	if err := s.commit(nil); !apierrors.IsConflict(err) {
		t.Errorf("a claim that reboots: %v", err)
	}
	if len(s.committed) != 1 {
		t.Errorf("%d reboots kept", len(s.committed))
	}
	empty := newSurgery(t, interceptor.Funcs{})
	if err := empty.commit(nil); err != nil || len(empty.committed) != 0 {
		t.Errorf("no claim: %v", err)
	}
}

// V15-41: a request that cannot be read keeps the node.
func TestRebootRequestIsInvalid(t *testing.T) {
	t.Parallel()
	s := newSurgery(t, interceptor.Funcs{}, endNodeObject(nodeWithConditions), endClaimObject(upClaim))
	if err := s.commit(nil); err != nil {
		t.Fatal(err)
	}
	claim := &karpv1.NodeClaim{}
	s.has("c", claim)
	claim.Annotations = map[string]string{karpv1.AnnotationRebootTerminationGracePeriod: "soon"}
	if err := s.client.Update(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	s.must()
	if s.has("c", claim); claim.DeletionTimestamp != nil || s.mark(karpv1.ConditionRebooting) != "False/RebootFailed" || s.ended("invalid_request") != 1 {
		t.Errorf("deleted %v, %s, %v counted", claim.DeletionTimestamp, s.mark(karpv1.ConditionRebooting), s.ended("invalid_request"))
	}
}
