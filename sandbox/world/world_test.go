package world_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/dovetail-sh/dovetail/sandbox/harness"
	"github.com/dovetail-sh/dovetail/sandbox/world"
)

// patience is how long anything may take before a test gives up on it; a busy machine needs seconds.
const patience = 5 * time.Minute

// Worlds are dear, so the flows follow each other in one test.
func TestWorld(t *testing.T) {
	dir := t.TempDir()
	w := start(t, world.Options{Dir: dir, Metrics: true, Driver: true, Program: writeProgram(t)})
	cloud, kube := newClients(t, w)
	awaitCall(t, w, func() bool { return servesMetrics(t, kube) })

	instance := cloud.launch(t, ec2types.InstanceTypeM5Large, userData(world.Cluster))
	node := awaitNode(t, kube, func(n *corev1.Node) bool { return strings.HasSuffix(n.Spec.ProviderID, "/"+instance) && ready(n) })
	t.Run("an instance becomes a node that looks like one", func(t *testing.T) {
		for key, want := range map[string]string{
			"node.kubernetes.io/instance-type": "m5.large", "karpenter.sh/nodepool": "demo", "topology.kubernetes.io/region": world.Region,
		} {
			if got := node.Labels[key]; got != want {
				t.Errorf("label %s is %q, want %q", key, got, want)
			}
		}
		if !strings.HasPrefix(node.Spec.ProviderID, "aws:///"+world.Region) || node.Status.Allocatable.Pods().Value() != 29 {
			t.Errorf("provider id %s, %d pods", node.Spec.ProviderID, node.Status.Allocatable.Pods().Value())
		}
	})
	t.Run("the API server finds its kubelet, and others its address", func(t *testing.T) {
		for _, a := range node.Status.Addresses {
			if a.Type == corev1.NodeInternalIP && !strings.HasPrefix(a.Address, "10.") {
				t.Errorf("internal address %s", a.Address)
			}
		}
		if node.Status.DaemonEndpoints.KubeletEndpoint.Port == 0 {
			t.Error("no port of the kubelet")
		}
		address := fmt.Sprintf("https://localhost:%d/containerLogs/a/b/c", node.Status.DaemonEndpoints.KubeletEndpoint.Port)
		admin, err := rest.HTTPClientFor(w.ControlPlane.Config)
		if err != nil {
			t.Fatal(err)
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if response, err := admin.Do(request); err == nil {
			_ = response.Body.Close()
			t.Error("the kubelet responds to another client than the API server")
		}
	})
	t.Run("Trust D01: no time stamp is ahead of the real clock", func(t *testing.T) {
		out, err := cloud.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{instance}})
		if err != nil {
			t.Fatal(err)
		}
		if launched := *out.Reservations[0].Instances[0].LaunchTime; launched.After(time.Now()) {
			t.Errorf("launched at %s, in the future", launched)
		}
	})
	t.Run("Trust D03: its volume driver runs there, and claims become volumes of the account", func(t *testing.T) {
		volumeDriver(t, w, kube, cloud, node.Name, instance)
	})
	t.Run("claims that name no class get a volume when a pod needs it", func(t *testing.T) {
		class, err := kube.StorageV1().StorageClasses().Get(t.Context(), "gp3", metav1.GetOptions{})
		if err != nil || class.Annotations["storageclass.kubernetes.io/is-default-class"] != "true" {
			t.Errorf("class %v: %v", class, err)
		}
	})
	t.Run("user data of another cluster never joins, and says why", func(t *testing.T) {
		lost := cloud.launch(t, ec2types.InstanceTypeM5Large, userData("another"))
		awaitCall(t, w, func() bool { return strings.Contains(w.Nodes.Why(lost), "another") })
		cloud.terminate(t, lost)
	})
	t.Run("the control API disturbs nodes and the API server", func(t *testing.T) {
		callControlAPI(t, w, http.MethodPost, "nodes", `{"name":"dead","selector":{"instance":"`+instance+`"},"neverReady":true}`)
		awaitNode(t, kube, func(n *corev1.Node) bool { return n.Name == node.Name && !ready(n) })
		callControlAPI(t, w, http.MethodDelete, "nodes", `{"name":"dead"}`)
		awaitNode(t, kube, func(n *corev1.Node) bool { return n.Name == node.Name && ready(n) })
		callControlAPI(t, w, http.MethodPost, "nodes", `{"name":"all","selector":{"instance":"`+instance+`"},"joinTwice":true,"rejoin":true,"providerIDLate":"1s","csiNodeLate":"1s",`+
			`"zero":["x.io/y"],"conditions":{"KernelReady":"False"},"detachLate":"1h"}`)
		awaitNode(t, kube, func(n *corev1.Node) bool {
			return n.Name == "twin-"+node.Name && n.Spec.ProviderID == node.Spec.ProviderID
		})
		awaitNode(t, kube, func(n *corev1.Node) bool {
			_, zero := n.Status.Capacity["x.io/y"]
			return n.Name == node.Name && zero && slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == "KernelReady" })
		})
		callControlAPI(t, w, http.MethodDelete, "nodes", "")
		waitUntilDeleted(t, kube, "twin-"+node.Name)
		callControlAPI(t, w, http.MethodPost, "kube", `{"verb":"list","resource":"pods","status":503}`)
		proxied, err := kubernetes.NewForConfig(&rest.Config{Host: w.ProxyEndpoint})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := proxied.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{}); err == nil {
			t.Error("a request that should fail passed")
		}
		callControlAPI(t, w, http.MethodDelete, "kube", "")
		if _, err := proxied.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Error(err)
		}
	})
	t.Run("a type of the control becomes a node of its size, and stays one", func(t *testing.T) {
		callControlAPI(t, w, http.MethodPost, "catalogue", `{"name":"x9.large","like":"m5.large","vcpu":6}`)
		made := cloud.launch(t, "x9.large", userData(world.Cluster))
		big := func(n *corev1.Node) bool {
			return strings.HasSuffix(n.Spec.ProviderID, "/"+made) && ready(n) && n.Status.Capacity.Cpu().Value() == 6
		}
		awaitNode(t, kube, big)
		callControlAPI(t, w, http.MethodDelete, "catalogue/x9.large", "")
		awaitNode(t, kube, big)
		cloud.terminate(t, made)
	})
	t.Run("a role without an access entry does not join until it gets one", func(t *testing.T) {
		role := aws.String("arn:aws:iam::" + world.Account + ":role/KarpenterNodeRole-" + world.Cluster)
		if _, err := cloud.eks.DeleteAccessEntry(t.Context(), &eks.DeleteAccessEntryInput{ClusterName: aws.String(world.Cluster), PrincipalArn: role}); err != nil {
			t.Fatal(err)
		}
		late := cloud.launch(t, ec2types.InstanceTypeM5Large, userData(world.Cluster))
		awaitCall(t, w, func() bool { return strings.Contains(w.Nodes.Why(late), "access entry") })
		_, err := cloud.eks.CreateAccessEntry(t.Context(), &eks.CreateAccessEntryInput{ClusterName: aws.String(world.Cluster), PrincipalArn: role, Type: aws.String("EC2_LINUX")})
		if err != nil {
			t.Fatal(err)
		}
		awaitNode(t, kube, func(n *corev1.Node) bool { return strings.HasSuffix(n.Spec.ProviderID, "/"+late) && ready(n) })
		cloud.terminate(t, late)
	})
	t.Run("a controller that is killed runs again, and one that is stopped does not", func(t *testing.T) { checkController(t, w) })
	t.Run("pods of our image run as processes", func(t *testing.T) { checkPods(t, w, kube) })
	authority, api, account := w.ControlPlane.Config.CAData, w.ControlPlane.Config.Host, w.AWSEndpoint
	t.Run("what the control API does not know is refused", func(t *testing.T) {
		for path, body := range map[string]string{"nodes": `{"name":"x","neverjoin":1,"typo":2}`, "kube": `{"verb":"get"}`, "nothing": `{}`} {
			if status, text := post(t, w, http.MethodPost, path, body); status == http.StatusOK {
				t.Errorf("%s %s: accepted: %s", path, body, text)
			}
		}
	})
	if err := w.Stop(); err != nil {
		t.Fatal(err)
	}

	t.Run("the next start on the folder goes on", func(t *testing.T) {
		again := start(t, world.Options{Dir: dir})
		if !bytes.Equal(authority, again.ControlPlane.Config.CAData) || api != again.ControlPlane.Config.Host || account != again.AWSEndpoint {
			t.Errorf("Trust D02: the API server was at %s and is at %s, AWS was at %s and is at %s, and the authority must be the same", api, again.ControlPlane.Config.Host, account, again.AWSEndpoint)
		}
		cloud, kube := newClients(t, again)
		awaitCall(t, again, func() bool { return !servesMetrics(t, kube) })
		awaitNode(t, kube, func(n *corev1.Node) bool { return n.Name == node.Name && ready(n) })
		cloud.terminate(t, instance)
		waitUntilDeleted(t, kube, node.Name)
	})
}

