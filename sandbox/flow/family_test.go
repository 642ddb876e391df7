package flow_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

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
		{"windows2022@latest", "Windows_Server-2022-English-Core-EKS_Optimized-", "<powershell>", "windows", "10.0.20348"},
	} {
		t.Run(row.system, func(t *testing.T) {
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

// EC-05, FM F14: the nodes of a class with a placement group are in it. A pod may select a partition; one that spreads its pods over
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
