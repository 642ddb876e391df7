package buffer_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	autoscalingv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	"github.com/dovetail-sh/dovetail/internal/buffer"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	_ "github.com/dovetail-sh/dovetail/internal/seed"
)

func template(requests string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web", Resources: corev1.ResourceRequirements{Requests: list(requests)}}}},
	}
}

// list reads "cpu=1,memory=2Gi".
func list(text string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for part := range strings.SplitSeq(text, ",") {
		if name, amount, found := strings.Cut(part, "="); found {
			out[corev1.ResourceName(name)] = resource.MustParse(amount)
		}
	}
	return out
}

func scalable() *autoscalingv1beta1.ScalableRef {
	return &autoscalingv1beta1.ScalableRef{APIGroup: "apps", Kind: "Deployment", Name: "web"}
}

func newBuffer(spec autoscalingv1beta1.CapacityBufferSpec) *autoscalingv1beta1.CapacityBuffer {
	if spec.ScalableRef == nil && spec.PodTemplateRef == nil {
		spec.PodTemplateRef = &autoscalingv1beta1.LocalObjectRef{Name: "web"}
	}
	return &autoscalingv1beta1.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "spare", UID: "b-1", Generation: 3}, Spec: spec}
}

// CB-10: the count of a buffer.
func TestCB_10_Count(t *testing.T) {
	t.Parallel()
	type spec = autoscalingv1beta1.CapacityBufferSpec
	for name, tc := range map[string]struct {
		spec     spec
		workload *int32
		requests string
		want     int32
	}{
		"replicas":              {spec: spec{Replicas: new(int32(3))}, requests: "cpu=1", want: 3},
		"none":                  {spec: spec{Replicas: new(int32(0))}, requests: "cpu=1", want: 0},
		"a share, rounded up":   {spec: spec{ScalableRef: scalable(), Percentage: new(int32(25))}, workload: new(int32(10)), requests: "cpu=1", want: 3},
		"a share of few is one": {spec: spec{ScalableRef: scalable(), Percentage: new(int32(1))}, workload: new(int32(2)), requests: "cpu=1", want: 1},
		"a share of none":       {spec: spec{ScalableRef: scalable(), Percentage: new(int32(50))}, workload: new(int32(0)), requests: "cpu=1", want: 0},
		"0 % of some":           {spec: spec{ScalableRef: scalable(), Percentage: new(int32(0))}, workload: new(int32(9)), requests: "cpu=1", want: 0},
		"more than all":         {spec: spec{ScalableRef: scalable(), Percentage: new(int32(200))}, workload: new(int32(4)), requests: "cpu=1", want: 8},
		"replicas of the workload absent are one":     {spec: spec{ScalableRef: scalable(), Percentage: new(int32(100))}, requests: "cpu=1", want: 1},
		"the larger of both: replicas":                {spec: spec{ScalableRef: scalable(), Replicas: new(int32(7)), Percentage: new(int32(50))}, workload: new(int32(4)), requests: "cpu=1", want: 7},
		"the larger of both: percentage":              {spec: spec{ScalableRef: scalable(), Replicas: new(int32(1)), Percentage: new(int32(50))}, workload: new(int32(4)), requests: "cpu=1", want: 2},
		"limits bound replicas":                       {spec: spec{Replicas: new(int32(9)), Limits: list("cpu=5")}, requests: "cpu=2", want: 2},
		"the tightest limit":                          {spec: spec{Replicas: new(int32(9)), Limits: list("cpu=8,memory=5Gi")}, requests: "cpu=1,memory=1Gi", want: 5},
		"limits alone":                                {spec: spec{Limits: list("cpu=10")}, requests: "cpu=3", want: 3},
		"limits alone beside a share of no workload":  {spec: spec{Limits: list("cpu=10"), Percentage: new(int32(10))}, requests: "cpu=3", want: 3},
		"limits below one pod":                        {spec: spec{Replicas: new(int32(2)), Limits: list("cpu=500m")}, requests: "cpu=1", want: 0},
		"a limit of something it does not request":    {spec: spec{Replicas: new(int32(2)), Limits: list("nvidia.com/gpu=1")}, requests: "cpu=1", want: 2},
		"only such a limit":                           {spec: spec{Limits: list("nvidia.com/gpu=1")}, requests: "cpu=1", want: 0},
		"a limit of a GPU":                            {spec: spec{Replicas: new(int32(4)), Limits: list("nvidia.com/gpu=6")}, requests: "nvidia.com/gpu=2", want: 3},
		"neither size nor limits":                     {spec: spec{ScalableRef: scalable()}, workload: new(int32(5)), requests: "cpu=1", want: 0},
		"a mistyped number takes no more than is fit": {spec: spec{Replicas: new(int32(math.MaxInt32))}, requests: "cpu=1", want: buffer.MaxPods},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := buffer.Resolve(newBuffer(tc.spec), &buffer.Target{Template: template(tc.requests), Replicas: tc.workload}, nil, nil, buffer.MaxTotal)
			if !r.Ready || r.Count != tc.want || len(r.Pods) != int(tc.want) {
				t.Errorf("ready %v (%s), count %d, %d pods; want %d", r.Ready, r.Message, r.Count, len(r.Pods), tc.want)
			}
		})
	}
}

