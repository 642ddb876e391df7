package live_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/sandbox/harness"
	"github.com/dovetail-sh/dovetail/sandbox/invariant"
	"github.com/dovetail-sh/dovetail/sandbox/world"
)

// The world that all tests share. No controller runs in it.
var server *harness.Server

func TestMain(m *testing.M) {
	harness.Main(m, harness.Options{World: true, Speed: 1, Boot: 300 * time.Millisecond}, &server)
}

// startChecker starts a checker that is quick to judge.
func startChecker(t *testing.T) (*invariant.Checker, client.WithWatch) {
	t.Helper()
	kube := server.Typed(t)
	c := invariant.New(invariant.Options{Cluster: world.Cluster, Limits: invariant.Limits{Orphan: 2 * time.Second, WatchLag: time.Second}})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Follow(ctx, invariant.Sources{Kube: kube, AWS: server.World.AWS, Proxy: server.World.Proxy})
	}()
	t.Cleanup(func() { cancel(); <-done })
	return c, kube
}

// waitForViolation waits for a violation of a rule.
func waitForViolation(t *testing.T, c *invariant.Checker, rule invariant.Rule, text string) {
	t.Helper()
	waitUntil(t, func() bool {
		return slices.ContainsFunc(c.Violations(), func(v *invariant.Violation) bool {
			return v.Rule == rule && strings.Contains(v.Error(), text)
		})
	}, func() string { return fmt.Sprintf("%s with %q was not found; found %v", rule, text, c.Violations()) })
}

// waitUntil polls until a condition holds: the checker has no watch.
func waitUntil(t *testing.T, holds func() bool, missing func() string) {
	t.Helper()
	deadline := time.After(3 * time.Minute)
	for !holds() {
		select {
		case <-deadline:
			t.Fatal(missing())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// launch starts an instance with the tags of a controller.
func launch(t *testing.T) (client *ec2.Client, id string) {
	t.Helper()
	cfg := aws.Config{Region: world.Region, BaseEndpoint: &server.World.AWSEndpoint, Credentials: credentials.NewStaticCredentialsProvider("AKIACONTROLLER", "x", "")}
	client = ec2.NewFromConfig(cfg)
	images, err := ssm.NewFromConfig(cfg).GetParametersByPath(t.Context(), &ssm.GetParametersByPathInput{
		Path: aws.String("/aws/service/eks/optimized-ami/1.37/amazon-linux-2023/x86_64/standard"), Recursive: aws.Bool(true),
	})
	if err != nil || len(images.Parameters) == 0 {
		t.Fatalf("no image: %v", err)
	}
	name := strings.ReplaceAll(t.Name(), "/", "-")
	_, err = client.CreateLaunchTemplate(t.Context(), &ec2.CreateLaunchTemplateInput{LaunchTemplateName: &name, LaunchTemplateData: &ec2types.RequestLaunchTemplateData{
		ImageId: images.Parameters[0].Value, UserData: aws.String(base64.StdEncoding.EncodeToString([]byte("none"))),
	}})
	if err != nil {
		t.Fatal(err)
	}
	subnets, err := client.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{})
	if err != nil {
		t.Fatal(err)
	}
	fleet, err := client.CreateFleet(t.Context(), &ec2.CreateFleetInput{
		Type:                        ec2types.FleetTypeInstant,
		TargetCapacitySpecification: &ec2types.TargetCapacitySpecificationRequest{TotalTargetCapacity: aws.Int32(1), DefaultTargetCapacityType: ec2types.DefaultTargetCapacityTypeOnDemand},
		LaunchTemplateConfigs: []ec2types.FleetLaunchTemplateConfigRequest{{
			LaunchTemplateSpecification: &ec2types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateName: &name, Version: aws.String("$Latest")},
			Overrides:                   []ec2types.FleetLaunchTemplateOverridesRequest{{InstanceType: "m5.large", SubnetId: subnets.Subnets[0].SubnetId}},
		}},
		TagSpecifications: []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeInstance, Tags: []ec2types.Tag{
			{Key: aws.String("eks:eks-cluster-name"), Value: aws.String(world.Cluster)}, {Key: aws.String("karpenter.sh/nodepool"), Value: aws.String("live")},
		}}},
	})
	if err != nil || len(fleet.Instances) == 0 {
		t.Fatalf("fleet %+v: %v", fleet, err)
	}
	return client, fleet.Instances[0].InstanceIds[0]
}

