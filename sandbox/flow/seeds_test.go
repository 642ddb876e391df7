package flow_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/sandbox/kubectl"
	"github.com/dovetail-sh/dovetail/sandbox/world"
)

// readSeed reads an object of examples/seeds and gives it a name of the test. All else stays as users wrote it.
func (f *flow) readSeed(file, name, suffix string) *unstructured.Unstructured {
	f.Helper()
	all, err := kubectl.ReadFolder(filepath.Join("..", "..", "examples", "seeds"))
	if err != nil {
		f.Fatal(err)
	}
	for _, m := range all {
		if filepath.Base(m.File) == file && m.Object.GetName() == name {
			m.Object.SetName(f.name + suffix)
			return m.Object
		}
	}
	f.Fatalf("%s has no %s", file, name)
	return nil
}

// useClass has a pool use a class of the test.
func (f *flow) useClass(pool *unstructured.Unstructured, class string) *unstructured.Unstructured {
	f.Helper()
	if err := unstructured.SetNestedField(pool.Object, class, "spec", "template", "spec", "nodeClassRef", "name"); err != nil {
		f.Fatal(err)
	}
	return pool
}

// S-038, S-055, S-056, S-059, S-062, S-064, S-075, S-079, S-081, S-082, S-083, S-084, S-086, S-088, S-089, S-090: the
// pools that users wrote, each with a pod for it: it runs on a node as its pool says.
func TestS_055_PoolsOfTheSeeds(t *testing.T) {
	t.Parallel()
	tolerate := func(key, value string, effect corev1.TaintEffect) func(*corev1.PodTemplateSpec) {
		return withTolerations(corev1.Toleration{Key: key, Operator: corev1.TolerationOpEqual, Value: value, Effect: effect})
	}
	f := newFlow(t, disturbsNone)
	f.classReady()
	rows := map[string]struct {
		file, name string
		types      []string // beginnings of their names; t3. is of generation 3
		spot       bool     // allowed
		onDemand   bool     // allowed
		labels     []string // selected, and on the node
		tolerate   func(*corev1.PodTemplateSpec)
		expires    karpv1.Duration
		cpu        int64 // limit
	}{
		"lab": {
			file: "s-075.yaml", name: "default", types: []string{"t3.medium", "t3.large", "m5.large"}, spot: true, onDemand: true, labels: []string{"intent", "apps"},
			tolerate: tolerate("example.com/special-workload", "true", corev1.TaintEffectNoSchedule), expires: "2160h", cpu: 1000,
		},
		"general":    {file: "s-079.yaml", name: "general", types: []string{"c", "m", "r"}, spot: true, expires: "720h", cpu: 1000},
		"batch":      {file: "s-081.yaml", name: "batch", types: []string{"c5.xlarge", "c5.2xlarge", "c6i.xlarge"}, spot: true, tolerate: tolerate("workload", "batch", corev1.TaintEffectNoSchedule), cpu: 500},
		"careful":    {file: "s-086.yaml", name: "conservative", types: []string{""}, onDemand: true},
		"aggressive": {file: "s-086.yaml", name: "aggressive", types: []string{""}, spot: true, onDemand: true},
		"infra": {
			file: "s-088.yaml", name: "infra", types: []string{"t3.medium", "t3.large", "t3.xlarge"}, onDemand: true, labels: []string{"node-type", "infrastructure"},
			tolerate: tolerate("workload-type", "infrastructure", corev1.TaintEffectPreferNoSchedule), cpu: 20,
		},
		"app":      {file: "s-089.yaml", name: "app", types: []string{"t3.medium", "t3.large"}, spot: true, onDemand: true, labels: []string{"workload-type", "business"}, cpu: 100},
		"short":    {file: "s-082-084.yaml", name: "default", types: []string{""}, spot: true, onDemand: true, cpu: 100},
		"many":     {file: "s-090.yaml", name: "general", types: []string{"c", "m", "r"}, spot: true, cpu: 1000},
		"jobs":     {file: "s-090.yaml", name: "batch", types: []string{"c"}, spot: true, tolerate: tolerate("workload", "batch", corev1.TaintEffectNoSchedule), cpu: 500},
		"critical": {file: "s-090.yaml", name: "critical", types: []string{"m5.large", "m5.xlarge"}, onDemand: true, cpu: 100},
	}
	for name, row := range rows {
		f.create(f.useClass(f.readSeed(row.file, row.name, "-"+name), f.name))
		change := []func(*corev1.PodTemplateSpec){withRequests("500m", "512Mi"), withNodeSelector(append(row.labels, karpv1.LabelNodePool, f.name+"-"+name)...)}
		if row.tolerate != nil {
			change = append(change, row.tolerate)
		}
		f.deploy(name, 1, change...)
	}
	for name, row := range rows {
		f.waitForRunningPods(name, 1)
		claim := f.claims(f.name + "-" + name)[0]
		got, kind := claim.Labels[corev1.LabelInstanceTypeStable], claim.Labels[karpv1.LabelCapacityType]
		if !slices.ContainsFunc(row.types, func(begin string) bool { return strings.HasPrefix(got, begin) }) {
			t.Errorf("pool %s got %s, want %v", name, got, row.types)
		}
		if kind == karpv1.CapacityTypeSpot && !row.spot || kind == karpv1.CapacityTypeOnDemand && !row.onDemand {
			t.Errorf("pool %s got %s", name, kind)
		}
		if row.expires != "" && claim.Spec.ExpireAfter != row.expires {
			t.Errorf("pool %s expires after %s, want %s", name, claim.Spec.ExpireAfter, row.expires)
		}
		pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: f.name + "-" + name}}
		f.waitForCondition(pool, karpv1.ConditionReady, metav1.ConditionTrue, "")
		if limit := pool.Spec.Limits["cpu"]; limit.Value() != row.cpu {
			t.Errorf("pool %s has limit %s, want %d", name, limit.String(), row.cpu)
		}
	}
	general := f.nodeOf(&f.claims(f.name + "-general")[0])
	if g := general.Labels[awsv1.LabelInstanceGeneration]; len(g) == 1 && g <= "2" {
		t.Errorf("a node of generation %s, want above 2", g)
	}
}

