package fakenode

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestFindShortage(t *testing.T) {
	t.Parallel()
	full := list("cpu", "2", "memory", "8Gi", "pods", "3", "nvidia.com/gpu", "1")
	for name, tc := range map[string]struct {
		requests, used corev1.ResourceList
		want           string
	}{
		"fits exactly":               {list("cpu", "1", "memory", "8Gi", "pods", "1"), list("cpu", "1", "pods", "2"), ""},
		"no processor":               {list("cpu", "1500m", "pods", "1"), list("cpu", "1", "pods", "1"), "Node didn't have enough resource: cpu, requested: 1500, used: 1000, capacity: 2000"},
		"no memory":                  {list("memory", "9Gi"), nil, "Node didn't have enough resource: memory, requested: 9663676416, used: 0, capacity: 8589934592"},
		"pods before the rest":       {list("cpu", "3", "pods", "1"), list("pods", "3"), "Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3"},
		"a device is in use":         {list("nvidia.com/gpu", "1"), list("nvidia.com/gpu", "1"), "Node didn't have enough resource: nvidia.com/gpu, requested: 1, used: 1, capacity: 1"},
		"a resource of the cluster":  {list("example.com/license", "1"), nil, ""},
		"nothing of what is used up": {list("cpu", "0", "memory", "1Gi"), list("cpu", "4"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ""
			if short := findShortage(tc.requests, tc.used, full); short != nil {
				got = short.String()
			}
			if got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

// A place is given once, kept, and free again when its pod ends.
func TestRoom(t *testing.T) {
	t.Parallel()
	pod := func(uid, cpu string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)}}
		p.Spec.NodeName = "one"
		p.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: list("cpu", cpu)}}}
		return p
	}
	full := list("cpu", "2", "pods", "10")
	first, second := pod("first", "1500m"), pod("second", "1")
	r := newRoom()
	take := func(p *corev1.Pod) bool { return r.takePlace(p, podRequests(p), full) == nil }
	if !take(first) || take(second) || r.has(second) {
		t.Error("the first has its place, the second none")
	}
	if !take(first) {
		t.Error("who has a place keeps it")
	}
	r.release(first)
	if !take(second) || r.has(first) {
		t.Error("the place is free again")
	}
	r.holdPlace(first)
	if !r.has(first) {
		t.Error("who runs has a place, room or not")
	}
}

func TestBackOff(t *testing.T) {
	t.Parallel()
	o := Options{RestartBackoff: 10 * time.Second}
	for restarts, want := range []float64{0, 10, 20, 40, 80, 160, 300, 300} {
		if got := o.backOff(int32(restarts), time.Second).Seconds(); got != want {
			t.Errorf("after %d restarts %v s, want %v s", restarts, got, want)
		}
	}
	if got := o.backOff(7, 11*time.Minute); got != 0 {
		t.Errorf("a container that ran for long waits %s", got)
	}
}

// Only what differs is written, what stays keeps its time, and what a fault brought goes with it.
func TestConditionsPatch(t *testing.T) {
	t.Parallel()
	f := facts{wall: epoch}
	have := nodeConditions(f, true)
	if got := conditionsPatch(have, nodeConditions(f, true)); len(got) != 0 {
		t.Errorf("nothing changed, and %v is written", got)
	}
	if got := conditionsPatch(have, nodeConditions(f, false)); len(got) != 1 {
		t.Errorf("one condition changed, and %v is written", got)
	}
	f.fault.Conditions = map[corev1.NodeConditionType]corev1.ConditionStatus{"KernelReady": "False", corev1.NodeDiskPressure: "True"}
	broken := nodeConditions(f, true)
	if got := conditionsPatch(have, broken); len(got) != 2 {
		t.Errorf("two conditions changed, and %v is written", got)
	}
	f.fault.Conditions = nil
	if got := conditionsPatch(broken, nodeConditions(f, true)); len(got) != 2 {
		t.Errorf("two conditions change back, and %v is written", got)
	}
}

func TestLastLines(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		text string
		n    int64
		want string
	}{
		{"a\nb\nc\n", 0, ""},
		{"a\nb\nc\n", 1, "c\n"},
		{"a\nb\nc\n", 2, "b\nc\n"},
		{"a\nb\nc\n", 3, "a\nb\nc\n"},
		{"a\nb\nc\n", 9, "a\nb\nc\n"},
		{"a\nb", 1, "b"},
		{"a", 1, "a"},
		{"", 1, ""},
		{"", 0, ""},
		{"\n\n", 1, "\n"},
	} {
		if got := string(lastLines([]byte(tc.text), tc.n)); got != tc.want {
			t.Errorf("the last %d of %q are %q, want %q", tc.n, tc.text, got, tc.want)
		}
	}
}
