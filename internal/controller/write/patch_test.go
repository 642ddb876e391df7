package write

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

func TestLeanPatchIsTheSamePatch(t *testing.T) {
	t.Parallel()
	before := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", ResourceVersion: "7", Labels: map[string]string{"old": "label"}}}
	before.Status.Conditions = []metav1.Condition{{Type: "Launched", Status: "True"}, {Type: "Ready", Status: "False"}}
	before.Spec.Requirements = []karpv1.Requirement{{Key: "node.kubernetes.io/instance-type", Operator: "In", Values: []string{"a", "b"}}}
	after := before.DeepCopy()
	after.Labels = map[string]string{"new": "label"}
	after.Status.LastPodEventTime = metav1.NewTime(time.Unix(100, 0))
	after.Status.Conditions = after.Status.Conditions[:1]
	want, err := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}).Data(after)
	if err != nil {
		t.Fatal(err)
	}
	for name, written := range map[string]*karpv1.NodeClaim{"whole": after, "without spec": WithoutSpec(after)} {
		got, err := LeanMergePatch(before).Data(written)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// A write that was overtaken is not tried again on the version that was overtaken.
func TestOvertakenVersionsAreWaitedFor(t *testing.T) {
	t.Parallel()
	at := func(version string) *karpv1.NodeClaim {
		return &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", ResourceVersion: version}}
	}
	w := &Versions{}
	w.RecordWrite(at("5"))
	if !w.cacheIsStale(at("4")) || w.cacheIsStale(at("5")) {
		t.Error("our own write is waited for, and is enough")
	}
	w.RecordConflict(at("5"))
	if !w.cacheIsStale(at("4")) || !w.cacheIsStale(at("5")) {
		t.Error("the version that was overtaken is not enough")
	}
	if w.cacheIsStale(at("6")) || w.cacheIsStale(at("5")) {
		t.Error("a later version ends the wait")
	}
}