// CB-10: whatever the numbers are, a buffer requests no more than its limits and its size allow, and the same twice.
func TestCB_10_Properties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		optional := func(label string, most int32) *int32 {
			if rapid.Bool().Draw(t, label+" is set") {
				return new(rapid.Int32Range(0, most).Draw(t, label))
			}
			return nil
		}
		spec := autoscalingv1beta1.CapacityBufferSpec{ScalableRef: scalable(), Replicas: optional("replicas", 50), Percentage: optional("percentage", 300)}
		request, limit := rapid.Int64Range(0, 4000).Draw(t, "request"), rapid.Int64Range(0, 100_000).Draw(t, "limit")
		limited := rapid.Bool().Draw(t, "limited")
		if limited {
			spec.Limits = corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(limit, resource.DecimalSI)}
		}
		b := newBuffer(spec)
		target := &buffer.Target{Template: template(fmt.Sprintf("cpu=%dm", request)), Replicas: optional("workload", 40)}
		left := rapid.IntRange(0, 100).Draw(t, "left")
		r := buffer.Resolve(b, target, nil, nil, left)
		if limited && int64(r.Count)*request > limit {
			t.Errorf("%d pods of %dm exceed the limit of %dm", r.Count, request, limit)
		}
		if int(r.Count) > left || int(r.Count) != len(r.Pods) {
			t.Errorf("%d pods, %d listed, %d left", r.Count, len(r.Pods), left)
		}
		workload := int64(1)
		if target.Replicas != nil {
			workload = int64(*target.Replicas)
		}
		if set := spec.Replicas != nil || spec.Percentage != nil; set {
			most := int64(0)
			if spec.Replicas != nil {
				most = int64(*spec.Replicas)
			}
			if spec.Percentage != nil {
				most = max(most, int64(math.Ceil(float64(workload)*float64(*spec.Percentage)/100)))
			}
			if int64(r.Count) > most {
				t.Errorf("%d pods, and the spec requests %d", r.Count, most)
			}
		}
		again := buffer.Resolve(b.DeepCopy(), target, nil, nil, left)
		if diff := cmp.Diff(r.Pods, again.Pods); diff != "" {
			t.Errorf("the pods differ the second time:\n%s", diff)
		}
		seen := map[string]bool{}
		for i, p := range r.Pods {
			if want := fmt.Sprintf("capacity-buffer-spare-%d", i); p.Name != want || seen[string(p.UID)] || p.UID == "" {
				t.Fatalf("pod %d is %s with UID %q, want %s with one of its own", i, p.Name, p.UID, want)
			}
			seen[string(p.UID)] = true
		}
	})
}

