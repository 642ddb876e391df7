package flow_test

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
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu"
	"github.com/dovetail-sh/dovetail/sandbox/world"
)

// Group N of the failure modes, as far as others have a hand in the nodes.

// awsConfigOfUser is how a person with the SDK sees the emulated account. The key is not that of the controller.
func (f *flow) awsConfigOfUser() aws.Config {
	return aws.Config{
		Region: world.Region, BaseEndpoint: new(f.world.AWSEndpoint),
		Credentials: credentials.NewStaticCredentialsProvider("AKIAPERSON", "sandbox", ""),
	}
}

// nodeGroup launches an instance as a managed node group does, with labels for the pods of the test, and
// waits for its Node. It is like one of ours but for its type.
func (f *flow) nodeGroup(like awsemu.InstanceView, instanceType string) *corev1.Node {
	f.Helper()
	config := fmt.Sprintf(`
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster: {name: %s, apiServerEndpoint: "https://x", certificateAuthority: eA==, cidr: 10.100.0.0/16}
  kubelet: {flags: ["--node-labels=eks.amazonaws.com/nodegroup=%s-group,eks.amazonaws.com/capacityType=ON_DEMAND,flow=%s"]}
`, world.Cluster, f.name, f.name)
	tag := func(key, value string) ec2types.Tag { return ec2types.Tag{Key: &key, Value: &value} }
	client := ec2.NewFromConfig(f.awsConfigOfUser())
	out, err := client.RunInstances(f.Context(), &ec2.RunInstancesInput{
		ImageId: &like.ImageID, SubnetId: &like.SubnetID, InstanceType: ec2types.InstanceType(instanceType), MinCount: new(int32(1)), MaxCount: new(int32(1)),
		IamInstanceProfile: &ec2types.IamInstanceProfileSpecification{Name: &like.Profile},
		UserData:           new(base64.StdEncoding.EncodeToString([]byte(config))),
		TagSpecifications: []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeInstance, Tags: []ec2types.Tag{
			tag("eks:cluster-name", world.Cluster), tag("eks:nodegroup-name", f.name+"-group"), tag("kubernetes.io/cluster/"+world.Cluster, "owned"),
		}}},
	})
	if err != nil {
		f.Fatal(err)
	}
	instance := out.Instances[0]
	node := &corev1.Node{}
	node.Name = *instance.PrivateDnsName
	f.Cleanup(func() {
		if _, err := client.TerminateInstances(context.WithoutCancel(f.Context()), &ec2.TerminateInstancesInput{InstanceIds: []string{*instance.InstanceId}}); err != nil {
			f.Error(err)
		}
		f.remove(node)
	})
	f.waitUntil(soon, "the node of the group is ready", func() (bool, string) {
		if err := f.kube.Get(f.Context(), keyOf(node), node); err != nil {
			return false, err.Error() + f.world.Nodes.Why(*instance.InstanceId)
		}
		return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}), ""
	})
	return node
}

// FM N10: a managed node group runs beside us. Its node is a place for pods, those of our nodes too; we never
// taint it, delete it or want anything of it, also when it is empty.
func TestFM_N10_ANodeGroupBesideUs(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	pool := f.pool("", onlyTypes("m5.large"), func(p *karpv1.NodePool) { p.Spec.Template.ObjectMeta.Labels = map[string]string{"flow": f.name} })
	d := f.deploy("inflate", 1, withNodeSelector("flow", f.name))
	f.waitForRunningPods("inflate", 1)
	ours := f.ready(1)[0]
	theirs := f.nodeGroup(f.liveInstances()[0], "m5.2xlarge")
	untouched := func() {
		f.Helper()
		now := &corev1.Node{}
		if err := f.kube.Get(t.Context(), keyOf(theirs), now); err != nil {
			t.Fatal(err)
		}
		if now.UID != theirs.UID || now.DeletionTimestamp != nil || len(now.Spec.Taints) > 0 || len(now.Finalizers) > 0 || now.Labels[karpv1.LabelNodePool] != "" {
			t.Fatalf("the node of the group was touched: taints %v, finalizers %v, labels %v", now.Spec.Taints, now.Finalizers, now.Labels)
		}
		events := slices.DeleteFunc(f.events("Node", theirs.Name), func(e eventsv1.Event) bool { return strings.HasPrefix(e.Note, "Status condition ") })
		if len(events) > 0 {
			t.Fatalf("something is wanted of the node of the group: %s", sayEvents(events))
		}
	}

	f.scale(d, 3)
	for _, p := range f.waitForRunningPods("inflate", 3) {
		if p.Spec.NodeName != theirs.Name && p.Spec.NodeName != ours.Status.NodeName {
			t.Errorf("%s runs on %s", p.Name, p.Spec.NodeName)
		}
	}
	if n := len(f.allInstances()); n != 1 {
		t.Errorf("%d instances, although the group has room", n)
	}
	f.patchPool(pool, allowConsolidation) // all pods fit the node of the group
	f.waitUntilGone(&ours, later)
	for _, p := range f.waitForRunningPods("inflate", 3) {
		if p.Spec.NodeName != theirs.Name {
			t.Errorf("%s runs on %s, not on the node of the group", p.Name, p.Spec.NodeName)
		}
	}
	untouched()
	f.scale(d, 0)
	f.waitForRunningPods("inflate", 0)
	f.checkStays(10*time.Second, "the empty node of the group", func() (bool, string) { untouched(); return true, "" })
	if n := len(f.allInstances()); n != 1 {
		t.Errorf("%d instances were launched", n)
	}
}

// FM N12: a user cordons one of our nodes. No pod is planned onto it, it may go like any other, and the
// cordon stays as long as the node does.
func TestFM_N12_AUserCordonsANode(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string]func(*flow, *karpv1.NodePool, *appsv1.Deployment){
		"its pods move to the other node": func(f *flow, p *karpv1.NodePool, _ *appsv1.Deployment) { f.patchPool(p, allowConsolidation) },
		"it is empty": func(f *flow, p *karpv1.NodePool, d *appsv1.Deployment) {
			f.patchPool(p, emptyAfter("1s"))
			f.scale(d, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFlow(t, disturbsNone)
			pool := f.pool("", onlyTypes("m5.xlarge"))
			first := f.deploy("first", 1, withRequests("500m", "512Mi"))
			f.waitForRunningPods("first", 1)
			cordoned := f.ready(1)[0]
			node := f.nodeOf(&cordoned)
			patch(f, node, func(n *corev1.Node) { n.Spec.Unschedulable = true })
			f.deploy("second", 1, withRequests("500m", "512Mi"))
			f.waitForRunningPods("second", 1)
			other := f.ready(2)
			ends(f, pool, first)
			f.waitUntil(later, "the node goes, cordoned to the end", func() (bool, string) {
				now := &corev1.Node{}
				err := f.kube.Get(t.Context(), keyOf(node), now)
				if err == nil && !now.Spec.Unschedulable {
					t.Fatal("the node was uncordoned")
				}
				return apierrors.IsNotFound(err), "it is there"
			})
			f.waitUntilGone(&cordoned)
			left := f.ready(1)[0]
			if !slices.ContainsFunc(other, func(c karpv1.NodeClaim) bool { return c.UID == left.UID }) {
				t.Errorf("%s was launched; the pods fit the node that was there", left.Name)
			}
			f.waitForRunningPods("second", 1)
		})
	}
}