func newClaim(t *testing.T, kube client.Client, name, instance string) *karpv1.NodeClaim {
	t.Helper()
	claim := harness.Create(t, kube, &karpv1.NodeClaim{}, `
metadata: {name: `+name+`, finalizers: [karpenter.sh/termination], labels: {karpenter.sh/nodepool: live}}
spec: {requirements: [], nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: c}}`)
	claim.Status.ProviderID = "aws:///eu-west-1a/" + instance
	if err := kube.Status().Update(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	return claim
}

func TestFM_G2_OrphansAreSeenInTheAccount(t *testing.T) {
	t.Parallel()
	c, _ := startChecker(t)
	_, id := launch(t)
	waitForViolation(t, c, invariant.G2, id)
}

func TestFM_G1_G3_ClaimsAreSeenInWatches(t *testing.T) {
	t.Parallel()
	c, kube := startChecker(t)
	_, id := launch(t)
	claim := newClaim(t, kube, "live-one", id)
	duplicate := newClaim(t, kube, "live-twin", id)
	waitForViolation(t, c, invariant.G1, id)
	for _, n := range []*karpv1.NodeClaim{claim, duplicate} {
		before := n.DeepCopy()
		n.Finalizers = nil
		if err := kube.Patch(t.Context(), n, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	waitForViolation(t, c, invariant.G3, id)
}

func TestFM_G6_EvictionsAreSeenInTheProxy(t *testing.T) {
	t.Parallel()
	c, kube := startChecker(t)
	namespace := server.Namespace(t)
	for _, name := range []string{"careless", "protected"} {
		// They request a pool of their own: otherwise they would explain the claims that G8's test makes beside this one.
		harness.Create(t, kube, &corev1.Pod{}, `
metadata: {name: `+name+`, namespace: `+namespace+`, annotations: {karpenter.sh/do-not-disrupt: "true"}}
spec: {containers: [{name: c, image: i}], terminationGracePeriodSeconds: 0, nodeSelector: {karpenter.sh/nodepool: none-such}}`)
	}
	var pod corev1.Pod
	for _, name := range []string{"careless", "protected"} {
		if err := kube.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &pod); err != nil {
			t.Fatal(err)
		}
		// The checker sees pods by a watch of its own: it must know them before they go.
		waitUntil(t, func() bool { return c.Knows(pod.UID) }, func() string { return "the checker does not see " + name })
	}
	for name, options := range map[string]*metav1.DeleteOptions{"careless": nil, "protected": {Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}} {
		// As JSON, and as protobuf like a controller does.
		for _, content := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
			config := &rest.Config{Host: server.World.ProxyEndpoint}
			config.ContentType = content
			proxied, err := kubernetes.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			err = proxied.PolicyV1().Evictions(namespace).Evict(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, DeleteOptions: options})
			if err != nil && content == "application/json" {
				t.Fatal(err)
			}
		}
	}
	waitForViolation(t, c, invariant.G6, "careless: create pods/eviction does not name its UID")
	waitForViolation(t, c, invariant.G6, "protected: create pods/eviction although")
}

func TestFM_G8_DemandIsSeenInWatches(t *testing.T) {
	t.Parallel()
	c, kube := startChecker(t)
	harness.Create(t, kube, &karpv1.NodePool{}, `
metadata: {name: live-demand}
spec: {template: {spec: {requirements: [], nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: c}}}}`)
	namespace := server.Namespace(t)
	harness.Create(t, kube, &corev1.Pod{}, `
metadata: {name: waits, namespace: `+namespace+`}
spec: {containers: [{name: c, image: i}], nodeSelector: {karpenter.sh/nodepool: live-demand}}`)
	for _, name := range []string{"live-demand-1", "live-demand-2"} {
		harness.Create(t, kube, &karpv1.NodeClaim{}, `
metadata: {name: `+name+`, labels: {karpenter.sh/nodepool: live-demand}}
spec: {requirements: [], nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: c}}`)
	}
	waitForViolation(t, c, invariant.G8, "1 claims were in flight already for the 1 pods")
}
