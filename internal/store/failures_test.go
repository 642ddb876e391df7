package store

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/cluster"
)

// FM I06: a claim that is deleted and made again while its pod waits is read anew by the very next plan: the
// zone of the old volume is not used.
func TestFM_I06_ClaimMadeAgain(t *testing.T) {
	t.Parallel()
	s := New(testOptions())
	feed := func(obj client.Object, gone bool) {
		h := s.handler(s.onVolumeObject)
		if gone {
			h.OnDelete(obj)
		} else {
			h.OnAdd(obj, false)
		}
	}
	claim := func(uid types.UID, volume string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data", UID: uid, Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"}},
			Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: volume}, Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
		}
	}
	volume := func(name, zone string) *corev1.PersistentVolume {
		v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
		v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com", VolumeHandle: name}
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}},
		}}}}
		return v
	}
	pod := podObject("w1", "")
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	s.feedObject(poolObject("general"), false)
	s.feedObject(pod, false)
	zones := func() string {
		view := s.Snapshot(testTypes())
		if len(view.Ignored) > 0 {
			return "ignored"
		}
		text := ""
		for _, place := range view.Pods[0].Shape.Zones {
			text += place[corev1.LabelTopologyZone].String()
		}
		return text
	}
	feed(volume("old", "a"), false)
	feed(claim("1", "old"), false)
	if got := zones(); got != "In [a]" {
		t.Fatalf("the pod goes to %s, want zone a of its volume", got)
	}
	feed(claim("1", "old"), true)
	if got := zones(); got != "ignored" {
		t.Errorf("without a claim the pod goes to %s", got)
	}
	feed(volume("new", "b"), false)
	feed(claim("2", "new"), false)
	if got := zones(); got != "In [b]" {
		t.Errorf("the pod goes to %s, want zone b of the new volume", got)
	}
	feed(claim("3", ""), false)
	if got := zones(); got == "In [a]" || got == "In [b]" {
		t.Errorf("a claim that is not bound sends the pod to %s, where another volume was", got)
	}
}

// FM I23: who is not waiting for a node of ours: pods that may not be scheduled yet, that another scheduler
// looks after in its own words, or for which the scheduler is making room.
func TestFM_I23_PodsThatAreNotOurs(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"the scheduler gave up":              {func(*corev1.Pod) {}, true},
		"not looked at yet":                  {func(p *corev1.Pod) { p.Status.Conditions = nil }, false},
		"a scheduling gate":                  {func(p *corev1.Pod) { p.Status.Conditions[0].Reason = corev1.PodReasonSchedulingGated }, false},
		"another scheduler with other words": {func(p *corev1.Pod) { p.Spec.SchedulerName = "batch"; p.Status.Conditions[0].Reason = "NotEnoughQuota" }, false},
		"another scheduler that says nothing": {func(p *corev1.Pod) {
			p.Spec.SchedulerName = "batch"
			p.Status.Conditions = nil
		}, false},
		"another scheduler in the same words": {func(p *corev1.Pod) { p.Spec.SchedulerName = "batch" }, true}, // scheduling 3.1: the name is not looked at
		"others are preempted for it":         {func(p *corev1.Pod) { p.Status.NominatedNodeName = "ip-1" }, false},
		"others were, on a node that is gone": {func(p *corev1.Pod) { p.Status.NominatedNodeName = "ip-0" }, true},
		"it goes":                             {func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(now())) }, false},
		"it runs":                             {func(p *corev1.Pod) { p.Spec.NodeName = "ip-1" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := New(testOptions())
			pod := podObject("w1", "")
			tc.change(pod)
			s.feedObject(poolObject("general"), false)
			joined(s, "general-x")
			s.feedObject(pod, false)
			view := s.Snapshot(testTypes())
			if planned := len(view.Pods) == 1; planned != tc.want {
				t.Errorf("planned for: %v, want %v", planned, tc.want)
			}
			if woken := s.Waiting() == 1; woken != tc.want {
				t.Errorf("requests plans: %v, want %v", woken, tc.want)
			}
		})
	}
}

// FM M16: a pod grows in place beyond its node. The node shows no room, and the pod is not evicted.
func TestFM_M16_PodGrowsInPlace(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]string{"more than was allocated": "5", "less than is allocated": "1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := New(testOptions())
			s.feedObject(poolObject("general"), false)
			joined(s, "general-1")
			pod := podObject("w1", "ip-1")
			pod.Spec.Containers[0].Resources.Requests = amounts(spec, "1Gi")
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
				Name: "main", AllocatedResources: amounts("4", "1Gi"), Resources: &corev1.ResourceRequirements{Requests: amounts("4", "1Gi")},
			}}
			s.feedObject(pod, false)
			view := s.Snapshot(testTypes())
			n := view.Nodes[0]
			if used, has := n.Pods[0].Shape.Requests.At(0), n.Allocatable.At(0); used <= has {
				t.Errorf("the pod counts %dm of %dm: the node seems to have room", used, has)
			}
			if len(view.Pods) > 0 || n.Deleting {
				t.Errorf("pods to move %v, node goes: %v; want nothing done", view.Pods, n.Deleting)
			}
		})
	}
}

// FM N15: what a node has and no pod requests, or is unknown, changes nothing about the rest.
func TestFM_N15_OddCapacity(t *testing.T) {
	t.Parallel()
	plainly, oddly := New(testOptions()), New(testOptions())
	for _, s := range []*Store{plainly, oddly} {
		s.feedObject(poolObject("general"), false)
		s.feedObject(claimObject("general-1", "aws:///a/i-1", true), false)
		s.feedObject(podObject("w1", "ip-1"), false)
	}
	node := nodeObject("ip-1", "aws:///a/i-1", true)
	plainly.feedObject(node, false)
	odd := node.DeepCopy()
	for name, amount := range map[corev1.ResourceName]string{
		"hugepages-1Gi": "4Gi", "hugepages-2Mi": "0", "hugepages-64Ki": "9223372036854775807", "swap": "16Gi", "node.kubernetes.io/swap": "-1",
		"attachable-volumes-aws-ebs": "25", "example.com/widgets": "0.5", "scheduling.k8s.io/foo": "1e18", "": "1",
	} {
		odd.Status.Capacity[name] = quantity(amount)
		odd.Status.Allocatable[name] = quantity(amount)
	}
	oddly.feedObject(odd, false)
	want, got := plain(plainly.Snapshot(testTypes())), plain(oddly.Snapshot(testTypes()))
	lanes := func(s *Store) []int64 {
		n := s.Snapshot(testTypes()).Nodes[0]
		return []int64{n.Allocatable.At(0), n.Allocatable.At(1), n.Allocatable.At(2), n.Allocatable.At(3), n.Capacity.At(0), n.Capacity.At(1)}
	}
	compare(t, "pools", want["pools"], got["pools"])
	compare(t, "pods", want["pods"], got["pods"])
	compare(t, "lanes", lanes(plainly), lanes(oddly))
	used, _ := oddly.Usage("general")
	if used.Cpu().String() != "4" {
		t.Errorf("cpu in use is %s, want 4", used.Cpu())
	}
	pages := podObject("w2", "")
	pages.Spec.Containers[0].Resources.Requests["hugepages-1Gi"] = quantity("2Gi")
	oddly.feedObject(pages, false)
	if view := oddly.Snapshot(testTypes()); len(view.Pods) != 1 || view.Pods[0].Key != (cluster.PodKey{Namespace: "default", Name: "w2"}) {
		t.Errorf("pods %v, want the one that requests huge pages", view.Pods)
	}
}

func quantity(text string) resource.Quantity { return resource.MustParse(text) }

func compare(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