// userOfKubeconfig is who the API server takes the owner of a kubeconfig for.
func userOfKubeconfig(t *testing.T, kubeconfig string) string {
	t.Helper()
	settings, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(settings)
	if err != nil {
		t.Fatal(err)
	}
	who, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return who.Status.UserInfo.Username
}

// checkController runs a program in place of a controller, which reports how it was called and waits.
func checkController(t *testing.T, w *world.World) {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "controller")
	if err := os.WriteFile(binary, []byte("#!/bin/sh\necho \"started $* with $KUBECONFIG and $EXTRA\"\nexec sleep 1000\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	c, err := w.RunController(t.Context(), world.ControllerOptions{
		Binary: binary, Proxied: true, Restart: true, LeaderElection: true, Flags: []string{"--log-level=debug"}, Env: []string{"EXTRA=more"},
	})
	if err != nil {
		t.Fatal(err)
	}
	lines := func() []string {
		text, err := os.ReadFile(c.Log)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSpace(string(text)), "\n")
	}
	awaitCall(t, w, func() bool { return strings.Contains(lines()[0], "started") })
	for _, want := range []string{"controller --metrics-port=0", "--leader-election-namespace=kube-system", "--log-level=debug", "kube-system-karpenter-proxied.kubeconfig", "and more"} {
		if !strings.Contains(lines()[0], want) {
			t.Errorf("%q is missing in %s", want, lines()[0])
		}
	}
	kubeconfig := filepath.Join(filepath.Dir(c.Log), "kube-system-karpenter-proxied.kubeconfig")
	if who := userOfKubeconfig(t, kubeconfig); who != "system:serviceaccount:kube-system:karpenter" {
		t.Errorf("S-116: the controller acts as %s", who)
	}
	c.Pause()
	c.Resume()
	c.Kill()
	awaitCall(t, w, func() bool { return c.Starts() == 2 && len(lines()) == 2 })
	c.KillAndHold()
	time.Sleep(time.Second) // longer than the pause before a restart
	if c.Starts() != 2 {
		t.Error("it runs again although it is held down")
	}
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitCall(t, w, func() bool { return len(lines()) == 3 })
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-c.Err():
		t.Errorf("got an end that was wanted: %v", err)
	case <-time.After(time.Second): // longer than the pause before a restart
	}
	if c.Starts() != 3 || len(lines()) != 3 {
		t.Errorf("started %d times", c.Starts())
	}
}

