package resources

import (
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	helper "k8s.io/component-helpers/resource"
	"pgregory.net/rapid"

	_ "github.com/dovetail-sh/dovetail/internal/seed" // the same values in every run
)

func TestPodRequestsAgreesWithKubernetes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, checkAgainstKubernetes)
}

func FuzzPodRequests(f *testing.F) {
	// A pod takes some thousand bytes to draw; shorter inputs are skipped, so start with long ones.
	for seed := range byte(8) {
		bytes := make([]byte, 1<<13)
		_, _ = rand.NewChaCha8([32]byte{seed}).Read(bytes)
		f.Add(bytes)
	}
	f.Fuzz(rapid.MakeFuzz(checkAgainstKubernetes))
}

// checkAgainstKubernetes compares SC-11 with the library in three ways: exactly, after writing the
// per-container maximum of a resize into the spec; exactly, as it stands, when one container is all
// there is; and as a lower bound in every other case.
func checkAgainstKubernetes(t *rapid.T) {
	p := drawPod(t, drawWhole)
	table := NewTable(PodNames(p)...)
	got := table.PodRequests(p)
	if got.At(Unknown) != 0 {
		t.Fatalf("PodNames missed a name: %s", table.Format(got))
	}
	before := p.DeepCopy()
	if want := oracle(table, withMaximumInSpec(p), helper.PodResourcesOptions{}); !got.Equal(want) {
		t.Fatalf("PodRequests() = %s\nthe library  %s, with the maximum of each container in the spec", table.Format(got), table.Format(want))
	}
	library := oracle(table, p, helper.PodResourcesOptions{UseStatusResources: true})
	if len(p.Spec.Containers)+len(p.Spec.InitContainers) == 1 && !infeasibleWithoutStatus(p) && !got.Equal(library) {
		t.Fatalf("PodRequests() = %s\nthe library  %s", table.Format(got), table.Format(library))
	}
	if !Fits(&library, &got) {
		t.Fatalf("PodRequests() = %s\nless than the library's %s", table.Format(got), table.Format(library))
	}
	if !table.PodRequests(before).Equal(got) {
		t.Fatal("two calls, two responses")
	}
}

// Fractions of a unit may cost up to one unit per term, and never make a request smaller.
func TestPodRequestsRoundsFractionsUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := drawPod(t, drawFraction)
		p.Status = corev1.PodStatus{}
		table := NewTable(PodNames(p)...)
		got := table.PodRequests(p)
		library := oracle(table, p, helper.PodResourcesOptions{})
		terms := int64(len(p.Spec.Containers) + len(p.Spec.InitContainers) + 1)
		for lane := range table.Len() {
			if extra := got.At(lane) - library.At(lane); extra < 0 || extra > terms {
				t.Fatalf("%s: %d units, the library has %d", table.Name(lane), got.At(lane), library.At(lane))
			}
		}
	})
}

// oracle is the library's result plus the pod's own slot.
func oracle(table Table, p *corev1.Pod, options helper.PodResourcesOptions) Vec {
	return Add(table.Requests(helper.PodRequests(p, options)), vec(0, 0, 0, 1))
}

// withMaximumInSpec returns a pod in which the resize rule of SC-11 has been applied by hand, on
// quantities, so that the library needs only to aggregate.
func withMaximumInSpec(p *corev1.Pod) *corev1.Pod {
	p = p.DeepCopy()
	statuses := map[string]corev1.ContainerStatus{}
	for _, s := range append(p.Status.InitContainerStatuses, p.Status.ContainerStatuses...) {
		statuses[s.Name] = s
	}
	for _, containers := range [][]corev1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for i := range containers {
			c := &containers[i]
			s := statuses[c.Name]
			if s.Resources == nil && s.AllocatedResources == nil {
				continue
			}
			largest := corev1.ResourceList{}
			raise(largest, s.AllocatedResources)
			if s.Resources != nil {
				raise(largest, s.Resources.Requests)
			}
			if !helper.IsPodResizeInfeasible(p) {
				raise(largest, c.Resources.Requests)
			}
			c.Resources.Requests = largest
		}
	}
	p.Status = corev1.PodStatus{}
	return p
}

