package snapshot_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/inspect"
	_ "github.com/dovetail-sh/dovetail/internal/seed"
	"github.com/dovetail-sh/dovetail/internal/snapshot"
	"github.com/dovetail-sh/dovetail/internal/snapshot/snapshottest"
)

// private begins every name that a drawn cluster has, so that one that is left over is found.
const private = "acme"

// clusters draws clusters whose names are in any order, with what refers to names: labels, taints, spread, affinity,
// budgets, claims and volumes.
func clusters() *rapid.Generator[*snapshot.File] {
	return rapid.Custom(func(t *rapid.T) *snapshot.File {
		seen := map[string]bool{}
		name := func(label string) string {
			return private + rapid.StringMatching(`[a-z]{3,8}`).Filter(func(s string) bool {
				fresh := !seen[s]
				seen[s] = true
				return fresh
			}).Draw(t, label)
		}
		f := snapshottest.New(snapshottest.Options{})
		pool := &f.Objects.NodePools[0]
		team, app, workload := name("label key")+".example.com/team", name("label value"), name("workload")
		taint := corev1.Taint{Key: name("taint") + ".example.com/dedicated", Value: name("taint value"), Effect: corev1.TaintEffectNoSchedule}
		if rapid.Bool().Draw(t, "team") {
			pool.Spec.Template.ObjectMeta.Labels = map[string]string{team: app}
		}
		tainted := rapid.Bool().Draw(t, "tainted")
		if tainted {
			pool.Spec.Template.Spec.Taints = []corev1.Taint{taint}
		}
		class := name("storage class")
		mode := storagev1.VolumeBindingWaitForFirstConsumer
		f.Objects.StorageClasses = []storagev1.StorageClass{{ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: "ebs.csi.aws.com", VolumeBindingMode: &mode}}
		zones := []string{"us-east-1a", "us-east-1b", "us-east-1c"}
		var nodes []string
		for i := range rapid.IntRange(1, 5).Draw(t, "nodes") {
			node := name("node")
			zone := rapid.SampledFrom(zones).Draw(t, "zone")
			claim, object := snapshottest.Node(node, rapid.SampledFrom([]string{"m5.xlarge", "m5.2xlarge"}).Draw(t, "type"), zone, rapid.SampledFrom([]string{"spot", "on-demand"}).Draw(t, "market"))
			if tainted {
				object.Spec.Taints = []corev1.Taint{taint}
			}
			for _, labels := range []map[string]string{claim.Labels, object.Labels} {
				maps.Copy(labels, pool.Spec.Template.ObjectMeta.Labels)
			}
			claim.Name = name(fmt.Sprint("claim ", i))
			f.Objects.NodeClaims, f.Objects.Nodes = append(f.Objects.NodeClaims, *claim), append(f.Objects.Nodes, *object)
			nodes = append(nodes, node)
		}
		for i := range rapid.IntRange(1, 14).Draw(t, "pods") {
			node := rapid.SampledFrom(append([]string{""}, nodes...)).Draw(t, "where")
			p := snapshottest.Pod(name("pod"), node, rapid.SampledFrom([]string{"100m", "500m", "1500m"}).Draw(t, "cpu"), "512Mi")
			p.Labels = map[string]string{private + "label": app, "pod-template-hash": name("hash")}
			p.OwnerReferences[0].Name, p.OwnerReferences[0].UID = workload, types.UID(private+"-owner")
			p.UID = types.UID(fmt.Sprint(private, "-pod-", i))
			if tainted {
				p.Spec.Tolerations = []corev1.Toleration{{Key: taint.Key, Operator: corev1.TolerationOpEqual, Value: taint.Value}}
			}
			mine := &metav1.LabelSelector{MatchLabels: map[string]string{private + "label": app}}
			switch rapid.IntRange(0, 5).Draw(t, "kind") {
			case 0:
				p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: mine}}
			case 1:
				p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname, LabelSelector: mine}}}}
			case 2:
				p.Spec.NodeSelector = map[string]string{team: app}
			case 3:
				volume := name("volume")
				claim := corev1.PersistentVolumeClaim{
					ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name + "-data", Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"}},
					Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: volume, StorageClassName: &class}, Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
				}
				f.Objects.VolumeClaims = append(f.Objects.VolumeClaims, claim)
				f.Objects.Volumes = append(f.Objects.Volumes, corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: volume}, Spec: corev1.PersistentVolumeSpec{
					PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com", VolumeHandle: "vol-" + private}},
					NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
						MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "topology.ebs.csi.aws.com/zone", Operator: corev1.NodeSelectorOpIn, Values: []string{rapid.SampledFrom(zones).Draw(t, "volume zone")}}},
					}}}},
				}})
				p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}}}
			case 4:
				p.Annotations = map[string]string{karpv1.AnnotationDoNotDisrupt: "true"}
			}
			f.Objects.Pods = append(f.Objects.Pods, *p)
		}
		if rapid.Bool().Draw(t, "budget") {
			f.Objects.Budgets = []policyv1.PodDisruptionBudget{{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name("budget")},
				Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{private + "label": app}}},
				Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 1},
			}}
		}
		f.Objects.DaemonSets = []appsv1.DaemonSet{{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name("daemon"), UID: private + "-daemon"}}}
		f.Missing = []snapshot.Missing{{What: "instance types of NodePool " + nodes[0], Why: "account " + private, Then: "a plan knows only those of nodes that exist"}}
		return f
	})
}

