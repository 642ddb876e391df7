package flow_test

import (
	"context"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/sandbox/fakenode"
)

// newNamespace of a test, in which pods are admitted.
func newNamespace(tb testing.TB, prefix string) string {
	tb.Helper()
	ns, err := client.CoreV1().Namespaces().Create(tb.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: prefix + "-"},
	}, metav1.CreateOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	waitForObject(tb, client.CoreV1().RESTClient(), &corev1.ServiceAccount{}, "serviceaccounts", ns.Name, "default", "there",
		func(*corev1.ServiceAccount) bool { return true })
	tb.Cleanup(func() {
		_ = client.CoreV1().Namespaces().Delete(context.WithoutCancel(tb.Context()), ns.Name, metav1.DeleteOptions{})
	})
	return ns.Name
}

func podTemplate(label string, annotations map[string]string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": label}, Annotations: annotations},
		Spec: corev1.PodSpec{
			NodeSelector:                  map[string]string{"test": label},
			TerminationGracePeriodSeconds: new(int64(3)),
			InitContainers:                []corev1.Container{{Name: "init", Image: "init"}},
			Containers:                    []corev1.Container{{Name: "main", Image: "pause"}},
		},
	}
}

func createPod(t *testing.T, ns, name, label string, annotations map[string]string, edit func(*corev1.PodSpec)) {
	t.Helper()
	p := podTemplate(label, annotations)
	if edit != nil {
		edit(&p.Spec)
	}
	p.Name = name
	if _, err := client.CoreV1().Pods(ns).Create(t.Context(), &corev1.Pod{ObjectMeta: p.ObjectMeta, Spec: p.Spec}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func ready(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue && p.Status.Phase == corev1.PodRunning
		}
	}
	return false
}

// The real scheduler places a Deployment, the pods run, and eviction gives them their time.
func TestDeploymentRunsAndDrains(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t, "drains")
	i := launch(t, aws.newRunningInstance("drains"))
	_, err := client.AppsV1().Deployments(ns).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(5)), Template: podTemplate("drains", nil),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "drains"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	waitForObject(t, client.AppsV1().RESTClient(), &appsv1.Deployment{}, "deployments", ns, "web", "available",
		func(d *appsv1.Deployment) bool { return d.Status.AvailableReplicas == 5 })
	pods, err := client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	addresses := map[string]bool{}
	for _, p := range pods.Items {
		addresses[p.Status.PodIP] = true
		if p.Spec.NodeName != i.PrivateDNS || p.Status.HostIP != i.PrivateIP || p.Status.InitContainerStatuses[0].State.Terminated == nil {
			t.Errorf("pod on %s of %s, init containers %v", p.Spec.NodeName, p.Status.HostIP, p.Status.InitContainerStatuses)
		}
	}
	if len(addresses) != 5 {
		t.Errorf("addresses %v", addresses)
	}
	victim := pods.Items[0]
	began := time.Now()
	err = client.PolicyV1().Evictions(ns).Evict(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: victim.Name, Namespace: ns}})
	if err != nil {
		t.Fatal(err)
	}
	waitUntilGone(t, client.CoreV1().RESTClient(), &corev1.Pod{}, "pods", ns, victim.Name)
	if took := time.Since(began); took < 3*time.Second {
		t.Errorf("gone after %s, its grace period is 3s", took)
	}
}

func TestStopAfter(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t, "stops")
	launch(t, aws.newRunningInstance("stops"))
	createPod(t, ns, "quick", "stops", map[string]string{fakenode.StopAfterAnnotation: "0s"}, func(s *corev1.PodSpec) {
		s.TerminationGracePeriodSeconds = new(int64(3600))
	})
	pod(t, ns, "quick", "ready", ready)
	if err := client.CoreV1().Pods(ns).Delete(t.Context(), "quick", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waitUntilGone(t, client.CoreV1().RESTClient(), &corev1.Pod{}, "pods", ns, "quick")
}

