package takeover

import (
	"context"
	"encoding/base64"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/version"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu"
	"github.com/dovetail-sh/dovetail/sandbox/world"
)

// What releases 1.0 to 1.15 of Karpenter leave in a cluster and in its account: names, annotations, finalizers, tags and
// paths are facts of these releases, the objects are made here.

// karpenter plays the part of Karpenter, before it is replaced.
type karpenter struct {
	*testing.T
	ec2 *ec2.Client
	iam *iam.Client

	image   string
	subnets []ec2types.Subnet
	groups  []string
}

func newKarpenter(t *testing.T) *karpenter {
	t.Helper()
	config := aws.Config{Region: world.Region, BaseEndpoint: &sandbox.AWSEndpoint, Credentials: credentials.NewStaticCredentialsProvider("AKIASANDBOX", "sandbox", "")}
	k := &karpenter{T: t, ec2: ec2.NewFromConfig(config), iam: iam.NewFromConfig(config)}
	minor := strings.TrimPrefix(version.DefaultKubeBinaryVersion, "v")
	parameter, err := ssm.NewFromConfig(config).GetParameter(t.Context(), &ssm.GetParameterInput{
		Name: new("/aws/service/eks/optimized-ami/" + minor + "/amazon-linux-2023/x86_64/standard/recommended/image_id"),
	})
	k.failOn(err)
	k.image = *parameter.Parameter.Value
	discovery := []ec2types.Filter{{Name: new("tag:karpenter.sh/discovery"), Values: []string{world.Cluster}}}
	subnets, err := k.ec2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{Filters: discovery})
	k.failOn(err)
	k.subnets = subnets.Subnets
	groups, err := k.ec2.DescribeSecurityGroups(t.Context(), &ec2.DescribeSecurityGroupsInput{Filters: discovery})
	k.failOn(err)
	for _, g := range groups.SecurityGroups {
		k.groups = append(k.groups, *g.GroupId)
	}
	return k
}

// forTest is the same in another test.
func (k *karpenter) forTest(t *testing.T) *karpenter {
	t.Helper()
	other := *k
	other.T = t
	return &other
}

func (k *karpenter) failOn(err error) {
	k.Helper()
	if err != nil {
		k.Fatal(err)
	}
}

// release is what differs from one release to another.
type release struct {
	poolHash, classHash string // versions of the hashes
	legacyProfile       bool   // one profile for a class, with a name that follows from it, at the root
}

// createClass makes an EC2NodeClass with its instance profile.
func (k *karpenter) createClass(name string, r release) *awsv1.EC2NodeClass {
	k.Helper()
	c := &awsv1.EC2NodeClass{}
	k.failOn(yaml.UnmarshalStrict([]byte(`
spec:
  role: KarpenterNodeRole-sandbox
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: sandbox}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: sandbox}}]
  metadataOptions: {httpEndpoint: enabled, httpProtocolIPv6: disabled, httpPutResponseHopLimit: 1, httpTokens: required}
  tags: {Team: shop}`), c))
	c.Name, c.Finalizers = name, []string{"karpenter.k8s.aws/termination"}
	c.Annotations = map[string]string{"karpenter.k8s.aws/ec2nodeclass-hash": "8318284953426087393", "karpenter.k8s.aws/ec2nodeclass-hash-version": r.classHash}
	k.failOn(kube.Create(k.Context(), c))
	c.Status.InstanceProfile = k.createProfile(c, r)
	for _, s := range k.subnets {
		c.Status.Subnets = append(c.Status.Subnets, awsv1.Subnet{ID: *s.SubnetId, Zone: *s.AvailabilityZone, ZoneID: *s.AvailabilityZoneId})
	}
	for _, g := range k.groups {
		c.Status.SecurityGroups = append(c.Status.SecurityGroups, awsv1.SecurityGroup{ID: g})
	}
	c.Status.AMIs = []awsv1.AMI{{ID: k.image, Requirements: []corev1.NodeSelectorRequirement{{Key: "kubernetes.io/arch", Operator: corev1.NodeSelectorOpIn, Values: []string{"amd64"}}}}}
	for _, kind := range []string{"AMIsReady", "SubnetsReady", "SecurityGroupsReady", "InstanceProfileReady", "ValidationSucceeded", "Ready"} {
		c.Status.Conditions = append(c.Status.Conditions, k.trueCondition(kind, c.Generation))
	}
	k.failOn(kube.Status().Update(k.Context(), c))
	return c
}

func (k *karpenter) trueCondition(kind string, generation int64) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: kind, ObservedGeneration: generation, LastTransitionTime: metav1.Now()}
}