func TestWI_16_TheSamePlanUpToNames(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := clusters().Draw(t, "cluster")
		other, names, err := f.AnonymizeWithNames(awsv1.Vocabulary())
		if err != nil {
			t.Fatal(err)
		}
		if text := textOf(t, other); strings.Contains(text, private) {
			at := strings.Index(text, private)
			t.Fatalf("a name is left: ...%s...", text[max(0, at-80):min(len(text), at+40)])
		}
		want, got := planText(t, f, names), planText(t, other, nil)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("the plan is another (-with names +anonymous):\n%s", diff)
		}
	})
}

func textOf(t *rapid.T, f *snapshot.File) string {
	var text strings.Builder
	if err := f.Encode(&text); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// planText is a plan as JSON, with names replaced. Notes and the ids of commands, which are digests of names, are left out.
func planText(t *rapid.T, f *snapshot.File, names map[string]string) string {
	changes, err := (&snapshot.Service{File: f, Words: awsv1.Vocabulary()}).Plan(t.Context(), inspect.WhatIf{})
	if err != nil {
		t.Fatal(err)
	}
	changes.Notes = nil
	var commands []string
	number := func(id string) string {
		if id == "" {
			return ""
		}
		if !slices.Contains(commands, id) {
			commands = append(commands, id)
		}
		return fmt.Sprint("command ", slices.Index(commands, id))
	}
	for i := range changes.Remove {
		changes.Remove[i].Command = number(changes.Remove[i].Command)
	}
	for i := range changes.Launch {
		changes.Launch[i].Command = number(changes.Launch[i].Command)
	}
	text, err := json.MarshalIndent(changes, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	// Nodes are added up in the order of their names, and those of new nodes are digests: the last digits may differ.
	rounded := regexp.MustCompile(`\d+\.\d{9,}`).ReplaceAllStringFunc(string(text), func(number string) string {
		usd, err := strconv.ParseFloat(number, 64)
		if err != nil {
			t.Fatal(err)
		}
		return strconv.FormatFloat(math.Round(usd*1e6)/1e6, 'f', -1, 64)
	})
	return regexp.MustCompile(`[a-zA-Z0-9][a-zA-Z0-9._/-]*`).ReplaceAllStringFunc(rounded, func(word string) string {
		if other, is := names[word]; is {
			return other
		}
		parts := strings.Split(word, "/")
		for i, part := range parts {
			if other, is := names[part]; is {
				parts[i] = other
			}
		}
		return strings.Join(parts, "/")
	})
}

func TestWI_17_NamesAreReplacedConsistently(t *testing.T) {
	t.Parallel()
	f := snapshottest.New(snapshottest.Options{Nodes: 3, Pending: 1})
	f.Objects.Pods[0].Spec.NodeSelector = map[string]string{corev1.LabelHostname: "node-0000", "team": "web"}
	first, names, err := f.AnonymizeWithNames(awsv1.Vocabulary())
	if err != nil {
		t.Fatal(err)
	}
	second, err := f.Anonymize(awsv1.Vocabulary())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(encoded(t, first), encoded(t, second)); diff != "" {
		t.Errorf("the same file gives two (-first +second):\n%s", diff)
	}
	node, p := first.Objects.Nodes[0], first.Objects.Pods[0]
	switch {
	case node.Name != names["node-0000"] || node.Labels[corev1.LabelHostname] != node.Name || p.Spec.NodeName != node.Name || p.Spec.NodeSelector[corev1.LabelHostname] != node.Name:
		t.Errorf("the node is called %s, with hostname %s, its pod is on %s and selects %v", node.Name, node.Labels[corev1.LabelHostname], p.Spec.NodeName, p.Spec.NodeSelector)
	case node.Labels[corev1.LabelInstanceTypeStable] != "m5.xlarge" || node.Labels[corev1.LabelTopologyZone] != "us-east-1a" || node.Labels[karpv1.LabelCapacityType] != "on-demand":
		t.Errorf("labels that everybody knows were replaced: %v", node.Labels)
	case p.Spec.NodeSelector["team"] != "" || len(p.Spec.NodeSelector) != 2:
		t.Errorf("the label of a user is left: %v", p.Spec.NodeSelector)
	case !first.Anonymized || f.Anonymized || f.Objects.Nodes[0].Name != "node-0000":
		t.Errorf("anonymized: %t; the file itself: %t, %s", first.Anonymized, f.Anonymized, f.Objects.Nodes[0].Name)
	}
	again, err := first.Anonymize(awsv1.Vocabulary())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(encoded(t, first), encoded(t, again)); diff != "" {
		t.Errorf("anonymizing twice is not anonymizing once:\n%s", diff)
	}
}
