package world_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/dovetail-sh/dovetail/sandbox/world"
)

// program stands for the binary of the image: it reports its environment and does what its first argument says.
const program = `#!/bin/sh
echo "args $*"
env | sort
case "$1" in
version) exit 0;;
broken) exit 3;;
esac
trap 'echo ended in order; exit 0' TERM
while :; do sleep 0.1; done
`

// writeProgram makes a file of it, for world.Options.
func writeProgram(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(file, []byte(program), 0o700); err != nil {
		t.Fatal(err)
	}
	return file
}

// ourPod is a pod of the image that runs, with a token of another audience beside that of its service account.
func ourPod(name string, policy corev1.RestartPolicy, args ...string) *corev1.Pod {
	field := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault},
		Spec: corev1.PodSpec{
			RestartPolicy: policy, TerminationGracePeriodSeconds: new(int64(20)),
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{
				Name: "main", Image: world.Image + ":1.2.3@sha256:" + strings.Repeat("0", 64), Args: args,
				Env: []corev1.EnvVar{
					{Name: "FIRST", Value: "one"},
					{Name: "SECOND", Value: "$(FIRST) and two"},
					{Name: "NAMESPACE", ValueFrom: field("metadata.namespace")},
					{Name: "NODE", ValueFrom: field("spec.nodeName")},
					{Name: "LIMIT", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.memory"}}},
					{Name: "AWS_WEB_IDENTITY_TOKEN_FILE", Value: "/var/run/secrets/eks.amazonaws.com/serviceaccount/token"},
				},
				Resources:    corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}},
				VolumeMounts: []corev1.VolumeMount{{Name: "aws", MountPath: "/var/run/secrets/eks.amazonaws.com/serviceaccount"}},
			}},
			Volumes: []corev1.Volume{{Name: "aws", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: "sts.amazonaws.com", Path: "token"}},
			}}}}},
		},
	}
}

// podCheck looks at pods of our image.
type podCheck struct {
	*testing.T
	world *world.World
	kube  kubernetes.Interface
}

func (c podCheck) create(p *corev1.Pod) {
	c.Helper()
	if _, err := c.kube.CoreV1().Pods(p.Namespace).Create(c.Context(), p, metav1.CreateOptions{}); err != nil {
		c.Fatal(err)
	}
}

func (c podCheck) get(name string) *corev1.Pod {
	c.Helper()
	p, err := c.kube.CoreV1().Pods(metav1.NamespaceDefault).Get(c.Context(), name, metav1.GetOptions{})
	if err != nil {
		return &corev1.Pod{}
	}
	return p
}

func (c podCheck) waitForPod(name string, done func(*corev1.Pod) bool) *corev1.Pod {
	c.Helper()
	var last *corev1.Pod
	awaitCall(c.T, c.world, func() bool {
		last = c.get(name)
		return done(last)
	})
	return last
}

func (c podCheck) readLogs(name string, previous bool) string {
	c.Helper()
	text, err := c.kube.CoreV1().Pods(metav1.NamespaceDefault).GetLogs(name, &corev1.PodLogOptions{Previous: previous}).DoRaw(c.Context())
	if err != nil {
		c.Fatal(err)
	}
	return string(text)
}

func variableValue(text, name string) string {
	for line := range strings.Lines(text) {
		if value, found := strings.CutPrefix(line, name+"="); found {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// checkPods runs pods of the image that the chart installs.
func checkPods(t *testing.T, w *world.World, kube kubernetes.Interface) {
	t.Helper()
	c := podCheck{T: t, world: w, kube: kube}
	for _, p := range []*corev1.Pod{
		ourPod("runs", corev1.RestartPolicyAlways, "controller", "--flag=$(FIRST)"), ourPod("ends", corev1.RestartPolicyNever, "version"),
		ourPod("fails", corev1.RestartPolicyNever, "broken"), ourPod("loops", corev1.RestartPolicyAlways, "broken"),
	} {
		c.create(p)
	}
	c.waitForPod("runs", func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodRunning && len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].Ready
	})
	awaitCall(t, w, func() bool { return variableValue(c.readLogs("runs", false), "TMPDIR") != "" })
	text := c.readLogs("runs", false)
	for name, want := range map[string]string{
		"args controller --flag": "one", "SECOND": "one and two", "NAMESPACE": "default", "NODE": c.get("runs").Spec.NodeName, "LIMIT": fmt.Sprint(64 << 20), "HOSTNAME": "runs",
	} {
		if got := variableValue(text, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	c.checkIdentity(variableValue(text, "KUBECONFIG"), variableValue(text, "AWS_WEB_IDENTITY_TOKEN_FILE"))

	c.waitForPod("ends", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodSucceeded })
	if p := c.waitForPod("fails", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed }); p.Status.ContainerStatuses[0].State.Terminated.ExitCode != 3 {
		t.Errorf("exit code %d, want 3", p.Status.ContainerStatuses[0].State.Terminated.ExitCode)
	}
	looping := c.waitForPod("loops", func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].State.Waiting != nil
	}).Status.ContainerStatuses[0]
	if last := looping.LastTerminationState.Terminated; looping.State.Waiting.Reason != "CrashLoopBackOff" || looping.RestartCount != 1 || last == nil || last.ExitCode != 3 {
		t.Errorf("%+v, want one that waits after its second end", looping)
	}
	if text := c.readLogs("loops", true); !strings.Contains(text, "args broken") {
		t.Errorf("the log of the one before: %s", text)
	}
	pods := kube.CoreV1().Pods(metav1.NamespaceDefault)
	for _, name := range []string{"runs", "ends", "fails", "loops"} {
		if err := pods.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		awaitCall(t, w, func() bool { return c.get(name).Name == "" })
	}
}

// checkIdentity checks who the program is, and whom its other token is for.
func (c podCheck) checkIdentity(kubeconfig, other string) {
	c.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		c.Fatal(err)
	}
	own, err := kubernetes.NewForConfig(config)
	if err != nil {
		c.Fatal(err)
	}
	if who := authenticatedUser(c.Context(), c.T, own); who != "system:serviceaccount:default:default" {
		c.Errorf("it acts as %s", who)
	}
	token, err := os.ReadFile(other)
	if err != nil {
		c.Fatal(err)
	}
	stranger, err := kubernetes.NewForConfig(&rest.Config{Host: config.Host, TLSClientConfig: rest.TLSClientConfig{CAData: config.CAData}, BearerToken: string(token)})
	if err != nil {
		c.Fatal(err)
	}
	if who := authenticatedUser(c.Context(), c.T, stranger); who != "" {
		c.Errorf("a token for AWS is taken by the API server, as one of %s", who)
	}
}

func authenticatedUser(ctx context.Context, t *testing.T, client kubernetes.Interface) string {
	t.Helper()
	who, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return ""
	}
	return who.Status.UserInfo.Username
}