// CB-11: what a virtual pod has of its template, and what not.
func TestCB_11_VirtualPod(t *testing.T) {
	t.Parallel()
	tmpl := template("memory=1Gi")
	tmpl.Annotations = map[string]string{"team": "shop"}
	tmpl.Spec.NodeName, tmpl.Spec.PriorityClassName = "node-1", "high"
	tmpl.Spec.Volumes = []corev1.Volume{
		{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
		{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
		{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}},
	}
	c := &tmpl.Spec.Containers[0]
	c.Resources.Limits = list("cpu=2,memory=2Gi")
	c.VolumeMounts = []corev1.VolumeMount{{Name: "data"}, {Name: "config"}, {Name: "scratch"}}
	c.VolumeDevices = []corev1.VolumeDevice{{Name: "data"}}
	tmpl.Spec.InitContainers = []corev1.Container{{Name: "init", VolumeMounts: []corev1.VolumeMount{{Name: "scratch"}}}}
	before := tmpl.DeepCopy()
	r := buffer.Resolve(newBuffer(autoscalingv1beta1.CapacityBufferSpec{Replicas: new(int32(1))}), &buffer.Target{Template: tmpl}, nil, list("cpu=100m,ephemeral-storage=1Gi"), 10)
	if diff := cmp.Diff(before, &tmpl); diff != "" {
		t.Errorf("the template was changed:\n%s", diff)
	}
	p := r.Pods[0]
	if p.Namespace != "shop" || p.Labels["app"] != "web" || p.Spec.NodeName != "" || p.Spec.PriorityClassName != "" || *p.Spec.Priority != math.MinInt32 {
		t.Errorf("pod %+v", p.ObjectMeta)
	}
	want := map[string]string{
		"team": "shop", "karpenter.sh/capacity-buffer-fake-pod": "true", "karpenter.sh/capacity-buffer-name": "spare", "karpenter.sh/capacity-buffer-namespace": "shop",
	}
	if diff := cmp.Diff(want, p.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if len(p.Spec.Volumes) != 1 || p.Spec.Volumes[0].Name != "config" {
		t.Errorf("volumes %v", p.Spec.Volumes)
	}
	got := p.Spec.Containers[0]
	if len(got.VolumeMounts) != 1 || got.VolumeMounts[0].Name != "config" || len(got.VolumeDevices) > 0 || len(p.Spec.InitContainers[0].VolumeMounts) > 0 {
		t.Errorf("mounts %v, devices %v, of the init container %v", got.VolumeMounts, got.VolumeDevices, p.Spec.InitContainers[0].VolumeMounts)
	}
	// As the API server would complete the requests of a pod.
	if diff := cmp.Diff(list("cpu=2,memory=1Gi,ephemeral-storage=1Gi"), got.Resources.Requests); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if at := p.Status.Conditions; len(at) != 1 || at[0].Type != corev1.PodScheduled || at[0].Status != corev1.ConditionFalse || at[0].Reason != corev1.PodReasonUnschedulable {
		t.Errorf("conditions %v", at)
	}
}

// CB-14, FM M04: what the conditions say.
func TestCB_14_Conditions(t *testing.T) {
	t.Parallel()
	type spec = autoscalingv1beta1.CapacityBufferSpec
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	key := func(n int) cluster.PodKey {
		return cluster.PodKey{Namespace: "shop", Name: fmt.Sprintf("capacity-buffer-spare-%d", n)}
	}
	there := &buffer.Target{Template: template("cpu=1"), Generation: 5}
	two := spec{Replicas: new(int32(2))}
	for name, tc := range map[string]struct {
		spec   spec
		target *buffer.Target
		err    error
		placed map[cluster.PodKey]buffer.Placement
		ready  string // reason
		prov   string
		says   []string
	}{
		"fits":                 {spec: two, target: there, placed: map[cluster.PodKey]buffer.Placement{key(0): {Fits: true}, key(1): {Fits: true}}, ready: "Resolved", prov: "FitsExistingCapacity", says: []string{"2 pods like those of PodTemplate web", "Nodes have room for 2 pods"}},
		"one is being ordered": {spec: two, target: there, placed: map[cluster.PodKey]buffer.Placement{key(0): {Fits: true}, key(1): {Ordered: true}}, ready: "Resolved", prov: "RequiresNewCapacity", says: []string{"room for 1 of 2 pods", "launched for 1"}},
		"M06: a limit":         {spec: two, target: there, placed: map[cluster.PodKey]buffer.Placement{key(0): {Fits: true}, key(1): {Why: "limit reached"}}, ready: "Resolved", prov: "RequiresNewCapacity", says: []string{"room for 1 of 2 pods", "no node can take 1: limit reached"}},
		"before a plan":        {spec: two, target: there, ready: "Resolved"},
		"no pods":              {spec: spec{Replicas: new(int32(0))}, target: there, ready: "Resolved", prov: "BufferEmpty"},
		"no template":          {spec: two, ready: "PodTemplateNotFound", prov: "NotReadyForProvisioning", says: []string{"PodTemplate web does not exist in namespace shop; create it"}},
		"no workload":          {spec: spec{ScalableRef: scalable()}, ready: "ScalableRefNotFound", prov: "NotReadyForProvisioning", says: []string{"Deployment web does not exist in namespace shop"}},
		"an error":             {spec: two, err: fmt.Errorf("timeout"), ready: "ResolutionFailed", prov: "NotReadyForProvisioning", says: []string{"cannot read PodTemplate web of namespace shop: timeout"}},
		"no container":         {spec: two, target: &buffer.Target{}, ready: "ResolutionFailed", prov: "NotReadyForProvisioning", says: []string{"no container"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBuffer(tc.spec)
			r := buffer.Resolve(b, tc.target, tc.err, nil, 100)
			status := buffer.Status(b, &r, tc.placed, now)
			ready, prov := meta.FindStatusCondition(status.Conditions, "ReadyForProvisioning"), meta.FindStatusCondition(status.Conditions, "Provisioning")
			if ready == nil || ready.Reason != tc.ready || (ready.Status == metav1.ConditionTrue) != (tc.ready == "Resolved") || ready.ObservedGeneration != 3 {
				t.Errorf("ReadyForProvisioning %+v, want reason %s", ready, tc.ready)
			}
			text := ready.Message
			if prov != nil {
				text += prov.Message
			}
			switch {
			case tc.prov == "" && prov != nil, tc.prov != "" && prov == nil:
				t.Errorf("Provisioning %+v, want reason %q", prov, tc.prov)
			case prov != nil && (prov.Reason != tc.prov || (prov.Status == metav1.ConditionTrue) != (tc.prov == "FitsExistingCapacity")):
				t.Errorf("Provisioning %+v, want reason %q", prov, tc.prov)
			}
			for _, part := range tc.says {
				if !strings.Contains(text, part) {
					t.Errorf("%q does not say %q", text, part)
				}
			}
			if (status.Replicas != nil) != r.Ready || *status.ProvisioningStrategy == "" {
				t.Errorf("status %+v", status)
			}
			if r.Ready && tc.spec.ScalableRef == nil && (status.PodTemplateRef == nil || status.PodTemplateRef.Name != "web" || *status.PodTemplateGeneration != 5) {
				t.Errorf("status names template %v, %v", status.PodTemplateRef, status.PodTemplateGeneration)
			}
			b.Status = status
			if diff := cmp.Diff(status, buffer.Status(b, &r, tc.placed, now.Add(time.Hour))); diff != "" {
				t.Errorf("the status changes although nothing did:\n%s", diff)
			}
		})
	}
}

// CB-01: a buffer with the strategy of another controller is left to it. What we wrote while it was ours is removed.
func TestCB_01_OtherStrategies(t *testing.T) {
	t.Parallel()
	for strategy, want := range map[string]bool{"": true, autoscalingv1beta1.StrategyActiveCapacity: true, "example.com/theirs": false} {
		if got := buffer.Ours(&autoscalingv1beta1.CapacityBufferSpec{ProvisioningStrategy: &strategy}); got != want {
			t.Errorf("strategy %q: ours %v, want %v", strategy, got, want)
		}
	}
	theirs := metav1.Condition{Type: "Theirs", Status: metav1.ConditionTrue}
	written := func(strategy string) autoscalingv1beta1.CapacityBufferStatus {
		return autoscalingv1beta1.CapacityBufferStatus{
			Replicas: new(int32(3)), ProvisioningStrategy: &strategy,
			Conditions: []metav1.Condition{theirs, {Type: autoscalingv1beta1.ConditionReadyForProvisioning}, {Type: autoscalingv1beta1.ConditionProvisioning}},
		}
	}
	for name, tc := range map[string]struct {
		before, want autoscalingv1beta1.CapacityBufferStatus
	}{
		"not written yet": {},
		"they wrote it":   {written("example.com/theirs"), written("example.com/theirs")},
		"we wrote it":     {written(autoscalingv1beta1.StrategyActiveCapacity), autoscalingv1beta1.CapacityBufferStatus{Conditions: []metav1.Condition{theirs}}},
	} {
		if diff := cmp.Diff(tc.want, buffer.Released(&autoscalingv1beta1.CapacityBuffer{Status: tc.before})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// CB-11: a template of a RuntimeClass has the overhead of the pods of that class, unless it says its own.
func TestCB_11_RuntimeClassOverhead(t *testing.T) {
	t.Parallel()
	known := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("120Mi")}
	own := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
	of := func(class string) corev1.ResourceList {
		if class == "kata" {
			return known
		}
		return nil
	}
	for name, tc := range map[string]struct {
		spec corev1.PodSpec
		want corev1.ResourceList
	}{
		"no class":            {corev1.PodSpec{}, nil},
		"a class":             {corev1.PodSpec{RuntimeClassName: new("kata")}, known},
		"its own":             {corev1.PodSpec{RuntimeClassName: new("kata"), Overhead: own}, own},
		"a class without pod": {corev1.PodSpec{RuntimeClassName: new("gvisor")}, nil},
	} {
		if buffer.AddOverhead(&tc.spec, of); !cmp.Equal(tc.want, tc.spec.Overhead) {
			t.Errorf("%s: overhead %v, want %v", name, tc.spec.Overhead, tc.want)
		}
	}
}
