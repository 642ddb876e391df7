package nodes_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/event"
)

// L13: kubectl delete node drains, then ends the instance, then the claim goes too.
func TestFM_L13_DeletingANodeEndsEverythingInOrder(t *testing.T) {
	t.Parallel()
	volume := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "csi-1"}, Spec: storagev1.VolumeAttachmentSpec{NodeName: "n", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("pv-1")}}}
	web := endPod("web")
	w := newWorld(t, interceptor.Funcs{}, endNodeObject(), endClaimObject(), web, volume)
	w.delete(endNodeObject())
	w.pass() // deletes the claim
	w.pass()

	n, c := &corev1.Node{}, &karpv1.NodeClaim{}
	if !w.has("n", n) || len(n.Spec.Taints) != 1 || n.Spec.Taints[0] != karpv1.DisruptedTaint() || n.Labels[corev1.LabelNodeExcludeBalancers] != "karpenter" {
		t.Fatalf("LC-27: taints %v, labels %v", n.Spec.Taints, n.Labels)
	}
	if !w.has("c", c) || c.DeletionTimestamp == nil {
		t.Fatal("LC-24: the claim is not being deleted")
	}
	if got := w.mark(karpv1.ConditionDrained); got != "Unknown/Draining" || w.queue.Len() != 1 {
		t.Fatalf("LC-30: Drained is %s, %d pods in the queue", got, w.queue.Len())
	}

	w.delete(web)
	w.clock = w.clock.Add(6 * time.Second)
	w.pass()
	if got := w.mark(karpv1.ConditionVolumesDetached); got != "Unknown/AwaitingVolumeDetachment" || w.cloud.terminated != 0 {
		t.Fatalf("LC-37: VolumesDetached is %s, instance ended %d times", got, w.cloud.terminated)
	}

	w.delete(volume)
	w.clock = w.clock.Add(time.Second)
	w.pass()
	if got := w.mark(karpv1.ConditionInstanceTerminating); got != "True/InstanceTerminating" || w.cloud.terminated != 1 {
		t.Fatalf("LC-22: InstanceTerminating is %s, instance ended %d times", got, w.cloud.terminated)
	}
	w.pass() // too early to call again
	if w.cloud.terminated != 1 {
		t.Errorf("E02: called %d times within five seconds", w.cloud.terminated)
	}

	w.cloud.alive = false
	w.clock = w.clock.Add(5 * time.Second)
	w.pass()
	if w.has("n", n) {
		t.Fatal("LC-28: the node is still there")
	}
	w.pass()
	if w.has("c", c) {
		t.Fatal("LC-23: the claim is still there")
	}
	for name, got := range map[string]float64{
		"NodesTerminated":      testutil.ToFloat64(w.metrics.NodesTerminated.WithLabelValues("default", "zone-a")),
		"NodesDrained":         testutil.ToFloat64(w.metrics.NodesDrained.WithLabelValues("default")),
		"NodeClaimsTerminated": testutil.ToFloat64(w.metrics.NodeClaimsTerminated.WithLabelValues("default", "spot", "zone-a")),
	} {
		if got != 1 {
			t.Errorf("%s is %v, want 1", name, got)
		}
	}
	for _, on := range []string{"n", "c"} {
		if w.emitted.Text(on, event.Finalized) == "" {
			t.Errorf("no event Finalized on %s", on)
		}
	}
}

func TestFM_L15_NoDrainWhenTheInstanceIsGone(t *testing.T) {
	t.Parallel()
	unhealthy := func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }
	for name, tc := range map[string]struct {
		change      func(*corev1.Node)
		alive       bool
		err         error
		wantGone    bool
		wantLookups int
	}{
		"FM L15 not ready, gone":               {change: unhealthy, wantGone: true, wantLookups: 1},
		"not ready, there":                     {change: unhealthy, alive: true, wantLookups: 1},
		"FM L16 not ready, cloud out of order": {change: unhealthy, err: &cloud.Error{Kind: cloud.Unknown, Err: errors.New("503")}, wantLookups: 1},
		"FM L16 not ready, cloud throttles":    {change: unhealthy, err: &cloud.Error{Kind: cloud.Throttled}, wantLookups: 1},
		"E03 ready, said to be gone":           {change: func(*corev1.Node) {}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, interceptor.Funcs{}, endNodeObject(tc.change), endClaimObject(), endPod("web"))
			w.cloud.alive, w.cloud.err = tc.alive, tc.err
			w.delete(endNodeObject())
			if _, err := w.endNode(); err != nil {
				t.Fatal(err)
			}
			gone := !w.has("n", &corev1.Node{})
			if gone != tc.wantGone || w.cloud.found != tc.wantLookups {
				t.Errorf("gone: %t, called %d times, want %t, %d", gone, w.cloud.found, tc.wantGone, tc.wantLookups)
			}
			if !gone && w.queue.Len() != 1 {
				t.Error("the drain did not begin")
			}
		})
	}
}

