package resources

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// podCases are pods and what they request.
type podCases map[string]struct {
	pod  corev1.Pod
	want string
}

func (cases podCases) run(t *testing.T) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			table := NewTable(PodNames(&tc.pod)...)
			if got := table.Format(table.PodRequests(&tc.pod)); got != tc.want {
				t.Errorf("PodRequests() = %s, want %s", got, tc.want)
			}
		})
	}
}

func TestPodRequests(t *testing.T) {
	t.Parallel()
	podCases{
		"SC-11 a pod without requests needs only a slot": {pod: pod(app("a")), want: "pods:1"},
		"SC-11 app containers add up": {
			pod:  pod(app("a", "cpu", "1", "memory", "1Gi"), app("b", "cpu", "500m", "x.io/gpu", "2")),
			want: "cpu:1500m,memory:1Gi,pods:1,x.io/gpu:2",
		},
		"SC-11 the hungriest init container wins per resource": {
			pod:  pod(app("a", "cpu", "1", "memory", "1Gi"), initial("i", "cpu", "3"), initial("j", "memory", "2Gi")),
			want: "cpu:3,memory:2Gi,pods:1",
		},
		"SC-11 sidecars run beside the app": {
			pod:  pod(app("a", "cpu", "1"), sidecar("s", "cpu", "2")),
			want: "cpu:3,pods:1",
		},
		"SC-11 an init container runs beside the sidecars before it only": {
			pod:  pod(app("a", "cpu", "1"), sidecar("s", "cpu", "1"), initial("i", "cpu", "4"), sidecar("late", "cpu", "2")),
			want: "cpu:5,pods:1",
		},
		"SC-11 limits never count": {
			pod: pod(func(p *corev1.Pod) {
				p.Spec.Containers = []corev1.Container{{Name: "a", Resources: corev1.ResourceRequirements{Limits: lists("cpu", "4")}}}
				p.Spec.Resources = &corev1.ResourceRequirements{Limits: lists("cpu", "4")}
			}),
			want: "pods:1",
		},
		"SC-11 pod-level requests replace cpu, memory and huge pages alone": {
			pod: pod(
				app("a", "cpu", "1", "memory", "1Gi", "x.io/gpu", "2", "hugepages-2Mi", "2Mi"),
				podLevel("cpu", "3", "hugepages-2Mi", "4Mi", "x.io/gpu", "9", "ephemeral-storage", "9Gi"),
			),
			want: "cpu:3,memory:1Gi,pods:1,hugepages-2Mi:4Mi,x.io/gpu:2",
		},
		"SC-11 overhead comes on top of pod-level requests": {
			pod:  pod(app("a", "cpu", "1"), podLevel("cpu", "2"), overhead("cpu", "250m", "memory", "120Mi")),
			want: "cpu:2250m,memory:120Mi,pods:1",
		},
	}.run(t)
}

// FM M16: the larger of what was requested and what is allocated counts, so that the node shows no room that
// it does not have.
func TestPodRequestsWhileResizing(t *testing.T) {
	t.Parallel()
	podCases{
		"SC-11 a shrinking container keeps what it still has": {
			pod:  pod(app("a", "cpu", "1"), status("a", lists("cpu", "3"), lists("cpu", "2"))),
			want: "cpu:3,pods:1",
		},
		"SC-11 a growing container counts what it requested": {
			pod:  pod(app("a", "cpu", "4"), status("a", lists("cpu", "3"), lists("cpu", "2"))),
			want: "cpu:4,pods:1",
		},
		"SC-11 the maximum is per resource": {
			pod:  pod(app("a", "cpu", "4", "memory", "1Gi"), status("a", lists("cpu", "3", "memory", "2Gi"), nil)),
			want: "cpu:4,memory:2Gi,pods:1",
		},
		"SC-11 the maximum is per container, unlike the library": {
			pod: pod(
				app("a", "cpu", "2"), status("a", lists("cpu", "1"), lists("cpu", "1")),
				app("b", "cpu", "1"), status("b", lists("cpu", "2"), lists("cpu", "2")),
			),
			want: "cpu:4,pods:1",
		},
		"SC-11 an infeasible resize is not counted": {
			pod:  pod(app("a", "cpu", "9"), status("a", lists("cpu", "3"), lists("cpu", "2")), resize(corev1.PodReasonInfeasible)),
			want: "cpu:3,pods:1",
		},
		"SC-11 an infeasible resize counts what is allocated": {
			pod:  pod(app("a", "cpu", "9"), status("a", nil, lists("cpu", "2")), resize(corev1.PodReasonInfeasible)),
			want: "cpu:2,pods:1",
		},
		"SC-11 an infeasible resize of a container without status counts the spec": {
			pod:  pod(app("a", "cpu", "9"), resize(corev1.PodReasonInfeasible)),
			want: "cpu:9,pods:1",
		},
		"SC-11 an infeasible resize of a container that had no requests counts none": {
			pod:  pod(app("a", "cpu", "9"), status("a", corev1.ResourceList{}, nil), resize(corev1.PodReasonInfeasible)),
			want: "pods:1",
		},
		"SC-11 a deferred resize is counted": {
			pod:  pod(app("a", "cpu", "9"), status("a", lists("cpu", "3"), lists("cpu", "2")), resize(corev1.PodReasonDeferred)),
			want: "cpu:9,pods:1",
		},
		"SC-11 sidecars resize as well": {
			pod:  pod(app("a", "cpu", "1"), sidecar("s", "cpu", "1"), initStatus("s", lists("cpu", "2"))),
			want: "cpu:3,pods:1",
		},
		"a status of a container that is gone is ignored": {
			pod:  pod(app("a", "cpu", "1"), status("b", lists("cpu", "8"), nil)),
			want: "cpu:1,pods:1",
		},
	}.run(t)
}