// S-057, S-068, S-070, S-071, S-072, S-073, S-074, S-076, S-077, S-078, S-141: the class of the lab guide, as it is
// written, with inflate. All that carries the tag of eksctl is used and nothing else, and an instance gets what the
// class says.
func TestS_057_TheClassOfTheLab(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	client := ec2.NewFromConfig(f.awsConfigOfUser())
	subnets, err := client.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{})
	if err != nil {
		t.Fatal(err)
	}
	groups, err := client.DescribeSecurityGroups(t.Context(), &ec2.DescribeSecurityGroupsInput{})
	if err != nil {
		t.Fatal(err)
	}
	tagged := []string{*subnets.Subnets[0].SubnetId, *subnets.Subnets[1].SubnetId}
	group := *groups.SecurityGroups[0].GroupId
	eksctl := []ec2types.Tag{{Key: new("alpha.eksctl.io/cluster-name"), Value: new(world.Cluster)}}
	if _, err := client.CreateTags(t.Context(), &ec2.CreateTagsInput{Resources: append(tagged, group), Tags: eksctl}); err != nil {
		t.Fatal(err)
	}
	f.allowAction("iam:PassRole", "arn:aws:iam::"+world.Account+":role/KarpenterNodeInstanceRole") // as the nodes of the lab have
	class := f.readSeed("s-076-077.yaml", "default", "-lab")
	f.create(class)
	f.Cleanup(func() { f.remove(class) })
	f.create(f.useClass(f.readSeed("s-075.yaml", "default", ""), class.GetName()))
	inflate := f.readSeed("s-078.yaml", "inflate", "")
	inflate.SetName("inflate")
	inflate.SetNamespace(f.namespace)
	if err := unstructured.SetNestedStringMap(inflate.Object, map[string]string{karpv1.LabelNodePool: f.name}, "spec", "template", "spec", "nodeSelector"); err != nil {
		t.Fatal(err)
	}
	f.create(inflate)
	patch(f, inflate, func(u *unstructured.Unstructured) {
		if err := unstructured.SetNestedField(u.Object, int64(1), "spec", "replicas"); err != nil {
			t.Fatal(err)
		}
	})
	f.waitForRunningPods("inflate", 1)

	found := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: class.GetName()}}
	f.waitForCondition(found, karpv1.ConditionReady, metav1.ConditionTrue, "")
	var ids []string
	for _, s := range found.Status.Subnets {
		ids = append(ids, s.ID)
	}
	slices.Sort(ids)
	slices.Sort(tagged)
	if !slices.Equal(ids, tagged) || len(found.Status.SecurityGroups) != 1 || found.Status.SecurityGroups[0].ID != group {
		t.Errorf("the class found subnets %v and groups %v, want %v and %s", ids, found.Status.SecurityGroups, tagged, group)
	}
	i := f.liveInstances()[0]
	for key, want := range map[string]string{"Name": world.Cluster + "-node", "Environment": "lab", "ManagedBy": "autoscaler"} {
		if i.Tags[key] != want {
			t.Errorf("tag %s is %q, want %q", key, i.Tags[key], want)
		}
	}
	if i.Profile != "KarpenterNodeInstanceProfile" || !slices.Contains(tagged, i.SubnetID) {
		t.Errorf("the instance has profile %q in subnet %s", i.Profile, i.SubnetID)
	}
	for _, want := range []string{"kind: NodeConfig", "node of ${CLUSTER_NAME} is up"} { // AL2 is over: AL2023 stands in (L-17)
		if !strings.Contains(string(i.UserData), want) {
			t.Errorf("the user data lacks %q:\n%s", want, i.UserData)
		}
	}
	f.launchedWith(client, group)
}