func TestFM_L16_AnOutageKeepsTheFinalizer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, interceptor.Funcs{}, endNodeObject(), endClaimObject())
	w.delete(endNodeObject())
	w.pass() // deletes the claim
	w.pass()
	w.clock = w.clock.Add(6 * time.Second)
	w.cloud.err = &cloud.Error{Kind: cloud.Unknown, Op: "terminate", Err: errors.New("503")}
	if _, err := w.endNode(); err == nil {
		t.Error("G3: the outage is not reported")
	}
	if !w.has("n", &corev1.Node{}) {
		t.Fatal("G3: the node went during an outage")
	}
	w.cloud.err, w.cloud.alive = nil, false
	w.clock = w.clock.Add(5 * time.Second)
	w.pass()
	if w.has("n", &corev1.Node{}) {
		t.Error("after the outage the node did not go")
	}
}

// A claim that loses its finalizer in the middle of a drain does not stop the drain.
func TestTheDrainGoesOnWhenTheClaimVanishes(t *testing.T) {
	t.Parallel()
	vanished := interceptor.Funcs{SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "nodeclaims"}, "c")
	}}
	w := newWorld(t, vanished, endNodeObject(), endClaimObject())
	w.delete(endNodeObject())
	for range 2 {
		result, err := w.endNode()
		if err != nil || result.RequeueAfter == 0 {
			t.Errorf("error %v, again after %s; want to look again", err, result.RequeueAfter)
		}
	}
}

func TestNodesThatAreNotOurs(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		node    *corev1.Node
		classes []schema.GroupKind
	}{
		"a node class of others":     {node: endNodeObject(), classes: []schema.GroupKind{{Group: "other", Kind: "Class"}}},
		"another finalizer":          {node: endNodeObject(func(n *corev1.Node) { n.Finalizers = []string{"other/finalizer"} })},
		"a node that is not deleted": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, interceptor.Funcs{}, endClaimObject(), endNodeObject(func(n *corev1.Node) {
				if tc.node != nil {
					n.Finalizers = tc.node.Finalizers
				}
			}), endPod("web"))
			w.nodes.Classes = tc.classes
			if tc.node != nil {
				w.delete(tc.node)
			}
			if _, err := w.endNode(); err != nil {
				t.Fatal(err)
			}
			n := &corev1.Node{}
			if !w.has("n", n) || len(n.Spec.Taints) > 0 || w.queue.Len() > 0 {
				t.Error("the node was touched")
			}
		})
	}
}

// LC-15.11: volumes of pods that stay do not hold the instance.
func TestFM_J05_VolumesOfPodsThatStay(t *testing.T) {
	t.Parallel()
	agent := endPod("agent", func(p *corev1.Pod) {
		p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	})
	data := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv-1"}}
	volume := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "csi-1"}, Spec: storagev1.VolumeAttachmentSpec{NodeName: "n", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("pv-1")}}}
	w := newWorld(t, interceptor.Funcs{}, endNodeObject(), endClaimObject(), agent, data, volume)
	w.delete(endNodeObject())
	w.pass() // deletes the claim
	w.pass()
	w.clock = w.clock.Add(6 * time.Second)
	w.pass()
	if got := w.mark(karpv1.ConditionVolumesDetached); got != "True/VolumesDetached" || w.cloud.terminated != 1 || w.queue.Len() != 0 {
		t.Errorf("VolumesDetached is %s, instance ended %d times, %d pods in the queue", got, w.cloud.terminated, w.queue.Len())
	}
}
