package flow_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu"
)

// EC-07, EC-54: nodes of the families that are not AL2023 have the image of their family and its kind of user data, from
// which they join, with the labels and taints of the pool and the operating system as the scheduler knows it.
func TestEC_54_FamiliesBesideAL2023(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		alias, image, userData string
		system, build          string
	}{
		{"bottlerocket@latest", "bottlerocket-aws-k8s-", "[settings.kubernetes]", "linux", ""},
		{"windows2019@latest", "Windows_Server-2019-English-Core-EKS_Optimized-", "<powershell>", "windows", "10.0.17763"},
		{"windows2022@latest", "Windows_Server-2022-English-Core-EKS_Optimized-", "<powershell>", "windows", "10.0.20348"},
		{"windows2025@latest", "Windows_Server-2025-English-Core-EKS_Optimized-", "<powershell>", "windows", "10.0.26100"},
	} {
		t.Run(row.alias, func(t *testing.T) {
			t.Parallel()
			f := newFlow(t, disturbsNone)
			patch(f, f.classNow(), func(c *awsv1.EC2NodeClass) { c.Spec.AMISelectorTerms = []awsv1.AMISelectorTerm{{Alias: row.alias}} })
			f.classReady()
			taint := corev1.Taint{Key: "example.com/family", Value: "other", Effect: corev1.TaintEffectNoSchedule}
			f.pool("", onlyTypes("m5.large"), func(p *karpv1.NodePool) {
				withRequirement(corev1.LabelOSStable, corev1.NodeSelectorOpIn, row.system)(p)
				p.Spec.Template.ObjectMeta.Labels = map[string]string{"example.com/team": "a"}
				p.Spec.Template.Spec.Taints = []corev1.Taint{taint}
			})
			f.deploy("inflate", 1, withNodeSelector(karpv1.LabelNodePool, f.name, corev1.LabelOSStable, row.system), withTolerations(corev1.Toleration{Key: taint.Key, Operator: corev1.TolerationOpExists}))
			f.waitForRunningPods("inflate", 1)
			claim := f.ready(1)[0]
			node := f.nodeOf(&claim)
			want := map[string]string{corev1.LabelOSStable: row.system, "example.com/team": "a"}
			if row.build != "" {
				want[corev1.LabelWindowsBuild] = row.build
			}
			for key, value := range want {
				if node.Labels[key] != value {
					t.Errorf("label %s of the node is %q, want %q", key, node.Labels[key], value)
				}
			}
			if node.Status.NodeInfo.OperatingSystem != row.system || !hasTaint(node, taint) {
				t.Errorf("the node runs %s and has taints %v", node.Status.NodeInfo.OperatingSystem, node.Spec.Taints)
			}
			i := f.liveInstances()[0]
			if !strings.Contains(string(i.UserData), row.userData) {
				t.Errorf("the user data lacks %q:\n%s", row.userData, i.UserData)
			}
			var image awsemu.Image
			if err := json.Unmarshal([]byte(f.callControlAPI(http.MethodGet, "images/"+i.ImageID, "")), &image); err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(image.Name, row.image) {
				t.Errorf("the instance was launched from image %s, want one that begins with %s", image.Name, row.image)
			}
		})
	}
}