// launchedWith fails unless the template of the test has the group and the disk of the lab's class.
func (f *flow) launchedWith(client *ec2.Client, group string) {
	f.Helper()
	call := f.fleetCalls()[0].Parameters
	out, err := client.DescribeLaunchTemplateVersions(f.Context(), &ec2.DescribeLaunchTemplateVersionsInput{
		LaunchTemplateName: new(call["LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateName"]), Versions: []string{"$Latest"},
	})
	if err != nil {
		f.Fatal(err)
	}
	data := out.LaunchTemplateVersions[0].LaunchTemplateData
	groups := data.SecurityGroupIds
	for _, n := range data.NetworkInterfaces {
		groups = append(groups, n.Groups...)
	}
	if !slices.Equal(groups, []string{group}) {
		f.Errorf("the template has groups %v, want %s", groups, group)
	}
	if len(data.BlockDeviceMappings) != 1 {
		f.Fatalf("the template has %d disks", len(data.BlockDeviceMappings))
	}
	disk := data.BlockDeviceMappings[0]
	got := fmt.Sprintf("%s %d %s %v", *disk.DeviceName, *disk.Ebs.VolumeSize, disk.Ebs.VolumeType, *disk.Ebs.DeleteOnTermination)
	if got != "/dev/xvda 20 gp3 true" {
		f.Errorf("the disk is %s", got)
	}
}

// S-006, S-031, S-042: three small pods share one t4g.medium: it is cheaper than three t4g.small, and nothing that
// holds them costs less.
func TestS_031_OneNodeIsCheaperThanThree(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.deploy("api", 1, withRequests("500m", "1Gi"))
	f.deploy("worker", 1, withRequests("200m", "512Mi"))
	f.deploy("cron", 1, withRequests("100m", "256Mi"))
	f.waitForUnschedulable(3)
	f.pool("", onlyTypes("t4g.small", "t4g.medium", "t4g.large", "m6g.large"))
	for _, name := range []string{"api", "worker", "cron"} {
		f.waitForRunningPods(name, 1)
	}
	claim := f.ready(1)[0]
	if got := claim.Labels[corev1.LabelInstanceTypeStable]; got != "t4g.medium" {
		t.Errorf("the pods run on %s", got)
	}
	price := func(name string) float64 {
		p, ok := f.world.AWS.Price(karpv1.CapacityTypeOnDemand, name, claim.Labels[corev1.LabelTopologyZone])
		if !ok {
			t.Fatalf("%s has no price", name)
		}
		return p
	}
	if one := price("t4g.medium"); one >= 3*price("t4g.small") || one >= price("t4g.large") || one >= price("m6g.large") {
		t.Errorf("t4g.medium is not the cheapest: %v", one)
	}
}