// createProfile makes the instance profile of a class.
func (k *karpenter) createProfile(c *awsv1.EC2NodeClass, r release) string {
	k.Helper()
	name, path := world.Cluster+"_17285049563254109761", "/karpenter/"+world.Region+"/"+world.Cluster+"/"+string(c.UID)+"/"
	if r.legacyProfile {
		hash := fnv.New64()
		_, _ = hash.Write([]byte(world.Region + c.Name)) // never fails
		name, path = fmt.Sprintf("%s_%d", world.Cluster, hash.Sum64()), "/"
	}
	tags := []iamtypes.Tag{}
	for key, value := range map[string]string{
		"kubernetes.io/cluster/" + world.Cluster: "owned", "eks:eks-cluster-name": world.Cluster, "karpenter.k8s.aws/ec2nodeclass": c.Name, "topology.kubernetes.io/region": world.Region, "Team": "shop",
	} {
		tags = append(tags, iamtypes.Tag{Key: &key, Value: &value})
	}
	_, err := k.iam.CreateInstanceProfile(k.Context(), &iam.CreateInstanceProfileInput{InstanceProfileName: &name, Path: &path, Tags: tags})
	k.failOn(err)
	_, err = k.iam.AddRoleToInstanceProfile(k.Context(), &iam.AddRoleToInstanceProfileInput{InstanceProfileName: &name, RoleName: &c.Spec.Role})
	k.failOn(err)
	return name
}

// pool makes a NodePool. The text is its spec without the class.
func (k *karpenter) pool(name, class string, r release, text string) *karpv1.NodePool {
	k.Helper()
	p := &karpv1.NodePool{}
	k.failOn(yaml.UnmarshalStrict([]byte(text), &p.Spec))
	p.Name = name
	p.Annotations = map[string]string{"karpenter.sh/nodepool-hash": "3021884237462019932", "karpenter.sh/nodepool-hash-version": r.poolHash}
	p.Spec.Template.Spec.NodeClassRef = karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: class}
	p.Spec.Template.Spec.ExpireAfter = "720h"
	k.failOn(kube.Create(k.Context(), p))
	for _, kind := range []string{"ValidationSucceeded", "NodeClassReady", "Ready"} {
		p.Status.Conditions = append(p.Status.Conditions, k.trueCondition(kind, p.Generation))
	}
	k.failOn(kube.Status().Update(k.Context(), p))
	return p
}

// tags are those of all that Karpenter makes for a pool.
func tags(pool *karpv1.NodePool) []ec2types.Tag {
	var out []ec2types.Tag
	for key, value := range map[string]string{
		"kubernetes.io/cluster/" + world.Cluster: "owned", "eks:eks-cluster-name": world.Cluster, "karpenter.sh/nodepool": pool.Name,
		"karpenter.k8s.aws/ec2nodeclass": pool.Spec.Template.Spec.NodeClassRef.Name, "Team": "shop",
	} {
		out = append(out, ec2types.Tag{Key: &key, Value: &value})
	}
	return out
}

// createTemplate makes a launch template of a class for a pool, under a name with a number.
func (k *karpenter) createTemplate(number string, pool *karpv1.NodePool, class *awsv1.EC2NodeClass, capacityType string) string {
	k.Helper()
	name := "karpenter.k8s.aws/" + number
	userData := "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n--//\nContent-Type: application/node.eks.aws\n\n" +
		fmt.Sprintf(`apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster: {name: %s, apiServerEndpoint: "%s", certificateAuthority: %s, cidr: 10.100.0.0/16}
  kubelet:
    config:
      maxPods: 29
      registerWithTaints: [{key: karpenter.sh/unregistered, effect: NoExecute}]
    flags: ['--node-labels="karpenter.k8s.aws/ec2nodeclass=%s,karpenter.sh/capacity-type=%s,karpenter.sh/do-not-sync-taints=true,karpenter.sh/nodepool=%s"']
`, world.Cluster, sandbox.ControlPlane.Config.Host, base64.StdEncoding.EncodeToString(sandbox.ControlPlane.Config.CAData), class.Name, capacityType, pool.Name) + "--//--\n"
	_, err := k.ec2.CreateLaunchTemplate(k.Context(), &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: &name,
		LaunchTemplateData: &ec2types.RequestLaunchTemplateData{
			ImageId: &k.image, UserData: new(base64.StdEncoding.EncodeToString([]byte(userData))),
			IamInstanceProfile: &ec2types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: &class.Status.InstanceProfile},
			NetworkInterfaces:  []ec2types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{{DeviceIndex: new(int32(0)), Groups: k.groups}},
			MetadataOptions: &ec2types.LaunchTemplateInstanceMetadataOptionsRequest{
				HttpEndpoint: "enabled", HttpProtocolIpv6: "disabled", HttpPutResponseHopLimit: new(int32(1)), HttpTokens: "required", InstanceMetadataTags: "disabled",
			},
			BlockDeviceMappings: []ec2types.LaunchTemplateBlockDeviceMappingRequest{{
				DeviceName: new("/dev/xvda"), Ebs: &ec2types.LaunchTemplateEbsBlockDeviceRequest{VolumeSize: new(int32(20)), VolumeType: "gp3", Encrypted: new(true)},
			}},
		},
		TagSpecifications: []ec2types.TagSpecification{{ResourceType: "launch-template", Tags: tags(pool)}},
	})
	k.failOn(err)
	return name
}