// EC-05: the nodes of a class with a placement group are in it. A pod may select a partition; one that spreads its pods over
// the partitions has a node in each.
func TestEC_05_PlacementGroups(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	id := fmt.Sprintf("pg-%x", f.name)
	f.callControlAPI(http.MethodPut, "placement-groups", fmt.Sprintf(`[{"id":%q,"name":%q,"strategy":"partition","partitions":3}]`, id, f.name))
	patch(f, f.classNow(), func(c *awsv1.EC2NodeClass) {
		c.Spec.PlacementGroupSelector = &awsv1.PlacementGroupSelector{Name: f.name}
	})
	f.classReady()
	f.deploy("second", 1, withNodeSelector(karpv1.LabelNodePool, f.name, awsv1.LabelPlacementGroupPartition, "2"))
	f.deploy("spread", 3, func(p *corev1.PodTemplateSpec) {
		overZones("spread")(p)
		p.Spec.TopologySpreadConstraints[0].TopologyKey = awsv1.LabelPlacementGroupPartition
	})
	f.waitForUnschedulable(4)
	f.pool("", onlyTypes("m5.large"))
	f.waitForRunningPods("spread", 3)
	second := f.waitForRunningPods("second", 1)[0]
	partitions := map[string]bool{}
	for _, c := range f.ready(len(f.claims())) {
		node := f.nodeOf(&c)
		var i awsemu.Instance
		f.decodeLoosely(f.callControlAPI(http.MethodGet, "instances/"+instanceOf(&c), ""), &i)
		partition := node.Labels[awsv1.LabelPlacementGroupPartition]
		if i.Placement != id || node.Labels[awsv1.LabelPlacementGroupID] != id || fmt.Sprint(i.Partition) != partition {
			t.Errorf("the node is in partition %q of group %q, its instance in %d of %q, want group %s", partition, node.Labels[awsv1.LabelPlacementGroupID], i.Partition, i.Placement, id)
		}
		partitions[partition] = true
		if node.Name == second.Spec.NodeName && partition != "2" {
			t.Errorf("the pod that selects partition 2 runs in %s", partition)
		}
	}
	if len(partitions) != 3 {
		t.Errorf("the nodes are in partitions %v, want three", partitions)
	}
}

// EC-05, FM F14: nodes of a cluster placement group and of a spread one are in their group. A spread group takes seven
// instances in a zone: the eighth pod that has to run there waits and says so, and runs at once in another zone when it may.
func TestEC_05_ClusterAndSpreadGroups(t *testing.T) {
	t.Parallel()
	for _, strategy := range []string{"cluster", "spread"} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			f := newFlow(t, disturbsNone)
			const zone, room = "eu-west-1a", 7
			id := fmt.Sprintf("pg-%x", f.name)
			f.callControlAPI(http.MethodPut, "placement-groups", fmt.Sprintf(`[{"id":%q,"name":%q,"strategy":%q}]`, id, f.name, strategy))
			patch(f, f.classNow(), func(c *awsv1.EC2NodeClass) {
				c.Spec.PlacementGroupSelector = &awsv1.PlacementGroupSelector{Name: f.name}
			})
			f.classReady()
			n := 2
			if strategy == "spread" {
				n = room
			}
			f.deploy("inflate", int32(n), onePerNode("inflate"), withNodeSelector(karpv1.LabelNodePool, f.name, corev1.LabelTopologyZone, zone))
			f.waitForUnschedulable(n)
			f.pool("", onlyTypes("m5.large"))
			f.waitForRunningPods("inflate", n)
			inGroup := func(claims []karpv1.NodeClaim) {
				t.Helper()
				for _, c := range claims {
					var i awsemu.Instance
					f.decodeLoosely(f.callControlAPI(http.MethodGet, "instances/"+instanceOf(&c), ""), &i)
					if node := f.nodeOf(&c); i.Placement != id || node.Labels[awsv1.LabelPlacementGroupID] != id || node.Labels[awsv1.LabelPlacementGroupPartition] != "" {
						t.Errorf("%s is in group %q, its node says %q, want %s", c.Name, i.Placement, node.Labels[awsv1.LabelPlacementGroupID], id)
					}
				}
			}
			inGroup(f.ready(n))
			if strategy == "cluster" {
				return
			}
			full := f.deploy("eighth", 1, withRequests("1500m", "2Gi"), withNodeSelector(karpv1.LabelNodePool, f.name, corev1.LabelTopologyZone, zone))
			f.event("Pod", "eighth", "FailedScheduling", "")
			patch(f, full, func(d *appsv1.Deployment) {
				d.Spec.Template.Spec.NodeSelector = map[string]string{karpv1.LabelNodePool: f.name}
			})
			f.waitForRunningPods("eighth", 1)
			next := f.ready(n + 1)
			inGroup(next)
			inside := 0
			for _, c := range next {
				if c.Labels[corev1.LabelTopologyZone] == zone {
					inside++
				}
			}
			if inside != room {
				t.Errorf("%d nodes of the spread group are in %s, want %d", inside, zone, room)
			}
		})
	}
}