func TestPodRequestsOfNothing(t *testing.T) {
	t.Parallel()
	if got := (Table{}).PodRequests(nil); !got.IsZero() {
		t.Errorf("PodRequests(nil) = %v, want none", got)
	}
	if got := PodNames(nil); len(got) != 0 {
		t.Errorf("PodNames(nil) = %v, want none", got)
	}
}

func TestPodRequestsForUnknownNamesFitNowhere(t *testing.T) {
	t.Parallel()
	for name, requesting := range map[string]corev1.Pod{
		"in a container": pod(app("a", "x.io/gpu", "1")),
		"of the pod":     pod(app("a"), podLevel("hugepages-2Mi", "2Mi")),
		"as overhead":    pod(app("a"), overhead("x.io/gpu", "1")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request := (Table{}).PodRequests(&requesting)
			available := vec(1<<40, 1<<40, 1<<40, 110)
			if lane, short := Short(&request, &available); !short || lane != Unknown {
				t.Errorf("Short(%v) = %d, %v", request, lane, short)
			}
		})
	}
}

func BenchmarkPodRequests(b *testing.B) {
	for name, requesting := range map[string]corev1.Pod{
		"one container":   pod(app("a", "cpu", "250m", "memory", "512Mi")),
		"resized":         pod(app("a", "cpu", "250m", "memory", "512Mi"), status("a", lists("cpu", "200m", "memory", "1Gi"), lists("cpu", "250m", "memory", "1Gi"))),
		"sidecar and gpu": pod(app("a", "cpu", "4", "memory", "16Gi", "x.io/gpu", "1"), initial("i", "cpu", "1"), sidecar("s", "cpu", "100m", "memory", "64Mi")),
	} {
		b.Run(name, func(b *testing.B) {
			table := NewTable(PodNames(&requesting)...)
			b.ReportAllocs()
			for b.Loop() {
				table.PodRequests(&requesting)
			}
		})
	}
}

func pod(parts ...func(*corev1.Pod)) corev1.Pod {
	var p corev1.Pod
	for _, part := range parts {
		part(&p)
	}
	return p
}

func app(name string, requests ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, container(name, requests))
	}
}

func initial(name string, requests ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.InitContainers = append(p.Spec.InitContainers, container(name, requests))
	}
}

func sidecar(name string, requests ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		c := container(name, requests)
		c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
}

func container(name string, requests []string) corev1.Container {
	return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: lists(requests...)}}
}

func podLevel(requests ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Resources = &corev1.ResourceRequirements{Requests: lists(requests...)}
	}
}

func overhead(requests ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Overhead = lists(requests...) }
}

// status reports a container's resources; nil is not reported.
func status(name string, actuated, allocated corev1.ResourceList) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		s := corev1.ContainerStatus{Name: name, AllocatedResources: allocated}
		if actuated != nil {
			s.Resources = &corev1.ResourceRequirements{Requests: actuated}
		}
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, s)
	}
}

func initStatus(name string, actuated corev1.ResourceList) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.InitContainerStatuses = append(p.Status.InitContainerStatuses, corev1.ContainerStatus{
			Name: name, Resources: &corev1.ResourceRequirements{Requests: actuated},
		})
	}
}

func resize(why string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: why,
		})
	}
}

// lists builds a resource list from names and quantities in turn.
func lists(pairs ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i+1 < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}