// launch launches an instance of a template for a pool.
func (k *karpenter) launch(template string, pool *karpv1.NodePool, instanceType, capacityType string) awsemu.InstanceView {
	k.Helper()
	return k.launchTagged(template, instanceType, capacityType, tags(pool))
}

// launchTagged launches an instance of a template.
func (k *karpenter) launchTagged(template, instanceType, capacityType string, tags []ec2types.Tag) awsemu.InstanceView {
	k.Helper()
	subnet := k.subnets[0]
	out, err := k.ec2.CreateFleet(k.Context(), &ec2.CreateFleetInput{
		Type: "instant", TargetCapacitySpecification: &ec2types.TargetCapacitySpecificationRequest{TotalTargetCapacity: new(int32(1)), DefaultTargetCapacityType: ec2types.DefaultTargetCapacityType(capacityType)},
		LaunchTemplateConfigs: []ec2types.FleetLaunchTemplateConfigRequest{{
			LaunchTemplateSpecification: &ec2types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateName: &template, Version: new("$Latest")},
			Overrides:                   []ec2types.FleetLaunchTemplateOverridesRequest{{InstanceType: ec2types.InstanceType(instanceType), SubnetId: subnet.SubnetId, AvailabilityZone: subnet.AvailabilityZone, ImageId: &k.image}},
		}},
		TagSpecifications: []ec2types.TagSpecification{{ResourceType: "instance", Tags: tags}, {ResourceType: "volume", Tags: tags}, {ResourceType: "fleet", Tags: tags}},
	})
	k.failOn(err)
	if len(out.Instances) == 0 {
		k.Fatalf("no instance of %s: %+v", instanceType, out.Errors)
	}
	id := out.Instances[0].InstanceIds[0]
	at := slices.IndexFunc(sandbox.AWS.Instances(), func(i awsemu.InstanceView) bool { return i.ID == id })
	return sandbox.AWS.Instances()[at]
}

// machine is what a claim is made of.
type machine struct {
	name, instanceType, capacityType, template string

	change func(*karpv1.NodeClaim) // of its metadata
	drift  string                  // reason of the condition Drifted; empty: none
	joined bool                    // its node is registered and initialized; else it is launched
}

// claim makes a NodeClaim with its instance, and registers and initializes its Node.
func (k *karpenter) claim(pool *karpv1.NodePool, class *awsv1.EC2NodeClass, m machine) *karpv1.NodeClaim {
	k.Helper()
	i := k.launch(m.template, pool, m.instanceType, m.capacityType)
	family, size, _ := strings.Cut(m.instanceType, ".")
	c := &karpv1.NodeClaim{}
	c.Name, c.Finalizers = pool.Name+"-"+m.name, []string{"karpenter.sh/termination"}
	c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "karpenter.sh/v1", Kind: "NodePool", Name: pool.Name, UID: pool.UID, BlockOwnerDeletion: new(true)}}
	c.Labels = map[string]string{
		"karpenter.sh/nodepool": pool.Name, "karpenter.k8s.aws/ec2nodeclass": class.Name, "karpenter.sh/capacity-type": m.capacityType,
		"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "node.kubernetes.io/instance-type": m.instanceType, "topology.kubernetes.io/region": world.Region,
		"topology.kubernetes.io/zone": i.Zone, "topology.k8s.aws/zone-id": i.ZoneID, "karpenter.k8s.aws/instance-family": family, "karpenter.k8s.aws/instance-size": size,
		"karpenter.k8s.aws/instance-category": family[:1], "karpenter.k8s.aws/instance-generation": family[1:2], "karpenter.k8s.aws/instance-hypervisor": "nitro",
	}
	maps.Copy(c.Labels, pool.Spec.Template.ObjectMeta.Labels)
	c.Annotations = map[string]string{"karpenter.k8s.aws/instance-profile-name": class.Status.InstanceProfile, "compatibility.karpenter.k8s.aws/cluster-name-tagged": "true", "karpenter.k8s.aws/tagged": "true"}
	maps.Copy(c.Annotations, pool.Annotations)
	maps.Copy(c.Annotations, class.Annotations)
	c.Spec = karpv1.NodeClaimSpec{
		NodeClassRef: pool.Spec.Template.Spec.NodeClassRef, ExpireAfter: "720h", Taints: pool.Spec.Template.Spec.Taints,
		Requirements: append(slices.Clone(pool.Spec.Template.Spec.Requirements), karpv1.Requirement{Key: "karpenter.sh/nodepool", Operator: corev1.NodeSelectorOpIn, Values: []string{pool.Name}}),
	}
	if m.change != nil {
		m.change(c)
	}
	k.failOn(kube.Create(k.Context(), c))
	c.Status.ProviderID, c.Status.ImageID = "aws:///"+i.Zone+"/"+i.ID, i.ImageID
	c.Status.Conditions = []metav1.Condition{k.trueCondition("Launched", 1)}
	if m.joined {
		k.join(c, i)
	}
	if m.drift != "" {
		drifted := k.trueCondition("Drifted", 1)
		drifted.Reason = m.drift
		c.Status.Conditions = append(c.Status.Conditions, drifted)
	}
	k.failOn(kube.Status().Update(k.Context(), c))
	return c
}

func isReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// join does what Karpenter does with a Node that has come.
func (k *karpenter) join(c *karpv1.NodeClaim, i awsemu.InstanceView) {
	k.Helper()
	n := &corev1.Node{}
	waitUntil(k.T, "the Node of "+c.Name+" is ready", func() (bool, string) {
		if err := kube.Get(k.Context(), client.ObjectKey{Name: i.PrivateDNS}, n); err != nil {
			return false, err.Error() + sandbox.Nodes.Why(i.ID)
		}
		return isReady(n), "not ready"
	})
	for {
		n.Finalizers = []string{"karpenter.sh/termination"}
		n.OwnerReferences = []metav1.OwnerReference{{APIVersion: "karpenter.sh/v1", Kind: "NodeClaim", Name: c.Name, UID: c.UID, BlockOwnerDeletion: new(true)}}
		maps.Copy(n.Labels, c.Labels)
		n.Labels["karpenter.sh/registered"], n.Labels["karpenter.sh/initialized"] = "true", "true"
		if n.Annotations == nil {
			n.Annotations = map[string]string{}
		}
		maps.Copy(n.Annotations, c.Annotations)
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == "karpenter.sh/unregistered" })
		err := kube.Update(k.Context(), n)
		if !apierrors.IsConflict(err) {
			k.failOn(err)
			break
		}
		k.failOn(kube.Get(k.Context(), client.ObjectKeyFromObject(n), n))
	}
	for _, t := range []ec2types.Tag{{Key: new("Name"), Value: &n.Name}, {Key: new("karpenter.sh/nodeclaim"), Value: &c.Name}} {
		_, err := k.ec2.CreateTags(k.Context(), &ec2.CreateTagsInput{Resources: []string{i.ID}, Tags: []ec2types.Tag{t}})
		k.failOn(err)
	}
	c.Status.NodeName, c.Status.Capacity, c.Status.Allocatable = n.Name, n.Status.Capacity, n.Status.Allocatable
	c.Status.LastPodEventTime = metav1.Now()
	for _, kind := range []string{"Registered", "Initialized", "Ready"} {
		c.Status.Conditions = append(c.Status.Conditions, k.trueCondition(kind, 1))
	}
}

// profileNames are the names of all instance profiles.
func (k *karpenter) profileNames() []string {
	k.Helper()
	out, err := k.iam.ListInstanceProfiles(context.WithoutCancel(k.Context()), &iam.ListInstanceProfilesInput{})
	k.failOn(err)
	var names []string
	for _, p := range out.InstanceProfiles {
		names = append(names, *p.InstanceProfileName)
	}
	slices.Sort(names)
	return names
}

// templateNames are the names of all launch templates.
func (k *karpenter) templateNames() []string {
	k.Helper()
	out, err := k.ec2.DescribeLaunchTemplates(context.WithoutCancel(k.Context()), &ec2.DescribeLaunchTemplatesInput{})
	k.failOn(err)
	var names []string
	for _, l := range out.LaunchTemplates {
		names = append(names, *l.LaunchTemplateName)
	}
	slices.Sort(names)
	return names
}

// foreignTemplate is a launch template of another cluster in the same account.
func foreignTemplate() *ec2.CreateLaunchTemplateInput {
	return &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: new("mine"), LaunchTemplateData: &ec2types.RequestLaunchTemplateData{InstanceType: "m5.large"},
		TagSpecifications: []ec2types.TagSpecification{{ResourceType: "launch-template", Tags: []ec2types.Tag{
			{Key: new("eks:eks-cluster-name"), Value: new("another")}, {Key: new("karpenter.sh/nodepool"), Value: new("general")}, {Key: new("karpenter.k8s.aws/ec2nodeclass"), Value: new("default")},
		}}},
	}
}