func TestCompletionAndRestart(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t, "ends")
	launch(t, aws.newRunningInstance("ends"))
	job := podTemplate("ends", map[string]string{fakenode.CompleteAfterAnnotation: "1s"})
	job.Spec.RestartPolicy = corev1.RestartPolicyNever
	if _, err := client.BatchV1().Jobs(ns).Create(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "job"}, Spec: batchv1.JobSpec{Template: job},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	createPod(t, ns, "fails", "ends", map[string]string{fakenode.FailAfterAnnotation: "1s"}, func(s *corev1.PodSpec) {
		s.RestartPolicy = corev1.RestartPolicyNever
	})
	createPod(t, ns, "restarts", "ends", map[string]string{fakenode.FailAfterAnnotation: "1s"}, nil)
	waitForObject(t, client.BatchV1().RESTClient(), &batchv1.Job{}, "jobs", ns, "job", "complete", func(j *batchv1.Job) bool {
		return j.Status.Succeeded == 1 && j.Status.CompletionTime != nil
	})
	pod(t, ns, "fails", "failed", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
	p := pod(t, ns, "restarts", "restarted twice", func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].RestartCount == 2
	})
	if !ready(p) {
		t.Errorf("it does not run on: %v", p.Status)
	}
}

// A pod waits for its volume, and the attachment goes when the pod does.
func TestVolume(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t, "volume")
	i := launch(t, aws.newRunningInstance("volume"))
	name := ns // of the volume, which has no namespace
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	_, err := client.CoreV1().PersistentVolumes().Create(t.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: modes,
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com", VolumeHandle: "vol-1"},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.CoreV1().PersistentVolumeClaims(ns).Create(t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: modes, VolumeName: name, StorageClassName: new(""),
			Resources: corev1.VolumeResourceRequirements{Requests: size},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	createPod(t, ns, "db", "volume", map[string]string{fakenode.StopAfterAnnotation: "0s"}, func(s *corev1.PodSpec) {
		s.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
		}}}
	})
	pod(t, ns, "db", "ready", ready)
	list, err := client.StorageV1().VolumeAttachments().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	attachment := ""
	for _, a := range list.Items {
		if a.Spec.NodeName == i.PrivateDNS && a.Status.Attached {
			attachment = a.Name
		}
	}
	if attachment == "" {
		t.Fatalf("no attachment to %s in %v", i.PrivateDNS, list.Items)
	}
	if err := client.CoreV1().Pods(ns).Delete(t.Context(), "db", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waitUntilGone(t, client.StorageV1().RESTClient(), &storagev1.VolumeAttachment{}, "volumeattachments", "", attachment)
}

// Pods of a dead kubelet stay as they are, and stop once it lives.
func TestPodsOfDeadKubelet(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t, "frozen")
	i := launch(t, aws.newRunningInstance("frozen"))
	createPod(t, ns, "frozen", "frozen", map[string]string{fakenode.StopAfterAnnotation: "0s"}, nil)
	pod(t, ns, "frozen", "ready", ready)
	injectFault(t, i, fakenode.Fault{Dead: true})
	waitWhy(t, i)
	if err := client.CoreV1().Pods(ns).Delete(t.Context(), "frozen", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	other := launch(t, aws.newRunningInstance("frozen"))
	createPod(t, ns, "other", "frozen", nil, func(s *corev1.PodSpec) {
		s.NodeSelector = map[string]string{corev1.LabelHostname: other.PrivateDNS}
	})
	pod(t, ns, "other", "ready", ready)
	if p, err := client.CoreV1().Pods(ns).Get(t.Context(), "frozen", metav1.GetOptions{}); err != nil || !ready(p) {
		t.Errorf("the pod of a dead kubelet: %v", err)
	}
	simulator.Faults().Clear(t.Name())
	waitUntilGone(t, client.CoreV1().RESTClient(), &corev1.Pod{}, "pods", ns, "frozen")
}

// waitWhy returns once the simulator has decided about a fault.
func waitWhy(t *testing.T, i fakenode.Instance) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond) // there is no watch on a reason
	defer ticker.Stop()
	for simulator.Why(i.ID) == "" {
		select {
		case <-ticker.C:
		case <-t.Context().Done():
			t.Fatal("the fault has no effect")
		}
	}
}