func TestStateThatCannotBeReadIsNamed(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "aws.json")
	if err := os.WriteFile(file, []byte(`{"version":99}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := harness.StartWorld(t.Context(), world.Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "remove the file") {
		t.Errorf("error %v, want the file and what to do", err)
	}
}

func servesMetrics(t *testing.T, kube kubernetes.Interface) bool {
	t.Helper()
	groups, err := kube.Discovery().ServerGroups()
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(groups.Groups, func(g metav1.APIGroup) bool { return g.Name == "metrics.k8s.io" })
}

func start(t *testing.T, o world.Options) *world.World {
	t.Helper()
	o.Speed, o.Nodes = 50, 2
	w, err := harness.StartWorld(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Stop(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// account is the emulated AWS through the unmodified SDK.
type account struct {
	ec2 *ec2.Client
	eks *eks.Client
	iam *iam.Client
	ssm *ssm.Client
}

func newClients(t *testing.T, w *world.World) (*account, kubernetes.Interface) {
	t.Helper()
	cfg, err := config.LoadDefaultConfig(t.Context(), config.WithRegion(world.Region), config.WithBaseEndpoint(w.AWSEndpoint),
		config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider("AKIASANDBOX", "x", "")))
	if err != nil {
		t.Fatal(err)
	}
	kube, err := kubernetes.NewForConfig(w.ControlPlane.Config)
	if err != nil {
		t.Fatal(err)
	}
	return &account{ec2: ec2.NewFromConfig(cfg), eks: eks.NewFromConfig(cfg), iam: iam.NewFromConfig(cfg), ssm: ssm.NewFromConfig(cfg)}, kube
}

// launch starts one instance the way a controller does and returns its id.
func (a *account) launch(t *testing.T, kind ec2types.InstanceType, data string) string {
	t.Helper()
	ctx := t.Context()
	versions, err := a.ssm.GetParametersByPath(ctx, &ssm.GetParametersByPathInput{Path: aws.String("/aws/service/eks/optimized-ami/1.37/amazon-linux-2023/x86_64/standard"), Recursive: aws.Bool(true)})
	if err != nil || len(versions.Parameters) == 0 {
		t.Fatalf("no image for the version of the cluster: %v", err)
	}
	image := versions.Parameters[0].Value
	profile := aws.String("world-test-" + fmt.Sprint(len(data)))
	if _, err := a.iam.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{InstanceProfileName: profile}); err == nil {
		if _, err := a.iam.AddRoleToInstanceProfile(ctx, &iam.AddRoleToInstanceProfileInput{InstanceProfileName: profile, RoleName: aws.String("KarpenterNodeRole-" + world.Cluster)}); err != nil {
			t.Fatal(err)
		}
	}
	name := aws.String("world-test-" + fmt.Sprint(time.Now().UnixNano()))
	_, err = a.ec2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{LaunchTemplateName: name, LaunchTemplateData: &ec2types.RequestLaunchTemplateData{
		ImageId: image, UserData: aws.String(base64.StdEncoding.EncodeToString([]byte(data))),
		IamInstanceProfile: &ec2types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: profile},
	}})
	if err != nil {
		t.Fatal(err)
	}
	subnets, err := a.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{})
	if err != nil || len(subnets.Subnets) == 0 {
		t.Fatalf("no subnets: %v", err)
	}
	fleet, err := a.ec2.CreateFleet(ctx, &ec2.CreateFleetInput{
		Type:                        ec2types.FleetTypeInstant,
		TargetCapacitySpecification: &ec2types.TargetCapacitySpecificationRequest{TotalTargetCapacity: aws.Int32(1), DefaultTargetCapacityType: ec2types.DefaultTargetCapacityTypeOnDemand},
		LaunchTemplateConfigs: []ec2types.FleetLaunchTemplateConfigRequest{{
			LaunchTemplateSpecification: &ec2types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateName: name, Version: aws.String("$Latest")},
			Overrides:                   []ec2types.FleetLaunchTemplateOverridesRequest{{InstanceType: kind, SubnetId: subnets.Subnets[0].SubnetId, ImageId: image}},
		}},
	})
	if err != nil || len(fleet.Instances) != 1 || len(fleet.Instances[0].InstanceIds) != 1 {
		t.Fatalf("fleet %+v: %v", fleet, err)
	}
	return fleet.Instances[0].InstanceIds[0]
}

func (a *account) terminate(t *testing.T, id string) {
	t.Helper()
	if _, err := a.ec2.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}}); err != nil {
		t.Fatal(err)
	}
}

func userData(cluster string) string {
	return `MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: application/node.eks.aws

apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster: {name: ` + cluster + `, apiServerEndpoint: https://x, certificateAuthority: eA==, cidr: 10.100.0.0/16}
  kubelet:
    config: {maxPods: 29}
    flags: ['--node-labels="karpenter.sh/nodepool=demo"']
--//--
`
}

func ready(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// awaitNode waits on a watch until a node holds.
func awaitNode(t *testing.T, kube kubernetes.Interface, holds func(*corev1.Node) bool) *corev1.Node {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	watch, err := kube.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	for event := range watch.ResultChan() {
		if node, isNode := event.Object.(*corev1.Node); isNode && holds(node) {
			return node
		}
	}
	t.Fatal("no node came to be as wanted in time")
	return nil
}

func waitUntilDeleted(t *testing.T, kube kubernetes.Interface, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	watch, err := kube.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	if _, err := kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
		return // before the watch began
	}
	for event := range watch.ResultChan() {
		if event.Type == "DELETED" {
			return
		}
	}
	t.Fatalf("node %s is still there after a while", name)
}

// awaitCall repeats a call whenever the emulated account changed, or a little later.
func awaitCall(t *testing.T, w *world.World, holds func() bool) {
	t.Helper()
	deadline := time.After(patience)
	for {
		changed := w.AWS.Changed()
		if holds() {
			return
		}
		select {
		case <-changed:
		case <-time.After(100 * time.Millisecond):
		case <-deadline:
			t.Fatal("nothing came of it in time")
		}
	}
}

func callControlAPI(t *testing.T, w *world.World, method, path, body string) {
	t.Helper()
	if status, text := post(t, w, method, path, body); status != http.StatusOK {
		t.Fatalf("%s %s: %s", method, path, text)
	}
}

func post(t *testing.T, w *world.World, method, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, w.AWSEndpoint+"/_dovetail/"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text := new(strings.Builder)
	if _, err := fmt.Fprint(text, response.Status); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, text.String()
}