func raise(dst, l corev1.ResourceList) {
	for name, quantity := range l {
		if have, found := dst[name]; !found || have.Cmp(quantity) < 0 {
			dst[name] = quantity
		}
	}
}

// infeasibleWithoutStatus is the one case where a single container differs from the library.
func infeasibleWithoutStatus(p *corev1.Pod) bool {
	for _, s := range append(p.Status.InitContainerStatuses, p.Status.ContainerStatuses...) {
		if s.Resources != nil || s.AllocatedResources != nil {
			return false
		}
	}
	return helper.IsPodResizeInfeasible(p)
}

func drawPod(t *rapid.T, draw func(*rapid.T, corev1.ResourceName) resource.Quantity) *corev1.Pod {
	p := &corev1.Pod{}
	names := []string{"a", "b", "c", "d", "e", "f"}
	apps := rapid.IntRange(0, 3).Draw(t, "apps")
	inits := rapid.IntRange(0, 3).Draw(t, "inits")
	for i, name := range names[:apps+inits] {
		c := corev1.Container{Name: name}
		c.Resources.Requests = drawList(t, draw)
		c.Resources.Limits = drawList(t, draw)
		s, reported := drawStatus(t, name, draw)
		if i < apps {
			p.Spec.Containers = append(p.Spec.Containers, c)
			if reported {
				p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, s)
			}
			continue
		}
		if rapid.Bool().Draw(t, "sidecar") {
			c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		if reported {
			p.Status.InitContainerStatuses = append(p.Status.InitContainerStatuses, s)
		}
	}
	if rapid.Bool().Draw(t, "overhead") {
		p.Spec.Overhead = drawList(t, draw)
	}
	if rapid.Bool().Draw(t, "podLevel") {
		p.Spec.Resources = &corev1.ResourceRequirements{Requests: drawList(t, draw), Limits: drawList(t, draw)}
	}
	if why := rapid.SampledFrom([]string{"", corev1.PodReasonInfeasible, corev1.PodReasonDeferred}).Draw(t, "resize"); why != "" {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady}, {Type: corev1.PodResizePending, Reason: why}}
	}
	return p
}

func drawStatus(t *rapid.T, name string, draw func(*rapid.T, corev1.ResourceName) resource.Quantity) (corev1.ContainerStatus, bool) {
	s := corev1.ContainerStatus{Name: name, AllocatedResources: drawList(t, draw)}
	if rapid.Bool().Draw(t, "actuated") {
		s.Resources = &corev1.ResourceRequirements{Requests: drawList(t, draw), Limits: drawList(t, draw)}
	}
	return s, rapid.Bool().Draw(t, "reported")
}

// drawList returns nil, an empty list or some of the names, so that absence is exercised as well.
func drawList(t *rapid.T, draw func(*rapid.T, corev1.ResourceName) resource.Quantity) corev1.ResourceList {
	if rapid.Bool().Draw(t, "nil") {
		return nil
	}
	l := corev1.ResourceList{}
	for _, name := range []corev1.ResourceName{"cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "x.io/gpu"} {
		if rapid.Bool().Draw(t, "set") {
			l[name] = draw(t, name)
		}
	}
	return l
}

func drawWhole(t *rapid.T, name corev1.ResourceName) resource.Quantity {
	n := rapid.Int64Range(0, 1<<44).Draw(t, "n")
	if name == corev1.ResourceCPU {
		return *resource.NewMilliQuantity(n, resource.DecimalSI)
	}
	return *resource.NewQuantity(n, resource.BinarySI)
}

func drawFraction(t *rapid.T, _ corev1.ResourceName) resource.Quantity {
	return *resource.NewScaledQuantity(rapid.Int64Range(0, 1<<50).Draw(t, "n"), resource.Nano)
}
